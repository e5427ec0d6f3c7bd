"""Without the ns3 package: everything but ns-3 works, and a scenario that asks for it is told."""

import subprocess
import sys
from pathlib import Path

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
