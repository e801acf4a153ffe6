"""Hydra overrides for any text, such as a path with spaces, commas, brackets or ü."""

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*|[A-Za-z]+_[A-Za-z0-9_.-]*")  # Hydra reads this as text without quotes


class BadSetting(ValueError):
    """A setting that cannot be read; the message names key, value and remedy."""


def override(key: str, value: str | Path | Sequence[str | Path]) -> str:
    """Return the override that sets a key to a text or a list of texts. Raises BadSetting as `check_text` does."""
    if isinstance(value, (str, Path)):
        return f"{key}={_quoted(key, str(value))}"
    return f"{key}=[{','.join(_quoted(key, str(element)) for element in value)}]"


def key_of(text: str) -> str:
    """Return the dotted key that an override sets, adds (+, ++) or removes (~)."""
    return text.partition("=")[0].strip().lstrip("+~")


def _quoted(key: str, text: str) -> str:
    check_text(key, text)
    return text if PLAIN.fullmatch(text) else QuotedString(text, Quote.single).with_quotes()


def check_text(key: str, text: str) -> None:
    """Raise BadSetting for a text that a configuration cannot hold: one with ${, or not UTF-8.

    OmegaConf parses ${ again whenever a configuration is copied, so it cannot be escaped.
    """
    if "${" in text:
        raise BadSetting(f"{key}={text}: ${{ starts an interpolation; use a name without it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadSetting(f"{key}={text!r}: is not UTF-8; use a name that is") from error
