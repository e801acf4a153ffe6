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

# data_source in files that people have: release, verl, and the hub's sets
SPELLINGS = {
    "dapo-math-17k-eng": """math-dapo math_dapo math_dapo_reasoning dapo-math-17k dapo_math_17k DAPO-Math-17k
        BytedTsinghua-SIA/DAPO-Math-17k open-r1/DAPO-Math-17k-Processed""",
    "aime24": """aime24 aime_24 aime-24 aime2024 aime_2024 aime-2024 AIME24 AIME2024 AIME_2024 math-ai/aime24
        HuggingFaceH4/aime_2024 Maxwell-Jia/AIME_2024 BytedTsinghua-SIA/AIME-2024""",
    "aime25": """aime25 aime_25 aime-25 aime2025 aime_2025 aime-2025 AIME25 AIME2025 AIME_2025 math-ai/aime25
        opencompass/AIME2025 yentinglin/aime_2025""",
    "aime": "aime",
    "amc23": """amc amc23 amc_23 amc-23 amc2023 amc_2023 amc-2023 AMC23 AMC2023 math-ai/amc23
        AI-MO/aimo-validation-amc""",
    "minerva-math": "minerva minerva-math minerva_math minervamath math-ai/minervamath svc-huggingface/minerva-math",
    "olympiadbench": """olympiadbench olympiad-bench olympiad_bench olympiad OlympiadBench math-ai/olympiadbench
        Hothan/OlympiadBench""",
    "math-500": "math-500 math_500 math500 MATH-500 MATH500 math-ai/math500 HuggingFaceH4/MATH-500",
    "math": "math MATH lighteval/MATH DigitalLearningGmbH/MATH-lighteval",
    "gsm8k": "gsm8k GSM8K openai/gsm8k",
    "toy": "toy_sum",
    "small_sums": "small_sums",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_has_the_rule_of_its_set(name: str) -> None:
    for spelling in SPELLINGS[name].split():
        assert datasets.of_source(spelling) is datasets.of_source(f"{spelling}/mine") is datasets.BY_NAME[name]


@pytest.mark.parametrize("text", [None, "", "mine", "mine/math", "math/", "math_lighteval", "MATH 500", "a/MATH/mine"])
def test_what_is_no_spelling_has_no_rule(text: str | None) -> None:
    assert datasets.of_source(text) is None


def test_no_two_sets_share_a_spelling_a_name_or_a_benchmark() -> None:
    assert len(datasets.BY_NAME) == len(DATASETS) == len(SPELLINGS)
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
