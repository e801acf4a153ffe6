"""Whatever stands in a row, the check reports it and does not stumble."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rpg.data.check import FileCheck, check_repeats, check_row
from rpg.data.schema import Problem, make_row
from rpg.rewards import JUDGES, compute_score
from rpg.rewards.verified import number_in
from rpg.rewards.verified.normalize import normalize
from rpg.rewards.verified.numbers import as_number

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "ground_truth", "index", "split", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
PATHS = (
    ("data_source",),
    ("prompt",),
    ("prompt", 0),
    ("prompt", 0, "role"),
    ("prompt", 0, "content"),
    ("ability",),
    ("reward_model",),
    ("reward_model", "ground_truth"),
    ("reward_model", "style"),
    ("extra_info",),
    ("extra_info", "index"),
    ("extra_info", "raw_problem"),
    ("extra_info", "split"),
)


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(PATHS), value=ANYTHING)
def test_any_value_in_any_place(path: tuple, value: Any) -> None:
    row = make_row(Problem("math-dapo", "What is 2 + 2?", "4", "train"))
    target: Any = row
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    check = FileCheck(Path("x.parquet"))
    check_row(check, row, None, 100)
    check.rows = 1
    check_repeats(check)
    assert check.summary()
    assert all(isinstance(line, str) for line in check.findings.lines())


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=400), truth=st.text(max_size=30), judge=st.sampled_from(JUDGES))
def test_any_response_and_truth_of_the_toy_task(text: str, truth: str, judge: str) -> None:
    result = compute_score("toy_sum", f"Answer: {text}", truth, judge=judge)
    assert result["score"] in (1.0, -1.0)
    assert set(result) == {"score", "acc", "pred"}


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="0123456789.,/^{}\\frac$ -+x()%°½", max_size=60))
def test_numbers_are_read_or_refused(text: str) -> None:
    value = number_in(text)
    assert value is None or isinstance(value, Fraction)


@settings(max_examples=200, deadline=None)
@given(above=st.integers(-(10**9), 10**9), below=st.integers(1, 10**6))
def test_ways_to_write_a_fraction_agree(above: int, below: int) -> None:
    value = Fraction(above, below)
    sign = "-" if above < 0 else ""
    ways = [f"{above}/{below}", rf"\frac{{{above}}}{{{below}}}", rf"${sign}\dfrac{{{abs(above)}}}{{{below}}}$"]
    if value.denominator == 1:
        ways += [f"{int(value)}", f"{int(value):,}", f"{int(value)}.0", rf"\boxed{{{int(value)}}}"]
    for way in ways:
        assert as_number(normalize(way)) == value, way
