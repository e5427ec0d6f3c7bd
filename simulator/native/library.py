"""The training code, compiled once (some 7 seconds)."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from simulator.compiled import load_shared


@cache
def load_library(number: str) -> ctypes.CDLL:
    """``number``: "float" or "double"."""
    library = load_shared(
        Path(__file__).parent / "train.cc",
        "the training code",
        ", or train more slowly with torch: [training] kernels = 'autograd'",
        [f"MESHFL_NUMBER={number}"],
    )
    library.meshfl_new.restype = ctypes.c_void_p
    library.meshfl_new.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.meshfl_train.restype = library.meshfl_delete.restype = None
    library.meshfl_train.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    library.meshfl_delete.argtypes = [ctypes.c_void_p]
    return library
