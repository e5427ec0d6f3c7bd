"""Lines of a command that somebody copies from."""

from __future__ import annotations

from rich.console import Console


def say(console: Console, text: str) -> None:
    """As it stands: a path is not broken at the terminal's width, and [brackets] are no markup."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
