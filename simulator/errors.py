"""The one error that people see: bad input, told with value, bound, place and remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 30


class UserError(Exception):
    """Something the user gave is wrong. The command line prints it alone and exits with 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A closing phrase for errors about a name: the nearest known one, or all of them."""
    known = sorted(known)
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", ..." if len(known) > _MOST else ""
    if any("," in name for name in known):
        known = [repr(name) for name in known]
    return f"known: {', '.join(known[:_MOST]) or 'none'}{more}"


def unknown_name(what: str, word: str, known: Iterable[str]) -> UserError:
    return UserError(f"unknown {what} {word!r}; {did_you_mean(word, known)}")
