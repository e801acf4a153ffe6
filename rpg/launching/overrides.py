"""Hydra overrides that hold any text: a path with spaces, commas, brackets, ü."""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*|[A-Za-z]+_[A-Za-z0-9_.-]*")  # Hydra takes it as text without quotes


class BadSetting(ValueError):
    """A setting that cannot be read; the message says which, its value and the remedy."""


def override(key: str, value: str | Path | Sequence[str | Path]) -> str:
    """The override that sets key to this text, or to a list of texts. Raises BadSetting as `quoted` does."""
    if isinstance(value, (str, Path)):
        return f"{key}={quoted(key, str(value))}"
    return f"{key}=[{','.join(quoted(key, str(element)) for element in value)}]"


def key_of(text: str) -> str:
    """The dotted key that an override sets, adds (+, ++) or takes away (~)."""
    return text.partition("=")[0].strip().lstrip("+~")


def quoted(key: str, text: str) -> str:
    """text as a value of Hydra's grammar, in quotes where it needs them. Raises BadSetting as `check_text` does."""
    check_text(key, text)
    return text if PLAIN.fullmatch(text) else QuotedString(text, Quote.single).with_quotes()


def check_text(key: str, text: str) -> None:
    """Raise BadSetting for text that no configuration can hold.

    OmegaConf reads ${ anew each time a configuration is made from another, so that no escape lasts; and YAML is UTF-8.
    """
    if "${" in text:
        raise BadSetting(f"{key}={text}: ${{ begins an interpolation wherever it stands; take a name without it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadSetting(f"{key}={text!r}: not UTF-8; take a name that is") from error
