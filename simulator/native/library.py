"""Compile the training code for this machine's processor, once (some 7 seconds)."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
from functools import cache
from pathlib import Path

from simulator.compiled import cached, compiler_version, find_compiler, run_compiler

SOURCES = Path(__file__).parent
_FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-std=c++20"]
_LINK = ["-shared", "-fPIC", "-fno-semantic-interposition", "-w"]
_WHAT = "the training code"


@cache
def load_library(number: str) -> ctypes.CDLL:
    """``number``: "float" or "double"."""
    otherwise = ", or train more slowly with torch: [training] kernels = 'autograd'"
    compiler = find_compiler(_WHAT, otherwise)
    flags = [*_FLAGS, *_LINK, f"-DMESHFL_NUMBER={number}"]

    def make(work: Path) -> Path:
        made = work / "libmeshfl-train.so"
        run_compiler([compiler, *flags, str(SOURCES / "train.cc"), "-o", str(made)], _WHAT)
        return made

    key = hashlib.sha256(f"{compiler_version(compiler)}{flags}{_processor()}".encode())
    for source in sorted([*SOURCES.glob("*.h"), *SOURCES.glob("*.cc")]):
        key.update(source.name.encode() + source.read_bytes())
    library = ctypes.CDLL(str(cached(f"libmeshfl-train-{key.hexdigest()[:24]}.so", make)))
    library.meshfl_new.restype = ctypes.c_void_p
    library.meshfl_new.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.meshfl_train.restype = library.meshfl_delete.restype = None
    library.meshfl_train.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    library.meshfl_delete.argtypes = [ctypes.c_void_p]
    return library


def _processor() -> str:
    """What it can do: a home folder may be shared by different machines."""
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    return platform.machine() + "".join(re.findall(r"^(?:flags|Features)\s*:.*$", told, re.M)[:1])
