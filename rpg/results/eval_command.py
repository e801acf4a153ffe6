"""`rpg eval SCRIPT`: validate a checkpoint (or the untrained model), without training, through a launch script.

It adds Hydra overrides to the script's, prints the command, runs it and shows the table. `rpg score` scores saved
samples without generating any.
"""

import argparse
import shlex
from pathlib import Path

from rpg.files.integrity import STEP, UNCHECKED, newest_complete, steps, verify
from rpg.launching.measures import is_validation
from rpg.launching.overrides import override
from rpg.launching.processes import call
from rpg.results.run_settings import ResultsError, exit_code, refusing
from rpg.results.runs import METRICS, load_runs
from rpg.results.table import build_table
from rpg.results.table_command import markdown
from rpg.rewards import JUDGES


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg eval`."""
    parser.add_argument("script", type=Path, help="launch script that trained the checkpoint, or any for its model")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="further Hydra overrides")
    which = "run directory (its newest complete checkpoint) or global_step_N in it (default: the untrained model)"
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help=which)
    parser.add_argument("--files", nargs="+", type=Path, metavar="FILE", help="parquet files (default: the script's)")
    parser.add_argument("--samples", type=int, default=1, metavar="K", help="answers to each row (default: 1)")
    parser.add_argument("--judge", choices=JUDGES, help="default: the script's, release; docs/judges.md")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="new run directory for the results")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the command, do not run it")


@refusing
def run(args: argparse.Namespace) -> int:
    """Run the evaluation and print its table; return the script's exit code if it fails, 2 if it is rejected.

    Returns 1 if a part of the result was left out of the table, 2 if everything was.
    """
    if (args.out / METRICS).exists():  # which would be overwritten
        raise ResultsError(f"--out {args.out}: is already a run; give a new directory")
    overrides = [f"judge={args.judge}", *args.overrides] if args.judge else args.overrides
    command = eval_command(args.script, args.checkpoint, args.files, args.samples, args.out, overrides)
    print(shlex.join(command), flush=True)
    if args.only_print:
        return 0
    if code := call(command):
        return code
    table = build_table(*load_runs([args.out], is_validation))
    print(markdown(table), end="")
    return exit_code(table.notes)


def find_checkpoint(path: Path, *, contents: bool = True) -> tuple[Path, list[str]]:
    """Return a path's global_step_N, or the newest complete one of a run directory, and notes.

    The notes name skipped checkpoints with reasons, and a missing manifest.
    contents: whether to verify the checksums of a global_step_N.

    Raises:
        ResultsError: no complete checkpoint; OSError: it cannot be read.
    """
    directory = path.parent if path.name == "actor" else path
    if steps(path):
        choice = newest_complete(path)
        remarks = [f"{one.directory}: skipped: {one.why}" for one in choice.passed_over]
        verdict = choice.newest
    elif (directory / "actor").is_dir() and STEP.fullmatch(directory.name):  # verl reads the step from the name
        verdict = verify(directory, contents=contents)
        remarks = [] if verdict.complete else [f"{directory}: {verdict.why}; use an earlier global_step_N"]
    else:
        raise ResultsError(f"{path}: not a checkpoint; give a run directory, or its global_step_N")
    if verdict is None or not verdict.complete:
        raise ResultsError("\n".join([*remarks, f"{path}: no complete checkpoint"]))
    return verdict.directory, remarks if verdict.has_manifest else [*remarks, f"{verdict.directory}: {UNCHECKED}"]


def eval_command(
    script: Path, checkpoint: Path | None, files: list[Path] | None, samples: int, out: Path, overrides: list[str]
) -> list[str]:
    """Return the launch script's command with overrides to validate once and stop.

    Raises:
        ResultsError: no such script, or an incomplete checkpoint.
        BadSetting: a path that a configuration cannot hold.
    """
    if not script.is_file():
        raise ResultsError(f"{script}: no such launch script")
    command = ["bash", str(script), "trainer.val_only=True", "trainer.val_before_train=True"]
    command += [f"actor_rollout_ref.rollout.val_kwargs.n={samples}"]
    command += [override("trainer.default_local_dir", out.absolute())]
    if checkpoint is None:
        command.append("trainer.resume_mode=disable")
    else:
        directory, _ = find_checkpoint(checkpoint, contents=False)  # the script's preflight verifies the contents
        command += ["trainer.resume_mode=resume_path", override("trainer.resume_from_path", directory.absolute())]
    if files:
        command.append(override("data.val_files", [file.absolute() for file in files]))
    return command + overrides
