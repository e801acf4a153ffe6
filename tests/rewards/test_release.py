"""The judge `release`: its comparison of texts, and math-verify."""

import pytest
from pairs import read_pairs

from rpg.rewards import compute_score

TEXTS = [
    ("Answer: 42", "42", True, "42"),
    ("answer :\n\n 42\nDone.", "42", True, "42"),  # of the next line
    ("Answer: 41\nFinal Answer: 42.", "42.", True, "42."),
    ("Answer: 1,000", "1{,}000", True, "1000"),
    ("Answer: x = $\\frac12$", "\\frac{1}{2}", True, "\\frac{1}{2}"),
    ("Answer: 7" + " " * 290, "7", True, "7"),
    ("Answer: 7" + " " * 292, "7", False, ""),  # 301 characters
    ("**Answer:** 42", "42", False, "**42"),
    ("So $\\boxed{42}$.", "42", False, ""),
    ("Answer: [INVALID]", "[INVALID]", False, ""),  # as verl's function says that there is none
]


@pytest.mark.parametrize(("response", "truth", "right", "pred"), TEXTS)
def test_texts_are_compared_as_in_the_release(response: str, truth: str, right: bool, pred: str) -> None:
    score = compute_score("aime24", response, truth)
    assert score == {"score": 1.0 if right else -1.0, "acc": float(right), "pred": pred}


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

    for _, truth, answer, _ in read_pairs()[::13]:
        response = f"Answer: {answer}"
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
