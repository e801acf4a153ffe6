"""`rpg eval RUN [OVERRIDE ...]`: validate a run's checkpoint without training.

The run is its config.yaml: an evaluation is that configuration with other values of a few keys (`evaluation`).
"""

import argparse
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rpg.config import flags
from rpg.config.compose import parse
from rpg.config.record import recorded
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, FOLLOWERS, FUNCTION, JUDGE, REWARD, ROLLOUT
from rpg.diagnostics import UserError
from rpg.files.atomic import METRICS
from rpg.results.formats import show
from rpg.results.runs import find_checkpoint, load_runs
from rpg.results.table import build_table
from rpg.rewards import JUDGES
from rpg.rewards.user_reward import function_of
from rpg.run.start import begin, dry_run


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg eval`."""
    which = "run directory (its newest complete checkpoint), or global_step_N in it"
    parser.add_argument("run", type=Path, metavar="RUN", help=which)
    flags.configure(parser)
    parser.add_argument("--judge", choices=JUDGES, help=f"judge of docs/judges.md ({JUDGE})")
    where = "new run directory for the results (default: RUN/eval-global_step_N)"
    parser.add_argument("--out", type=Path, metavar="DIR", help=where)


def run(args: argparse.Namespace) -> int:
    """Validate and print the table; return the run's exit code if it fails, 2 if it is rejected."""
    checkpoint = find_checkpoint(args.run, contents=False).absolute()
    out = (args.out or checkpoint.with_name(f"eval-{checkpoint.name}")).absolute()
    if (out / METRICS).exists():  # which would be overwritten
        raise UserError(f"{out}: already contains a run; give a new directory with --out")
    overrides = [*([f"{JUDGE}={args.judge}"] if args.judge else []), *flags.overrides(args)]
    if args.judge and args.reward:
        raise UserError(f"--judge {args.judge} --reward {args.reward}: give one of them")
    if args.test:
        overrides.insert(0, "data.val_max_samples=-1")  # of the training's files, which may be larger
    config = evaluation(recorded(checkpoint.parent)[0], checkpoint, out, overrides)
    command = ["-m", "rpg.cli", "eval", str(checkpoint), "--out", str(out), *overrides]
    if (code := begin(RunConfig(config), command)) or dry_run():
        return code
    show(build_table(load_runs([out])))
    return 0


def evaluation(trained: dict[str, Any], checkpoint: Path, out: Path, overrides: list[str]) -> dict[str, Any]:
    """Return the configuration that validates a checkpoint once; trained: that of its run. `overrides` win.

    Raises UserError for an override that Hydra cannot read, of a group (the run's file names none), of a key that the
    command sets, or of how rollouts are sampled.
    """
    ours = {
        "trainer.val_only": True,
        "trainer.val_before_train": True,
        "trainer.default_local_dir": str(out),
        "trainer.validation_data_dir": None,
        "trainer.resume_mode": "resume_path",
        "trainer.resume_from_path": str(checkpoint),
        f"{ACTOR}.checkpoint.load_contents": ["model"],  # no optimizer is needed
    }
    config = OmegaConf.create(trained)
    for key, value in ours.items():
        OmegaConf.update(config, key, value)
    for changed in map(parse, overrides):
        section, _, name = changed.key_or_group.rpartition(".")
        if section == ROLLOUT and name in ("n", "temperature", "top_k", "top_p"):
            raise UserError(f"{changed.key_or_group}: has no effect on a validation; set {ROLLOUT}.val_kwargs.{name}")
        if changed.key_or_group in ours:
            raise UserError(f"{changed.key_or_group}: the command sets this key (RUN, --out); leave the override out")
        if changed.key_or_group in (REWARD, JUDGE):  # which choose the function where a configuration is composed
            given: dict[str, Any] = {changed.key_or_group: changed.value()}
            function = function_of(given.get(REWARD), given.get(JUDGE))
            OmegaConf.update(config, FUNCTION, function, merge=False)
        for key in [changed.key_or_group, *FOLLOWERS.get(changed.key_or_group, ())]:
            OmegaConf.update(config, key, changed.value(), force_add=True)
    return OmegaConf.to_container(config)  # type: ignore[return-value]
