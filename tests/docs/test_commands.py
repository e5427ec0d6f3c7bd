"""Every command of README and docs is executed; TABLE says how. The how-to pages have their own test."""

import os
import re
import shlex
import subprocess
from enum import Enum, auto
from importlib.metadata import metadata
from itertools import pairwise
from pathlib import Path

import pytest
from pages import BIN, ROOT, blocks, commands, copy_tree, run, without_blocks

from selection.alike import AlikeSection
from simulator.build import build
from simulator.data.catalog import data_folder, find
from simulator.errors import UserError
from simulator.scenario import Scenario
from simulator.study import Study, runs_of


class How(Enum):
    RUN = auto()
    """As it stands, in a folder of the page's own, after those that stand before it."""
    NS3 = auto()
    """The same, with ns-3."""
    STUDY = auto()
    """Takes hours: its file is read, all it names is loaded, every variant is put together."""
    SCENARIO = auto()
    """Takes minutes, and data that CI has not got: all that its scenario names else is loaded."""
    BENCHMARK = auto()
    """Takes minutes: CI reads the program, the slow test runs it."""
    SLOW = auto()
    """As it stands, in the slow test, after those that stand before it."""
    HELP = auto()
    """Not whole: only a mention. There is such a command."""
    EXTRA = auto()
    """Fetches packages: there is such an extra."""
    ELSEWHERE = auto()
    """Executed by the test that is named beside it."""


TABLE = [  # the first that fits the whole command
    (
        r"meshfl ((show|study|sweep|report|export|topology|network profile|advise (sync-time|topology))"
        r"|[a-z -]+ [A-Z]+)",
        How.HELP,
    ),
    (r"bash scripts/test\.sh", How.ELSEWHERE),  # .ci/run; test_setup.py
    (r"bash scripts/(quickstart|docs)\.sh", How.SLOW),
    (r"source \.venv/bin/activate", How.RUN),
    (r"pip install 'meshfl\[\w+\]'", How.EXTRA),
    (r"apt-get install chromium", How.ELSEWHERE),  # test_setup.py, as far as it can be
    (r"meshfl run \S+-ns3\.toml .*", How.NS3),
    (r"meshfl run scripts/scenarios/quickstart\.toml .*network\.kind=profile", How.SLOW),
    (r"meshfl network profile nycmesh-184.*", How.ELSEWHERE),  # test_network_cli.py: it is shipped
    (r"meshfl network (profile|validate) nycmesh-30.*", How.SLOW),
    (r"meshfl data fetch \S+", How.SLOW),
    (r"meshfl topology generate .* (\S+-\d+)\.json", How.ELSEWHERE),  # test_nycmesh.py
    (r"meshfl sweep scripts/studies/digits-\S+ .*", How.RUN),
    (r"meshfl study scripts/\S+.*", How.STUDY),
    (r"meshfl (run|show|advise sync-time) scripts/studies/\S+.*", How.SCENARIO),
    (r"meshfl advise bounds runs/\S+", How.ELSEWHERE),  # test_sync_advice.py
    (r"meshfl advise (sync-time|topology) scripts/\S+.*", How.RUN),
    (
        r"meshfl (run|resume|plot|report|timeline|export|compare|show|check|list|data partition"
        r"|topology) .*",
        How.RUN,
    ),
    (r"(\.venv/bin/python )?benchmarks/\w+\.py.*", How.BENCHMARK),
]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "howto"),
    ROOT / "topologies/data/README.md",
]
PROGRAMS = r"meshfl|\.venv/bin/python|bash|source|pip|apt-get|benchmarks/\w+\.py"
INLINE = re.compile(rf"`((?:{PROGRAMS})[ \n][^`]+)`")


def commands_of(page):
    """In blocks, and within sentences."""
    text = page.read_text()
    found = [command for block in blocks(page) for command in commands(block)]
    found += INLINE.findall(without_blocks(text))
    return list(dict.fromkeys(" ".join(command.split()) for command in found))


def row_of(command):
    rows = (row for row, (pattern, _) in enumerate(TABLE) if re.fullmatch(pattern, command))
    return next(rows, None)


ALL = {page: commands_of(page) for page in PAGES}
FIRST = {command: page for page in reversed(PAGES) for command in ALL[page]}
"""Where each stands first: there it is executed."""


def those(way, page=None):
    return [
        command
        for at in PAGES
        for command in ALL[at]
        if FIRST[command] == at and page in (None, at)
        if (row := row_of(command)) is not None and TABLE[row][1] is way
    ]


@pytest.fixture
def place(tmp_path):
    copy_tree(tmp_path)
    return tmp_path


def test_every_command_is_in_the_table_and_no_row_is_left_over():
    rows = {command: row_of(command) for commands in ALL.values() for command in commands}
    unknown = [command for command, row in rows.items() if row is None]
    assert unknown == [], "say in TABLE how they are tested"
    assert set(rows.values()) == set(range(len(TABLE)))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if those(How.RUN, page)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_of(page, place):
    for command in those(How.RUN, page):
        run(command, place)


def test_quickstart_ends_with_a_page_to_open(place):
    """The script as it stands, with a run of seconds; what is there already is left alone."""
    short = place / "scripts/scenarios/fedavg-tree-30.toml"
    text = short.read_text().replace("epochs = 20", "epochs = 2")
    (place / "scripts/scenarios/quickstart.toml").write_text(text)
    shown = [run("bash scripts/quickstart.sh", place).splitlines()[-1] for _ in range(2)]
    pages = [place / line.removeprefix("wrote ") for line in shown]
    assert pages[0] == place / "runs/quickstart/report.html"
    assert pages[1].parent.parent == place / "runs"
    assert len(set(pages)) == 2
    for page in pages:
        assert page.read_text().startswith("<!DOCTYPE html>")
        assert (page.parent / "summary.json").is_file()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.language == "python" for block in blocks(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_of(page, place):
    for block in blocks(page):
        if block.language == "python":
            run(f"python -c {shlex.quote(block.text)}", place)


@pytest.mark.ns3
@pytest.mark.parametrize("command", those(How.NS3))
def test_on_ns3(command, place):
    run(command, place)


@pytest.mark.parametrize("command", those(How.HELP))
def test_there_is_such_a_command(command, tmp_path):
    words = [word for word in command.split() if not word.isupper()]
    assert "Usage" in run(shlex.join([*words, "--help"]), tmp_path)


@pytest.mark.parametrize("command", those(How.EXTRA))
def test_there_is_such_an_extra(command):
    assert re.search(r"\[(\w+)\]", command)[1] in metadata("meshfl").get_all("Provides-Extra")


@pytest.mark.parametrize("command", those(How.STUDY))
def test_a_study_names_what_is_there(command):
    """Without the data, which CI has not got: their names are checked where the file is read."""
    words = shlex.split(command)
    path = ROOT / words[2]
    study = Study.load(path)
    only = [name for flag, name in pairwise(words) if flag == "--only"]
    assert set(only) <= {variant.name for variant in study.variants}
    for one in {one.variant: one for one in runs_of(study, path, Path("runs"))}.values():
        build(without_learning(one.scenario), one.base)


@pytest.mark.parametrize("command", those(How.SCENARIO))
def test_a_scenario_names_what_is_there(command):
    words = shlex.split(command)
    path = ROOT / next(word for word in words if word.endswith(".toml"))
    scenario = Scenario.load(path, [key for flag, key in pairwise(words) if flag == "--set"])
    build(without_learning(scenario), scenario.base)


def without_learning(scenario):
    dry = {
        "run": scenario.run.model_copy(update={"learning": "none", "target": None}),
        "model": scenario.model.model_copy(update={"transfer_bytes": 1000}),
    }
    if isinstance(scenario.association, AlikeSection):  # it asks for labels
        dry["association"] = type(scenario).model_fields["association"].default
    return scenario.model_copy(update=dry)


@pytest.mark.parametrize("command", those(How.BENCHMARK))
def test_a_benchmark_says_what_it_is(command, tmp_path):
    """And measures nothing then: it takes minutes."""
    words = shlex.split(command)
    program = next(word for word in words if word.startswith("benchmarks/"))
    asked = [BIN / "python", ROOT / program, "--help"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    for word in words:
        assert "scripts/" not in word or (ROOT / word).is_file()


@pytest.mark.slow
@pytest.mark.ns3
def test_long_commands(place, monkeypatch):
    """With a cache of its own: what was measured on this machine before does not count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for command in those(How.SLOW):
        run(command, place)


@pytest.mark.slow
@pytest.mark.ns3
@pytest.mark.parametrize("command", [c for c in those(How.BENCHMARK) if c.startswith(".venv")])
def test_benchmarks(command, place, monkeypatch):
    """With the data of this tree: the copy has none."""
    monkeypatch.setenv("MESHFL_DATA", os.environ.get("MESHFL_DATA", str(ROOT / "data")))
    if "fashion" in command:
        try:
            find("fashion-mnist", data_folder())
        except UserError as missing:
            pytest.skip(str(missing))
    run(command, place)
