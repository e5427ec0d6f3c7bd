import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simulator.errors import UserError
from simulator.rng import Stream, generator
from topologies import Building, Tier, Topology
from topologies.geography import positions
from topologies.importers.assemble import Choice
from topologies.importers.geojson import import_geojson
from topologies.importers.kml import import_kml
from topologies.importers.meshdb import import_meshdb
from topologies.importers.node_link import import_node_link


def write(folder, **files):
    """Each file's path; what is no text is written as json."""
    paths = []
    for name, content in files.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(content if isinstance(content, str) else json.dumps(content))
    return paths


def names(topology, ids):
    return [topology.nodes[i].name for i in ids]


def reasons(report):
    return {f"{what}: {why}": problem.count for (what, why), problem in report.dropped.items()}


def reach(topology):
    return {topology.nodes[d].name: names(topology, topology.reach(d)) for d in topology.devices}


def node(number, lon, lat, altitude=20.0, status="Installed", **more):
    return {"id": number, "coordinates": [lon, lat, altitude], "status": status} | more


# 0.01 degrees of latitude are 1.11 km, of longitude 0.84 km.
NODES = [
    node(1, -73.99, 40.72, 100.0, notes="Hub"),
    node(2, -73.96, 40.72, None, name="Supernode 2"),
    node(3, -73.98, 40.72),
    node(4, -73.99, 40.73),
    node(5, -73.97, 40.72),
    node(6, -73.99, 40.71),
    node(7, -73.99, 40.72, status="Interested"),
    node(8, 0.0, 0.0),
    node(3, -73.98, 40.72),
    {"id": 9, "status": "Installed", "coordinates": [None, 40.72, 1.0]},
    "nonsense",
]
LINKS = [
    {"from": 1, "to": 2, "status": "fiber"},
    {"from": 3, "to": 1, "status": "active"},
    {"from": 2, "to": 3, "status": "60GHz"},
    {"from": 1, "to": 3, "status": "active"},
    {"from": 3, "to": 5, "status": "active"},
    {"from": 5, "to": 2, "status": "planned"},
    {"from": 1, "to": 7, "status": "active"},
    {"from": 1, "to": 99, "status": "active"},
    7,
]
SECTORS = [
    {"nodeId": 1, "radius": 1.2, "azimuth": 350, "width": 40, "status": "active"},
    {"nodeId": 2, "radius": 1, "azimuth": 90, "width": 180},
    {"nodeId": 5, "radius": 1, "azimuth": 0, "width": 360},
    {"nodeId": 1, "radius": 1, "azimuth": 0, "width": 360, "status": "potential"},
    {"nodeId": 1, "radius": "wide", "azimuth": 0, "width": 360},
]


def test_meshdb(tmp_path):
    topology, report = import_meshdb(
        *write(tmp_path, nodes=NODES, links=LINKS, sectors=SECTORS), Choice(height_m=7.0)
    )
    assert names(topology, topology.gateways) == ["1", "2"]
    assert reach(topology) == {"3": ["1", "2"], "4": ["1"]}, "4 only by a sector northwards"
    assert report.kept == {"nodes": 4, "links": 3, "sectors": 2, "buildings": 0}
    assert reasons(report) == {
        "nodes: not installed": 1,
        "nodes: outside the box": 1,
        "nodes: id taken by another": 1,
        "nodes: no usable coordinates": 1,
        "nodes: no usable id": 1,
        "nodes: reaches no gateway": 2,
        "links: joins the same sites as another": 1,
        "links: joins two devices": 1,
        "links: status 'planned'": 1,
        "links: an end was dropped": 1,
        "links: an end is unknown": 2,
        "sectors: not at a gateway": 1,
        "sectors: not active": 1,
        "sectors: no usable radius, azimuth and width": 1,
    }
    assert [report.seen(kind) for kind in ("nodes", "links", "sectors")] == [11, 9, 5]
    assert (topology.nodes[1].altitude_m, topology.nodes[1].height_m) == (100, None)
    assert (topology.nodes[2].altitude_m, topology.nodes[2].height_m) == (None, 7)
    kinds = Counter(link.kind for link in topology.links)
    assert kinds == {"fibre": 1, "wifi": 3, "ethernet": 2}, "two wires to the cloud are assumed"
    assumed = {what: problem.count for what, problem in report.assumed.items()}
    assert assumed["a height of 7 m above the ground"] == 1
    assert assumed["backhaul to the cloud, 5 ms"] == 2
    assert set(positions(topology)) == {1, 2, 3, 4}


def test_meshdb_chosen_gateways_and_reach(tmp_path):
    files = write(tmp_path, nodes=NODES, links=LINKS)
    topology, _ = import_meshdb(*files, None, Choice(gateways=1, reach_m=1200))
    assert names(topology, topology.gateways) == ["3"], "three others, 1 has two"
    assert reach(topology) == {"1": ["3"], "2": ["3"], "5": ["3"]}


def test_meshdb_needs_gateways_and_devices(tmp_path):
    files = write(tmp_path, nodes=[node(1, -73.99, 40.72)], links=[])
    with pytest.raises(UserError, match=r"nodes\.json: no site is marked as a gateway .*--gatew"):
        import_meshdb(*files, None, Choice())
    with pytest.raises(UserError, match=r"nodes\.json: all sites are gateways"):
        import_meshdb(*files, None, Choice(gateways=3))
    files = write(tmp_path, nodes=NODES[:2] + NODES[3:4], links=[])
    with pytest.raises(UserError, match="no device reaches a gateway"):
        import_meshdb(*files, None, Choice())
    files = write(tmp_path, nodes={"detail": "throttled"}, links=[])
    with pytest.raises(UserError, match=r"nodes\.json: dict; it must be a list"):
        import_meshdb(*files, None, Choice())


KML = """<?xml version="1.0" encoding="UTF-8"?>
<kml xmlns="http://www.opengis.net/kml/2.2"><Document><Folder>
  <Placemark><name>top</name>
    <ExtendedData><Data name="type"><value>Hub</value></Data></ExtendedData>
    <Point><coordinates>-73.99,40.72,100</coordinates></Point></Placemark>
  <Placemark><name>a</name><Point><coordinates> -73.98,40.72,0 </coordinates></Point></Placemark>
  <Placemark><name>b</name><Point><coordinates>-73.97,40.72</coordinates></Point></Placemark>
  <Placemark><name>bad</name><Point><coordinates>-73.97;40.72</coordinates></Point></Placemark>
  <Placemark><Point><coordinates>-73.97,40.72</coordinates></Point></Placemark>
  <Placemark><name>area</name><Polygon/></Placemark>
  <Placemark><LineString><coordinates>-73.99,40.72,100 -73.98,40.72,0</coordinates></LineString>
  </Placemark>
  <Placemark><LineString><coordinates>-73.99,40.72 -73.0,40.0</coordinates></LineString>
  </Placemark>
</Folder></Document></kml>"""


def test_kml(tmp_path):
    (path,) = write(tmp_path, mesh=KML)
    topology, report = import_kml(path, Choice())
    assert names(topology, topology.gateways) == ["top"]
    assert reach(topology) == {"a": ["top"]}
    assert topology.nodes[1].altitude_m == 100
    assert topology.nodes[2].altitude_m is None, "0 stands for unknown"
    assert reasons(report) == {
        "nodes: no usable coordinates": 1,
        "nodes: no name": 1,
        "nodes: reaches no gateway": 1,
        "placemarks: neither a point nor a line": 1,
        "links: an end is at no point": 1,
    }
    assert sum(report.seen(kind) for kind in ("nodes", "links", "placemarks")) == 8


HUB_BY_NAME = """<kml><Folder><name>gateways</name>
<Placemark><name>hub A</name><Point><coordinates>4.37,52.0</coordinates></Point></Placemark>
</Folder></kml>"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE kml [<!ENTITY a "aa">]><kml>&a;</kml>', "no DOCTYPE and no entities"),
        ("<kml>", "not XML"),
        ("", "not XML"),
        ("<kml/>", "no site is marked as a gateway"),
        (HUB_BY_NAME, "ExtendedData: a Data 'tier' or 'type' with the value gateway"),
    ],
)
def test_bad_kml(tmp_path, text, message):
    (path,) = write(tmp_path, mesh=text)
    with pytest.raises(UserError, match=message):
        import_kml(path, Choice())


def feature(shape, coordinates, **properties):
    return {
        "type": "Feature",
        "geometry": {"type": shape, "coordinates": coordinates},
        "properties": properties,
    }


SQUARE = [[-73.98, 40.71], [-73.97, 40.71], [-73.97, 40.72], [-73.98, 40.72], [-73.98, 40.71]]
FEATURES = [
    feature("Point", [-74.0, 40.7], name="dc", tier="cloud", height_m=20),
    feature("Point", [-73.99, 40.72, 80], name="top", tier="gateway"),
    feature("Point", [-73.98, 40.73], name="a", height_m=12),
    feature("Point", [-73.98, 40.74], name="b", tier="router"),
    feature("LineString", [[-74.0, 40.7], [-73.995, 40.71], [-73.99, 40.72]], kind="fibre"),
    feature("LineString", [[-73.98, 40.73], [-73.99, 40.72]]),
    feature("LineString", [[-73.98, 40.73], [-74.0, 40.7]]),
    feature("LineString", [[-73.98, 40.73], [-73.99, 40.72]], kind="string"),
    feature("Polygon", [SQUARE], height_m=33),
    feature("Polygon", [SQUARE]),
    feature("MultiPoint", []),
    None,
]


def test_geojson(tmp_path):
    (path,) = write(tmp_path, mesh={"type": "FeatureCollection", "features": FEATURES})
    topology, report = import_geojson(path, Choice())
    assert names(topology, (topology.cloud, *topology.gateways)) == ["dc", "top"]
    assert reach(topology) == {"a": ["top"]}
    assert topology.buildings == (Building(40.71, -73.98, 40.72, -73.97, 33),)
    assert [link.kind for link in topology.links] == ["fibre", "wifi"], "no wire is assumed"
    assert topology.links[0].latency_s == pytest.approx(1e-4 + 2378 / (2e8 / 1.5), abs=1e-6)
    assert reasons(report) == {
        "nodes: unknown tier": 1,
        "links: joins a device to the cloud": 1,
        "links: unknown kind": 1,
        "buildings: no usable height_m": 1,
        "features: neither a point, a line nor a polygon": 2,
    }


ABILENE = {
    "directed": False, "multigraph": False, "graph": {},
    "nodes": [
        {"id": "0", "name": "New York", "pos": [-74.01, 40.71]},
        {"id": "1", "name": "Chicago", "pos": [-87.65, 41.85]},
        {"id": 2, "name": "Washington DC", "pos": [-77.04, 38.91]},
        {"id": "3", "name": "Chicago"},
        {"id": "4", "name": "Nowhere", "pos": [1, 2]},
        {"name": "no id"},
    ],
    "edges": [
        {"source": "0", "target": "1", "dist": 1146.16},
        {"source": "0", "target": "2"},
        {"source": "2", "target": "0", "dist": 1},
        {"source": "0", "target": "3"},
        {"source": "1", "target": 3, "dist": 10},
        {"source": "1", "target": "1", "dist": 10},
        {"source": "1", "target": "9", "dist": 10},
    ],
}  # fmt: skip


def draw():
    return generator(1, Stream.TOPOLOGY)


@pytest.mark.parametrize("key", ["edges", "links"])
def test_node_link(tmp_path, key):
    content = ABILENE | {key: ABILENE["edges"]}
    (path,) = write(tmp_path, net={k: v for k, v in content.items() if k in ("nodes", key)})
    topology, report = import_node_link(path, 6, draw())
    assert names(topology, (topology.cloud, *topology.gateways)) == [
        "New York", "Chicago", "Washington DC", "Chicago (3)",
    ]  # fmt: skip
    wires = [link.latency_s for link in topology.links if link.kind == "fibre"]
    assert wires[::2] == pytest.approx([1e-4 + 1146.16e3 * 7.5e-9, 1e-4 + 10e3 * 7.5e-9], abs=1e-6)
    by_places = 1e-4 + 328.58e3 * 7.5e-9  # topohub's distance, which is one on a sphere
    assert wires[1] == pytest.approx(by_places, rel=5e-3)
    assert [topology.reach(d) for d in topology.devices] == [(1,), (2,), (3,)] * 2
    assert topology.nodes[topology.devices[2]].latitude is None, "its gateway has no place"
    assert reasons(report) == {
        "nodes: no usable id": 1,
        "nodes: no path to the cloud": 1,
        "links: joins the same nodes as another": 1,
        "links: no usable dist, and an end has no place": 1,
        "links: joins a node to itself": 1,
        "links: an end is unknown": 1,
    }
    assert (report.seen("nodes"), report.seen("links")) == (6, 7)


@pytest.mark.parametrize("dist", [1e308, -1, "far"])
def test_node_link_with_a_dist_that_cannot_be(tmp_path, dist):
    edge = {"source": "0", "target": "1", "dist": dist}
    (path,) = write(tmp_path, net=ABILENE | {"edges": [edge]})
    topology, _ = import_node_link(path, 1, draw())
    assert topology.links[0].latency_s == pytest.approx(1144e3 / (2e8 / 1.5), rel=0.02), "by places"


def test_node_link_in_a_plane_has_no_places(tmp_path):
    nodes = [{"id": 0, "pos": [188.5, 463.4]}, {"id": 1, "pos": [42.0, 17.0]}]
    edges = [{"source": 0, "target": 1, "dist": 58.3}]
    (path,) = write(tmp_path, net={"nodes": nodes, "edges": edges})
    topology, report = import_node_link(path, 2, draw())
    assert all(node.latitude is None for node in topology.nodes)
    assert report.assumed["no place, as pos is no longitude and latitude"].count == 2


def test_node_link_errors(tmp_path):
    (path,) = write(tmp_path, net=ABILENE)
    with pytest.raises(UserError, match=r"net\.json: 2 --devices for 3 gateways"):
        import_node_link(path, 2, draw())
    (path,) = write(tmp_path, net=ABILENE | {"edges": []})
    with pytest.raises(UserError, match=r"net\.json: no edge joins two nodes"):
        import_node_link(path, 2, draw())
    (path,) = write(tmp_path, net=[])
    with pytest.raises(UserError, match="not node-link json"):
        import_node_link(path, 2, draw())


def test_unreadable_files(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*none\.json"):
        import_geojson(tmp_path / "none.json", Choice())
    (path,) = write(tmp_path, net="{,")
    with pytest.raises(UserError, match=r"net\.json: line 1 column 2: not JSON"):
        import_geojson(path, Choice())
    (path,) = write(tmp_path, net="[" * 100_000)
    with pytest.raises(UserError, match="nested too deeply"):
        import_geojson(path, Choice())


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
small_id = st.integers(0, 5) | anything
coordinate = st.floats(-73.99, -73.97) | st.sampled_from([0, 40.72, 180.0, -90, 1e308])
place = st.tuples(coordinate, coordinate | st.just(40.72), st.floats(0, 50) | st.none()).map(list)


def record(**keys):
    """Mostly well-formed: each key may be missing or anything at all."""
    return st.fixed_dictionaries({}, optional={k: v | anything for k, v in keys.items()}) | anything


mesh_node = record(
    id=small_id, coordinates=place, status=st.just("Installed"), notes=st.sampled_from(["Hub", ""])
)
mesh_link = record(**{"from": small_id, "to": small_id, "status": st.just("active")})
mesh_sector = record(
    nodeId=small_id, radius=st.floats(0, 3), azimuth=st.floats(), width=st.floats()
)
lists = {"max_size": 8}
quick = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150
)


def imported(importer, *arguments):
    """What comes out: a valid topology with its report, or None for a complaint."""
    try:
        topology, report = importer(*arguments)
    except UserError:
        return None
    assert Topology.from_json(topology.to_json()) == topology
    return topology, report


@quick
@given(
    nodes=st.lists(mesh_node, **lists),
    links=st.lists(mesh_link, **lists),
    sectors=st.lists(mesh_sector, **lists),
    gateways=st.none() | st.integers(1, 3),
    reach_m=st.none() | st.floats(0, 1e5),
)
@example(NODES, LINKS, SECTORS, None, None)
@example(NODES, LINKS, SECTORS, 2, 3000.0)
def test_any_meshdb(tmp_path, nodes, links, sectors, gateways, reach_m):
    files = write(tmp_path, nodes=nodes, links=links, sectors=sectors)
    everywhere = (-90.0, -180.0, 90.0, 180.0)
    if found := imported(import_meshdb, *files, Choice(gateways, reach_m), everywhere):
        topology, report = found
        assert report.seen("nodes") == len(nodes)
        assert report.seen("links") == len(links)
        assert report.seen("sectors") == len(sectors)
        assert report.kept["nodes"] == len(topology.nodes) - 1


point = record(
    type=st.just("Feature"),
    geometry=record(type=st.just("Point"), coordinates=place),
    properties=record(name=st.text(max_size=2), tier=st.sampled_from(["gateway", "device"])),
)
other = record(
    geometry=record(
        type=st.sampled_from(["LineString", "Polygon"]),
        coordinates=st.lists(place, max_size=4) | st.lists(st.lists(place, max_size=4), max_size=2),
    ),
    properties=record(kind=st.just("fibre"), height_m=st.floats()),
)


@quick
@given(rows=st.lists(point | other, max_size=12))
@example(FEATURES)
def test_any_geojson(tmp_path, rows):
    (path,) = write(tmp_path, mesh={"features": rows})
    if found := imported(import_geojson, path, Choice(reach_m=1e6)):
        kinds = ("nodes", "links", "buildings", "features")
        assert sum(found[1].seen(kind) for kind in kinds) == len(rows)


@quick
@given(
    nodes=st.lists(record(id=small_id, name=st.text(max_size=2), pos=place), **lists),
    edges=st.lists(record(source=small_id, target=small_id, dist=st.floats()), **lists),
)
@example(ABILENE["nodes"], ABILENE["edges"])
def test_any_node_link(tmp_path, nodes, edges):
    (path,) = write(tmp_path, net={"nodes": nodes, "edges": edges})
    if found := imported(import_node_link, path, 9, draw()):
        assert found[1].seen("nodes") == len(nodes)
        assert found[1].seen("links") == len(edges)


@quick
@given(data=st.data())
def test_any_damage_to_kml(tmp_path, data):
    """Cut out and put in what may be there or elsewhere in the file."""
    start = data.draw(st.integers(0, len(KML)))
    end = data.draw(st.integers(start, min(len(KML), start + 60)))
    text = KML[:start] + data.draw(st.text("<>/&;,-0123.kmle \n", max_size=5)) + KML[end:]
    (path,) = write(tmp_path, mesh=text)
    if found := imported(import_kml, path, Choice()):
        kinds = ("nodes", "links", "placemarks")
        assert sum(found[1].seen(kind) for kind in kinds) == text.count("<Placemark")


@quick
@given(content=st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()))
def test_any_bytes(tmp_path, content):
    path = Path(tmp_path / "bytes")
    path.write_bytes(content)
    assert imported(import_kml, path, Choice()) is None
    assert imported(import_geojson, path, Choice()) is None
    assert imported(import_node_link, path, 1, draw()) is None
    assert imported(import_meshdb, path, path, path, Choice()) is None


def test_tiers_and_channels_of_an_import(tmp_path):
    topology, _ = import_meshdb(*write(tmp_path, nodes=NODES, links=LINKS), None, Choice())
    assert Counter(n.tier for n in topology.nodes) == {
        Tier.CLOUD: 1,
        Tier.GATEWAY: 2,
        Tier.DEVICE: 1,
    }
    assert [topology.nodes[g].channel for g in topology.gateways] == [36, 40]
    assert topology.radio.rate_limits_bps == {}
    assert np.all([link.medium for link in topology.links if link.kind == "wifi"])
