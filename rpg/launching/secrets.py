"""Which texts of a run are secrets: tokens under the names of environment variables, logins in addresses."""

import os
import re
from collections.abc import Mapping

# The last word of a variable's name, as WANDB_API_KEY, HF_TOKEN, RAY_AUTH_TOKEN, AWS_SECRET_ACCESS_KEY have it.
LAST_WORDS = frozenset({"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"})
SHORTEST = 8  # characters; a shorter value of such a variable also stands in texts by chance
# user:password@, or on the web also a token alone, between an address's scheme and its host
LOGIN = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s]*@|(?<=http://)[^/?#\s]+@|(?<=https://)[^/?#\s]+@")
HIDDEN = "***"


def names_a_secret(variable: str) -> bool:
    """Whether an environment variable of this name holds a secret, by the last word of the name."""
    return variable.upper().rpartition("_")[2] in LAST_WORDS


def has_login(text: str) -> bool:
    """Whether a text has an address in it with a login: https://user:token@host, https://token@host."""
    return LOGIN.search(text) is not None


def without_login(text: str) -> str:
    """The text with *** where its addresses have a login."""
    return LOGIN.sub(f"{HIDDEN}@", text)


def in_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The secrets among environment variables (those of this process), by name."""
    variables = os.environ if environment is None else environment
    return {name: value for name, value in variables.items() if names_a_secret(name) and len(value) >= SHORTEST}
