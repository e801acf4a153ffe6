"""`rpg score RUN... --judge J`: score the validation samples that a run saved once more, without generating.

Beside every run, in RUN/judge-J, stands then a run of its own with the same answers and J's verdicts:
metrics.jsonl, config.yaml, environment.json and validation/, which `rpg table` and `rpg plot` read.
"""

import argparse
import copy
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from rpg.results.records import ResultsError
from rpg.results.render import markdown
from rpg.results.runs import METRICS, Run, load_runs
from rpg.results.samples import problem_texts, sample_file, sample_lines
from rpg.results.table import build_table
from rpg.rewards import JUDGES, compute_score, symbolic

ACCURACY = re.compile(r"val-core/(?P<data_source>.+)/acc/mean@\d+")
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
    """Score every run and print the table of before and after; 2 where something is missing or unreadable."""
    notes: list[str] = []
    try:
        before = load_runs(args.runs, notes)
        if args.out and len(before) > 1:
            raise ResultsError(f"--out {args.out}: for one run; {len(before)} were given. Leave it out")
        written = [
            score_run(one, args.judge, args.files, args.out or one.directory / f"judge-{args.judge}") for one in before
        ]
        after = load_runs(written, notes)
    except (ResultsError, OSError) as error:
        print(f"rpg score: {error}", file=sys.stderr)
        return 2
    print(markdown(build_table([*before, *after], notes)), end="")
    for directory in written:
        print(f"written: {directory}")
    return 0


def score_run(run: Run, judge: str, files: list[Path] | None, out: Path) -> Path:
    """Write the run `out` with the verdicts of `judge` on every saved sample of `run`; returns `out`.

    Steps without samples on disk are left out. Samples do not name their data_source: it is the one
    that the log has at that step, or the one of the file that holds the problem.

    Raises:
        ResultsError: no samples, a problem that no file has, or an `out` that holds something else.
    """
    _require_free(out)
    if files:
        run.config.setdefault("data", {})["val_files"] = [str(file) for file in files]
        if missing := [file for file in files if not file.is_file()]:
            raise ResultsError(f"{missing[0]}: no such file; give the validation files of the run")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:  # whole or absent
        partial = Path(folder) / out.name
        (partial / "validation").mkdir(parents=True)
        lines = list(_scored_steps(run, judge, partial / "validation"))
        if not lines:
            raise ResultsError(
                f"{run.path}: no validation samples in {run.directory / 'validation'}; a launch script writes them "
                "there, verl where trainer.validation_data_dir says. `rpg eval --judge` evaluates a checkpoint anew"
            )
        _write_lines(partial / METRICS, lines)
        (partial / "config.yaml").write_text(yaml.safe_dump(_config(run, judge, out), sort_keys=False))
        environment = {**run.environment, "judge": judge, SCORED_FROM: str(run.path)}
        (partial / "environment.json").write_text(json.dumps(environment, indent=2) + "\n")
        if out.exists():
            shutil.rmtree(out)
        partial.replace(out)
    return out


def _scored_steps(run: Run, judge: str, out: Path) -> Iterator[dict[str, Any]]:
    """Write the samples of every validation to `out`; yield what verl's file logger would have written."""
    with ThreadPoolExecutor(symbolic.MAX_AT_ONCE) as threads:
        for step, data in run.history.items():
            keys = {found["data_source"]: key for key in data if (found := ACCURACY.fullmatch(key))}
            file = sample_file(run, step)
            if file is None or not keys:
                continue
            named = _data_sources(run, file, list(keys))
            samples = list(threads.map(lambda pair: _scored(pair[0], pair[1], judge), named))
            _write_lines(out / file.name, samples)
            accuracies = {name: [one["acc"] for one in samples if one["data_source"] == name] for name in keys}
            yield {
                "step": step,
                "data": {keys[name]: sum(accs) / len(accs) for name, accs in accuracies.items() if accs},
            }


def _require_free(out: Path) -> None:
    """Whether `out` may be written: new, or a former result of this command."""
    if not out.exists():
        return
    environment = out / "environment.json"
    if not (environment.is_file() and SCORED_FROM in json.loads(environment.read_text())):
        raise ResultsError(f"{out}: holds something that `rpg score` did not write; give another --out")


def _data_sources(run: Run, file: Path, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (data_source, sample) of a file of samples."""
    known = [] if len(names) == 1 else problem_texts(run)
    seen: dict[str, str | None] = {}  # a problem has many samples
    for number, sample in sample_lines(file, ["output"]):
        text = sample["input"]
        if text not in seen:
            seen[text] = names[0] if len(names) == 1 else next((n for problem, n in known if problem in text), None)
        source = seen[text]
        if source is None:
            files = run.config.get("data", {}).get("val_files")
            raise ResultsError(
                f"{file}, line {number}: a problem that is in none of data.val_files ({files}), so its data_source is "
                "not known; give the validation files of this run with --files"
            )
        yield source, sample


def _scored(source: str, sample: dict[str, Any], judge: str) -> dict[str, Any]:
    """The sample with the judge's verdict; its `score` is without the penalty for length, which is not saved."""
    verdict = compute_score(source, sample["output"], sample["gts"], judge=judge)
    return {**sample, **verdict, "data_source": source}


def _config(run: Run, judge: str, out: Path) -> dict[str, Any]:
    """The run's configuration under a name of its own, with the judge that its numbers are of."""
    config = copy.deepcopy(run.config)
    function = config.setdefault("reward", {}).setdefault("custom_reward_function", {})
    function["path"] = "pkg://rpg.rewards"
    function["reward_kwargs"] = {"judge": judge}
    trainer = config.setdefault("trainer", {})
    trainer["experiment_name"] = f"{run.name}_judge_{judge}"
    trainer["validation_data_dir"] = str(out / "validation")
    if run.judge == judge:  # by another version of it: two rows all the same
        config.setdefault("rpg", {})["scored_again"] = True
    return config


def _write_lines(path: Path, objects: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))
