"""What a part of verl, Ray or vLLM has to be like for us to work, and where it is not.

The parts are in parts_of_verl.py and parts_of_ray_and_vllm.py, under the file of ours that uses them. Nothing of the
three is imported before a part is looked at.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MISSING = inspect.Parameter.empty
TAKES_ALL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Part:
    """One part, what is expected of it, and why.

    Attributes:
        module, attribute: where it is; the attribute is dotted, and empty for the module itself.
        why: what it does for us; a sentence that begins with "it".
        signature: all parameters with their defaults, without annotations; for what we override or call by position.
        passed: parameters that we pass. It must take these and want no others.
        names: members it has: fields of a dataclass, keys of a registry, members of an enumeration, attributes.
        lacks: members it must not have, because ours have that name.
        sets: attributes that a class, or a base of it, puts on self somewhere.
        abstract: all methods that a subclass has to define.
        texts: what its source says; white space does not count.
    """

    module: str
    attribute: str
    why: str
    signature: str = ""
    passed: tuple[str, ...] = ()
    names: tuple[Any, ...] = ()
    lacks: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    abstract: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """module.attribute"""
        return f"{self.module}.{self.attribute}".rstrip(".")


def sentences(user: str, part: Part) -> Iterator[str]:
    """A sentence for everything in which a part is not as its user, a file of ours, expects it."""
    for wrong in mismatches(part):
        yield f"{part.path} {wrong}; it {part.why} ({user})"


def mismatches(part: Part) -> Iterator[str]:
    """Everything in which a part is not as expected, in words that follow its path."""
    try:
        found = importlib.import_module(part.module)
    except Exception as error:  # noqa: BLE001 - whatever a module's import may raise
        yield f"cannot be imported ({type(error).__name__}: {' '.join(str(error).split())})"
        return
    reached = part.module
    for name in part.attribute.split(".") if part.attribute else ():
        if not hasattr(found, name):
            yield f"is not there: {reached} has no {name}"
            return
        found, reached = getattr(found, name), f"{reached}.{name}"
    yield from _call(part, found)
    has = _members(found)
    if missing := [name for name in part.names if name not in has]:
        yield f"has no {_listed(missing)}"
    if taken := [name for name in part.lacks if name in has]:
        yield f"has a {_listed(taken)} of its own"
    if missing := sorted({*part.sets} - _set_on_self(found)) if part.sets else []:
        yield f"nowhere sets self.{', self.'.join(missing)}"
    if part.abstract:
        wanted = set(getattr(found, "__abstractmethods__", ()))
        if more := sorted(wanted - {*part.abstract}):
            yield f"wants its subclasses to define {_listed(more)}, which ours does not"
        if fewer := sorted({*part.abstract} - wanted):
            yield f"no longer wants its subclasses to define {_listed(fewer)}"
    if part.texts:
        source = _squeezed(_source(found))
        for text in part.texts:
            if _squeezed(text) not in source:
                yield f"no longer says {text!r}"


def _call(part: Part, found: Any) -> Iterator[str]:
    """What is wrong with the parameters that a function, or the making of a class, takes."""
    if not (part.signature or part.passed):
        return
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        yield "can no longer be called, or not be asked what it takes"
        return
    if part.signature and (now := signature_of(found)) != part.signature:
        yield f"takes {now}, not {part.signature}"
    if not part.passed:
        return
    known = {parameter.name for parameter in parameters}
    unknown = [name for name in part.passed if name not in known]
    if unknown and not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        yield f"takes no {_listed(unknown)}"
    if wanted := [
        parameter.name
        for parameter in parameters
        if parameter.default is MISSING
        and parameter.kind not in TAKES_ALL
        and parameter.name not in ("self", *part.passed)
    ]:
        yield f"wants {_listed(wanted)}, which we do not pass"


def signature_of(function: Any) -> str:
    """A function's parameters with their defaults, without annotations and without Ray's own in an actor's method."""
    parameters = inspect.signature(function).parameters.values()
    plain = [p.replace(annotation=MISSING) for p in parameters if not p.name.startswith("_ray_")]
    return str(inspect.Signature(plain))


def _members(found: Any) -> set[Any]:
    """Names of what an object has; of a mapping or an enumeration of protobuf's also the keys."""
    has: set[Any] = set(dir(found))
    if not isinstance(found, type) and callable(getattr(found, "keys", None)):
        has |= set(found.keys())
    if dataclasses.is_dataclass(found):
        has |= {field.name for field in dataclasses.fields(found)}
    return has


def _set_on_self(found: Any) -> set[str]:
    """The names to which a class or a base of it assigns an attribute of self."""
    classes = [base for base in found.__mro__ if base is not object] if isinstance(found, type) else [found]
    stored: set[str] = set()
    for each in classes:
        for node in ast.walk(ast.parse(_source(each) or "pass")):
            if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
                continue
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                stored.add(node.attr)
    return stored


@functools.lru_cache(maxsize=256)
def _source(found: Any) -> str:
    """The source of a module, class or function; empty where there is none in Python."""
    try:
        return textwrap.dedent(inspect.getsource(found))
    except (OSError, TypeError):
        return ""


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _listed(names: list[Any]) -> str:
    return ", ".join(map(str, names))
