"""Which of the run's Ray actors lost their process, and the line in which that process said why."""

import re
import threading
from pathlib import Path

import ray
from ray.exceptions import RayError

LOOK_EVERY = 5.0  # seconds between two questions to Ray
LOST = ("WORKER_DIED", "NODE_DIED")  # not: killed by verl, out of scope, or ended by itself
# What a dying process writes: Ray's failed checks ("... C 123 123] file.cc:92:  Check failed: ..."), Python's fatal
# errors, signals, and the last line of a traceback.
LAST_WORDS = re.compile(r"Check failed: |Fatal Python error|\*\*\* SIG\w+ received|^\w[\w.]*(?:Error|Exception)\b")


class LostWorkers(threading.Thread):
    """Asks Ray every few seconds; a thread of its own, as the answer of a Ray that is gone does not come.

    lost: one line for each lost actor, empty while there is none.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True, name="rpg-lost-workers")
        self.lost: list[str] = []
        self._ended = threading.Event()
        self._asked = threading.Event()
        self._answered = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            self._asked.wait(LOOK_EVERY)
            self._asked.clear()
            if ray.is_initialized():
                try:
                    self.lost = lost_actors()
                except (RayError, RuntimeError, OSError) as error:  # Ray is late or gone: then the limits decide
                    print(f"rpg: Ray does not say which actors it lost: {error}", flush=True)
            self._answered.set()

    def ask(self, patience: float) -> list[str]:
        """The lost actors as of now, or, where Ray does not answer within patience seconds, as of the last answer."""
        if not self.is_alive():
            return self.lost
        self._answered.clear()
        self._asked.set()
        self._answered.wait(patience)
        return self.lost

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()
        self._asked.set()
        if self.is_alive():
            self.join(LOOK_EVERY)


def lost_actors() -> list[str]:
    """A line for each actor of this job whose process or node died: class, process id, its last words."""
    from ray._private import state  # Ray's public state API needs the dashboard, which a local run does not start
    from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined]

    job = ray.JobID(bytes.fromhex(ray.get_runtime_context().get_job_id()))
    lines = []
    for actor in state.actors(job_id=job, actor_state_name="DEAD").values():
        context = actor["DeathCause"].actor_died_error_context
        if ActorDiedErrorContext.Reason.Name(context.reason) in LOST:
            words = last_words(actor["Pid"]) or "it left no word; Ray's logs and the kernel's (dmesg) may know more"
            # some are Python's qualified name: create_colocated_worker_cls.<locals>.WorkerDict
            name = actor["ActorClassName"].rpartition(".")[2]
            lines.append(f"Ray lost the process {actor['Pid']} of {name}: {words}")
    return lines


def last_words(pid: int) -> str | None:
    """The line in which a worker of this machine's Ray said why it ends; None where there is none to be read."""
    node = ray._private.worker._global_node  # type: ignore[attr-defined]
    logs = Path(node.get_logs_dir_path()) if node else None
    if logs is None or not logs.is_dir():
        return None
    for log in [*logs.glob(f"worker-*-{pid}.err"), *logs.glob(f"python-core-worker-*_{pid}.log")]:
        lines = [line for line in log.read_text(errors="replace").splitlines() if LAST_WORDS.search(line)]
        if lines:
            return f"{lines[-1].strip()} ({log})"
    return None
