"""The tables of this folder: words on the left of an =, what they stand for on the right, in sections."""

from pathlib import Path


def read_table(name: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Section of a file -> word -> (the first word of its entry, what is on the right of the = or "").

    An entry ends with its line or at a semicolon; lines that begin with # are comments.
    """
    sections: dict[str, dict[str, tuple[str, str]]] = {}
    section: dict[str, tuple[str, str]] = {}
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            for entry in line.split(";"):
                words, _, right = entry.partition(" = ")
                section |= dict.fromkeys(words.split(), (words.split()[0], right))
    return sections
