"""Ctrl-C goes to all processes of a terminal; it is meant for the run, which ends the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def withheld(*signals: signal.Signals) -> Iterator[None]:
    """Processes that are started here never get these signals, not even before their first line.

    This thread gets at the end what came meanwhile.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def withheld_from_workers(*signals: signal.Signals) -> Iterator[None]:
    """The same for multiprocessing, whose tracker, when it starts, lets signals through again."""
    resource_tracker.ensure_running()
    with withheld(*signals):
        yield
