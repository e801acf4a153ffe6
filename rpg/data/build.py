"""Each problem once: what is the same, what is kept out, and a report of the rows that are left out."""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

from tqdm import tqdm

from rpg.data.parquet import Problem
from rpg.data.readers import read_file
from rpg.data.template import problem_of
from rpg.diagnostics import UserError

HYPHENS = str.maketrans("\u2212\u2010\u2011", "---")


def digest(text: str) -> bytes:
    """Return 16 bytes, equal for texts that differ only in white space or in their Unicode form.

    The form: composed or not, invisible characters such as U+FEFF, and the sign for minus.
    """
    if not text.isascii():
        composed = unicodedata.normalize("NFC", text).translate(HYPHENS)
        text = "".join(character for character in composed if unicodedata.category(character) != "Cf")
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def distinct_problems(
    results: Iterable[tuple[str, Problem | str]], exclude: Collection[bytes] = (), wanted: int | None = None
) -> list[Problem]:
    """Return each problem once, at most `wanted`; print how many rows are left out, and why.

    Memory: two short hashes for each distinct problem. Of a problem with two answers the first is kept.

    Args:
        results: place of a row, and its problem or the reason to leave out the row.
        exclude: digests of problems to leave out.
    """
    kept, answers = list[Problem](), dict[bytes, bytes]()
    left_out, first = Counter[str](), dict[str, str]()
    for place, result in tqdm(results, unit=" rows", disable=None):  # None: show only on a terminal
        if isinstance(result, str):
            reason = result
        else:
            key, answer = digest(result.text), digest(result.ground_truth or "")
            if key not in exclude and key not in answers:
                answers[key] = answer
                kept.append(result)
                if len(kept) == wanted:
                    break
                continue
            other = "" if answers.get(key) == answer else " with another answer"
            reason = "in a file of --exclude" if key in exclude else f"repeats an earlier problem{other}"
        left_out[reason] += 1
        first.setdefault(reason, place)
    print(f"{len(kept) + left_out.total()} rows read, {len(kept)} problems kept")
    for reason, count in left_out.most_common():
        print(f"  {count} left out: {reason} (first: {first[reason]})")
    return kept


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a file, and print how many there are. Raises UserError for none."""
    keys = {digest(text) for _, row in read_file(path) if (text := problem_of(row))}
    if not keys:
        raise UserError(f"{path}: no problem in it to exclude; give a file that `rpg data build` wrote")
    print(f"{path}: {len(keys)} problems to keep out")
    return keys
