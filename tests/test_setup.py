"""The set-up script says in one line what the system lacks."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def set_up(tmp_path, python):
    """Run the script with next to nothing on the path."""
    for tool in ("bash", "dirname", "cat"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    return subprocess.run(
        ["bash", str(ROOT / "scripts/setup.sh")],
        env={"PATH": str(tmp_path), "MESHFL_PYTHON": str(python)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("python", "missing"),
    [
        ("python3", "missing: python3; on Debian or Ubuntu: apt-get install python3 python3-venv"),
        (sys.executable, "missing: a C++ compiler; on Debian or Ubuntu: apt-get install g++"),
    ],
)
def test_what_is_missing_is_said_in_one_line(tmp_path, python, missing):
    done = set_up(tmp_path, python)
    assert done.returncode == 2
    assert done.stderr == f"meshfl: {missing}\n"


def test_a_python_without_venv_is_told(tmp_path):
    fake = tmp_path / "python3-bare"
    fake.write_text('#!/bin/bash\n[[ "$2" == *venv* ]] && exit 1\nexit 0\n')
    fake.chmod(0o755)
    done = set_up(tmp_path, fake)
    assert done.returncode == 2
    assert "missing: python3-venv" in done.stderr


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ("0", "getting chromium for the tests of the report's page\n"
              "meshfl: no chromium to be had; the tests that need it are skipped\n"),
        ("1000", ""),
    ],
)  # fmt: skip
def test_without_a_browser_the_tests_go_on(tmp_path, user, told):
    """Offline, or for somebody who may not install packages."""
    for tool in ("bash", "timeout"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    for name, answer in (("id", f"echo {user}"), ("apt-get", "exit 100")):
        (tmp_path / name).write_text(f"#!{shutil.which('bash')}\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    script = ["bash", str(ROOT / "scripts/browser.sh")]
    done = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == (f"meshfl: {told}" if told else "")
    assert done.stderr == ""


def test_ci_runs_the_readmes_test_command():
    assert "bash scripts/test.sh" in (ROOT / ".ci/run").read_text()
    assert "```bash\nbash scripts/test.sh\n```" in (ROOT / "README.md").read_text()
    assert "```bash\nbash scripts/quickstart.sh\n```" in (ROOT / "README.md").read_text()
