"""Small files in each source's published layout, with its peculiarities, for the real loaders."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rpg.data.template import format_prompt


def dapo_row(problem: str, answer: str | None, index: str) -> dict[str, Any]:
    """Return one row of BytedTsinghua-SIA/DAPO-Math-17k: the template around the problem, a string index."""
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": format_prompt(problem), "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


def dapo_problem(number: int) -> str:
    """Return a problem of the length in DAPO-Math-17k, about 250 characters; one in six is Chinese."""
    if number % 6 == 0:
        return f"设 $a_{{{number}}}$ 是正整数,求满足 $x^2 \\equiv {number} \\pmod{{{number + 7}}}$ 的最小值。" * 3
    return (
        f"Let $a_{{{number}}}$ be the number of positive integers $n \\le {number * 37}$ such that $n^2 + {number}$ "
        f"is divisible by ${number + 7}$, and suppose that the polynomial $P(x) = x^3 - {number}x + 1$ has three "
        "distinct real roots. Find the remainder when the sum of their squares is divided by $1000$."
    )


def write_rows(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema | None = None) -> Path:
    """Write rows to a parquet file, by default with the types that arrow infers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    return path


AIME24 = [  # HuggingFaceH4/aime_2024
    {"id": 60, "problem": "Find $a+b$.", "solution": "...", "answer": "204", "url": "u", "year": "2024"},
    {"id": 61, "problem": "Find the smallest $n$.", "solution": "...", "answer": "025", "url": "u", "year": "2024"},
]
AIME25 = [  # math-ai/aime25
    {"problem": "Find the sum of all integer bases.", "answer": "70", "id": "0"},
    {"problem": "Find the angles.", "answer": "336^\\circ", "id": "1"},  # II-5
]
AMC23 = [  # math-ai/amc23: integers as floats
    {"id": 0, "question": "Cities A and B are $45$ miles apart.", "answer": 27.0, "url": "u"},
    {"id": 1, "question": "Positive real numbers $x$ and $y$.", "answer": 36.0, "url": "u"},
]
MINERVA = [  # math-ai/minervamath
    {"question": "Each of the two Magellan telescopes.\n\nGive it in arcsec.", "answer": "0.06"},
    {"question": "Find the mass in grams.", "answer": "4.5e33"},
    {"question": "Preamble: A force acts.\n\nFind $x(t)$.", "answer": "$\\frac{1}{2} m v^{2}$"},
]
OLYMPIAD_REST = {"solution": ["..."], "image_1": None, "modality": "Text-only", "unit": None,
                 "answer_type": "Numerical", "error": None, "language": "English"}  # fmt: skip
OLYMPIAD = [  # Hothan/OlympiadBench, OE_TO_maths_en_COMP: answers in lists, nullable context and unit
    {"id": 1606, "question": "Find $T$.", "final_answer": ["2"], "context": None},
    {"id": 1610, "question": "Find all $x$.", "final_answer": ["$1$", "$-1$"], "context": "Let $x^2 = 1$."},
]
OLYMPIAD = [row | OLYMPIAD_REST for row in OLYMPIAD]
POLAR, DIVISORS = "Convert the point $(0,3)$ to polar coordinates.", "How many positive divisors does 196 have?"
MATH500 = [  # HuggingFaceH4/MATH-500
    {"problem": POLAR, "answer": "\\left( 3, \\frac{\\pi}{2} \\right)", "subject": "Precalculus", "level": 2,
     "solution": "...", "unique_id": "test/precalculus/807.json"},
    {"problem": DIVISORS, "answer": "9", "subject": "Number Theory", "level": 3,
     "solution": "...", "unique_id": "test/number_theory/572.json"},
]  # fmt: skip
FLAT = {"aime24": AIME24, "aime25": AIME25, "amc23": AMC23, "minerva-math": MINERVA, "olympiadbench": OLYMPIAD,
        "math-500": MATH500}  # fmt: skip
