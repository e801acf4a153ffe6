"""Which of the paper's benchmarks a data_source is."""

from rpg.rewards import data_sources

# What a data_source counts as in tables: the paper's names, in the paper's order; others keep their own.
BENCHMARKS = {
    "AIME24": tuple(name for name in data_sources.AIME_SOURCES if "24" in name or name == "Maxwell-Jia/AIME_2024"),
    "AIME25": tuple(name for name in data_sources.AIME_SOURCES if "25" in name),
    "AMC23": data_sources.AMC_SOURCES,
    "Minerva-Math": data_sources.MINERVA_SOURCES,
    "OlympiadBench": data_sources.OLYMPIAD_SOURCES,
    "MATH-500": data_sources.MATH_SOURCES,
    "toy sums": data_sources.TOY_SOURCES,
}
_BENCHMARK_OF = {name: benchmark for benchmark, names in BENCHMARKS.items() for name in names}


def benchmark_of(data_source: str) -> str:
    """The paper's name of the benchmark that `data_source` spells, or the data_source itself."""
    return _BENCHMARK_OF.get(data_source, data_source)
