"""Find secrets in configurations, which config.yaml, run.log and W&B would show."""

import re
from collections.abc import Iterator
from typing import Any

from rpg.diagnostics import ABSENT, Diagnostic
from rpg.dotted import leaves

# last word of the names of secrets, such as WANDB_API_KEY, HF_TOKEN, RAY_AUTH_TOKEN, AWS_SECRET_ACCESS_KEY
LAST_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS")
SECTIONS = ("rpg.env", "ray_kwargs.ray_init", "ray_kwargs.ray_init.runtime_env.env_vars")  # elsewhere data.prompt_key
# user:password@ between scheme and host of an address; for http(s) also token@
LOGIN = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s]*@|(?<=http://)[^/?#\s]+@|(?<=https://)[^/?#\s]+@")


def has_login(text: str) -> bool:
    """Return whether a text contains an address with a login: https://user:token@host, https://token@host."""
    return LOGIN.search(text) is not None


def without_login(text: str) -> str:
    """Return the text with *** in place of logins in addresses."""
    return LOGIN.sub("***@", text)


def in_configuration(config: dict[str, Any]) -> Iterator[Diagnostic]:
    """Yield the variables that are secrets by their name, and the values with a login, which it does not show."""
    for key, value in leaves(config, into_lists=True):
        section, _, name = key.rpartition(".")
        if section in SECTIONS and name.upper().rpartition("_")[2] in LAST_WORDS:
            remedy = f"set {name} in the environment: a local run inherits it; on a cluster set it for `ray start`"
            yield Diagnostic(key, ABSENT, "is a secret by its name, and would be stored", remedy)
        elif has_login(str(value)):
            remedy = "store it for the program (~/.netrc)"
            yield Diagnostic(key, ABSENT, "has a login in its address, which would be stored", remedy)
