"""Putting a file where the user wants it, whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from simulator.errors import UserError


def write_whole(out: Path, text: str) -> Path:
    check_place(out)
    partial = out.with_name(f".{out.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(out)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise UserError(f"{out}: cannot be written ({error.strerror}); choose another -o") from None
    return out


def check_place(out: Path) -> None:
    """Before the work."""
    if out.is_dir():
        raise UserError(f"{out}: is a folder; name a file")
    if not out.parent.is_dir():
        raise UserError(f"{out}: there is no folder {out.parent}; make it, or choose another -o")
