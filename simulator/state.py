"""Plain data to one file and back, without pickle: checkpoints that people may exchange.

Knows None, bool, int, float, str, list, tuple, dict, tensors, arrays, instances of dataclasses,
NamedTuples and Sections, Updates and DeviceStates. Tensors, and rows of files, are written once
however often they are referred to, and come back shared by reference. Anything else is a
programmer's error.

A file names classes, and only classes of modules that are loaded already are looked up:
reading a checkpoint imports nothing, and no constructor of a dataclass runs.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from simulator.device_state import DeviceState, Row, VectorFile
from simulator.errors import UserError
from simulator.events import Job, Result, Update
from simulator.section import Section

FORMAT = "meshfl-state-2"


def save_state(path: Path, value: object) -> None:
    """Write atomically: after a kill the file is the old one or the new one."""
    encoder = _Encoder()
    text = json.dumps(encoder.encode(value), separators=(",", ":")).encode()
    arrays = {f"a{i}": a for i, a in enumerate(encoder.arrays)}
    arrays["json"] = np.frombuffer(text, dtype=np.uint8)
    digest = _digest(sorted(arrays.items()))
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        _write(file, arrays, {"format": FORMAT, "sha256": digest})
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load_state(path: Path, train: Callable[[Job], Update]) -> Any:
    """``train`` makes the updates anew that were not computed when they were saved."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata, names = file.metadata() or {}, sorted(file.keys())
            digest = _digest((name, file.get_tensor(name)) for name in names)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged ({error}); delete it to start afresh") from None
    if metadata.get("format") != FORMAT:
        raise UserError(f"{path}: format {metadata.get('format')!r}, this version reads {FORMAT!r}")
    if digest != metadata.get("sha256"):
        raise UserError(f"{path}: damaged (checksum differs); delete it to start afresh")
    with safe_open(path, framework="numpy") as file:
        text = bytes(file.get_tensor("json"))
        return _Decoder(file.get_tensor, train).decode(json.loads(text))


def _write(file: IO[bytes], arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """As safetensors would, but one array after the other: they need not be in memory at once."""
    header: dict[str, Any] = {"__metadata__": metadata}
    ordered = sorted(arrays, key=lambda name: -arrays[name].itemsize)  # so that all are aligned
    end = 0
    for name in ordered:
        array, begin = arrays[name], end
        end += array.nbytes
        kind = f"{array.dtype.kind}{8 * array.itemsize}".upper()
        header[name] = {
            "dtype": {"B8": "BOOL"}.get(kind, kind),
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in ordered:
        file.write(arrays[name].view(np.uint8).data)


def _digest(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays:
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


class _Encoder:
    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._place: dict[int, int] = {}
        self._keep: list[object] = []  # ids stay unique only while the objects live

    def encode(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind in _SCALARS:
            return value
        match value:
            case list():
                return [self.encode(v) for v in value]
            case dict():
                return {"$dict": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
            case tuple() if hasattr(value, "_fields"):  # before what takes longer to tell apart
                fields = dict(zip(value._fields, value, strict=True))
            case tuple():
                return {"$tuple": [self.encode(v) for v in value]}
            case torch.Tensor():
                return {"$tensor": self._array(value)}
            case np.ndarray():
                return {"$array": self._array(value)}
            case Row():
                return {"$row": self._array(value)}
            case DeviceState():
                vectors = [[device, self.encode(value.kept(device))] for device in value]
                return {"$device_state": [value.most_bytes, vectors]}
            case Update():
                result = tuple(value.result) if value.is_computed else None
                return {"$update": [self.encode(value.job), self.encode(result)]}
            case Section():
                return {"$type": _type_name(value), "section": value.model_dump(mode="json")}
            case _ if hasattr(kind, "__dataclass_fields__"):
                fields = {name: getattr(value, name) for name in _field_names(kind)}
            case _:
                raise TypeError(f"cannot save {type(value).__qualname__}: {value!r:.80}")
        encoded = {name: self.encode(v) for name, v in fields.items()}
        return {"$type": _type_name(value), "fields": encoded}

    def _array(self, value: torch.Tensor | Row | np.ndarray) -> int:
        if id(value) not in self._place:
            self._place[id(value)] = len(self.arrays)
            self._keep.append(value)
            match value:
                case torch.Tensor():
                    array = value.detach().numpy()
                case Row():
                    array = value.raw()
                case _:
                    array = value
            self.arrays.append(np.ascontiguousarray(array))
        return self._place[id(value)]


class _Decoder:
    def __init__(self, read: Callable[[str], np.ndarray], train: Callable[[Job], Update]) -> None:
        self._read = read
        self._train = train
        self._tensors: dict[int, torch.Tensor] = {}
        self._arrays: dict[int, np.ndarray] = {}
        self._rows: dict[int, Row] = {}
        self._files: dict[int, VectorFile] = {}
        """By length."""

    def decode(self, value: Any) -> Any:
        match value:
            case list():
                return [self.decode(v) for v in value]
            case {"$dict": pairs}:
                return {self.decode(k): self.decode(v) for k, v in pairs}
            case {"$tuple": items}:
                return tuple(self.decode(v) for v in items)
            case {"$tensor": place}:
                if place not in self._tensors:
                    self._tensors[place] = torch.from_numpy(self._read(f"a{place}").copy())
                return self._tensors[place]
            case {"$row": place}:
                if place not in self._rows:
                    self._rows[place] = self._row(place)
                return self._rows[place]
            case {"$array": place}:
                if place not in self._arrays:
                    self._arrays[place] = self._read(f"a{place}")
                return self._arrays[place]
            case {"$device_state": [most_bytes, vectors]}:
                kept = {device: self.decode(vector) for device, vector in vectors}
                return DeviceState.restored(most_bytes, kept)
            case {"$update": [job, result]}:
                update = self._train(self.decode(job))
                if result is not None:
                    update.take(Result(*self.decode(result)))
                return update
            case {"$type": name, "section": content}:
                return _find_type(name).model_validate(content)
            case {"$type": name, "fields": fields}:
                return self._build(_find_type(name), fields)
            case _:
                return value

    def _row(self, place: int) -> Row:
        vector = self._read(f"a{place}")
        if len(vector) not in self._files:
            self._files[len(vector)] = VectorFile(len(vector))
        return self._files[len(vector)].put(vector)

    def _build(self, kind: Any, fields: dict[str, Any]) -> Any:
        decoded = {name: self.decode(v) for name, v in fields.items()}
        if issubclass(kind, tuple):
            return kind(**decoded)
        instance = object.__new__(kind)
        for name, v in decoded.items():
            object.__setattr__(instance, name, v)
        return instance


_SCALARS = frozenset((type(None), bool, int, float, str))


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _type_name(value: object) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _find_type(name: str) -> Any:
    module_name, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    known = isinstance(found, type) and (
        dataclasses.is_dataclass(found) or issubclass(found, Section) or hasattr(found, "_fields")
    )
    if not known:
        raise UserError(f"the saved state names {name!r}, which this version does not have")
    return found
