"""The tree's own rules: style, types, who imports whom, and where the packages come from."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ["simulator", "topologies", "algorithms", "selection", "ns3_scenarios"]


@pytest.mark.parametrize(
    "tool",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=" ".join,
)
def test_tool_is_content(tool):
    command = [str(Path(sys.executable).parent / tool[0]), *tool[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_package_comes_from_this_distribution(package):
    """The names are generic: another distribution could shadow them."""
    assert Path(importlib.import_module(package).__file__).parent == ROOT / package
