"""Which texts of a run are secrets, whether its files would hold one, and code from a model's directory."""

import os
import re
from collections.abc import Iterator, Mapping

from rpg.checks.check import ABSENT, Diagnostic, Run, check, leaves

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


# Sections whose keys are names of variables or of secrets; elsewhere a key ends in these words too (data.prompt_key)
NAMED = ("rpg.env", "ray_kwargs.ray_init", "ray_kwargs.ray_init.runtime_env.env_vars")
ELSEWHERE = "a local run's processes inherit it, those of a cluster what `ray start` was given"


@check("secrets", "the configuration, which is written to disk, has no token, password or URL with a login")
def secrets(run: Run) -> Iterator[Diagnostic]:
    """config.yaml, run.log, W&B and the page show the configuration; so no value is shown here."""
    known = in_environment()
    for key, value in leaves(run.config, into_lists=True):
        yield from _secret(key, str(value), key.startswith(tuple(f"{section}." for section in NAMED)), known)
    given = run.get("rpg.env")
    if isinstance(given, dict):  # a variable that is set already wins over rpg.env, and is written down in its place
        already = {name: os.environ[name] for name in given if name in os.environ and not names_a_secret(name)}
        yield from in_variables("rpg.env", {name: text for name, text in already.items() if text != str(given[name])})


def in_variables(where: str, variables: Mapping[str, str]) -> Iterator[Diagnostic]:
    """The secrets among environment variables that are written down or shown somewhere."""
    known = in_environment()
    for name, value in variables.items():
        yield from _secret(f"{where}.{name}", value, True, known)


def _secret(key: str, text: str, named: bool, known: Mapping[str, str]) -> Iterator[Diagnostic]:
    name = key.rpartition(".")[2]
    if named and names_a_secret(name):
        wrong = "is a secret by its name, and would be written down (config.yaml, the log, W&B, a job's environment)"
        yield Diagnostic(key, ABSENT, wrong, f"leave it out and set {name} in the environment: {ELSEWHERE}")
    elif has_login(text):
        wrong = "has a login in its address, which would be written down"
        yield Diagnostic(
            key, ABSENT, wrong, "give the address without, and the login as its program wants it (~/.netrc)"
        )
    elif held := [variable for variable, value in known.items() if value in text]:
        wrong = f"holds what {held[0]} holds in the environment, which would be written down"
        yield Diagnostic(key, ABSENT, wrong, f"leave it out; {ELSEWHERE}")
