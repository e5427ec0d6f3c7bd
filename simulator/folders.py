"""Folders that results go to: made before the work, and written by one process at a time."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulator.errors import UserError


class FolderBusy(UserError):
    """Wait, and try again."""


@contextmanager
def alone_in(folder: Path, doing: str, wait: bool = False) -> Iterator[None]:
    """Two processes that write into one folder would spoil it."""
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise FolderBusy(f"{folder}: another process is {doing}; wait for it") from None
        if not os.fstat(place).st_nlink:  # the one before removed it when it was done
            raise FolderBusy(f"{folder}: another process has just ended {doing}; try again")
        yield
    finally:
        os.close(place)


def make_folder(folder: Path, wanted: Path) -> None:
    """See before the work that ``wanted``, which lies in the folder or is it, can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}"
        raise UserError(f"{wanted}: cannot be made ({reason}); choose another --out") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{wanted}: {folder} may not be written to; choose another --out")


def slug(name: str) -> str:
    """A name as that of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "variant"
