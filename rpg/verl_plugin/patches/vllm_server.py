"""verl 0.9.1: runs on one machine exchange weights through one socket, and a vLLM server outlives its dead engine.

The socket between actor and vLLM has Ray's job id in its name. A run that starts its own Ray is job 1, so two such runs
share a name: they wait for each other forever, or the vLLM of one run gets the weights of the other. With this file,
the name also contains the random id of the Ray node. The actor's side binds the socket in ServerAdapter; vLLM's workers
read the environment variable that vLLMHttpServer sets. The classes keep verl's names, which Ray shows.

When an engine dies, verl's agent loop retries its requests forever, and the actor waits at its socket to transfer
weights. With this file the server's process ends with its engine, and the next call to it ends the run with Ray's
error: a request, or the one with which the actor begins a transfer. A transfer that the server does not take ends, too.

May go when verl names the socket by more than Ray's job id (ServerAdapter.__init__, vLLMHttpServer.__init__), and a run
whose vLLM engine is killed stops by itself (tests/e2e/test_faults.py without this file).
"""

import os
import sys
import threading
import time
import traceback

import ray
import zmq
from verl.workers.rollout.vllm_rollout import vllm_async_server, vllm_rollout

INTERVAL = 1.0  # seconds between two polls of an engine
TRANSFER_LIMIT = 300  # seconds for one bucket of weights; a second is usual


def socket_id() -> str:
    """Return the replacement for Ray's job id in the socket's name; equal in all processes of a run on one node."""
    context = ray.get_runtime_context()
    return f"{context.get_job_id()}-{context.get_node_id()[:16]}"


class ServerAdapter(vllm_rollout.ServerAdapter):
    """The actor's side, which binds the socket."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for wait in (zmq.SNDTIMEO, zmq.RCVTIMEO):  # of verl's socket, made for each transfer
            zmq.Context.instance().setsockopt(wait, TRANSFER_LIMIT * 1000)
        if self.config.disaggregation.enabled:
            return  # verl then bypasses its registry for servers; both sides keep verl's name
        job = f"zmq-{ray.get_runtime_context().get_job_id()}-"
        self.zmq_handle = self.zmq_handle.replace(job, f"zmq-{socket_id()}-")

    async def update_weights(self, *args, **kwargs):
        """As in verl, which waits at the socket without end for a server that is dead or fails.

        Raises Ray's ActorDiedError if it has died before, TimeoutError if it takes no weights for TRANSFER_LIMIT.
        """
        if self._ensure_server_handle():  # without free_cache_engine nothing else calls the server before
            await self.server_handle.get_server_address.remote()
        try:
            return await super().update_weights(*args, **kwargs)
        except zmq.Again as error:
            why = f"vLLM's server took none of the weights for {TRANSFER_LIMIT} s; it died or failed, see its messages"
            raise TimeoutError(why) from error


class vLLMHttpServer(vllm_async_server.vLLMHttpServer):
    """vLLM's side, whose process also ends with its engine."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        os.environ["VERL_RAY_JOB_ID"] = socket_id()
        threading.Thread(target=self._end_with_the_engine, daemon=True).start()

    def _end_with_the_engine(self) -> None:
        """Wait until the engine, a vLLM AsyncLLM, is dead, and end this process then."""
        while True:
            time.sleep(INTERVAL)
            engine = getattr(self, "engine", None)  # in a replica on several nodes, only the first has an engine
            if engine is not None and engine.errored:
                traceback.print_exception(engine.dead_error)
                sys.stderr.flush()
                os._exit(1)


class vLLMReplica(vllm_async_server.vLLMReplica):
    """Starts our servers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(vLLMHttpServer)
