"""verl's vLLM rollout under the socket name of rollout.py; the names of the classes are verl's, which Ray shows."""

import os
import sys
import threading
import time
import traceback

import ray
from verl.workers.rollout.vllm_rollout import vllm_async_server, vllm_rollout

from rpg.verl_plugin.socket_name import socket_id

LOOK = 1.0  # seconds between two looks at the engine


class ServerAdapter(vllm_rollout.ServerAdapter):
    """The actor's side, which binds the socket."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.config.disaggregation.enabled:
            return  # verl then starts servers of its own past its registry; both sides keep verl's name
        job = f"zmq-{ray.get_runtime_context().get_job_id()}-"
        if job not in self.zmq_handle:
            raise RuntimeError(f"verl's socket {self.zmq_handle} has no {job!r}; this verl is not 0.9.1")
        self.zmq_handle = self.zmq_handle.replace(job, f"zmq-{socket_id()}-")


class vLLMHttpServer(vllm_async_server.vLLMHttpServer):
    """vLLM's side: its workers make the name from this environment variable."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if "VERL_RAY_JOB_ID" not in os.environ:
            raise RuntimeError("verl sets no VERL_RAY_JOB_ID; this verl is not 0.9.1")
        os.environ["VERL_RAY_JOB_ID"] = socket_id()

        threading.Thread(target=self._end_with_the_engine, daemon=True).start()

    def _end_with_the_engine(self) -> None:
        """A server whose engine is dead ends, and Ray tells whoever asks it (rpg/launching/lost_workers.py).

        Otherwise verl's agent loop would ask it for ever, or the actor wait at its socket to hand over the weights.
        """
        while True:
            time.sleep(LOOK)
            engine = getattr(self, "engine", None)  # of a replica on several nodes, the first alone has it
            if engine is not None and engine.errored:
                traceback.print_exception(engine.dead_error)
                sys.stderr.flush()
                os._exit(1)


class vLLMReplica(vllm_async_server.vLLMReplica):
    """Starts our servers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(vLLMHttpServer)
