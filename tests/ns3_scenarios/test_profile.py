"""Profiles measured by real ns-3, and how near they come to it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ns3_scenarios.measure import MOST_DEVICES, cell_scene, tasks_of
from ns3_scenarios.network import scene_of
from ns3_scenarios.profile import find_profile, key_of, make_profile, profile_path, sizes_for
from ns3_scenarios.section import Ns3Section, ProfileSection
from simulator.errors import UserError
from simulator.networks.profile_file import load_profile
from topologies import find_topology, shipped_profiles

pytestmark = pytest.mark.ns3
MESHFL = str(Path(sys.executable).parent / "meshfl")
CAMPUS = find_topology(Path("campus-12"))
NBYTES = 320_000
MEASURE = ["network", "profile", "campus-12", "--bytes", str(NBYTES)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A profile of campus-12, and its file."""
    path = tmp_path_factory.mktemp("profile") / "campus.json"
    make_profile(CAMPUS, ProfileSection(), NBYTES, 2, lambda n: None, path)
    return path, load_profile(path, CAMPUS, key_of(CAMPUS, ProfileSection()))


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache without profiles that shares the compiled library."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meshfl"
    cache = tmp_path / "cache/meshfl"
    cache.mkdir(parents=True)
    for library in home.glob("libmeshfl-*.so"):
        (cache / library.name).symlink_to(library)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache


def meshfl(*arguments, cwd):
    env = os.environ | {"COLUMNS": "80"}
    command = [MESHFL, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env)


def test_every_link_is_measured_both_ways_alone_and_among_others():
    sizes = sizes_for(NBYTES)
    links = {(d, g) for d in CAMPUS.devices for g in CAMPUS.reach(d)}
    ways = links | {(g, d) for d, g in links}
    for n in (1, 2, 5, 10):
        orders = [order for t in tasks_of(CAMPUS, sizes) if t.in_flight == n for order in t.orders]
        assert {order[:2] for order in orders} >= ways
    lone = {order for t in tasks_of(CAMPUS, sizes) if t.is_alone for order in t.orders}
    assert lone >= {(*way, nbytes) for way in ways for nbytes in sizes}


def test_large_cells_are_measured_in_parts():
    city = find_topology(Path("nycmesh-184"))
    tasks = tasks_of(city, sizes_for(NBYTES))
    assert max(len(task.devices) for task in tasks) <= MOST_DEVICES
    links = {(d, g) for d in city.devices for g in city.reach(d)}
    wires = {(g, city.cloud) for g in city.gateways}
    for n in (1, 2, 5, 10):
        orders = [order for task in tasks if task.in_flight == n for order in task.orders]
        assert {order[:2] for order in orders} >= links
    lone = [order for task in tasks if task.is_alone for order in task.orders]
    assert {order[:2] for order in lone} >= wires
    assert len(lone) == 14 * (len(links) + len(wires)), "each once"
    assert len({task.file(Path()) for task in tasks}) == len(tasks)


def test_a_cell_keeps_the_slot_of_the_whole_network():
    iot = find_topology(Path("nycmesh-30")).with_radio("iot")
    homes = {d: iot.reach(d)[0] for d in iot.devices}
    devices = [d for d in iot.devices if homes[d] == iot.gateways[0]][:3]
    (options, nodes, *_), number = cell_scene(iot, Ns3Section(), iot.gateways[0], devices)
    assert options["longestLinkM"] == scene_of(iot, Ns3Section(), 0, homes)[0]["longestLinkM"]
    assert len(nodes) == len(number) == 5
    assert all(node["rateLimitBps"] == 0 for node in nodes)


def test_lone_times_are_those_of_live_ns3(measured):
    from ns3_scenarios.network import Ns3Network
    from ns3_scenarios.profile import profile_network
    from simulator.networks.traffic import Send, play

    _, profile = measured
    ends = [(d, CAMPUS.reach(d)[0]) for d in CAMPUS.devices]
    ways = [way for d, g in ends for way in ((d, g), (g, d))]
    sends = [Send(i * 2 * 10**9, *way, NBYTES) for i, way in enumerate(ways)]
    live = Ns3Network(CAMPUS, Ns3Section(), seed=9)
    ours = profile_network(CAMPUS, profile, ProfileSection(noise_sigma=0.0), 0)
    times = [np.array([d.time - s.time for d, s in zip(play(net, sends), sends, strict=True)])
             for net in (live, ours)]  # fmt: skip
    live.close()
    error = np.abs(times[1] / times[0] - 1)
    assert np.median(error) < 0.05
    assert times[1].sum() == pytest.approx(times[0].sum(), rel=0.1)


def test_a_scenario_runs_on_a_profile_and_its_folder_stands_alone(
    measured, scenario, run_in, tmp_path
):
    path, _ = measured
    network = {"network": {"kind": "profile", "path": str(path)}}
    campus = {"topology": {"kind": "file", "path": "campus-12"}}
    whole = run_in(scenario(campus, network), "whole")
    assert whole["stop_reason"] == "epochs"
    parts = run_in(scenario(campus, network), "parts", after_events=whole["events"] // 2)
    assert parts["event_log_sha256"] == whole["event_log_sha256"]
    [copy] = (tmp_path / "whole/inputs").iterdir()
    assert copy.read_bytes() == path.read_bytes()


def test_without_a_profile_the_command_to_make_one_is_told(own_cache, tmp_path):
    toml = tmp_path / "s.toml"
    toml.write_text(
        '[run]\nepochs = 1\n[topology]\nkind = "file"\npath = "campus-12"\nprofile = "iot"\n'
        '[network]\nkind = "profile"\n[model]\nname = "logistic"\n[algorithm]\nname = "fedavg"\n'
    )
    done = meshfl("run", "s.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "meshfl network profile campus-12 --profile iot" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_other_settings_need_another_profile(measured):
    path, _ = measured
    other = ProfileSection(loss="log-distance", path=path)
    with pytest.raises(UserError, match="with other \\[network\\] settings"):
        load_profile(path, CAMPUS, key_of(CAMPUS, other))
    assert key_of(CAMPUS, ProfileSection(noise_sigma=1.0)) == key_of(CAMPUS, ProfileSection())


def test_a_killed_measurement_goes_on_where_it_was(own_cache, tmp_path, measured):
    process = subprocess.Popen([MESHFL, *MEASURE, "--workers", "1"], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not (done := list(own_cache.glob("profiles/*/*.json"))):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    written = {path: path.stat().st_mtime_ns for path in done}
    assert "wrote" in meshfl(*MEASURE, cwd=tmp_path).stdout
    assert written
    assert not list(own_cache.glob("profiles/*/")), "the parts are gone"
    found = find_profile(CAMPUS, ProfileSection())
    assert found == profile_path(key_of(CAMPUS, ProfileSection()), NBYTES)
    assert found.read_bytes() == measured[0].read_bytes(), "the same, whatever was interrupted"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["campus-12", "--set", "los=fixed"], "los: unknown key; did you mean 'loss'?"),
        (["campus-12", "--set", "loss=magic"], "loss: 'magic'"),
        (["tree-30"], "'tree-30' has no radio profile"),
        (["campus-13"], "did you mean 'campus-12'?"),
        (["campus-12", "--profile", "fast"], "unknown radio profile"),
    ],
)
def test_bad_input(tmp_path, own_cache, arguments, message):
    done = meshfl("network", "profile", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(own_cache.glob("profiles"))


def test_validate_tells_and_draws(measured, tmp_path):
    path, _ = measured
    done = meshfl(
        *("network", "validate", "campus-12", "--set", f"path={path}"),
        *("--transfers", 20, "--seeds", 2, "-o", "f"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for words in ("ns3 again", "profile", "flow", "table", "heavy", "KS <= 0.1"):
        assert words in done.stdout
    table = pd.read_csv(tmp_path / "f/fidelity.csv")
    assert len(table) == 3 * 4
    profile = table[table["network"] == "profile"]
    assert (profile["mean_bias"].abs() < 0.3).all()
    assert (tmp_path / "f/fidelity.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(path.read_text())["topology"] == "campus-12"


def test_shipped_profiles_fit_their_topologies(own_cache):
    for path in shipped_profiles():
        content = json.loads(path.read_text())
        topology = find_topology(Path(content["topology"])).with_radio(content["radio"])
        assert find_profile(topology, ProfileSection()) == path
        assert load_profile(path, topology, content["key"]).sizes[-1] == 1_600_000
