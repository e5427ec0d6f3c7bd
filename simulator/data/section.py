"""The scenario's data section: which data, how much of it, and how devices share it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from simulator.data.catalog import CATALOG, EMBEDDED
from simulator.errors import unknown_name
from simulator.section import Section

Share = Annotated[float, Field(gt=0, le=1)]


class Iid(Section):
    """Every device gets the same number of samples (± 1), at random."""

    kind: Literal["iid"] = "iid"


class ClassesPerDevice(Section):
    """Every device gets k classes; a class is divided evenly among the devices that have it."""

    kind: Literal["classes-per-device"] = "classes-per-device"
    k: PositiveInt = 2
    """Classes on each device."""


class PrimarySecondary(Section):
    """Every device gets two classes in unequal shares, as in Async-HFL's own program."""

    kind: Literal["primary-secondary"] = "primary-secondary"
    share: Share = 0.8
    """Share of the primary class among a device's samples."""


class Dirichlet(Section):
    """LDA: every device draws its mix of classes from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: PositiveFloat
    """Concentration: small is one-sided, large is IID."""
    min_samples: PositiveInt = 1
    """Draw again until every device has at least as many samples."""


class Llt(Section):
    """Local long tail: one class dominates every device."""

    kind: Literal["llt"] = "llt"
    samples_per_device: PositiveInt = 200
    """HGA-FL's N_s."""
    share: Share = 0.9
    """HGA-FL's alpha_l: share of the dominating class."""


class Natural(Section):
    """Every device is one natural owner: a subject, a writer, a role, a station."""

    kind: Literal["natural"] = "natural"
    min_samples: PositiveInt = 1
    """Owners with fewer training samples are passed over."""


class Grouped(Section):
    """IID or Dirichlet between groups and within groups."""

    kind: Literal["grouped"] = "grouped"
    between: Literal["iid", "dirichlet"]
    """How groups share the data."""
    within: Literal["iid", "dirichlet"]
    """How the devices of a group share the group's data."""
    alpha: PositiveFloat = 0.1
    """Concentration wherever Dirichlet is chosen."""
    min_samples: PositiveInt = 1
    """Draw again until every device has at least as many samples."""


class DisjointGroups(Section):
    """Groups have no class in common; every device gets k of the classes of its group."""

    kind: Literal["disjoint-groups"] = "disjoint-groups"
    k: PositiveInt = 2
    """Classes on each device."""


Partition = Annotated[
    Iid
    | ClassesPerDevice
    | PrimarySecondary
    | Dirichlet
    | Llt
    | Natural
    | Grouped
    | DisjointGroups,
    Field(discriminator="kind"),
]


class DataSection(Section):
    name: str = EMBEDDED
    """Data set, as listed by ``meshfl list datasets``."""
    fraction: Share = 1.0
    """Share of the training samples that is used, drawn at random before the partition."""
    max_test_samples: PositiveInt | None = None
    """Evaluate on so many test samples, drawn at random; all of them when not set."""
    samples_per_device: PositiveInt | None = None
    """Keep at most so many samples on a device, drawn at random (without learning: 100)."""
    partition: Partition = Iid()
    """Who has which samples."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in CATALOG:
            raise ValueError(str(unknown_name("data set", name, CATALOG)))
        return name
