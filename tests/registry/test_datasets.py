"""The registry of data sets: what the recipe, the test rows and the scripts say of them."""

from pathlib import Path

import pytest

from rpg.config.compose import compose
from rpg.registry import datasets
from rpg.registry.datasets import DATASETS, PUBLISHED
from rpg.registry.scripts import RECIPE
from tests.builders.published_files import FLAT

# without chain, whose files scripts.studies.chain writes
ENTRIES = sorted({path.stem for path in (RECIPE / "config" / "dataset").iterdir()} - {"chain"})

# data_source in files that people have: release, verl, and the hub's sets, in another case or with other marks
SPELLINGS = {
    "dapo-math-17k-eng": ["math-dapo", "math_dapo_reasoning", "DAPO-Math-17k", "open-r1/DAPO-Math-17k-Processed"],
    "aime24": ["aime_24", "AIME2024", "math-ai/aime24", "HuggingFaceH4/aime_2024"],
    "aime": ["aime"],
    "minerva-math": ["minerva", "minervamath", "svc-huggingface/minerva-math"],
    "math": ["MATH", "lighteval/MATH"],
    "gsm8k": ["GSM8K", "openai/gsm8k"],
    "toy": ["toy_sum"],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_has_the_rule_of_its_set(name: str) -> None:
    for spelling in SPELLINGS[name]:
        assert datasets.of_source(spelling) is datasets.of_source(f"{spelling}/mine") is datasets.BY_NAME[name]


@pytest.mark.parametrize("text", [None, "", "mine", "mine/math", "math/", "math_lighteval", "MATH 500", "a/MATH/mine"])
def test_what_is_no_spelling_has_no_rule(text: str | None) -> None:
    assert datasets.of_source(text) is None


def test_no_two_sets_share_a_spelling_a_name_or_a_benchmark() -> None:
    assert len(datasets.BY_NAME) == len(DATASETS)
    assert len({row.name for row in datasets._OF_KEY.values()}) == len(DATASETS)
    assert len(datasets._OF_KEY) == len(datasets.OF_SPELLING)
    assert len(datasets.BENCHMARKS) == sum(bool(row.benchmark) for row in DATASETS)
    assert not PUBLISHED.keys() & datasets.WITH_SPLITS.keys()
    assert PUBLISHED.keys() - {"dapo-math-17k-eng"} == FLAT.keys()  # dapo_row makes those of DAPO-Math-17k


def test_what_a_build_writes_is_scored_by_the_sets_own_rule() -> None:
    for row in DATASETS:
        mine = f"{row.data_source}/mine"
        assert datasets.of_source(row.data_source) is datasets.of_source(mine) is row
        assert datasets.benchmark_of(mine) == mine


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_of_the_recipe_reads_the_files_of_its_set(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TRAIN_FILE", "TEST_FILE"):
        monkeypatch.delenv(variable, raising=False)
    run, _ = compose(None, ["profile=cpu", "model=toy", "optim=toy", f"dataset={entry}", "trainer.experiment_name=t"])
    (row,) = (row for row in DATASETS if row.files[0] == Path(run.files("train")[0]).name)
    validated = [file for other in DATASETS if other.repeat == 32 for file in other.files]
    assert {Path(name).name for name in run.files("val")} == {*(row.files[1:] or validated)}
