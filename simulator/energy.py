"""What the devices of a run have used, where its network can tell."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from simulator.device_classes import ClassCompute
from simulator.kernel import Simulation
from simulator.network import ComputingNetwork, Energy
from simulator.recorder import ENERGY, write_parquet
from simulator.units import NodeId

_SCHEMA = pa.schema(
    [
        ("device", pa.string()), ("class", pa.string()),
        ("radio_j", pa.float64()), ("processor_j", pa.float64()),
    ]
)  # fmt: skip


def energy_of(sim: Simulation) -> dict[NodeId, Energy]:
    """By device, until now; empty when nobody measures."""
    network = sim.network
    return network.energy(sim.now) if isinstance(network, ComputingNetwork) else {}


def write_energy(sim: Simulation, used: dict[NodeId, Energy], folder: Path) -> None:
    """A row a device; no file when nobody measures."""
    if not used:
        return
    classes = sim.compute.names if isinstance(sim.compute, ClassCompute) else {}
    rows = [
        (sim.topology.nodes[device].name, classes.get(device), *energy)
        for device, energy in used.items()
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    write_parquet(folder / ENERGY, pa.table(columns, schema=_SCHEMA))


def totals(used: dict[NodeId, Energy]) -> dict[str, float | None]:
    """For the summary: of all devices, None where it is not known."""
    radio = [energy.radio_j for energy in used.values()]
    processor = [e.processor_j for e in used.values() if e.processor_j is not None]
    return {
        "energy_radio_j": sum(radio) if radio else None,
        "energy_processor_j": sum(processor) if processor else None,
    }
