"""The registry of data sets: what the recipe, the test rows and the scripts say of them."""

from pathlib import Path

import pytest

from rpg.config.compose import compose
from rpg.registry import datasets
from rpg.registry.datasets import BY_ENTRY, DATASETS, PUBLISHED
from rpg.registry.recipe import RECIPE
from tests.builders.published_files import FLAT

# without chain, whose files scripts.studies.chain writes
ENTRIES = sorted({path.stem for path in (RECIPE / "config" / "dataset").iterdir()} - {"chain"})


def test_no_two_sets_share_a_spelling_a_name_or_a_benchmark() -> None:
    assert len(datasets.OF_SPELLING) == sum(len(row.spellings) for row in DATASETS)
    assert len(datasets.BY_NAME) == len(DATASETS)
    assert len(datasets.BENCHMARKS) == sum(bool(row.benchmark) for row in DATASETS)
    assert not PUBLISHED.keys() & datasets.WITH_SPLITS.keys()
    assert PUBLISHED.keys() - {"dapo-math-17k-eng"} == FLAT.keys()  # dapo_row makes those of DAPO-Math-17k


def test_what_a_build_writes_is_scored_by_the_sets_own_rule() -> None:
    for row in DATASETS:
        mine = f"{row.spellings[0]}/mine"
        assert datasets.of_source(row.data_source) is datasets.of_source(mine) is row
        assert datasets.benchmark_of(mine) == mine


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_of_the_recipe_reads_the_files_of_its_set(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TRAIN_FILE", "TEST_FILE"):
        monkeypatch.delenv(variable, raising=False)
    run, _ = compose(None, ["profile=cpu", "model=toy", "optim=toy", f"dataset={entry}", "trainer.experiment_name=t"])
    row = BY_ENTRY[entry]
    validated = [file for other in DATASETS if other.is_validated for file in other.files]
    assert [Path(name).name for name in run.files("train")] == [row.files[0]]
    assert {Path(name).name for name in run.files("val")} == {*(row.files[1:] or validated)}


def test_every_entry_of_a_row_exists() -> None:
    assert BY_ENTRY.keys() == {*ENTRIES}
