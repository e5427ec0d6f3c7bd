"""``meshfl network`` before and instead of the work; ns-3 itself is not needed."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ns3_scenarios.profile
import ns3_scenarios.validate
from ns3_scenarios.profile import find_profile, key_of, profile_path, read_profile, settings_of
from ns3_scenarios.section import BackgroundSection, ProfileSection
from simulator import cli
from simulator.errors import UserError
from simulator.network_cli import _section, network_app
from simulator.networks.cells import Contention
from simulator.networks.profile import Profile
from simulator.networks.profile_file import save_profile
from topologies import find_topology, shipped_profiles

CAMPUS = find_topology(Path("campus-12"))
LINKS = [(d, g) for d in CAMPUS.devices for g in CAMPUS.reach(d)]
LINKS += [(g, CAMPUS.cloud) for g in CAMPUS.gateways]
SIZES = (10_000, 20_000, 50_000, 200_000, 1_600_000)
PROFILE = Profile(
    sizes=SIZES,
    alone_s={pair: (0.1, 0.2, 0.3, 0.4, 0.5) for a, b in LINKS for pair in ((a, b), (b, a))},
    channels={g: g for g in CAMPUS.gateways},
    contention=Contention(),
    association_s=0.1,
    noise_sigma=0.0,
)
SHIPPED = next(p for p in shipped_profiles() if json.loads(p.read_text())["radio"] == "broadband")


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def work(monkeypatch):
    """What was begun, instead of being done."""
    begun = []

    def make_profile(topology, section, nbytes, workers, progress, out):
        begun.append("profile")
        path = out or profile_path(key_of(topology, section), nbytes)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_profile(path, PROFILE, CAMPUS, "another")
        return path

    def compare(*arguments):
        begun.append("validate")
        raise KeyboardInterrupt

    monkeypatch.setattr(ns3_scenarios.profile, "make_profile", make_profile)
    monkeypatch.setattr(ns3_scenarios.validate, "compare", compare)
    return begun


def run(*arguments, code=0):
    done = CliRunner().invoke(network_app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def cached(section=ProfileSection(), key=None):  # noqa: B008
    key = key or key_of(CAMPUS, section)
    path = profile_path(key, SIZES[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    save_profile(path, PROFILE, CAMPUS, key)
    return path


def test_what_was_shipped_or_measured_is_not_measured_again(work, tmp_path):
    assert f"already measured: {SHIPPED}" in run("profile", "nycmesh-184")
    kept = cached()
    assert f"already measured: {kept}" in run("profile", "campus-12")
    said = run("profile", "campus-12", "-o", "deep/own.json")
    assert f"already measured: {kept}" in said
    assert "wrote deep/own.json" in said
    assert Path("deep/own.json").read_bytes() == kept.read_bytes()
    assert [path.name for path in Path("deep").iterdir()] == ["own.json"]
    kept.unlink()
    assert "already measured: deep/own.json" in run("profile", "campus-12", "-o", "deep/own.json")
    assert work == []


@pytest.mark.parametrize(
    "arguments", [["--again"], ["--bytes", "320000"], ["--set", "loss=log-distance"]]
)
def test_what_was_asked_for_otherwise_is_measured(work, arguments):
    cached()
    assert "wrote" in run("profile", "campus-12", *arguments)
    assert work == ["profile"]


def test_a_damaged_profile_is_measured_anew(work):
    kept = cached()
    kept.write_text(kept.read_text()[:-100])
    assert "wrote" in run("profile", "campus-12")
    assert work == ["profile"]


def test_a_shipped_profile_stays_the_one_that_scenarios_take(work):
    assert f"scenarios take {SHIPPED}" in run("profile", "nycmesh-184", "--again")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (".", r"\.: a profile is a file that ends in \.json"),
        ("p.txt", r"p\.txt: a profile is a file that ends in \.json"),
        ("folder.json", r"folder\.json: a profile is a file"),
        ("afile/p.json", r"afile/p\.json: cannot be made .*choose another --out"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_a_bad_place_for_a_profile_is_told_before_the_work(work, out, message, known):
    Path("afile").touch()
    Path("folder.json").mkdir()
    if known:
        cached()
    with pytest.raises(UserError, match=message):
        run("profile", "campus-12", "-o", out)
    assert work == []


def test_a_bad_place_for_a_comparison_is_told_before_the_work(work):
    Path("afile").touch()
    cached()
    with pytest.raises(UserError, match=r"afile: cannot be made .*choose another --out"):
        run("validate", "campus-12", "-o", "afile")
    assert work == []


def test_an_interrupted_comparison_speaks_of_no_checkpoint(work, monkeypatch, capsys):
    cached()
    monkeypatch.setattr(sys, "argv", ["meshfl", "network", "validate", "campus-12"])
    with pytest.raises(SystemExit, match="130"):
        cli.main()
    said = capsys.readouterr()
    assert work == ["validate"]
    assert "interrupted; nothing was written" in said.out
    assert "checkpoint" not in said.out + said.err


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        (ProfileSection(noise_sigma=1.0, path=Path("p.json"), loss_probability=0.5), []),
        (ProfileSection(loss="fixed", fixed_rss_dbm=-70), ["loss=fixed", "fixed_rss_dbm=-70.0"]),
        (ProfileSection(rate_manager="constant:HtMcs4"), ["rate_manager=constant:HtMcs4"]),
        (ProfileSection(background=BackgroundSection()), ["background={}"]),
        (ProfileSection(background=BackgroundSection(on_s=2)), ["background.on_s=2.0"]),
    ],
)
def test_the_command_that_is_told_has_the_settings(section, settings):
    assert settings_of(section) == settings
    assert key_of(CAMPUS, _section(settings)) == key_of(CAMPUS, section)
    start = "meshfl network profile campus-12 --profile broadband"
    command = " ".join([start, *(f"--set {s}" for s in settings)])
    command = command.replace("background={}", "'background={}'")
    with pytest.raises(UserError, match="measure it once with:") as missing:
        find_profile(CAMPUS, section)
    assert f"{command}, or choose" in str(missing.value)
    other = cached(key="other")
    with pytest.raises(UserError, match="other \\[network\\] settings") as foreign:
        read_profile(other, CAMPUS, section)
    assert str(foreign.value).endswith(command)
