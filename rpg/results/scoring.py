"""Saved validation samples of a run, scored again.

The result is RUN/judge-J, a run directory for `rpg table` and `rpg plot` with the same answers and the verdicts of J, a
judge or the name of a reward file: metrics.jsonl, config.yaml, environment.json and validation/.
"""

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from rpg.config.keys import FUNCTION, KEYS
from rpg.dotted import put, value_at
from rpg.files.atomic import CONFIG, ENVIRONMENT, LEFT_OUT, METRICS, SAMPLES
from rpg.results.messages import Note, ResultsError
from rpg.results.run_settings import setting
from rpg.results.runs import RunLog, read_mapping
from rpg.results.samples import PROBLEM, has_few_shot, missing_files, read_samples, rows_of
from rpg.results.try_reward import options_of
from rpg.rewards import JUDGES, OURS, Score, compute_score, sandbox, user_reward
from rpg.rewards.user_function import USUAL_NAME, RewardError, as_score, find_reward
from rpg.rewards.user_reward import ADAPTER

SCORED_FROM = "scored_from"  # key in environment.json: the scored run
WHY = "why it has no score"  # column: why an answer has no score, else None


def score_run(run: RunLog, judge: str | None, out: Path) -> list[Note]:
    """Write the run `out` with the verdicts of `judge`, or of the run's reward function, on its saved samples.

    Returns notes on validations without usable samples, which are left out.

    Raises:
        ResultsError: no validation with usable samples, or an `out` with other content.
    """
    if out.exists() and SCORED_FROM not in (read_mapping(file) if (file := out / ENVIRONMENT).is_file() else {}):
        raise ResultsError(f"{out}: has content that `rpg score` did not write; give another --out")
    config = _config(run, judge, out)
    if out.exists() and value_at(read_mapping(out / CONFIG), FUNCTION) != value_at(config, FUNCTION):
        raise ResultsError(f"{out}: has verdicts of another reward function or other keywords; give another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:  # created only when complete
        partial = Path(folder) / out.name
        (partial / SAMPLES).mkdir(parents=True)
        lines, failures, notes, logged = [], [], [], run.validations("acc")
        for step in run.metrics[list(logged)].dropna(how="all").index:
            try:
                samples, left_out = scored(run, step, judge)
            except (ResultsError, OSError) as error:
                notes.append(Note(f"{error}; step {step} is left out", left_out=True))
                continue
            notes += left_out
            if samples.empty:
                notes.append(Note(f"no samples of step {step}; the step is left out", left_out=True))
                continue
            saved = samples.drop(columns=[PROBLEM, WHY]).to_dict("records")
            _write_lines(partial / SAMPLES / f"{step}.jsonl", saved)
            failed = samples.loc[samples[WHY].notna(), ["data_source", WHY]].to_dict("records")
            failures += [{"step": int(step), "data_source": row["data_source"], "why": row[WHY]} for row in failed]
            right = {metric: samples.loc[samples["data_source"] == source, "acc"] for metric, source in logged.items()}
            means = {metric: float(accuracies.mean()) for metric, accuracies in right.items() if len(accuracies)}
            lines.append({"step": step, "data": means})
        if not lines:
            texts = [note.text for note in (*run.notes, *notes)] or [f"no validation in {METRICS}"]
            raise ResultsError("; ".join([*texts, "`rpg eval --judge` evaluates a checkpoint again"]))
        _write_lines(partial / METRICS, lines)
        if failures:
            _write_lines(partial / LEFT_OUT, failures)
        (partial / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        environment = {**run.environment, "judge": judge or run.judge, SCORED_FROM: str(run.path)}
        (partial / ENVIRONMENT).write_text(json.dumps(environment, indent=2) + "\n", encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        partial.replace(out)
    return notes


def scored(run: RunLog, step: int, judge: str | None) -> tuple[pd.DataFrame, list[Note]]:
    """Return a validation's samples with the judge's verdicts, and notes; without the length penalty, not saved.

    An answer without a score counts as wrong, as in a run, and WHY says why.

    Raises ResultsError for samples that cannot be read, assigned to a data_source or scored.
    """
    samples, notes = read_samples(run, step)
    function = partial(compute_score, judge=judge) if judge else reward_of(run)
    needs_rows = not (judge or run.judge in JUDGES) or has_few_shot(run)
    rows = rows_of(run, set(samples["input"]), f"by {judge or run.judge}") if needs_rows else {}

    def row_of(answer: Any) -> dict[str, Any] | None:
        of_problem = rows.get(answer.input, [])
        return next((row for row in of_problem if str(_truth(row)) == str(answer.gts)), None)

    answers = list(samples.itertuples(index=False))
    own_rows = [row_of(answer) for answer in answers]
    if unknown := own_rows.count(None) if needs_rows else 0:
        text = f"step {step}: {unknown} of {len(samples)} answers are scored without extra_info"
        notes = [*notes, Note(f"{text}: their problem is in none of data.val_files; give --files", left_out=True)]
    elif not needs_rows and (missing := missing_files(run)):
        text = f"{missing[0]} is not here: answers are scored as if its prompts had no few-shot examples; give --files"
        notes = [*notes, Note(text)]

    def score(answer: Any, row: dict[str, Any] | None) -> Score | str:
        extra = (row or {}).get("extra_info")
        try:
            return as_score(function(answer.data_source, answer.output, answer.gts, extra), run.judge)
        except RewardError as error:  # as in a run, only this response has no score
            return str(error)

    try:
        with ThreadPoolExecutor(sandbox.MAX_AT_ONCE) as threads:
            verdicts = list(threads.map(score, answers, own_rows))
    except Exception as error:  # whatever a user's function raises
        hint = f"; without --judge {run.judge} scores them, as in the run" if judge and run.judge not in JUDGES else ""
        raise ResultsError(f"step {step}: {type(error).__name__}: {error}{hint}") from error
    failed = [verdict for verdict in verdicts if isinstance(verdict, str)]
    if failed and len(failed) == len(verdicts):
        raise ResultsError(f"step {step}: no sample has a score: {failed[0]}")
    if failed:
        text = f"step {step}: {len(failed)} of {len(verdicts)} samples without a score count as wrong: {failed[0]}"
        notes = [*notes, Note(text, left_out=True)]
    kept = [{"score": 0.0, "acc": 0.0, WHY: one} if isinstance(one, str) else {**one, WHY: None} for one in verdicts]
    return samples.assign(**pd.DataFrame(kept, index=samples.index)), notes


def _truth(row: dict[str, Any]) -> Any:
    return (row.get("reward_model") or {}).get("ground_truth")


def with_reward(run: RunLog, file: str, name: str | None, keywords: Sequence[str]) -> RunLog:
    """Return the run with another reward function; keywords: KEY=VALUE of its reward_kwargs. Raises RewardError."""
    reward, config = find_reward(file, name), copy.deepcopy(run.config)
    put(config, KEYS["reward"], ADAPTER)
    put(config, KEYS["reward_options"], {"file": reward.file, "function": reward.function, **options_of(keywords)})
    return replace(run, config=config)


def reward_of(run: RunLog) -> Callable[..., Any]:
    """Return the reward function in a run's configuration with its keywords, in verl's form.

    Raises ResultsError if it cannot be imported, or if the configuration names none.
    """
    path, keywords = setting(run.config, "reward"), setting(run.config, "reward_options") or {}
    if not path:
        raise ResultsError(f"{run.directory}: no reward function in {CONFIG}; give --judge")
    if path == OURS:
        return partial(compute_score, **keywords)
    if path != ADAPTER:  # a file that verl opens itself
        keywords = {"file": path, "function": setting(run.config, "reward_function"), **keywords}
    try:
        user_reward.load(keywords.get("file", path), keywords.get("function", USUAL_NAME))
    except RewardError as error:
        raise ResultsError(str(error)) from error
    return partial(user_reward.compute_score, **{"reward_limit": setting(run.config, "reward_limit"), **keywords})


def _config(run: RunLog, judge: str | None, out: Path) -> dict[str, Any]:
    """Return the run's configuration with a new name and the judge."""
    config = copy.deepcopy(run.config)
    if judge:
        put(config, KEYS["reward"], OURS)
        put(config, KEYS["reward_options"], {"judge": judge})
    put(config, KEYS["run_name"], f"{run.name}_judge_{judge or run.judge}")
    put(config, KEYS["samples_dir"], str(out / SAMPLES))
    if judge in (None, run.judge):  # the same judge in another version still makes a second row
        put(config, "rpg.scored_again", True)
    return config


def _write_lines(path: Path, objects: list[dict[Any, Any]]) -> None:
    """Write JSON lines without the numbers that a line lacks: pandas fills them with NaN, which JSON does not have."""
    kept = ({key: value for key, value in line.items() if value == value} for line in objects)
    path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
