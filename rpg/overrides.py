"""Hydra overrides for any text, such as a path with spaces, commas, brackets or ü."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from rpg.diagnostics import UserError

PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*|[A-Za-z]+_[A-Za-z0-9_.-]*")  # Hydra reads this as text without quotes


def override(key: str, value: Any) -> str:
    """Return the override that sets a key to a value of YAML or a path.

    OmegaConf reads ${ in a text as an interpolation, also in quotes, and fails at a name that it does not know.
    """
    return f"{key}={_value(value)}"


def parse(text: str) -> Override:
    """Return Hydra's reading of one override. Raises UserError, which shows what to type in a shell."""
    key, equals, value = text.partition("=")
    if not key:
        raise UserError(f"{text}: has no key; write KEY=VALUE (a shell variable that is not set?)")
    try:
        parsed = OverridesParser.create().parse_override(text)
    except HydraException as error:
        reason = f"Hydra cannot read it ({str(error).splitlines()[0].strip()})"
        if not equals:
            raise UserError(f"{text}: {reason}; write KEY=VALUE") from error
    else:
        if not parsed.is_sweep_override():
            return parsed
        reason = f"Hydra reads several values; a list is {key}=[{value}]"
    quoted = shlex.quote(override(key, value.strip("'\"")))
    raise UserError(f"{text}: {reason}; for a text Hydra needs quotes that the shell leaves in place: {quoted}")


def key_of(text: str) -> str:
    """Return the dotted key that an override sets, adds (+, ++) or removes (~)."""
    return text.partition("=")[0].strip().lstrip("+~")


def _value(value: Any) -> str:
    if isinstance(value, (str, Path)):
        text = str(value)
        return text if PLAIN.fullmatch(text) else QuotedString(text, Quote.single).with_quotes()
    if isinstance(value, Sequence):
        return f"[{','.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{_value(inner)}' for name, inner in value.items())}}}"
    return json.dumps(value)  # null, true, false or a number
