"""How long devices compute: per device, from a distribution or a file.

Leaves out what a device does besides: two jobs at once never run on one device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from simulator.errors import UserError
from simulator.rng import Stream, generator
from simulator.section import LONGEST_S, Section
from simulator.units import NodeId, Time, to_ns


class MayDropOut(Section):
    dropout_probability: float = Field(0.0, ge=0, lt=1)
    """Chance that a device never finishes a job that it has begun; such runs need a timeout."""


class _Delay(MayDropOut):
    per: Literal["round", "step", "sample"] = "round"
    """The delay is that of a whole job, of one local step, or of one sample read."""


class ConstantDelay(_Delay):
    """Always the same time."""

    kind: Literal["constant"] = "constant"
    delay_s: float = Field(0.0, ge=0, le=LONGEST_S)
    """The same for every device."""


class _Drawn(_Delay):
    drawn: Literal["device", "job"] = "device"
    """A device has one delay for the whole run, or draws one for every job."""


class LogNormalDelay(_Drawn):
    """min(shift + lognormal(mu, sigma), cap); Async-HFL's files: 4, 3, 30 s, 15000 s."""

    kind: Literal["lognormal"]
    mu: float = Field(4.0, ge=-100, le=100)
    """Mean of the logarithm of the time in seconds."""
    sigma: float = Field(3.0, ge=0, le=10)
    """Standard deviation of that logarithm."""
    shift_s: float = Field(30.0, ge=0, le=LONGEST_S)
    """Added to what is drawn."""
    cap_s: float = Field(15000.0, gt=0, le=LONGEST_S)
    """The most that comes out."""


class ExponentialDelay(_Drawn):
    """shift + Exp(mean)"""

    kind: Literal["exponential"]
    shift_s: float = Field(0.0, ge=0, le=LONGEST_S)
    """The least that comes out."""
    mean_s: float = Field(1.0, ge=0, le=LONGEST_S)
    """Of the exponential part."""


class FileDelay(_Delay):
    """Delays from a file, one for each device."""

    kind: Literal["file"]
    path: Path
    """One delay in seconds a line, one line a device, in the topology's order."""


ComputeSection = Annotated[
    ConstantDelay | LogNormalDelay | ExponentialDelay | FileDelay, Field(discriminator="kind")
]


class DeviceCompute:
    def __init__(
        self, section: ComputeSection, devices: Sequence[NodeId], seed: int, base: Path
    ) -> None:
        self._section = section
        self._seed = seed
        self._fixed: dict[NodeId, float] = {}
        match section:
            case FileDelay(path=path):
                delays = read_delays(base / path, len(devices))
                self._fixed = dict(zip(devices, delays, strict=True))
            case ConstantDelay(delay_s=delay_s):
                self._fixed = dict.fromkeys(devices, delay_s)
            case _ if section.drawn == "device":
                self._fixed = {d: _draw(section, rng_of(seed, d, 0)) for d in devices}

    def duration(self, node: NodeId, count: int, steps: int, samples: int) -> Time | None:
        section = self._section
        drawn = isinstance(section, _Drawn) and section.drawn == "job"
        if section.dropout_probability or drawn:
            rng = rng_of(self._seed, node, 1 + count)
            if drops_out(section, rng):
                return None
        delay = _draw(section, rng) if drawn else self._fixed[node]
        return self._in_all(delay, steps, samples)

    def estimate(self, node: NodeId, steps: int, samples: int) -> Time:
        """What the device always takes; of delays drawn for every job, a typical one."""
        delay = self._fixed[node] if self._fixed else _typical(self._section)
        return self._in_all(delay, steps, samples)

    def _in_all(self, delay: float, steps: int, samples: int) -> Time:
        return to_ns(delay * {"round": 1, "step": steps, "sample": samples}[self._section.per])


def rng_of(seed: int, node: NodeId, count: int) -> np.random.Generator:
    """Count 0 is for what a device keeps, 1 and so on for its jobs."""
    return generator(seed, Stream.COMPUTE, node, count)


def drops_out(section: MayDropOut, rng: np.random.Generator) -> bool:
    return bool(rng.random() < section.dropout_probability)


def _draw(section: object, rng: np.random.Generator) -> float:
    match section:
        case LogNormalDelay(mu=mu, sigma=sigma, shift_s=shift_s, cap_s=cap_s):
            return min(shift_s + float(rng.lognormal(mu, sigma)), cap_s)
        case ExponentialDelay(shift_s=shift_s, mean_s=mean_s):
            return shift_s + float(rng.exponential(mean_s))
    raise TypeError(section)


def _typical(section: object) -> float:
    """The median of a log-normal, the mean of an exponential."""
    match section:
        case LogNormalDelay(mu=mu, shift_s=shift_s, cap_s=cap_s):
            return min(shift_s + math.exp(mu), cap_s)
        case ExponentialDelay(shift_s=shift_s, mean_s=mean_s):
            return shift_s + mean_s
    raise TypeError(section)


def read_delays(path: Path, count: int) -> list[float]:
    try:
        lines = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot read compute delays ({error})") from None
    delays = []
    for number, line in enumerate(lines, 1):
        try:
            delay = float(line)
        except ValueError:
            raise UserError(f"{path}, line {number}: {line!r} is not a number") from None
        if not 0 <= delay <= LONGEST_S:  # nan neither
            bounds = f"0 to {LONGEST_S:g} s"
            raise UserError(f"{path}, line {number}: delay {line} must be within {bounds}")
        delays.append(delay)
    if len(delays) != count:
        raise UserError(f"{path}: {len(delays)} delays for {count} devices; one line a device")
    return delays
