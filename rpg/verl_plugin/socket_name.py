"""What tells this run's sockets from those of other runs on the machine; rollout.py says why."""

import ray


def socket_id() -> str:
    """What takes the place of Ray's job id in the name; the same in all processes of a run on one node."""
    context = ray.get_runtime_context()
    return f"{context.get_job_id()}-{context.get_node_id()[:16]}"
