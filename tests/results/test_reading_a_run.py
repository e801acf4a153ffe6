"""The numbers of docs/results.md, "Reading a run", from the logs of the stability runs."""

import re
from pathlib import Path

import pandas

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = r"[Bb]elow 0\.05|exceeded 0\.05|above 0\.1"  # limits, not measured


def facts():
    metrics = pandas.read_parquet(ROOT / "docs/results/stability.parquet")
    trained = metrics[metrics.step > 0].set_index(["run", "step"])
    keys = {
        "score": "critic/score/mean", "kl": "training/off_policy/kl", "ess": "training/off_policy/ess",
        "entropy": "actor/entropy",
    }  # fmt: skip
    by = {name: trained[key].unstack("step") for name, key in keys.items()}
    score, kl, ess = by["score"], by["kl"], by["ess"]
    means = score.T.rolling(3).mean().T  # of a batch and the two before it
    best = means.max(axis=1)
    broke = means[12] < 0.5 * best
    held = ~broke
    yield f"[{len(score)} stability runs]"
    yield f"{broke.sum()} runs broke"

    def over(values, limit):
        passed = (values > limit).any(axis=1)
        return passed[broke].sum(), passed[held].sum()

    warned, others = over(kl, 0.05)
    assert warned == broke.sum()
    ahead = []
    for run in score.index[broke]:
        after = means.loc[run].idxmax()
        low = score.loc[run] < 0.5 * best[run]
        halved = next(step for step in score.columns if step > after and low[step])
        ahead.append(halved - next(step for step in kl.columns if kl.loc[run, step] > 0.05))
    yield f"all {warned} runs that broke, {min(ahead)} to {max(ahead)} batches before the reward halved"
    yield f"in {others} of the other {held.sum()}"
    seven, four = over(kl, 0.1)
    yield f"of {seven + four} above 0.1, {seven} did"
    median = ess.median(axis=1)
    yield f"{median[broke].median():.2f} in runs that broke and {median[held].median():.2f} in the others"
    entropy = by["entropy"]
    yield f"from {entropy[1].mean():.2f} nats to {entropy[12][held].mean():.2f} in runs that held"
    yield f"and to {entropy[12][broke].mean():.2f} in runs that broke"


def test_the_numbers_are_those_of_the_logs():
    section = (ROOT / "docs/results.md").read_text().partition("## Reading a run\n")[2]
    for fact in facts():
        assert fact in section, fact
        section = section.replace(fact, "")
    assert not re.findall(r".{20}\d\.\d.{20}", re.sub(CHOSEN, "", section))
