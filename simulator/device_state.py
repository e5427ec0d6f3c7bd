"""A vector for each device that has one, as FedDyn and SCAFFOLD need; most of them on disk.

The first ones stay in memory, up to a limit in bytes; the others are rows of a memory-mapped file
in the system's folder for temporary files ($TMPDIR). It has no name there: it is gone with the
object, or with the process, however that ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, MutableMapping
from typing import IO

import numpy as np
import torch

from simulator.units import NodeId

_FIRST_ROWS = 64


class DeviceState(MutableMapping[NodeId, torch.Tensor]):
    """From device to vector, in the order in which devices first got one.

    Vectors are immutable, as models are: what is got is never changed by what is set later.
    All are float32 and of one length. ``simulator.state`` saves it like any plain value.
    """

    def __init__(self, most_bytes: int = 2**28) -> None:
        self.most_bytes = most_bytes
        """Beyond it vectors go to the file."""
        self._places: dict[NodeId, torch.Tensor | int] = {}
        """The vector, or its row."""
        self._free: list[int] = []
        self._held_bytes = 0
        self._length: int | None = None
        self._file: IO[bytes] | None = None
        self._rows = np.empty((0, 0), np.float32)

    @property
    def spilled(self) -> int:
        """How many vectors are in the file."""
        return sum(isinstance(place, int) for place in self._places.values())

    def raw(self, device: NodeId) -> np.ndarray:
        """The vector where it lies, to be read at once."""
        place = self._places[device]
        return self._rows[place] if isinstance(place, int) else place.numpy()

    def __getitem__(self, device: NodeId) -> torch.Tensor:
        place = self._places[device]
        return torch.from_numpy(self._rows[place].copy()) if isinstance(place, int) else place

    def __setitem__(self, device: NodeId, vector: torch.Tensor) -> None:
        self._check(device, vector)
        before, nbytes = self._places.get(device), vector.nbytes
        if isinstance(before, torch.Tensor):
            self._places[device] = vector
        elif before is None and self._held_bytes + nbytes <= self.most_bytes:
            self._places[device] = vector
            self._held_bytes += nbytes
        else:
            row = self._new_row() if before is None else before
            self._places[device] = row
            self._rows[row] = vector.numpy()

    def __delitem__(self, device: NodeId) -> None:
        place = self._places.pop(device)
        if isinstance(place, int):
            self._free.append(place)
        else:
            self._held_bytes -= place.nbytes

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _check(self, device: NodeId, vector: torch.Tensor) -> None:
        self._length = len(vector) if self._length is None else self._length
        if vector.dtype != torch.float32 or vector.shape != (self._length,):
            raise ValueError(
                f"the state of device {device} is {vector.dtype} of shape {tuple(vector.shape)}; "
                f"all must be torch.float32 of shape {(self._length,)}"
            )

    def _new_row(self) -> int:
        if not self._free:
            self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        """Twice the rows; parts of the file that were never written take no place on disk."""
        assert self._length is not None
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="meshfl-")  # noqa: SIM115
        before = len(self._rows)
        rows = max(2 * before, _FIRST_ROWS)
        shape = rows, self._length
        self._file.truncate(4 * rows * self._length)
        self._rows = np.memmap(self._file, np.float32, "r+", shape=shape)
        self._free.extend(reversed(range(before, rows)))
