"""The event loop, the networks, the learner, and what a person sees of them.

From Python: ``from simulator import Results, Scenario, run``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.api import run
    from simulator.errors import UserError
    from simulator.results import Results
    from simulator.scenario import Scenario

if not os.environ.get("MKL_CBWR"):
    # MKL reads it when a process first computes. Otherwise results of fewer than eight columns are
    # rounded by their place in memory, and a job's bits would depend on its company.
    os.environ["MKL_CBWR"] = "AUTO"

__all__ = ["Results", "Scenario", "UserError", "run"]
_PLACES = {"Results": "results", "Scenario": "scenario", "UserError": "errors", "run": "api"}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: every module here imports this package."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
