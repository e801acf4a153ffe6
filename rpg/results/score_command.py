"""`rpg score RUN...`: score the saved validation samples of runs again, without generating.

The scorer is the reward function in the run's config.yaml as it is now, a judge of rpg.rewards (--judge), or another
reward function (--reward). RUN/judge-J is then a run with the same answers and the verdicts of J.

`rpg score ROWS.parquet --reward FILE` tries a reward function before a run (try_reward.py).
"""

import argparse
import copy
import json
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from rpg.arguments import at_least
from rpg.config.verl_keys import FUNCTION
from rpg.data.published import question
from rpg.data.readers import DataError, read_file
from rpg.dotted import put, value_at
from rpg.files.atomic import CONFIG, ENVIRONMENT, METRICS, SAMPLES
from rpg.logged import is_validation
from rpg.results.formats import show
from rpg.results.messages import LeftOut, ResultsError, about, exit_code
from rpg.results.runs import Run, load_runs, read_mapping
from rpg.results.samples import PROBLEM, read_samples
from rpg.results.settings import judge_of
from rpg.results.table import build_table
from rpg.results.try_reward import options_of, try_reward
from rpg.rewards import JUDGES, OURS, Score, compute_score, sandbox, user_reward
from rpg.rewards.user_function import RewardError, as_score, reward_file
from rpg.rewards.user_reward import ADAPTER

SCORED_FROM = "scored_from"  # key in environment.json: the scored run


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg score`."""
    runs = "run directory or folder of them; with --reward also a parquet file, whose rows are tried"
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=runs)
    scorer = parser.add_mutually_exclusive_group()
    scorer.add_argument("--judge", choices=JUDGES, help="docs/judges.md (default: the run's reward function)")
    scorer.add_argument("--reward", metavar="FILE", help="your reward function")
    parser.add_argument("--function", metavar="NAME", help="with --reward: its name (default: as in a run)")
    parser.add_argument("--keywords", nargs="+", default=[], metavar="KEY=VALUE", help="with --reward: reward_kwargs")
    responses = "for rows of a parquet file: one per row, JSON lines (default: generated)"
    parser.add_argument("--responses", type=Path, metavar="FILE", help=responses)
    parser.add_argument("--rows", type=at_least(1), default=5, metavar="N", help="tried rows of a parquet file: 5")
    parser.add_argument("--files", nargs="+", metavar="FILE", help="validation files (default: the run's)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: RUN/judge-J); one RUN only")


def run(args: argparse.Namespace) -> int:
    """Score every run and print a table of both; return 1 if input was left out, 2 if all was."""
    if all(path.suffix == ".parquet" for path in args.runs):
        if args.out:
            raise ResultsError(f"--out {args.out}: for a run; leave it out")
        keywords = [*args.keywords, *([f"judge={args.judge}"] if args.judge else [])]
        return try_reward(args.reward or OURS, args.runs, args.responses, args.rows, args.function, keywords)
    before, notes = load_runs(args.runs, is_validation)
    if args.out and len(before) > 1:
        raise ResultsError(f"--out {args.out}: for one run; {len(before)} were given. Leave it out")
    written: list[Path] = []
    for scored in before:
        if args.files:
            put(scored.config, "data.val_files", args.files)
        config = _config(scored, args)
        out = args.out or scored.directory / f"judge-{judge_of(config)}"
        try:
            notes += [about(scored.name, note) for note in score_run(scored, config, out)]
            written.append(out)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{scored.name}, not scored: {error}"))
    if not written:
        raise ResultsError("; ".join(notes))
    after, more = load_runs(written, is_validation)
    table = build_table([*before, *after], [*notes, *more])
    show(table)
    print(*(f"written: {directory}" for directory in written), sep="\n")
    return exit_code(table.notes)


def _config(scored: Run, args: argparse.Namespace) -> dict[str, Any]:
    """Return the run's configuration with a new name and the scorer."""
    config = copy.deepcopy(scored.config)
    if args.judge:
        put(config, FUNCTION, {"path": OURS, "name": "compute_score", "reward_kwargs": {"judge": args.judge}})
    elif args.reward:
        keywords = {"file": reward_file(args.reward), "function": args.function, **options_of(args.keywords)}
        put(config, FUNCTION, {"path": ADAPTER, "name": "compute_score", "reward_kwargs": keywords})
    put(config, "trainer.experiment_name", f"{scored.name}_judge_{judge_of(config)}")
    if judge_of(config) == scored.judge:  # the same judge in another version still makes a second row
        put(config, "rpg.scored_again", True)
    return config


def score_run(scored: Run, config: dict[str, Any], out: Path) -> list[str]:
    """Write the run `out`: the saved samples with the verdicts of the reward function in `config`.

    An answer without a score counts as wrong, as in a run. Returns notes on validations without usable samples.

    Raises ResultsError: no validation with usable samples, or an `out` with other content.
    """
    if out.exists() and SCORED_FROM not in (read_mapping(file) if (file := out / ENVIRONMENT).is_file() else {}):
        raise ResultsError(f"{out}: has content that `rpg score` did not write; give another --out")
    function, rows = reward_of(config), rows_by_truth(scored)
    log, notes, metrics = list[str](), list[str](), scored.validations()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:  # created only when complete
        partial_run = Path(folder) / out.name
        (partial_run / SAMPLES).mkdir(parents=True)
        for step in map(int, scored.accuracies.index):
            try:
                samples, left_out = read_samples(scored, step)
                notes += left_out
                verdicts = verdicts_of(samples, function, rows)
            except (ResultsError, OSError) as error:
                notes.append(LeftOut(f"step {step} is left out: {error}"))
                continue
            if failed := [verdict for verdict in verdicts if isinstance(verdict, str)]:
                text = f"step {step}: {len(failed)} of {len(verdicts)} samples without a score count as wrong"
                notes.append(LeftOut(f"{text}: {failed[0]}"))
            kept = [{"score": 0.0, "acc": 0.0} if isinstance(verdict, str) else verdict for verdict in verdicts]
            judged: Any = samples.drop(columns=[PROBLEM, "benchmark"]).assign(**pd.DataFrame(kept, samples.index))
            judged.to_json(partial_run / SAMPLES / f"{step}.jsonl", orient="records", lines=True)
            means = judged["acc"].astype(float).groupby(judged["data_source"]).mean().rename(metrics)
            log.append(json.dumps({"step": step, "data": means.to_dict()}) + "\n")
        if not log:
            raise ResultsError("; ".join([*notes, "`rpg eval --judge` evaluates a checkpoint again"]))
        (partial_run / METRICS).write_text("".join(log))
        (partial_run / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        environment = {**scored.environment, SCORED_FROM: str(scored.directory)}
        (partial_run / ENVIRONMENT).write_text(json.dumps(environment, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        partial_run.replace(out)
    return notes


def verdicts_of(
    samples: pd.DataFrame, function: Callable[..., Any], rows: dict[str, list[dict[str, Any]]]
) -> list[Score | str]:
    """Return each sample's score, or why it has none. Raises ResultsError if none has a score."""
    if samples.empty:
        raise ResultsError("no samples")

    def score(sample: Any) -> Score | str:
        own = [row for row in rows.get(str(sample.gts), []) if (question(row) or "").strip() in sample.input]
        extra = max(own, key=lambda row: len(question(row) or ""))["extra_info"] if own else None
        try:
            return as_score(function(sample.data_source, sample.output, sample.gts, extra), "reward")
        except Exception as error:  # noqa: BLE001  # whatever a function raises; as in a run, only this has no score
            return str(error) if isinstance(error, RewardError) else f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(sandbox.MAX_AT_ONCE) as threads:
        verdicts = list(threads.map(score, samples.itertuples(index=False)))
    if all(isinstance(verdict, str) for verdict in verdicts):
        raise ResultsError(f"no sample has a score: {verdicts[0]}")
    return verdicts


def rows_by_truth(scored: Run) -> dict[str, list[dict[str, Any]]]:
    """Return ground truth -> rows of the validation files that are here, whose extra_info a reward may read."""
    rows: dict[str, list[dict[str, Any]]] = {}
    files = value_at(scored.config, "data.val_files") or []
    for name in [files] if isinstance(files, str) else files:
        try:
            for _, row in read_file(name):
                rows.setdefault(str((row.get("reward_model") or {}).get("ground_truth")), []).append(row)
        except DataError as error:
            scored.notes.append(f"{error}; its answers are scored without extra_info; --files names it")
    return rows


def reward_of(config: dict[str, Any]) -> Callable[..., Any]:
    """Return the reward function in a configuration with its keywords, in verl's form.

    Raises ResultsError if it cannot be imported, or if the configuration names none.
    """
    path, keywords = value_at(config, f"{FUNCTION}.path"), value_at(config, f"{FUNCTION}.reward_kwargs") or {}
    if not path:
        raise ResultsError(f"no reward function in {CONFIG}; give --judge")
    if path == OURS:
        return partial(compute_score, **keywords)
    if path != ADAPTER:  # a file that plain verl opens
        keywords = {"file": path, "function": value_at(config, f"{FUNCTION}.name"), **keywords}
    try:
        user_reward.load(keywords.get("file", path), keywords.get("function"))
    except RewardError as error:
        raise ResultsError(str(error)) from error
    return partial(user_reward.compute_score, **{"reward_limit": value_at(config, "rpg.reward_limit"), **keywords})
