"""The judge `release` against verl's code and math-verify."""

import itertools
import re
import runpy
from importlib import metadata
from types import SimpleNamespace

import pytest
from endings import endings

from rpg.rewards import compute_score

CORPUS = 8_000
# verl's score for DAPO-Math, from its file, because importing verl takes ten seconds
MATH_DAPO = metadata.distribution("verl").locate_file("verl/utils/reward_score/math_dapo.py")
verl = SimpleNamespace(**runpy.run_path(str(MATH_DAPO)))


@pytest.mark.slow
def test_no_difference_on_a_made_corpus() -> None:
    """verl 0.9.1 scores like the release with an "Answer:"; without one it uses \\boxed{}."""
    right, boxed = 0, 0
    for response, truth in endings(CORPUS, seed=1):
        theirs = verl.compute_score(response, truth)
        ours = compute_score("aime24", response, truth)
        if re.search(r"(?i)answer\s*:\s*[^\n]", response[-300:]):
            assert (ours["score"], ours["pred"]) == (theirs["score"], theirs["pred"]), (response, truth)
            right += ours["score"] > 0
        else:
            assert (ours["score"], ours["pred"]) == (-1.0, ""), (response, truth)
            boxed += theirs["score"] > 0
    assert boxed > 0
    assert 0.1 < right / CORPUS < 0.95  # a corpus that is all right, or all wrong, would show nothing


LIBRARY = [
    (r"So $\boxed{\frac{2}{4}}$.", r"\frac{1}{2}", True),
    ("The answer is 0.5", r"\frac{1}{2}", True),
    (r"Answer: $(x+1)^2$", "x^2+2x+1", True),
    (r"Answer: $3$", r"\frac{1}{2}", False),
    (r"\boxed{5} at first.\n" + "And so on. " * 400, "5", True),  # the whole response is read
    ("Answer: x+1", "1+x", False),  # an expression with letters outside of LaTeX is none
    (r"Answer: $\frac{1}{$", r"\frac{1}{2}", False),
    ("", "5", False),
    ("Answer: $5$", "", False),
    ("Answer: $5$", "}{", False),
    ("\udc80 Answer: $5$ \x00", "5", True),
    ("Answer: 42 liters", "42", True),
    ("So it is $40 + 2$.", "42", True),
]


def test_the_library_gets_what_the_release_gave_it() -> None:
    """The release's call in this thread, with its limits, against ours in a helper process."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    truths = itertools.cycle(["42", r"\frac{1}{2}", "7", "204"])
    for (response, _), truth in zip(endings(150, seed=2), truths, strict=False):
        gold = parse(f"\\boxed{{{truth}}}", [LatexExtractionConfig()])
        said = parse(response, [ExprExtractionConfig(), LatexExtractionConfig()])
        expected = any(verify(one, other) for one in gold for other in said)
        assert compute_score("minerva", response, truth)["acc"] == float(expected), (response, truth)


def test_math_verify_reads_the_whole_response() -> None:
    """Of the sets of expressions by the release's rule, of every set by judge=math_verify."""
    rules = ["math_500", "minerva-math", "olympiadbench", "lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval"]
    calls = [(name, "release") for name in rules] + [(name, "math_verify") for name in ("aime24", "minerva", "toy_sum")]
    for response, truth, right in LIBRARY:
        for data_source, judge in calls:
            verdict = compute_score(data_source, response, truth, judge=judge)
            assert verdict["acc"] == float(right), (data_source, response, truth)
