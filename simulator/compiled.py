"""C++ parts are compiled once, on the machine that runs them, and kept in the user's cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import UserError

_FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-std=c++20"]
_LINK = ["-shared", "-fPIC", "-fno-semantic-interposition", "-w"]


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "meshfl"


def cached(name: str, make: Callable[[Path], Path]) -> Path:
    """The file of this name in the cache; ``make`` leaves one in an empty folder, if need be."""
    place = cache_folder() / name
    if not place.exists():
        with _work_folder(place.parent) as work:
            os.replace(make(Path(work)), place)
    return place


def _work_folder(cache: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=cache)
    except OSError as error:
        raise UserError(
            f"the cache folder {cache} cannot be written ({error.strerror}); let the environment "
            "variable XDG_CACHE_HOME name a folder that can (unset: ~/.cache)"
        ) from None


def _compiler() -> list[str]:
    """As a make file has it: with options of its own, if CXX gives some."""
    named = os.environ.get("CXX", "")
    try:
        return shlex.split(named) or ["c++"]
    except ValueError:  # a quote that does not end
        return [named]


def find_compiler(what_for: str, otherwise: str = "") -> list[str]:
    """The command and its options."""
    compiler = _compiler()
    if not shutil.which(compiler[0]):
        raise UserError(
            f"a C++ compiler is needed to build {what_for}, and {compiler[0]!r} is missing; "
            f"on Debian or Ubuntu: apt-get install g++{otherwise}"
        )
    return compiler


def compiler_version(compiler: Sequence[str]) -> str:
    try:
        done = subprocess.run([*compiler, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise _no_compiler(compiler, str(error.strerror)) from None
    if done.returncode:
        raise _no_compiler(compiler, f"exit code {done.returncode}")
    return done.stdout


def _no_compiler(compiler: Sequence[str], why: str) -> UserError:
    named = shlex.join(compiler)
    return UserError(
        f"{named!r} is no C++ compiler: '{named} --version' failed ({why}); let the "
        "environment variable CXX name one, such as g++ or clang++, or unset it"
    )


def compiled(
    name: str,
    key: str,
    make: Callable[[list[str], Path], Path],
    what: str,
    otherwise: str = "",
) -> Path:
    """A library of this name and key that the compiler here has made, now or before.

    Where there is none, and CXX asks for none: the newest one, whoever has made it.
    """
    begin = f"libmeshfl-{name}-{_short(key)}"
    if not os.environ.get("CXX") and not shutil.which("c++"):
        made = sorted(cache_folder().glob(f"{begin}-*.so"), key=lambda path: path.stat().st_mtime)
        if made:
            return made[-1]
    compiler = find_compiler(what, otherwise)
    maker = _short(f"{compiler_version(compiler)}{compiler[1:]}")
    return cached(f"{begin}-{maker}.so", lambda work: make(compiler, work))


def _short(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def texts_of(files: Iterable[Path]) -> str:
    """For a key: their names and what is in them."""
    return "".join(file.name + file.read_text() for file in sorted(files))


def run_compiler(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        first = "\n".join(done.stderr.splitlines()[:10])
        raise UserError(f"{what} could not be compiled ({command[0]}):\n{first}")


def load_shared(
    source: Path, what: str, otherwise: str = "", defines: Sequence[str] = ()
) -> ctypes.CDLL:
    """A source, with what lies beside it, compiled for this machine's processor, and loaded."""
    flags = [*_FLAGS, *_LINK, *(f"-D{define}" for define in defines)]

    def make(compiler: list[str], work: Path) -> Path:
        made = work / "made.so"
        run_compiler([*compiler, *flags, str(source), "-o", str(made)], what)
        return made

    beside = [*source.parent.glob("*.h"), *source.parent.glob("*.cc")]
    key = f"{flags}{_processor()}{texts_of(beside)}"
    return ctypes.CDLL(str(compiled(source.stem, key, make, what, otherwise)))


def read_rows(tell: Any, owner: int, kind: np.dtype[Any]) -> list[Any]:
    """All that C++ has of a kind: told to write nowhere, it only counts them."""
    rows = np.zeros(tell(owner, None), kind)
    tell(owner, rows.ctypes.data)
    return list(rows.tolist())


def _processor() -> str:
    """What it can do: a home folder may be shared by different machines."""
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    return platform.machine() + "".join(re.findall(r"^(?:flags|Features)\s*:.*$", told, re.M)[:1])
