"""Many runs, each in a folder of its own: on this machine or on a cluster, watched as they go.

Engines carry tasks out, all of them by ``work.perform``: runs do not depend on where they ran. What
a run tells on its way goes through notes, small files in the sweep's folder, which also end the
runs of a sweep that is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from simulator.errors import UserError

if TYPE_CHECKING:
    from simulator.sweeps.work import Task


class Engine(Protocol):
    def execute(self, tasks: Sequence[Task], jobs: int | None) -> list[str]:
        """Carry out all of them, ``jobs`` at a time; what went wrong with each, if anything.

        Without ``jobs``, as many at a time as there is room for.
        """
        ...


def engine_named(name: str, address: str | None = None, slurm: Sequence[str] = ()) -> Engine:
    """By its name on the command line."""
    if address is not None and name not in ("ray", "dask"):
        raise UserError(f"--address {address}: is for --engine ray and dask, not {name}")
    if slurm and name != "slurm":
        raise UserError(f"--slurm {slurm[0]}: is for --engine slurm, not {name}")
    if name == "slurm":
        from simulator.sweeps.slurm import SlurmEngine

        return SlurmEngine(slurm)
    if name == "ray":
        from simulator.sweeps.cluster import RayEngine

        return RayEngine(address)
    if name == "dask":
        from simulator.sweeps.cluster import DaskEngine

        return DaskEngine(address)
    from simulator.sweeps.local import LocalEngine

    return LocalEngine()
