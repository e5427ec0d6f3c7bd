"""Devices as machines: how long a job takes follows from the model, the samples and the class.

A job of so many samples is so many floating-point operations, on all cores of its device, at the
class's sustained rate, times a log-normal of mean 1. Left out: memory and its bandwidth (a model
that does not fit is trained all the same), heat, and how small batches waste wide processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from simulator.compute import MayDropOut, drops_out, rng_of
from simulator.errors import UserError, unknown_name
from simulator.section import LONGEST_S, Section
from simulator.units import NodeId, Time, to_ns


class DeviceClass(Section):
    gflops: float = Field(gt=0)
    """Billions of operations per second that one core sustains in training."""
    cores: int = Field(ge=1)
    """Cores that a job uses."""
    idle_w: float = Field(ge=0)
    """Power draw while no job runs, radio not included."""
    busy_w: float = Field(ge=0)
    """Power draw while a job runs, radio not included."""


CLASSES: dict[str, DeviceClass] = {
    # All of these are of a plausible order, none was measured.
    # Four Cortex-A72 at 1.5 GHz: 48 Gflop/s peak in single precision, a sixth of it in training.
    "raspberry-pi-4": DeviceClass(gflops=2.0, cores=4, idle_w=2.4, busy_w=6.4),
    # The four large cores of a mid-range phone, held to the 3 to 4 W that its case can lose.
    "phone": DeviceClass(gflops=4.0, cores=4, idle_w=0.3, busy_w=3.5),
    # A Cortex-M7 at 480 MHz: one multiply-add per cycle at best, a tenth of it from flash memory.
    "microcontroller": DeviceClass(gflops=0.1, cores=1, idle_w=0.05, busy_w=0.4),
    # 16 cores with AVX2 at 2.5 GHz: 80 Gflop/s peak each, a quarter of it in training.
    "small-server": DeviceClass(gflops=20.0, cores=16, idle_w=50.0, busy_w=180.0),
}


class ClassDelay(MayDropOut):
    """Operations of the job by the rate of the device's class, times a log-normal of mean 1."""

    kind: Literal["classes"]
    sigma: float = Field(0.0, ge=0, le=10)
    """Of the log-normal, drawn for every job; 0: a device always takes the same time."""
    mix: dict[str, PositiveFloat] = Field({"raspberry-pi-4": 1.0}, min_length=1)
    """Shares of the classes; each device draws its class. `meshfl list device-classes` tells the
    built-in ones."""
    classes: dict[str, DeviceClass] = Field({})
    """Classes of your own, each with gflops (per core), cores, idle_w and busy_w."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        known = CLASSES | self.classes
        for name in self.mix:
            if name not in known:
                raise ValueError(f"mix: {unknown_name('device class', name, known)}")
        return self


def draw_classes(section: ClassDelay, devices: Sequence[NodeId], seed: int) -> dict[NodeId, str]:
    """Each device's class: a function of the seed, the device and the mix."""
    names = sorted(section.mix)
    shares = np.array([section.mix[name] for name in names])
    shares /= shares.sum()
    return {d: str(rng_of(seed, d, 0).choice(names, p=shares)) for d in devices}


class ClassCompute:
    def __init__(
        self, section: ClassDelay, devices: Sequence[NodeId], seed: int, flops_per_sample: float
    ) -> None:
        self._section = section
        self._seed = seed
        self._flops = flops_per_sample
        self._known = CLASSES | section.classes
        self.names = draw_classes(section, devices, seed)
        """The class of each device."""

    def class_of(self, node: NodeId) -> DeviceClass:
        return self._known[self.names[node]]

    def duration(self, node: NodeId, count: int, steps: int, samples: int) -> Time | None:
        section = self._section
        rng = rng_of(self._seed, node, 1 + count)
        if drops_out(section, rng):
            return None
        factor = float(rng.lognormal(-(section.sigma**2) / 2, section.sigma))
        seconds = self._seconds(node, samples) * factor
        if seconds > LONGEST_S:
            raise UserError(
                f"[compute] a job of {samples} samples takes {seconds:.3g} s on class "
                f"{self.names[node]!r}, at most {LONGEST_S:g} s can be simulated; raise its "
                "gflops or choose a smaller model"
            )
        return to_ns(seconds)

    def estimate(self, node: NodeId, steps: int, samples: int) -> Time:
        return to_ns(self._seconds(node, samples))

    def _seconds(self, node: NodeId, samples: int) -> float:
        own = self.class_of(node)
        return self._flops * samples / (1e9 * own.gflops * own.cores)
