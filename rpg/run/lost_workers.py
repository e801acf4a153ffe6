"""Ask Ray for actors of the run whose process died, with its last message, and for the resources that it waits for."""

import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

LOST = ("WORKER_DIED", "NODE_DIED")  # excludes: killed by verl, out of scope, or ended by itself
# last messages of a process: Ray's failed checks ("... C 123 123] file.cc:92:  Check failed: ..."), Python's fatal
# errors, signals, and the last line of a traceback
LAST_WORDS = re.compile(r"Check failed: |Fatal Python error|\*\*\* SIG\w+ received|^\w[\w.]*(?:Error|Exception)\b")


class LostWorkers:
    """Asks Ray in a thread, because a dead Ray does not answer.

    lost: one line for each lost actor; awaited: what the run waits for, or "". Both as of the last answer.
    """

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.awaited = ""
        self._thread: threading.Thread | None = None

    def ask(self, patience: float = 0.0) -> list[str]:
        """Ask Ray unless an answer is pending; wait at most `patience` seconds, then return `lost`."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._ask, daemon=True, name="rpg-lost-workers")
            self._thread.start()
        self._thread.join(patience)
        return self.lost

    def _ask(self) -> None:
        if ray.is_initialized():
            try:
                self.lost, self.awaited = lost_actors(), awaited()
            except (RayError, RuntimeError, OSError) as error:  # Ray is late or dead: the time limits decide
                print(f"rpg: Ray does not say which actors it lost: {error}", flush=True)

    def stop(self) -> None:
        """Wait a moment for a pending answer before Ray shuts down."""
        if self._thread is not None:
            self._thread.join(5.0)


def lost_actors() -> list[str]:
    """Return one line per actor of this job whose process or node died: class, process id, last message."""
    from ray._private import state  # Ray's public state API needs the dashboard, which a local run does not start
    from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined]

    job = ray.JobID(bytes.fromhex(ray.get_runtime_context().get_job_id()))
    lines = []
    for actor in state.actors(job_id=job, actor_state_name="DEAD").values():
        context = actor["DeathCause"].actor_died_error_context
        if ActorDiedErrorContext.Reason.Name(context.reason) in LOST:
            words = last_words(actor["Pid"]) or "no last message; see Ray's logs and the kernel's (dmesg)"
            # some are qualified names: create_colocated_worker_cls.<locals>.WorkerDict
            name = actor["ActorClassName"].rpartition(".")[2]
            lines.append(f"Ray lost the process {actor['Pid']} of {name}: {words}")
    return lines


def awaited() -> str:
    """Return the resources that actors and placement groups of this job wait for, beside Ray's; "" if for none."""
    from ray._private import state
    from ray.core.generated import gcs_pb2

    tables: Any = gcs_pb2
    job = ray.JobID(bytes.fromhex(ray.get_runtime_context().get_job_id()))
    accessor, free, total = state.state._connect_and_get_accessor(), ray.available_resources(), ray.cluster_resources()
    wanted: Counter[str] = Counter()
    lacking = (tables.PlacementGroupStats.NO_RESOURCES, tables.PlacementGroupStats.INFEASIBLE)
    for line in accessor.get_placement_group_table():
        group = tables.PlacementGroupTableData.FromString(line)
        if group.stats.scheduling_state in lacking and group.creator_job_id == job.binary():
            for bundle in group.bundles:
                wanted.update(bundle.unit_resources)
    for line in accessor.get_actor_table(job, "PENDING_CREATION"):
        needs = tables.ActorTableData.FromString(line).required_resources
        if any(free.get(name, 0) < amount for name, amount in needs.items()):
            wanted.update(needs)
    wants = ", ".join(f"{wanted[name]:g} {name}" for name in sorted(wanted))
    has = ", ".join(f"{free.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in sorted(wanted))
    return f"{wants} (free: {has})" if wanted else ""


def last_words(pid: int) -> str | None:
    """Return the last message of a worker of this machine's Ray, or None if there is none."""
    node = ray._private.worker._global_node  # type: ignore[attr-defined]
    logs = Path(node.get_logs_dir_path() if node else "/nonexistent")
    for log in [*logs.glob(f"worker-*-{pid}.err"), *logs.glob(f"python-core-worker-*_{pid}.log")]:
        lines = [line for line in log.read_text(errors="replace").splitlines() if LAST_WORDS.search(line)]
        if lines:
            return f"{lines[-1].strip()} ({log})"
    return None
