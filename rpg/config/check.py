"""The types of a check and of a refusal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from rpg.config.run_config import RunConfig
from rpg.data.diagnostics import Diagnostic

# cheap: does not import verl, a second in total; verl: calls verl, whose import takes seconds; thorough: reads all
# rows, loads the tokenizer, starts processes
Cost = Literal["cheap", "verl", "thorough"]
# what a check depends on; files and machine of a submitted run are the cluster's
Subject = Literal["settings", "files", "machine"]
SUBJECTS: tuple[Subject, ...] = ("settings", "files", "machine")
CHEAP_OR_VERL: tuple[Cost, ...] = ("cheap", "verl")  # costs of the checks that a run passes before Ray starts
MARKS = {"ok": "ok  ", "warning": "warn", "error": "FAIL", "skip": "skip"}


class Refused(ValueError):
    """The run cannot work; `diagnostics` has the reasons and remedies."""

    def __init__(self, diagnostics: list[Diagnostic]):
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: short and unique.
        rule: the condition that must hold, one sentence.
        ask: yields diagnostics; none if the rule holds.
    """

    name: str
    rule: str
    cost: Cost
    subject: Subject
    ask: Callable[[RunConfig], Iterator[Diagnostic]] = field(repr=False)

    def __call__(self, run: RunConfig) -> Iterator[Diagnostic]:
        """Return the check's findings for a run."""
        return self.ask(run)


def check(
    name: str, rule: str, cost: Cost = "cheap", subject: Subject = "settings"
) -> Callable[[Callable[[RunConfig], Iterator[Diagnostic]]], Check]:
    """Decorate a function as a Check with these fields; preflight.CHECKS lists them all."""
    return lambda ask: Check(name, rule, cost, subject, ask)
