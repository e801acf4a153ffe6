"""The data_source values that are scored, in exact spellings, and RULE/NAME: the set NAME, scored as RULE is.

The release's README, its released files and verl disagree on spellings (E9 in docs/mathematics.md), so all
spellings in published files of these problem sets are listed.
"""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TOY_SOURCES = ("toy_sum",)
CHAIN_SOURCES = ("chain_sum",)
DAPO_SOURCES = _names("""
math-dapo math_dapo math_dapo_reasoning dapo-math-17k dapo_math_17k DAPO-Math-17k BytedTsinghua-SIA/DAPO-Math-17k
open-r1/DAPO-Math-17k-Processed
""")
AIME_SOURCES = _names("""
aime aime24 aime25 aime_24 aime_25 aime-24 aime-25 aime2024 aime2025 aime_2024 aime_2025 aime-2024 aime-2025 AIME24
AIME25 AIME2024 AIME2025 AIME_2024 AIME_2025 math-ai/aime24 math-ai/aime25 HuggingFaceH4/aime_2024
Maxwell-Jia/AIME_2024 BytedTsinghua-SIA/AIME-2024 opencompass/AIME2025 yentinglin/aime_2025
""")
AMC_SOURCES = _names("""
amc amc23 amc_23 amc-23 amc2023 amc_2023 amc-2023 AMC23 AMC2023 math-ai/amc23 AI-MO/aimo-validation-amc
""")
MINERVA_SOURCES = _names("""
minerva minerva-math minerva_math minervamath math-ai/minervamath svc-huggingface/minerva-math
""")
OLYMPIAD_SOURCES = _names("""
olympiadbench olympiad-bench olympiad_bench olympiad OlympiadBench math-ai/olympiadbench Hothan/OlympiadBench
""")
MATH_500_SOURCES = _names("""
math-500 math_500 math500 MATH-500 MATH500 math-ai/math500 HuggingFaceH4/MATH-500
""")
MATH_SOURCES = _names("math MATH lighteval/MATH DigitalLearningGmbH/MATH-lighteval")
GSM8K_SOURCES = _names("gsm8k GSM8K openai/gsm8k")

INTEGER_SOURCES = frozenset(TOY_SOURCES + CHAIN_SOURCES + DAPO_SOURCES + AIME_SOURCES + AMC_SOURCES + GSM8K_SOURCES)
KNOWN_DATA_SOURCES = INTEGER_SOURCES.union(MINERVA_SOURCES, OLYMPIAD_SOURCES, MATH_500_SOURCES, MATH_SOURCES)


def rule_of(data_source: str) -> str:
    """Return the spelling whose rule scores a data_source: MATH for MATH/mine, which names a user's own set."""
    rule, slash, name = data_source.rpartition("/")
    return rule if slash and name and rule in KNOWN_DATA_SOURCES else data_source


def is_known(data_source: str | None) -> bool:
    """Return whether `compute_score` scores rows with this data_source; None is that of a row without one."""
    return data_source is not None and rule_of(data_source) in KNOWN_DATA_SOURCES


def require_known(data_source: str) -> None:
    """Raise ValueError, naming the value and the known spellings, for an unknown data_source."""
    if not is_known(data_source):
        known = ", ".join(sorted(KNOWN_DATA_SOURCES))
        raise ValueError(
            f"data_source {data_source!r} has no score function; known spellings: {known}. "
            "Rename it in the parquet file (MATH/NAME: the set NAME by MATH's rule), or add the spelling to "
            "rpg/rewards/data_sources.py"
        )
