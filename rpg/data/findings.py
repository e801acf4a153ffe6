"""What a check found: by file, row and column, each with its remedy; counted, and shown in part."""

from collections.abc import Iterator
from dataclasses import dataclass, field

SHOWN_ROWS = 5


@dataclass(frozen=True)
class Issue:
    """One thing wrong with one row: where, what, and what to do. Warnings do not stop a training."""

    column: str
    what: str
    remedy: str
    is_error: bool = True


def warning(column: str, what: str, remedy: str) -> Issue:
    """Return an Issue that does not stop a training."""
    return Issue(column, what, remedy, is_error=False)


@dataclass
class _Group:
    is_error: bool
    column: str
    remedy: str
    count: int = 0
    shown: list[str] = field(default_factory=list)


@dataclass
class Findings:
    """All issues of one file, grouped by column and remedy, so that a million rows stay readable."""

    groups: dict[tuple[str, str], _Group] = field(default_factory=dict)

    def add(self, issue: Issue, row: int | None = None) -> None:
        """Record `issue`, of one row or, without a row, of the whole file."""
        key = (issue.column, issue.remedy)
        group = self.groups.setdefault(key, _Group(issue.is_error, issue.column, issue.remedy))
        group.count += 1
        if len(group.shown) < SHOWN_ROWS:
            group.shown.append(f"{'all rows' if row is None else f'row {row}'}, {issue.column}: {issue.what}")

    def count(self, errors: bool, column: str | None = None) -> int:
        """Return how many errors, or warnings, there are, in all columns or in one."""
        groups = (group for group in self.groups.values() if column in (None, group.column))
        return sum(group.count for group in groups if group.is_error == errors)

    def lines(self) -> Iterator[str]:
        """Yield the findings as text, errors first, at most five rows of a kind and then their number."""
        for group in sorted(self.groups.values(), key=lambda group: not group.is_error):
            label = "error" if group.is_error else "warning"
            for text in group.shown:
                yield f"  {label}: {text}"
            if group.count > len(group.shown):
                yield f"  {label}: and {group.count - len(group.shown)} more of this kind in {group.column}"
            yield f"    -> {group.remedy}"
