"""``meshfl topology`` as people use it, and the pictures it draws."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from simulator.errors import UserError
from simulator.topology_cli import topology_app
from topologies import Building, Topology, find_topology, shipped
from topologies.picture import draw


def run(*arguments):
    done = CliRunner().invoke(topology_app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_generate_makes_the_shipped_file(tmp_path):
    out = tmp_path / "campus-12.json"
    said = run("generate", "campus", "--devices", 12, "--gateways", 2, "--seed", 1, "-o", out)
    assert "12 devices, 2 gateways, 19 links" in said
    assert out.read_bytes() == shipped()["campus-12"].read_bytes()


def test_generate_refuses_what_is_no_topology_file(tmp_path):
    with pytest.raises(UserError, match=r"a\.png: a topology file ends in \.json"):
        run("generate", "campus", "-o", tmp_path / "a.png")
    with pytest.raises(UserError, match="cannot write"):
        run("generate", "campus", "-o", tmp_path / "none" / "a.json")


def test_check():
    said = run("check", "nycmesh-184", "--profile", "iot")
    assert "cloud: 1, device: 184, gateway: 6" in said
    assert "1: 30, 2: 52, 3: 45, 4: 28, 5: 23, 6: 6" in said
    assert "kbit/s" in said
    assert "dBm (estimate)" in said
    assert "no map" in run("check", "tree-30")
    with pytest.raises(UserError, match="unknown shipped topology 'nycmesh-185'"):
        run("check", "nycmesh-185")


def at_heights(topology, height_m):
    return replace(topology, nodes=tuple(replace(n, height_m=height_m) for n in topology.nodes))


def test_check_and_show_warn_where_the_estimate_does_not_hold(tmp_path):
    rural, out = find_topology(shipped()["rural-60"]), tmp_path / "low.json"
    at_heights(rural, 10.0).save(out)
    for said in (run("check", out), run("show", out, "-o", tmp_path / "low.png")):
        assert "received power of 83 of 83 Wi-Fi links may be tens of dB below the estimate" in said
        assert "lower than roofs (20 m)" in said
        assert ", ..." in said
    at_heights(rural, 30.0).save(out)
    assert "warning" not in run("check", out)
    assert "warning" not in run("check", "campus-12")
    assert "warning" not in run("check", "tree-30")


def test_check_lists_links_below_sensitivity(tmp_path):
    campus, out = find_topology(shipped()["campus-12"]), tmp_path / "weak.json"
    deaf = tuple(replace(n, antenna_gain_dbi=-50.0) if n.name == "d3" else n for n in campus.nodes)
    replace(campus, nodes=deaf).save(out)
    d3 = campus.id_of("d3")
    links = [f"{campus.nodes[g].name}-d3" for g in campus.reach(d3)]
    count = f"{len(links)} of 17 Wi-Fi links are below ns-3's default sensitivity of -92 dBm"
    said = run("check", out)
    assert count in said
    assert ", ".join(links) in said


def test_import_tells_what_became_of_the_records(tmp_path):
    nodes = [
        {"id": 1, "coordinates": [-73.99, 40.72, 90], "status": "Installed", "notes": "Hub"},
        {"id": 2, "coordinates": [-73.98, 40.72, None], "status": "Installed"},
        {"id": 3, "coordinates": [-73.98, 40.72, None], "status": "[red]"},
    ]
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    (tmp_path / "links.json").write_text("[]")
    files = tmp_path / "nodes.json", tmp_path / "links.json"
    out = tmp_path / "mesh.json"
    said = run("import", "meshdb", *files, "-o", out, "--reach-m", 2000)
    assert "1 devices, 1 gateways" in said
    assert "kept nodes 2" in said
    assert "dropped nodes: not installed 1" in said
    assert "[red]" in said
    assert "assumed a height of 10 m above the ground 1" in said
    assert Topology.load(out).name == "mesh"
    box = ["--box", 0, 0, 1, 1]
    with pytest.raises(UserError, match="no site is marked as a gateway"):
        run("import", "meshdb", *files, "-o", out, *box)
    with pytest.raises(UserError, match=r"reads delays\.csv cloud\.csv, but 1 files are given"):
        run("import", "replay", files[0], "-o", out)


def test_import_replay(tmp_path):
    (tmp_path / "delays.csv").write_text("1,2\n0,3\n")
    (tmp_path / "cloud.csv").write_text("4,5\n")
    run(
        "import",
        "replay",
        tmp_path / "delays.csv",
        tmp_path / "cloud.csv",
        "-o",
        tmp_path / "r.json",
    )
    assert len(Topology.load(tmp_path / "r.json").devices) == 2


@pytest.mark.parametrize("name", ["campus-12", "nycmesh-184", "metro-1000"])
def test_show_draws_a_map(tmp_path, name):
    out = tmp_path / "map.png"
    assert "wrote" in run("show", name, "-o", out, "--profile", "iot")
    height, width, _ = imread(out).shape
    assert width > 1000
    assert height > 700
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_an_svg_says_what_it_shows_and_never_changes(tmp_path):
    topology = find_topology(shipped()["campus-12"])
    built = replace(topology, buildings=(Building(51.9995, 4.3735, 52.0, 4.374, 20.0),))
    texts = [draw(built, tmp_path / f"{i}.svg").read_text() for i in range(2)]
    assert texts[0] == texts[1]
    assert ElementTree.fromstring(texts[0]).tag.endswith("svg")
    for words in ("campus-12, radio profile broadband", "gateway (2)", "device (12)", "ethernet",
                  "Wi-Fi, in reach", "building", "received power [dBm]", "log-distance estimate"):  # fmt: skip
        assert words in texts[0], words


def test_without_radios_links_are_grey(tmp_path):
    topology = replace(find_topology(shipped()["campus-12"]), radios=())
    assert "dBm" not in draw(topology, tmp_path / "plain.svg").read_text()


def test_what_cannot_be_drawn(tmp_path):
    with pytest.raises(UserError, match=r"map\.pdf: a picture ends in \.png or \.svg"):
        run("show", "campus-12", "-o", tmp_path / "map.pdf")
    with pytest.raises(UserError, match="'tree-30': gateway 'g0' has no latitude"):
        run("show", "tree-30", "-o", tmp_path / "map.png")
    with pytest.raises(UserError, match="cannot write"):
        run("show", "campus-12", "-o", tmp_path / "none" / "map.png")
