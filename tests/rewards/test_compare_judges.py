"""scripts/compare_judges.py: its corpus, and the table in docs/judges.md that it made."""

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
import rule

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_judges", ROOT / "scripts" / "compare_judges.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_judges"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_release_column_is_the_rule_stated_once_more(script: ModuleType) -> None:
    kinds = [kind for kind in script.KINDS if kind.data_source == "math-dapo"]
    assert len(kinds) >= 30
    found = script.tally(len(script.KINDS) * 5, seed=1)
    for kind in kinds:
        rng = random.Random(0)
        share = {rule.verdict(*kind.make(rng))[0] for _ in range(20)}
        assert len(share) == 1, kind.name  # a kind is judged one way
        assert found[kind].accepted[0] == found[kind].count * share.pop(), kind.name


@pytest.mark.full
def test_the_table_in_the_documentation_is_the_scripts(script: ModuleType) -> None:
    page = (ROOT / "docs" / "judges.md").read_text()
    table = page.partition(script.BEGIN)[2].partition(script.END)[0]
    assert table == script.table(script.tally(6000, seed=0)), "run scripts/compare_judges.py --into docs/judges.md"
