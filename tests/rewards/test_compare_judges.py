"""scripts/compare_judges.py: its corpus, and the table in docs/judges.md that it made."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.mark.full
def test_the_table_in_the_documentation_is_the_scripts(script: ModuleType) -> None:
    page = (ROOT / "docs" / "judges.md").read_text()
    table = page.partition(script.BEGIN)[2].partition(script.END)[0]
    assert table == script.table(script.tally(6000, seed=0)), "run scripts/compare_judges.py --into docs/judges.md"
