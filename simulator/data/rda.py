"""Read the data frames of an .rda file: R's serialisation in XDR, compressed.

Only what a saved data frame of numbers, strings and factors is made of.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np

from simulator.data.samples import reading

_OPENERS = {b"\x1f\x8b": gzip.decompress, b"BZ": bz2.decompress, b"\xfd7": lzma.decompress}
_SYMBOL, _PAIR, _CHARS, _LOGICAL, _INT, _REAL, _STRINGS, _LIST = 1, 2, 9, 10, 13, 14, 16, 19
_NIL, _REFERENCE = 254, 255


def read_rda(path: Path) -> dict[str, dict[str, Any]]:
    """Data frames by name, each a dict of its columns. Lists of other kinds are left out."""
    with reading(path):
        raw = path.read_bytes()
        raw = _OPENERS.get(raw[:2], bytes)(raw)
        if raw[:7] not in (b"RDX2\nX\n", b"RDX3\nX\n"):
            raise ValueError(f"an .rda file starts with RDX2 or RDX3, this with {raw[:4]!r}")
        reader = _Reader(raw, position=7)
        version, _, _ = reader.ints(3)
        if version == 3:
            reader.take(reader.integer())  # the name of the native encoding
        objects = dict(reader.item())
        return {name: item for name, item in objects.items() if isinstance(item, dict)}


class _Reader:
    def __init__(self, raw: bytes, position: int) -> None:
        self.raw, self.position = raw, position
        self.symbols: list[Any] = []

    def take(self, length: int) -> bytes:
        start, self.position = self.position, self.position + length
        if length < 0 or self.position > len(self.raw):
            raise EOFError(f"ends after {len(self.raw)} bytes, {self.position} are needed")
        return self.raw[start : self.position]

    def ints(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}i", self.take(4 * count))

    def integer(self) -> int:
        return self.ints(1)[0]

    def item(self) -> Any:
        """The next object; a pair list as a list of (tag, value), a named list as a dict."""
        flags = self.integer()
        kind, has_attributes, has_tag = flags & 255, flags & 512, flags & 1024
        if kind == _NIL:
            return []
        if kind == _REFERENCE:
            return self.symbols[(flags >> 8) - 1]
        if kind == _SYMBOL:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == _PAIR:
            return self._pairs(has_attributes, has_tag)
        if kind == _CHARS:
            length = self.integer()
            return None if length < 0 else self.take(length).decode("utf-8", "replace")
        value = self._vector(kind, self.integer())
        attributes = dict(self.item()) if has_attributes else {}
        return (
            dict(zip(attributes["names"], value, strict=True)) if "names" in attributes else value
        )

    def _pairs(self, has_attributes: int, has_tag: int) -> list[tuple[Any, Any]]:
        if has_attributes:
            self.item()
        tag = self.item() if has_tag else None
        first = (tag, self.item())
        return [first, *self.item()]

    def _vector(self, kind: int, length: int) -> Any:
        if kind in (_INT, _LOGICAL):
            return np.frombuffer(self.take(4 * length), ">i4").astype(np.int64)
        if kind == _REAL:
            return np.frombuffer(self.take(8 * length), ">f8").astype(np.float64)
        if kind in (_STRINGS, _LIST):
            return [self.item() for _ in range(length)]
        raise ValueError(f"R objects of type {kind} are not read")
