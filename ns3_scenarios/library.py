"""Compile the C++ transfer manager against the installed ns3 package, once.

The result lies in a cache keyed by sources, ns3 version, compiler and flags. Loading it takes
half a second, where ``from ns import ns`` takes twelve.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from simulator.compiled import compiled, run_compiler, texts_of
from simulator.errors import UserError

SOURCES = Path(__file__).parent / "cpp"
HEADER = SOURCES / "net.h"
_FLAGS = ["-O1", "-std=c++20", "-fPIC", "-w"]
_MODULES = (
    "core network internet mobility propagation spectrum buildings wifi point-to-point csma "
    "bridge traffic-control stats energy applications"
)


def ns3_folder() -> Path:
    """Where the ns3 package keeps its headers and libraries; ns-3 itself is not loaded."""
    found = find_spec("ns3")
    if found is None or not found.submodule_search_locations:
        raise UserError(
            "this scenario runs on ns-3, and the ns3 package is not installed; install it with "
            "'pip install meshfl[ns3]', or choose another [network] kind"
        )
    return Path(next(iter(found.submodule_search_locations)))


def library() -> Path:
    """The compiled transfer manager, from the cache or made now (some 15 seconds)."""
    folder = ns3_folder()
    return compiled("ns3", _key(folder), lambda *there: _compile(folder, *there), "the ns-3 part")


def _key(folder: Path) -> str:
    try:
        ns3 = version("ns3")
    except PackageNotFoundError:
        ns3 = "unknown"
    return f"{ns3}{folder}{_FLAGS}{_MODULES}{texts_of(SOURCES.iterdir())}"


def _release(libraries: Path) -> str:
    """As in the names of the libraries: libns3.44-core.so."""
    found = sorted(libraries.glob("libns*-core.so"))
    if not found:
        raise UserError(
            f"the ns3 package has no libns*-core.so in {libraries}; install it anew with "
            "'pip install --force-reinstall meshfl[ns3]'"
        )
    return found[0].name.removeprefix("libns").removesuffix("-core.so")


def _compile(folder: Path, compiler: list[str], work: Path) -> Path:
    libraries = folder / "lib64"
    release = _release(libraries)

    def translate(source: Path) -> str:
        made = work / f"{source.stem}.o"
        command = [*compiler, *_FLAGS, "-c", f"-I{folder}/include", str(source), "-o", str(made)]
        run_compiler(command, "the ns-3 part")
        return str(made)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(translate, sorted(SOURCES.glob("*.cc"))))
    linked = [f"-lns{release}-{module}" for module in _MODULES.split()]
    path = f"-Wl,-rpath,{libraries}"
    made = work / "libmeshfl.so"
    linked += [path, "-Wl,--no-undefined"]
    command = [*compiler, "-shared", "-o", str(made), *objects, f"-L{libraries}", *linked]
    run_compiler(command, "the ns-3 part")
    return made
