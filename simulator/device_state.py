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


class Row:
    """A vector in a file, for as long as anybody has it: what is set later goes elsewhere."""

    __slots__ = ("_number", "file")

    def __init__(self, file: VectorFile, number: int) -> None:
        self.file = file
        self._number = number

    def __del__(self) -> None:
        self.file.free.append(self._number)

    def raw(self) -> np.ndarray:
        """The vector where it lies, to be read at once."""
        row: np.ndarray = self.file.rows[self._number]
        return row

    def read(self) -> torch.Tensor:
        return torch.from_numpy(self.raw().copy())


Vector = torch.Tensor | Row


def read(vector: Vector) -> torch.Tensor:
    return vector.read() if isinstance(vector, Row) else vector


class VectorFile:
    """Vectors of one length, where they take no memory."""

    def __init__(self, length: int) -> None:
        self.rows = np.empty((0, length), np.float32)
        self.free: list[int] = []
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="meshfl-")  # noqa: SIM115

    def put(self, vector: np.ndarray) -> Row:
        if not self.free:
            self._grow()
        row = Row(self, self.free.pop())
        row.raw()[:] = vector
        return row

    def _grow(self) -> None:
        """Twice the rows; parts of the file that were never written take no place on disk."""
        before, length = self.rows.shape
        rows = max(2 * before, _FIRST_ROWS)
        self._file.truncate(4 * rows * length)
        self.rows = np.memmap(self._file, np.float32, "r+", shape=(rows, length))
        self.free.extend(reversed(range(before, rows)))


class DeviceState(MutableMapping[NodeId, torch.Tensor]):
    """From device to vector, in the order in which devices first got one.

    Vectors are immutable, as models are: what is got is never changed by what is set later.
    All are float32 and of one length. ``simulator.state`` saves it like any plain value.
    """

    def __init__(self, most_bytes: int = 2**28) -> None:
        self.most_bytes = most_bytes
        """Beyond it vectors go to the file."""
        self._vectors: dict[NodeId, Vector] = {}
        self._held_bytes = 0
        self._length: int | None = None
        self._file: VectorFile | None = None

    @classmethod
    def restored(cls, most_bytes: int, vectors: dict[NodeId, Vector]) -> DeviceState:
        """As it was, with the same ones in the file."""
        state = cls(most_bytes)
        state._vectors = vectors
        for vector in vectors.values():
            if isinstance(vector, Row):
                state._file, state._length = vector.file, vector.file.rows.shape[1]
            else:
                state._held_bytes += vector.nbytes
                state._length = len(vector)
        return state

    @property
    def spilled(self) -> int:
        """How many vectors are in the file."""
        return sum(isinstance(vector, Row) for vector in self._vectors.values())

    def kept(self, device: NodeId) -> Vector | None:
        """The device's vector as it is now, wherever it lies: to be held without a copy."""
        return self._vectors.get(device)

    def __getitem__(self, device: NodeId) -> torch.Tensor:
        return read(self._vectors[device])

    def __setitem__(self, device: NodeId, vector: torch.Tensor) -> None:
        self._check(device, vector)
        before, nbytes = self._vectors.get(device), vector.nbytes
        if isinstance(before, torch.Tensor):
            self._vectors[device] = vector
        elif before is None and self._held_bytes + nbytes <= self.most_bytes:
            self._vectors[device] = vector
            self._held_bytes += nbytes
        else:
            self._file = self._file or VectorFile(len(vector))
            self._vectors[device] = self._file.put(vector.numpy())

    def __delitem__(self, device: NodeId) -> None:
        vector = self._vectors.pop(device)
        if isinstance(vector, torch.Tensor):
            self._held_bytes -= vector.nbytes

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._vectors)

    def __len__(self) -> int:
        return len(self._vectors)

    def _check(self, device: NodeId, vector: torch.Tensor) -> None:
        self._length = len(vector) if self._length is None else self._length
        if vector.dtype != torch.float32 or vector.shape != (self._length,):
            raise ValueError(
                f"the state of device {device} is {vector.dtype} of shape {tuple(vector.shape)}; "
                f"all must be torch.float32 of shape {(self._length,)}"
            )
