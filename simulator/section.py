"""Base of every scenario section: frozen, complete, and strict about unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

LONGEST_S = 1e9
"""Thirty years: no time of a scenario may be longer."""
SHORTEST_S = 1e-6
"""No deadline may be shorter: one of less than a nanosecond rings for ever at one instant."""


class Section(BaseModel):
    """A table of the scenario file. Field descriptions are printed by ``meshfl show``."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
