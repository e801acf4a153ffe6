"""Which data_source values are scored: exact spellings, one table.

The release's README, its released files and verl disagree on spellings (E9 in docs/mathematics.md), so every
spelling that a published file of these problem sets carries is listed.
"""

from difflib import get_close_matches


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TOY_SOURCES = ("toy_sum",)
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

# All that reasoning-gym 0.1.25 registers but `composite`, which is several of them in one; "reasoning-gym/TASK"
GYM_PREFIX = "reasoning-gym/"
GYM_TASKS = _names("""
ab acre advanced_geometry aiw arc_1d arc_agi base_conversion basic_arithmetic bf binary_alternation binary_matrix
bitwise_arithmetic boxnet caesar_cipher calendar_arithmetic chain_sum circuit_logic codeio coin_flip
color_cube_rotation complex_arithmetic count_bits count_primes countdown course_schedule cryptarithm
decimal_arithmetic decimal_chain_sum dice emoji_mystery family_relationships figlet_font fraction_simplification
futoshiki game_of_life game_of_life_halting gcd graph_color group_anagrams gsm_symbolic intermediate_integration
isomorphic_strings jugs kakurasu knight_swap knights_knaves largest_island lcm leg_counting letter_counting
letter_jumble list_functions mahjong_puzzle manipulate_matrix maze mini_sudoku modulo_grid n_queens needle_haystack
number_filtering number_format number_sequence number_sorting palindrome_generation palindrome_partitioning path_star
polynomial_equations polynomial_multiplication pool_matrix power_function prime_factorization products
propositional_logic puzzle24 quantum_lock ransom_note rearc rectangle_count rotate_matrix rotten_oranges rubiks_cube
rush_hour self_reference sentence_reordering shortest_path simple_equations simple_geometry simple_integration sokoban
spell_backward spiral_matrix string_insertion string_manipulation string_splitting string_synthesis sudoku survo
syllogism time_intervals tower_of_hanoi tsumego word_ladder word_sequence_reversal word_sorting zebra_puzzles
""")

INTEGER_SOURCES = frozenset(TOY_SOURCES + DAPO_SOURCES + AIME_SOURCES + AMC_SOURCES + GSM8K_SOURCES)
KNOWN_DATA_SOURCES = INTEGER_SOURCES.union(MINERVA_SOURCES, OLYMPIAD_SOURCES, MATH_500_SOURCES, MATH_SOURCES)
# which have no answer of their own, only a judge
UNANSWERED = ("boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour")
GYM_SOURCES = frozenset(GYM_PREFIX + task for task in GYM_TASKS)


def gym_task(data_source: str) -> str | None:
    """Return TASK of "reasoning-gym/TASK", None for any other data_source and for a task that there is not."""
    return data_source.removeprefix(GYM_PREFIX) if data_source in GYM_SOURCES else None


def is_known(data_source: str) -> bool:
    """Whether `compute_score` scores rows with this data_source."""
    return data_source in KNOWN_DATA_SOURCES or data_source in GYM_SOURCES


def require_gym_task(task: str) -> None:
    """Raise ValueError, naming the nearest, for a task that reasoning-gym does not have."""
    if task not in GYM_TASKS:
        near = get_close_matches(task, GYM_TASKS, n=1, cutoff=0)
        raise ValueError(
            f"reasoning-gym has no task {task!r}; the nearest name is {near[0]!r}, and GYM_TASKS in "
            "rpg/rewards/data_sources.py lists all"
        )


def require_known(data_source: str) -> None:
    """Raise ValueError, naming the value and the known spellings, for a data_source nothing scores."""
    if data_source.startswith(GYM_PREFIX):
        require_gym_task(data_source.removeprefix(GYM_PREFIX))
    elif not is_known(data_source):
        known = ", ".join(sorted(KNOWN_DATA_SOURCES))
        raise ValueError(
            f"data_source {data_source!r} has no score function; known spellings: {known}; {GYM_PREFIX}TASK. "
            "Rename it in the parquet file, or add the spelling to rpg/rewards/data_sources.py"
        )
