"""verl 0.9.1: two runs on one machine use the same socket between actor and vLLM, and exchange their weights.

The socket's name contains Ray's job id. A run that starts its own Ray is job 1, so two such runs share a name: they
wait for each other forever, or the vLLM of one run gets the weights of the other. With this file, the name also
contains the random id of the Ray node. The actor's side binds the socket in ServerAdapter; vLLM's workers read the
environment variable that vLLMHttpServer sets. The classes keep verl's names, which Ray shows.

May go when verl names the socket by more than Ray's job id (ServerAdapter.__init__, vLLMHttpServer.__init__).
"""

import os
import threading

import ray
from verl.workers.rollout.vllm_rollout import vllm_async_server, vllm_rollout

from rpg.verl_plugin.patches import dead_engine


def socket_id() -> str:
    """Return the replacement for Ray's job id in the socket's name; equal in all processes of a run on one node."""
    context = ray.get_runtime_context()
    return f"{context.get_job_id()}-{context.get_node_id()[:16]}"


class ServerAdapter(vllm_rollout.ServerAdapter):
    """The actor's side, which binds the socket."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.config.disaggregation.enabled:
            return  # verl then bypasses its registry for servers; both sides keep verl's name
        job = f"zmq-{ray.get_runtime_context().get_job_id()}-"
        self.zmq_handle = self.zmq_handle.replace(job, f"zmq-{socket_id()}-")

    async def update_weights(self, *args, **kwargs):
        """As in verl, which waits at the socket without end for a server that has died since the rollout.

        Without free_cache_engine nothing else calls the server before. Raises Ray's ActorDiedError.
        """
        if self._ensure_server_handle():
            await self.server_handle.get_server_address.remote()
        return await super().update_weights(*args, **kwargs)


class vLLMHttpServer(vllm_async_server.vLLMHttpServer):
    """vLLM's side, whose process also ends with its engine (dead_engine.py)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        os.environ["VERL_RAY_JOB_ID"] = socket_id()
        threading.Thread(target=dead_engine.watch, args=(self,), daemon=True).start()


class vLLMReplica(vllm_async_server.vLLMReplica):
    """Starts our servers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(vLLMHttpServer)
