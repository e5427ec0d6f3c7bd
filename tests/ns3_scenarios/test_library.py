"""Without the ns3 package: everything but ns-3 works, and a scenario that asks for it is told."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ns3_scenarios import library
from simulator.errors import UserError

SCENARIOS = Path(__file__).parents[2] / "scripts/scenarios"
BARE = """
import sys
for name in ("ns3", "ns", "cppyy"):
    sys.modules[name] = None
from simulator.cli import main
main()
"""


def meshfl_without_ns3(*arguments, cwd):
    command = [sys.executable, "-c", BARE, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_a_scenario_on_ns3_is_told_what_to_install(tmp_path):
    done = meshfl_without_ns3("run", SCENARIOS / "quickstart.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert (
        "the ns3 package is not installed; install it with 'pip install meshfl[ns3]', or choose "
        "another [network] kind"
    ) in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_other_scenarios_do_not_ask_for_it(tmp_path):
    done = meshfl_without_ns3("check", SCENARIOS / "fedavg-tree-30.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "30 devices on 3 gateways" in done.stdout
    assert "ns3" in meshfl_without_ns3("list", "networks", cwd=tmp_path).stdout


@pytest.mark.ns3
def test_what_is_no_compiler_is_told(monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(UserError, match=r"'false' is no C\+\+ compiler.*exit code 1.*CXX name one"):
        library.library()


@pytest.mark.ns3
def test_a_cache_folder_that_cannot_be_made_is_told(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nope")
    with pytest.raises(UserError, match=r"cache folder /proc/nope/meshfl cannot.*XDG_CACHE_HOME"):
        library.library()


@pytest.mark.ns3
def test_ns3_without_metadata_is_compiled_against(monkeypatch, tmp_path):
    """Up to the command: compiling takes long."""

    def missing(name):
        raise PackageNotFoundError(name)

    told = []
    monkeypatch.setattr(library, "version", missing)
    monkeypatch.setattr(library, "run_compiler", lambda command, what: told.append(command))
    library._compile(library.ns3_folder(), ["c++"], tmp_path)
    [core] = [word for word in told[-1] if word.endswith("-core")]
    assert (library.ns3_folder() / "lib64" / f"lib{core.removeprefix('-l')}.so").exists()


def test_an_ns3_without_libraries_is_told(tmp_path):
    with pytest.raises(UserError, match=rf"no libns\*-core\.so in {tmp_path}"):
        library._release(tmp_path)
