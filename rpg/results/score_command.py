"""`rpg score RUN`: score the saved validation samples of a run again, without generating.

The scorer is the reward function in the run's config.yaml as it is now, a judge of rpg.rewards (--judge), or another
reward function (--reward). RUN/judge-J is then a run with the same answers and the verdicts of J.

`rpg score ROWS` tries the scorer on a few rows of a parquet file before a run (try_reward).
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from rpg.config.record import CONTENTS, code_hashes
from rpg.config.verl_keys import FUNCTION, REWARD_FILE
from rpg.data.readers import read_file
from rpg.diagnostics import ABSENT, UserError, shown
from rpg.dotted import put, value_at
from rpg.files.atomic import CONFIG, ENVIRONMENT, METRICS, SAMPLES, append_record
from rpg.registry.scripts import RECIPE
from rpg.results.formats import show
from rpg.results.runs import Run, find, load, show_notes
from rpg.results.table import build_table
from rpg.rewards import JUDGES, OURS, Score, compute_score, sandbox, user_reward
from rpg.rewards.extract import WRONG, blind_to, example
from rpg.rewards.user_reward import RewardError, function_of

ROWS = 5  # tried
KEPT = ["input", "output", "gts", "step", "uid", "data_source", "extra_info"]  # of saved samples: what is no verdict


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg score`."""
    parser.add_argument("scored", type=Path, metavar="RUN|ROWS", help="run, or parquet file to try a reward on")
    scorer = parser.add_mutually_exclusive_group()
    scorer.add_argument("--judge", choices=JUDGES, help="of docs/judges.md (default: the run's reward; ROWS: release)")
    scorer.add_argument("--reward", metavar="FILE", help="Python file with a reward function")
    parser.add_argument("--out", type=Path, metavar="DIR", help="new run directory (default: RUN/judge-J)")


def run(args: argparse.Namespace) -> int:
    """Score the run and print a table of both; or try a reward function on rows."""
    if args.scored.is_file():
        put(config := dict[str, Any](), FUNCTION, function_of(args.reward, args.judge or JUDGES[0]))
        return try_reward(reward_of(config), args.scored)
    if args.scored not in (runs := find([args.scored])):
        raise UserError(f"{args.scored}: is not a run; give one of the {len(runs)} runs in it, such as {runs[0]}")
    scored = load(args.scored)
    again = replace(scored, config=copy.deepcopy(scored.config))
    if args.reward or args.judge:
        put(again.config, FUNCTION, function_of(args.reward, args.judge))
    if again.judge == scored.judge:  # the same judge in another version still makes a second row
        put(again.config, "rpg.scored_again", True)
    out = args.out or args.scored / f"judge-{again.judge}"
    if out.exists():
        raise UserError(f"{out}: exists; remove it or give another --out")
    notes = score_run(scored, again.config, out)
    show(build_table([scored, load(out)]))
    print(f"written: {out}")
    show_notes(notes)
    return 0


def reward_of(config: dict[str, Any]) -> Callable[..., Any]:
    """Return the reward function in a configuration with its keywords, in verl's form.

    Raises RewardError if it cannot be imported, UserError if the configuration names none.
    """
    keywords = value_at(config, f"{FUNCTION}.reward_kwargs") or {}
    if value_at(config, f"{FUNCTION}.path") == OURS:
        return partial(compute_score, **keywords)
    if "file" not in keywords:
        raise UserError(f"{CONFIG} has no reward function of `rpg train`; give --judge or --reward")
    user_reward.call(keywords["file"], keywords.get("function"))
    default = yaml.safe_load((RECIPE / "config/rpg_trainer.yaml").read_bytes())["rpg"]["reward_limit"]
    limit = value_at(config, "rpg.reward_limit", default)
    return partial(user_reward.compute_score, **{"reward_limit": limit, **keywords})


def verdict(reward: Callable[..., Any], source: str, response: str, truth: Any, extra: Mapping | None) -> Score | str:
    """Return a response's score, or why it has none; an empty one is wrong, as in a validation."""
    if not response:
        return "the response is empty"
    try:
        return reward(source, response, truth, extra)
    except Exception as error:  # noqa: BLE001  # whatever a function raises; as in a run, only this has no score
        return str(error) if isinstance(error, RewardError) else f"{type(error).__name__}: {error}"


def score_run(scored: Run, config: dict[str, Any], out: Path) -> list[str]:
    """Write the run `out`: the saved samples with the verdicts of the reward function in `config`.

    An answer without a score counts as wrong, as in a run. Returns notes on these.

    Raises UserError: no validation with usable samples.
    """
    reward, judged, notes = reward_of(config), dict[int, Any](), list[str]()
    for step in map(int, scored.accuracies.index):
        if (samples := scored.samples(step)).empty:
            continue
        # of our reward worker; plain verl's samples have none
        extra = samples["extra_info"].map(json.loads) if "extra_info" in samples else [None] * len(samples)
        with ThreadPoolExecutor(sandbox.MAX_AT_ONCE) as threads:
            columns = (samples[name] for name in ("data_source", "output", "gts"))
            verdicts = list(threads.map(partial(verdict, reward), *columns, extra))
        if failed := [score for score in verdicts if isinstance(score, str)]:
            if len(failed) == len(verdicts):
                raise UserError(f"step {step}: no sample could be scored: {failed[0]}")
            notes.append(f"step {step}: {len(failed)} samples could not be scored and count as wrong: {failed[0]}")
        kept = [{"score": 0.0, "acc": 0.0} if isinstance(score, str) else score for score in verdicts]
        judged[step] = samples.filter(KEPT).assign(**pd.DataFrame(kept, samples.index))
    if not judged:
        raise UserError("\n".join([f"{scored.name}: no usable samples; `rpg eval --judge` makes them", *scored.notes]))
    if all("extra_info" not in samples for samples in judged.values()):
        notes.append("the samples have no extra_info, of an older version or plain verl: the reward scored without it")
    (out / SAMPLES).mkdir(parents=True)
    for step, samples in judged.items():
        samples.to_json(out / SAMPLES / f"{step}.jsonl", orient="records", lines=True)
    (out / CONFIG).write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    scorer = {REWARD_FILE: code_hashes([value_at(config, REWARD_FILE)])}
    environment = scored.environment | {CONTENTS: scored.environment.get(CONTENTS, {}) | scorer}
    (out / ENVIRONMENT).write_text(json.dumps(environment, indent=2) + "\n", encoding="utf-8")
    metrics = {source: metric for metric, source in scored.validations().items()}
    for step, samples in judged.items():  # last: a directory with this file is a run
        means = samples.groupby("data_source")["acc"].mean().rename(metrics)
        append_record(out / METRICS, {"step": step, "data": means.to_dict()})
    return notes


def try_reward(reward: Callable[..., Any], rows: Path) -> int:
    """Score a right and a wrong response to each of the first rows; print what a run would log, and the times.

    Returns 1 if the function raises, or scores wrong answers like right ones or above.
    """
    scores, failed, prompt = dict[str, list[float]](), 0, None
    for place, row in islice(read_file(rows), ROWS):
        prompt, extra = row.get("prompt", ""), row.get("extra_info")
        key = value_at(row, "reward_model.ground_truth", ABSENT)
        if key is ABSENT or "data_source" not in row:
            raise UserError(f"{rows}: not in verl's schema; `rpg data build --from {rows}`")
        answers = {"wrong": WRONG} if key is None else {"right": key, "wrong": WRONG}  # a row may have only its rule
        for kind, answer in answers.items():
            response, begun = example(answer, prompt, extra), time.perf_counter()
            score = verdict(reward, row["data_source"], response, key, extra)
            milliseconds = 1000 * (time.perf_counter() - begun)
            if isinstance(score, str):
                result, failed = score, failed + 1
            else:
                result = ", ".join(f"{key} {value:g}" for key, value in score.items() if isinstance(value, float))
                scores.setdefault(kind, []).append(score["score"])
            print(f"{place}, {kind} ({shown(' '.join(response.split()))[:60]}): {result}, {milliseconds:.1f} ms")
    print(f"{failed} raised")
    means = {kind: statistics.fmean(of_kind) for kind, of_kind in scores.items()}
    print("mean score:", ", ".join(f"{kind} {mean:g}" for kind, mean in means.items()) or "none")
    if len(means) == 2 and means["right"] <= means["wrong"]:
        print(f"error: wrong answers score as high as right ones; {blind_to(prompt)}")
        return 1
    return int(failed > 0)
