"""Who trains next, and with which gateway. A new one joins with one line in its dict and union."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from selection.alike import Alike, AlikeGradients, AlikeGradientsSection, AlikeSection
from selection.associators import (
    Nearest,
    NearestSection,
    Random,
    RandomSection,
    Shares,
    SharesSection,
)
from selection.divfl import Divfl, DivflSection
from selection.oort import Oort, OortSection
from selection.rfl_ha import RflHa, RflHaSection
from selection.simple import (
    HighLoss,
    HighLossSection,
    SelectAll,
    SelectAllSection,
    SelectRandom,
    SelectRandomSection,
    ShortLatency,
    ShortLatencySection,
)
from selection.tifl import Tifl, TiflSection
from selection.utility_ilp import (
    UtilityAssociation,
    UtilityAssociationSection,
    UtilitySelection,
    UtilitySelectionSection,
)

SELECTORS: dict[str, Any] = {
    "all": SelectAll,
    "random": SelectRandom,
    "high-loss": HighLoss,
    "short-latency": ShortLatency,
    "tifl": Tifl,
    "oort": Oort,
    "divfl": Divfl,
    "utility-ilp": UtilitySelection,
}
ASSOCIATORS: dict[str, Any] = {
    "nearest": Nearest,
    "random": Random,
    "shares": Shares,
    "rfl-ha": RflHa,
    "utility-ilp": UtilityAssociation,
    "alike": Alike,
    "alike-gradients": AlikeGradients,
}

SelectionSection = Annotated[
    SelectAllSection
    | SelectRandomSection
    | HighLossSection
    | ShortLatencySection
    | TiflSection
    | OortSection
    | DivflSection
    | UtilitySelectionSection,
    Field(discriminator="name"),
]
AssociationSection = Annotated[
    NearestSection
    | RandomSection
    | SharesSection
    | RflHaSection
    | UtilityAssociationSection
    | AlikeSection
    | AlikeGradientsSection,
    Field(discriminator="name"),
]
