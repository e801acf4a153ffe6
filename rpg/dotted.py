"""Dotted keys of nested dictionaries."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def leaves(value: Any, key: str = "", *, into_lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield every dotted key of nested dictionaries with its value. into_lists: also list elements, by index."""
    if isinstance(value, dict) and value:
        named = value.items()
    elif isinstance(value, list) and into_lists:
        named = enumerate(value)
    else:
        yield key, value
        return
    for name, inner in named:
        yield from leaves(inner, f"{key}.{name}" if key else str(name), into_lists=into_lists)


def below(key: str, sections: Iterable[str]) -> bool:
    """Return whether a dotted key is one of these names or below one."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def shortest_end(key: str, others: Sequence[str]) -> str:
    """Return the shortest end of a dotted key, in whole names, that none of the other keys has; else the key."""
    names = key.split(".")
    ends = (".".join(names[-count:]) for count in range(1, len(names)))
    return next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), key)


def value_at(config: Any, key: str, default: Any = None) -> Any:
    """Return the value at a dotted key of nested dictionaries, or `default` if there is none."""
    for name in key.split("."):
        if not isinstance(config, dict) or name not in config:
            return default
        config = config[name]
    return config


def put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; values on the way to it that are not mappings are replaced by mappings."""
    *parents, name = key.split(".")
    for parent in parents:
        if not isinstance(config.get(parent), dict):
            config[parent] = {}
        config = config[parent]
    config[name] = value
