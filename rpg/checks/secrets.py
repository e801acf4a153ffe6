"""Secrets in what a run writes down, and code that a model's directory brings along."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from rpg.checks.finding import ABSENT, Finding, Run, check
from rpg.launching.secrets import has_login, in_environment, names_a_secret

# Sections whose keys are names of variables or of secrets; elsewhere a key ends in these words too (data.prompt_key)
NAMED = ("rpg.env", "ray_kwargs.ray_init", "ray_kwargs.ray_init.runtime_env.env_vars")
ELSEWHERE = "a local run's processes inherit it, those of a cluster what `ray start` was given"


def _values(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every value in a container, as text, with its dotted key."""
    if isinstance(value, (dict, list)):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _values(f"{key}.{name}" if key else str(name), inner)
    else:
        yield key, str(value)


@check("secrets", "no token, password or login in an address stands in the configuration, which is written down")
def secrets(run: Run) -> Iterator[Finding]:
    """config.yaml, run.log, W&B and the page show the configuration; so no value is shown here."""
    known = in_environment()
    for key, text in _values("", run.config):
        yield from _secret(key, text, key.startswith(tuple(f"{section}." for section in NAMED)), known)
    given = run.get("rpg.env")
    if isinstance(given, dict):  # a variable that is set already wins over rpg.env, and is written down in its place
        already = {name: os.environ[name] for name in given if name in os.environ and not names_a_secret(name)}
        yield from in_variables("rpg.env", {name: text for name, text in already.items() if text != str(given[name])})


def in_variables(where: str, variables: Mapping[str, str]) -> Iterator[Finding]:
    """The secrets among environment variables that are written down or shown somewhere."""
    known = in_environment()
    for name, value in variables.items():
        yield from _secret(f"{where}.{name}", value, True, known)


def _secret(key: str, text: str, named: bool, known: Mapping[str, str]) -> Iterator[Finding]:
    name = key.rpartition(".")[2]
    if named and names_a_secret(name):
        wrong = "is a secret by its name, and would be written down (config.yaml, the log, W&B, a job's environment)"
        yield Finding(key, ABSENT, wrong, f"leave it out and set {name} in the environment: {ELSEWHERE}")
    elif has_login(text):
        wrong = "has a login in its address, which would be written down"
        yield Finding(key, ABSENT, wrong, "give the address without, and the login as its program wants it (~/.netrc)")
    elif held := [variable for variable, value in known.items() if value in text]:
        wrong = f"holds what {held[0]} holds in the environment, which would be written down"
        yield Finding(key, ABSENT, wrong, f"leave it out; {ELSEWHERE}")


TRUST = "trust_remote_code"


@check("remote code", f"no {TRUST}: code from a model's directory is not run unless it is asked for")
def remote_code(run: Run) -> Iterator[Finding]:
    """It may be meant, so it is a warning."""
    for key, text in _values("", run.config):
        if key.rpartition(".")[2] == TRUST and text == "True":
            wrong = (
                "Python code that lies with the model or the tokenizer, or that its hub repository names, is run in "
                "the driver and in every worker, with all that this user may do"
            )
            yield Finding(key, True, wrong, "read that code, or set it to false", "warning")
