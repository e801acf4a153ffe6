"""Which of the run's Ray actors lost their process."""

import threading

import ray
from ray.exceptions import RayError

LOST = ("WORKER_DIED", "NODE_DIED")  # not: killed by verl, out of scope, or ended by itself


class LostWorkers:
    """Asks Ray for lost actors, in a thread: a Ray that has died does not answer.

    lost: one line for each lost actor, as of the last answer.
    """

    def __init__(self) -> None:
        self.lost: list[str] = []
        self._thread: threading.Thread | None = None

    def ask(self, patience: float = 0.0) -> list[str]:
        """Ask, unless the last answer is still due; wait at most patience seconds, then return `lost`."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._ask, daemon=True, name="rpg-lost-workers")
            self._thread.start()
        self._thread.join(patience)
        return self.lost

    def _ask(self) -> None:
        if ray.is_initialized():
            try:
                self.lost = lost_actors()
            except (RayError, RuntimeError, OSError) as error:  # Ray is late or gone: the time limits decide
                print(f"rpg: Ray does not say which actors it lost: {error}", flush=True)

    def stop(self) -> None:
        """Wait a moment for an answer that is still due, before Ray is shut down."""
        if self._thread is not None:
            self._thread.join(5.0)


def lost_actors() -> list[str]:
    """A line for each actor of this job whose process or node died: class, process id, where its log is."""
    from ray._private import state  # Ray's public state API needs the dashboard, which a local run does not start
    from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined]

    job = ray.JobID(bytes.fromhex(ray.get_runtime_context().get_job_id()))
    lines = []
    for actor in state.actors(job_id=job, actor_state_name="DEAD").values():
        context = actor["DeathCause"].actor_died_error_context
        if ActorDiedErrorContext.Reason.Name(context.reason) in LOST:
            # some are Python's qualified name: create_colocated_worker_cls.<locals>.WorkerDict
            name = actor["ActorClassName"].rpartition(".")[2]
            log = f"*{actor['Pid']}* in Ray's logs (/tmp/ray/session_latest/logs), or the kernel's (dmesg), may say why"
            lines.append(f"Ray lost the process {actor['Pid']} of {name}: {log}")
    return lines
