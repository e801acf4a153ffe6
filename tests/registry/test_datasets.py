"""The data sets: what the recipe, the test rows and the scripts say of them."""

from pathlib import Path

import pytest

from rpg.config.compose import compose_config
from rpg.registry import datasets
from rpg.registry.datasets import DATASETS, PUBLISHED
from rpg.registry.scripts import RECIPE
from tests.builders.published_files import FLAT

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


def test_every_spelling_has_the_rule_of_its_set() -> None:
    for name, spellings in SPELLINGS.items():
        for spelling in spellings:
            assert datasets.of_source(spelling) is datasets.of_source(f"{spelling}/mine") is datasets.BY_NAME[name]
    for text in (None, "", "mine", "mine/math", "math/", "math_lighteval", "MATH 500", "a/MATH/mine"):
        assert datasets.of_source(text) is None


def test_no_two_sets_share_a_spelling_a_name_or_a_benchmark() -> None:
    assert len(datasets.BY_NAME) == len(DATASETS)
    assert [datasets.of_source(row.data_source) for row in DATASETS] == [*DATASETS]
    assert len(datasets._OF_KEY) == len(datasets.OF_SPELLING)
    assert len(datasets.BENCHMARKS) == sum(bool(row.benchmark) for row in DATASETS)
    nested = {"dapo-math-17k-eng", "math", "gsm8k"}  # dapo_row makes those of DAPO-Math-17k
    assert PUBLISHED.keys() - nested == FLAT.keys()


# without chain, whose files scripts.studies.chain writes
@pytest.mark.parametrize("entry", sorted({path.stem for path in (RECIPE / "config/dataset").iterdir()} - {"chain"}))
def test_an_entry_of_the_recipe_reads_the_files_of_its_set(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TRAIN_FILE", "TEST_FILE"):
        monkeypatch.delenv(variable, raising=False)
    data = compose_config(["profile=cpu", "model=toy", "optim=toy", f"dataset={entry}", "rpg.script=t"])[0].data
    (row,) = (row for row in DATASETS if row.files[0] == Path(data.train_files).name)
    validated = [file for other in DATASETS if other.repeat == 32 for file in other.files]
    files = [data.val_files] if isinstance(data.val_files, str) else data.val_files
    assert {Path(name).name for name in files} == {*(row.files[1:] or validated)}
