"""verl 0.9.1: two runs on one machine name the socket between actor and vLLM alike, and get each other's weights.

The name holds Ray's job id. A run that starts its own Ray is job 1 there, so two such runs share a name: they wait for
each other forever, or the vLLM of one run receives the weights of the other. Here the name also holds the id of the Ray
node, which is random. The actor's side binds the socket in ServerAdapter; vLLM's workers read the environment variable
that vLLMHttpServer sets. The classes keep verl's names, which Ray shows.

May go when verl names the socket by more than Ray's job id (ServerAdapter.__init__, vLLMHttpServer.__init__).
"""

import os

import ray
from verl.workers.rollout.vllm_rollout import vllm_async_server, vllm_rollout

from rpg.verl_plugin.patches import dead_engine


def socket_id() -> str:
    """The part of the socket's name that replaces Ray's job id; the same in all processes of a run on one node."""
    context = ray.get_runtime_context()
    return f"{context.get_job_id()}-{context.get_node_id()[:16]}"


class ServerAdapter(vllm_rollout.ServerAdapter):
    """The actor's side, which binds the socket."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.config.disaggregation.enabled:
            return  # verl then starts servers past its registry; both sides keep verl's name
        job = f"zmq-{ray.get_runtime_context().get_job_id()}-"
        self.zmq_handle = self.zmq_handle.replace(job, f"zmq-{socket_id()}-")


class vLLMHttpServer(vllm_async_server.vLLMHttpServer):
    """vLLM's side, which also ends with its engine (dead_engine.py)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        os.environ["VERL_RAY_JOB_ID"] = socket_id()
        dead_engine.watch(self)


class vLLMReplica(vllm_async_server.vLLMReplica):
    """Starts our servers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(vLLMHttpServer)
