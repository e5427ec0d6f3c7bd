"""Who trains next, and with which gateway. A new one joins with one line in its dict and union."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from selection.associators import Nearest, NearestSection, Random, RandomSection
from selection.selectors import SelectAll, SelectAllSection, SelectRandom, SelectRandomSection

SELECTORS: dict[str, Any] = {
    "all": SelectAll,
    "random": SelectRandom,
}
ASSOCIATORS: dict[str, Any] = {
    "nearest": Nearest,
    "random": Random,
}

SelectionSection = Annotated[SelectAllSection | SelectRandomSection, Field(discriminator="name")]
AssociationSection = Annotated[NearestSection | RandomSection, Field(discriminator="name")]
