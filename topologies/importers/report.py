"""What became of the records of an imported file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Problem:
    example: str
    """The first case."""
    count: int = 0


@dataclass
class ImportReport:
    """Every record of a file is kept, or dropped for one reason."""

    kept: Counter[str] = field(default_factory=Counter)
    """By what they are: nodes, links, ..."""
    dropped: dict[tuple[str, str], Problem] = field(default_factory=dict)
    """By what they are and why."""
    assumed: dict[str, Problem] = field(default_factory=dict)
    """What the file does not say and the topology needs."""

    def drop(self, what: str, why: str, example: object) -> None:
        self.dropped.setdefault((what, why), Problem(_short(example))).count += 1

    def assume(self, what: str, example: object) -> None:
        self.assumed.setdefault(what, Problem(_short(example))).count += 1

    def seen(self, what: str) -> int:
        gone = sum(p.count for (kind, _), p in self.dropped.items() if kind == what)
        return self.kept[what] + gone


def _short(example: object) -> str:
    text = str(example)
    return text if len(text) <= 80 else text[:77] + "..."
