import json

import pytest

from simulator.errors import UserError
from topologies import Link, Medium, Node, Tier, Topology

RAW = {
    "schema": 1,
    "name": "small",
    "nodes": [
        {"name": "hq", "tier": "cloud"},
        {"name": "roof", "tier": "gateway", "latitude": 40.7, "longitude": -74.0, "height_m": 60},
        {"name": "hill", "tier": "gateway"},
        {"name": "cam", "tier": "device"},
        {"name": "car", "tier": "device"},
    ],
    "media": [{"name": "air", "rate_bps": 2e7}],
    "links": [
        {"a": "roof", "b": "hq", "rate_bps": 1e8, "latency_s": 0.005, "kind": "fibre"},
        {"a": "hill", "b": "roof", "rate_bps": 1e8, "latency_s": 0.001},
        {"a": "cam", "b": "hill", "rate_bps": 1e6, "latency_s": 0, "kind": "wifi", "medium": "air"},
        {"a": "roof", "b": "cam", "rate_bps": 2e6, "latency_s": 0, "kind": "wifi"},
        {"a": "car", "b": "hill", "rate_bps": 1e6, "latency_s": 0, "kind": "wifi", "medium": "air"},
        {"a": "car", "b": "cam", "rate_bps": 1e6, "latency_s": 0},
    ],
}


def test_reads_names_into_ids():
    topology = Topology.from_json(json.dumps(RAW))
    assert (topology.cloud, topology.gateways, topology.devices) == (0, (1, 2), (3, 4))
    assert topology.nodes[1] == Node("roof", Tier.GATEWAY, 40.7, -74.0, 60)
    assert topology.links[0] == Link(1, 0, 1e8, 0.005, "fibre")
    assert topology.links[2] == Link(3, 2, 1e6, 0, "wifi", "air")
    assert topology.media == (Medium("air", 2e7),)
    assert topology.reach(3) == (2, 1), "in the order of the links, the car is no gateway"
    assert topology.reach(4) == (2,)
    assert topology.id_of("car") == 4


def test_unknown_name_is_told_with_the_nearest():
    with pytest.raises(UserError, match="unknown node 'rof'; did you mean 'roof'"):
        Topology.from_json(json.dumps(RAW)).id_of("rof")


def test_save_and_load(tmp_path):
    topology = Topology.from_json(json.dumps(RAW))
    path = tmp_path / "t.json"
    topology.save(path)
    assert Topology.load(path) == topology
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    nodes = path.read_text().splitlines()
    assert '  {"name": "hill", "tier": "gateway"},' in nodes, "one record a line, no nulls"


def changed(*path_and_value):
    """RAW with one entry replaced; a value of ... removes it."""
    raw = json.loads(json.dumps(RAW))
    *path, last, value = path_and_value
    place = raw
    for key in path:
        place = place[key]
    if value is ...:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{,", r"line 1 column 2: not JSON"),
        ("[]", r"JSON object, not list"),
        (changed("schema", 2), r"schema is 2, but this version reads schema 1"),
        (changed("schema", ...), r"schema is None"),
        (changed("name", 5), r"name is 5; it must be a text"),
        (changed("link", []), r"unknown key 'link'; did you mean 'links'\?"),
        (changed("links", {}), r"links is dict; it must be a list"),
        (changed("nodes", 0, 7), r"nodes\[0\] is 7; it must be an object"),
        (
            changed("nodes", 3, "heigth_m", 2),
            r"nodes\[3\] 'cam': unknown key 'heigth_m'; did you mean 'height_m'\?",
        ),
        (changed("nodes", 3, "tier", ...), r"nodes\[3\] 'cam': 'tier' is missing"),
        (changed("nodes", 3, "tier", "sensor"), r"nodes\[3\] 'cam': tier = 'sensor': .*'device'"),
        (changed("nodes", 3, "latitude", 91), r"nodes\[3\] 'cam': latitude = 91: .*90"),
        (changed("nodes", 3, "name", ""), r"nodes\[3\] '': name = '': .*at least 1"),
        (
            changed("nodes", 3, "name", "roof"),
            r"nodes\[3\]: the name 'roof' is taken by nodes\[1",
        ),
        (changed("nodes", 3, "tier", "cloud"), r"exactly one .*'cloud', not 2 \['hq', 'cam'\]"),
        (changed("nodes", 0, "tier", "device"), r"exactly one .*'cloud', not 0"),
        (
            changed("media", 0, "rate_bps", 0),
            r"media\[0\] 'air': rate_bps = 0: .*greater than or equal to 1",
        ),
        (
            changed("media", 1, RAW["media"][0]),
            r"media\[1\]: the name 'air' is taken by media\[0",
        ),
        (
            changed("links", 1, "rate_bps", -1),
            r"links\[1\]: rate_bps = -1: .*greater than or equal to 1",
        ),
        (changed("links", 1, "rate_bps", float("nan")), r"links\[1\]: rate_bps = nan: .*finite"),
        (changed("links", 1, "rate_bps", float("inf")), r"links\[1\]: rate_bps = inf: .*finite"),
        (changed("links", 1, "rate_bps", "9"), r"links\[1\]: rate_bps = '9': .*valid number"),
        (changed("links", 1, "rate_bps", ...), r"links\[1\]: 'rate_bps' is missing"),
        (changed("links", 1, "latency_s", -0.1), r"links\[1\]: latency_s = -0.1: .*equal to 0"),
        (changed("links", 1, "kind", "cable"), r"links\[1\]: kind = 'cable': .*'ethernet'"),
        (
            changed("links", 1, "a", "hil"),
            r"links\[1\]: a names no node: 'hil'; did you mean 'hi",
        ),
        (changed("links", 1, "a", 2), r"links\[1\]: a names no node: 2"),
        (changed("links", 1, "a", "roof"), r"links\[1\] 'roof'-'roof': a link joins two different"),
        (
            changed("links", 2, "medium", "aer"),
            r"links\[2\] 'cam'-'hill': unknown medium 'aer'; did you mean 'air'",
        ),
        (
            changed("links", 6, RAW["links"][1] | {"a": "roof", "b": "hill"}),
            r"links\[1\] joins",
        ),
        (
            changed("links", 4, ...),
            r"device 'car' has no link to any gateway; add a link or remove the device",
        ),
        (changed("links", 1, ...), r"gateway 'hill' has no path to the cloud 'hq'"),
    ],
)
def test_bad_files(text, message):
    with pytest.raises(UserError, match=r"^x\.json: .*" + message) as caught:
        Topology.from_json(text, "x.json")
    assert "\n" not in str(caught.value)


def test_at_least_one_gateway_and_one_device():
    cloud, gateway = Node("c", Tier.CLOUD), Node("g", Tier.GATEWAY)
    with pytest.raises(UserError, match="tier 'gateway'"):
        Topology("t", (cloud,), ())
    with pytest.raises(UserError, match="tier 'device'"):
        Topology("t", (cloud, gateway), (Link(0, 1, 1.0, 0.0),))


def test_a_device_is_no_way_to_the_cloud():
    nodes = [("c", "cloud"), ("g", "gateway"), ("h", "gateway"), ("d", "device")]
    links = (Link(0, 1, 1.0, 0.0), Link(1, 3, 1.0, 0.0), Link(3, 2, 1.0, 0.0))
    with pytest.raises(UserError, match="gateway 'h' has no path"):
        Topology("t", tuple(Node(name, Tier(tier)) for name, tier in nodes), links)


def test_a_link_end_that_is_no_id():
    nodes = (Node("c", Tier.CLOUD), Node("g", Tier.GATEWAY), Node("d", Tier.DEVICE))
    with pytest.raises(UserError, match=r"links\[0\]: node id 3 is outside 0..2"):
        Topology("t", nodes, (Link(0, 3, 1.0, 0.0),))


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"cannot read topology .*none\.json"):
        Topology.load(tmp_path / "none.json")
