"""Find secrets in configurations and environment variables."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rpg.diagnostics import ABSENT, Diagnostic
from rpg.dotted import leaves, value_at

# last word of the names of secrets, such as WANDB_API_KEY, HF_TOKEN, RAY_AUTH_TOKEN, AWS_SECRET_ACCESS_KEY
LAST_WORDS = frozenset({"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"})
SHORTEST = 8  # characters; a shorter value may occur in a text by chance
# user:password@ between scheme and host of an address; for http(s) also token@
LOGIN = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s]*@|(?<=http://)[^/?#\s]+@|(?<=https://)[^/?#\s]+@")
HIDDEN = "***"


def names_a_secret(variable: str) -> bool:
    """Return whether an environment variable holds a secret, by the last word of its name."""
    return variable.upper().rpartition("_")[2] in LAST_WORDS


def has_login(text: str) -> bool:
    """Return whether a text contains an address with a login: https://user:token@host, https://token@host."""
    return LOGIN.search(text) is not None


def without_login(text: str) -> str:
    """Return the text with *** in place of logins in addresses."""
    return LOGIN.sub(f"{HIDDEN}@", text)


def in_environment() -> dict[str, str]:
    """Return the secrets among this process's environment variables, by name."""
    return {name: value for name, value in os.environ.items() if names_a_secret(name) and len(value) >= SHORTEST}


ELSEWHERE = "processes of a local run inherit it; on a cluster set it for `ray start`"


def in_configuration(config: dict[str, Any], sections: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield the secrets in a configuration, which config.yaml, run.log and W&B would show.

    sections: of variables, the first of environment variables; elsewhere keys may end in a secret's word
    (data.prompt_key). The diagnostics do not show the value.
    """
    known = in_environment()
    for key, value in leaves(config, into_lists=True):
        yield from _secret(key, str(value), key.startswith(tuple(f"{section}." for section in sections)), known)
    env = value_at(config, sections[0])
    if isinstance(env, dict):  # an existing variable overrides the section and would be written in its place
        already = {name: os.environ[name] for name in env if name in os.environ and not names_a_secret(name)}
        yield from in_variables(sections[0], {name: text for name, text in already.items() if text != str(env[name])})


def in_variables(where: str, variables: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield the secrets among environment variables that would be stored or shown."""
    known = in_environment()
    for name, value in variables.items():
        yield from _secret(f"{where}.{name}", value, True, known)


def _secret(key: str, text: str, named: bool, known: Mapping[str, str]) -> Iterator[Diagnostic]:
    name = key.rpartition(".")[2]
    if named and names_a_secret(name):
        message = "is a secret by its name, and would be stored (config.yaml, the log, W&B, a job's environment)"
        yield Diagnostic(key, ABSENT, message, f"leave it out and set {name} in the environment: {ELSEWHERE}")
    elif has_login(text):
        message = "has a login in its address, which would be stored"
        yield Diagnostic(
            key, ABSENT, message, "remove the login from the address and store it for the program (~/.netrc)"
        )
    elif variables := [variable for variable, value in known.items() if value in text]:
        message = f"holds what {variables[0]} holds in the environment, and would be stored"
        yield Diagnostic(key, ABSENT, message, f"leave it out; {ELSEWHERE}")
