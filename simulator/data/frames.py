"""Read pickled pandas frames without running anything that is in the pickle.

Only the names below are resolved. The pandas classes become inert stand-ins that keep their
state, so the file can neither call into pandas nor depend on its version.
"""

from __future__ import annotations

import copyreg
import pickle
from gzip import GzipFile
from typing import IO, Any

import numpy as np

from simulator.data.samples import Array


class Frame:
    """Stand-in for DataFrame, BlockManager, Index and RangeIndex."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _new_index(_kind: type[Frame], state: dict[str, Any]) -> dict[str, Any]:
    return state


def _empty_array(_kind: type, _shape: tuple[int, ...], _code: bytes) -> Array:
    return np.empty(0)  # its __setstate__ brings shape, type and values


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not expected here")
    return text.encode(encoding)


ALLOWED: dict[tuple[str, str], Any] = {
    ("copy_reg", "_reconstructor"): copyreg._reconstructor,  # type: ignore[attr-defined]
    ("__builtin__", "object"): object,
    ("__builtin__", "slice"): slice,
    ("_codecs", "encode"): _latin1,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("pandas.core.frame", "DataFrame"): Frame,
    ("pandas.core.internals.managers", "BlockManager"): Frame,
    ("pandas.core.indexes.base", "Index"): Frame,
    ("pandas.core.indexes.base", "_new_Index"): _new_index,
    ("pandas.core.indexes.range", "RangeIndex"): Frame,
}


class FrameUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which is not allowed"
            ) from None


def load_frames(stream: IO[bytes] | GzipFile) -> dict[int, list[dict[str, Array]]]:
    """A pickled ``{key: [DataFrame, ...]}`` as ``{key: [{column: values}, ...]}``."""
    try:
        frames = FrameUnpickler(stream, fix_imports=False).load()
        return {key: [_columns(frame) for frame in some] for key, some in frames.items()}
    except (AttributeError, OverflowError) as error:
        raise pickle.UnpicklingError(f"not a pickle of frames: {error}") from error


def _columns(frame: Frame) -> dict[str, Array]:
    axes_and_blocks = frame.state["_data"].state[-1]["0.14.1"]
    names = axes_and_blocks["axes"][0]["data"]
    columns: dict[str, Array] = {}
    for block in axes_and_blocks["blocks"]:
        columns |= dict(zip(names[block["mgr_locs"]], block["values"], strict=True))
    return columns
