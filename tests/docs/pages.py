"""The documents' code blocks, and a copy of the tree to try them in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PARTS = [
    *("algorithms", "selection", "simulator", "topologies", "ns3_scenarios"),
    *("tests", "scripts", "benchmarks", "docs"),
]
FILES = ("setup.cfg", "pyproject.toml", "constraints.txt", "ruff.toml")
FENCE = re.compile(r"(?:\*\*`([^`\n]+)`\*\*\n\n)?^( *)```(\w*)\n(.*?)^ *```$", re.M | re.S)


class Block(NamedTuple):
    language: str
    text: str
    file: str | None
    """What is to be written or changed: its name stands above the block."""


def blocks(page):
    found = FENCE.findall(page.read_text())
    return [Block(language, text, file or None) for file, _, language, text in found]


def without_blocks(text):
    return FENCE.sub("", text)


def copy_tree(place):
    """As in a fresh clone that is set up already: nothing of the real tree is touched."""
    for part in PARTS:
        shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, place)
    (place / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (place / ".venv" / name).symlink_to(BIN.parent / name)
    told = subprocess.run(["python3", "--version"], capture_output=True, text=True).stdout.strip()
    stamp = "".join((place / name).read_text() for name in FILES[:3])
    (place / ".venv/meshfl-installed").write_text(f"{told}\n{stamp}")


def put(block, place):
    """Write the block's file, or change it."""
    path = place / block.file
    if block.language != "diff":
        assert not path.exists()
        path.write_text(block.text)
        return
    lines = block.text.splitlines(keepends=True)
    before, after = ("".join(x[1:] for x in lines if x[0] in sign) for sign in (" -", " +"))
    text = path.read_text()
    assert text.count(before) == 1, f"{block.file} has no such place, or several:\n{before}"
    path.write_text(text.replace(before, after))


def commands(block):
    """One a line, unless the line ends with a backslash."""
    return block.text.replace("\\\n", " ").splitlines() if block.language == "bash" else []


def run(command, place):
    """As a reader would, in ``place``; the packages there come first."""
    env = os.environ | {
        "PYTHONPATH": str(place if (place / "simulator").exists() else ROOT),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=place, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
