"""`rpg score RUN... --judge J`: score the saved validation samples of runs again, without generating.

For each run it writes RUN/judge-J, a run directory with the same answers and J's verdicts: metrics.jsonl, config.yaml,
environment.json and validation/, which `rpg table` and `rpg plot` read.
"""

import argparse
import copy
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from rpg.results.config import LeftOut, ResultsError, exit_code, has_file, put, read_mapping, setting
from rpg.results.render import escape_md, markdown, printable
from rpg.results.runs import ACCURACY, CONFIG, ENVIRONMENT, METRICS, RunLog, is_accuracy, load_runs
from rpg.results.samples import check_agreement, problem_texts, sample_file, sample_lines, sources_of
from rpg.results.table import build_table
from rpg.rewards import JUDGES, OURS, compute_score, sandbox

SCORED_FROM = "scored_from"  # in environment.json: the run whose answers these are


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg score`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directory, or a folder of them")
    parser.add_argument("--judge", choices=JUDGES, required=True, help="docs/judges.md says how they differ")
    parser.add_argument(
        "--files", nargs="+", type=Path, metavar="FILE", help="validation files (default: the run's data.val_files)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: RUN/judge-J); one RUN only")


def run(args: argparse.Namespace) -> int:
    """Score every run and print the table of before and after; 1 where something was left out, 2 where all was."""
    notes: list[str] = []
    written: list[Path] = []
    try:
        before = load_runs(args.runs, notes, is_accuracy)
        if args.out and len(before) > 1:
            raise ResultsError(f"--out {args.out}: for one run; {len(before)} were given. Leave it out")
        if missing := [file for file in args.files or [] if not file.is_file()]:
            raise ResultsError(f"{missing[0]}: no such file; give the validation files of the run")
        for one in before:
            out = args.out or one.directory / f"judge-{args.judge}"
            try:
                written.append(score_run(one, args.judge, args.files, out))
            except (ResultsError, OSError) as error:
                notes.append(LeftOut(f"{one.name}, not scored: {error}"))
        if not written:
            raise ResultsError("; ".join(notes))
        table = build_table([*before, *load_runs(written, notes, is_accuracy)], notes)
    except (ResultsError, OSError) as error:
        print(f"rpg score: {printable(str(error))}", file=sys.stderr)
        return 2
    print(markdown(table), end="")
    for directory in written:
        print(f"written: {escape_md(str(directory))}")
    return exit_code(table.notes)


def score_run(run: RunLog, judge: str, files: list[Path] | None, out: Path) -> Path:
    """Write the run `out` with the verdicts of `judge` on every saved sample of `run`; returns `out`.

    Steps whose samples are not on disk or cannot be used are left out, and noted in run.notes.

    Raises:
        ResultsError: no step with samples that can be used, or an `out` that holds something else.
    """
    _require_free(out)
    if files:
        put(run.config, "data.val_files", [str(file) for file in files])
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:  # whole or absent
        partial = Path(folder) / out.name
        (partial / "validation").mkdir(parents=True)
        earlier = len(run.notes)
        lines = list(_scored_steps(run, judge, partial / "validation"))
        if not lines:
            raise ResultsError(
                "; ".join(run.notes[earlier:])
                or f"{run.path}: no validation samples in {run.directory / 'validation'}; a launch script writes them "
                "there, verl where trainer.validation_data_dir says. `rpg eval --judge` evaluates a checkpoint anew"
            )
        _write_lines(partial / METRICS, lines)
        (partial / CONFIG).write_text(yaml.safe_dump(_config(run, judge, out), sort_keys=False), encoding="utf-8")
        environment = {**run.environment, "judge": judge, SCORED_FROM: str(run.path)}
        (partial / ENVIRONMENT).write_text(json.dumps(environment, indent=2) + "\n", encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        partial.replace(out)
    return out


def _scored_steps(run: RunLog, judge: str, out: Path) -> Iterator[dict[str, Any]]:
    """Write the samples of every validation to `out`; yield what verl's file logger would have written."""
    without: list[int] = []
    any_scored = False
    sources = {name: ACCURACY.fullmatch(name)["data_source"] for name in run.accuracy_metrics}  # type: ignore[index]
    steps = {metric: set(run.metrics[metric].dropna().index) for metric in sources}
    with ThreadPoolExecutor(sandbox.MAX_AT_ONCE) as threads:
        for step in map(int, run.metrics.index):
            logged = {name: metric for metric, name in sources.items() if step in steps[metric]}
            if not logged:
                continue
            try:
                file = sample_file(run, step)
                if file is None:
                    without.append(step)
                    continue
                named = list(_with_data_source(run, file, list(logged)))
                for name, metric in logged.items():
                    accs = [
                        float(sample["acc"]) for sample in named if sample["data_source"] == name and "acc" in sample
                    ]
                    if accs and not check_agreement(run, file, name, accs, run.series(metric), step):
                        raise ResultsError(f"{file}: not the samples of this validation")
                samples = list(threads.map(lambda sample, file=file: _scored(file, sample, judge), named))
            except (ResultsError, OSError) as error:
                run.notes.append(LeftOut(f"{error}; the step is left out"))
                continue
            if not samples:
                run.notes.append(LeftOut(f"{file}: no sample in it; the step is left out"))
                continue
            any_scored = True
            _write_lines(out / file.name, samples)
            accuracies = {name: [one["acc"] for one in samples if one["data_source"] == name] for name in logged}
            means = {logged[name]: sum(accs) / len(accs) for name, accs in accuracies.items() if accs}
            yield {"step": step, "data": means}
    if any_scored:  # else the whole run is left out, with the reason
        run.notes += [LeftOut(f"no samples of step {step}; the step is left out") for step in without]


def _require_free(out: Path) -> None:
    """Whether `out` may be written: new, or a former result of this command."""
    if not out.exists():
        return
    try:
        ours = has_file(out / ENVIRONMENT) and SCORED_FROM in read_mapping(out / ENVIRONMENT)
    except ResultsError:
        ours = False  # whatever it is, it is not of this command
    if not ours:
        raise ResultsError(f"{out}: holds something that `rpg score` did not write; give another --out")


def _with_data_source(run: RunLog, file: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the samples of a file with their data_source: the log's only one, or that of the file with the problem.

    Raises:
        ResultsError: a problem that is in none of the validation files, or in those of two sets.
    """
    known = [] if len(names) == 1 else problem_texts(run)
    sources: dict[str, list[str]] = {}  # a problem has many samples
    for sample in sample_lines(file, ["output", "acc"]):
        text = sample["input"]
        if text not in sources:
            sources[text] = names if len(names) == 1 else sources_of(text, known)
        if len(sources[text]) != 1:
            where = f"of {' and of '.join(sources[text])}" if sources[text] else "that is in none of data.val_files"
            raise ResultsError(
                f"{file}: a problem {where} ({setting(run.config, 'data.val_files')}), so its data_source is not "
                "known; give the validation files of this run with --files, or evaluate anew with `rpg eval --judge`"
            )
        yield {**sample, "data_source": sources[text][0]}


def _scored(file: Path, sample: dict[str, Any], judge: str) -> dict[str, Any]:
    """The sample with the judge's verdict; its `score` is without the penalty for length, which is not saved."""
    try:
        return sample | compute_score(sample["data_source"], sample["output"], sample["gts"], judge=judge)
    except (ValueError, ModuleNotFoundError) as error:
        raise ResultsError(f"{file}: {error}") from error


def _config(run: RunLog, judge: str, out: Path) -> dict[str, Any]:
    """The run's configuration under a name of its own, with the judge of its numbers."""
    config = copy.deepcopy(run.config)
    put(config, "reward.custom_reward_function.path", OURS)
    put(config, "reward.custom_reward_function.reward_kwargs", {"judge": judge})
    put(config, "trainer.experiment_name", f"{run.name}_judge_{judge}")
    put(config, "trainer.validation_data_dir", str(out / "validation"))
    if run.judge == judge:  # by another version of it: two rows all the same
        put(config, "rpg.scored_again", True)
    return config


def _write_lines(path: Path, objects: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
