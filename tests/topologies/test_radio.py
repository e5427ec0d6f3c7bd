import json
from dataclasses import replace

import pytest

from simulator.errors import UserError
from simulator.networks import FlowNetwork, FlowSection
from simulator.networks.noise import Noise
from simulator.networks.routes import Routes
from simulator.units import SECOND
from topologies import Building, FileTopology, Topology, load_topology, shipped

RAW = {
    "schema": 1,
    "name": "small",
    "nodes": [
        {"name": "c", "tier": "cloud"},
        {"name": "g", "tier": "gateway", "channel": 36},
        {"name": "d", "tier": "device", "antenna_gain_dbi": 2, "tx_power_dbm": 14},
        {"name": "e", "tier": "device"},
    ],
    "media": [{"name": "air", "rate_bps": 4e7}],
    "links": [
        {"a": "c", "b": "g", "rate_bps": 1e9, "latency_s": 0},
        {"a": "g", "b": "d", "rate_bps": 4e7, "latency_s": 0, "kind": "wifi", "medium": "air"},
        {"a": "e", "b": "g", "rate_bps": 4e7, "latency_s": 0, "kind": "wifi", "medium": "air"},
    ],
    "radios": [
        {
            "name": "fast", "standard": "n", "band_ghz": 5, "width_mhz": 20, "tx_power_dbm": 20,
            "device_gain_dbi": 20, "gateway_gain_dbi": 17, "channel_rate_bps": 4e7,
            "channels": {"g": 36},
        },
        {
            "name": "slow", "standard": "g", "band_ghz": 2.4, "width_mhz": 20, "tx_power_dbm": 20,
            "device_gain_dbi": 9, "gateway_gain_dbi": 15, "channel_rate_bps": 2e7,
            "channels": {"g": 6}, "rate_limits_bps": {"d": 8e5},
        },
    ],
    "buildings": [{"south": 1, "west": 2, "north": 1.1, "east": 2.1, "height_m": 30}],
}  # fmt: skip
C, G, D, E = range(4)


def small():
    return Topology.from_json(json.dumps(RAW))


def test_the_first_radio_is_in_use():
    topology = small()
    assert topology.radio.name == "fast"
    assert topology.rate_limit_bps(D) is None
    assert topology.buildings == (Building(1, 2, 1.1, 2.1, 30),)
    assert topology.with_radio("fast") is topology


def test_another_radio_brings_its_rates_channels_and_limits():
    topology = small().with_radio("slow")
    assert topology.radio.name == "slow"
    assert topology.nodes[G].channel == 6
    assert topology.media[0].rate_bps == 2e7
    assert [link.rate_bps for link in topology.links] == [1e9, 2e7, 2e7]
    assert (topology.rate_limit_bps(D), topology.rate_limit_bps(E)) == (8e5, None)
    assert topology.with_radio("fast") == small(), "and back"


def test_save_and_load(tmp_path):
    for topology in (small(), small().with_radio("slow")):
        topology.save(tmp_path / "t.json")
        assert Topology.load(tmp_path / "t.json") == topology


def test_profile_of_a_scenario(tmp_path):
    small().save(tmp_path / "t.json")
    section = FileTopology(path="t.json", profile="slow")
    assert load_topology(section, 0, tmp_path).radio.name == "slow"
    with pytest.raises(UserError, match="'small': 'slwo'; did you mean 'slow'"):
        load_topology(FileTopology(path="t.json", profile="slwo"), 0, tmp_path)
    with pytest.raises(UserError, match="'tree-30': 'iot'; known: none"):
        load_topology(FileTopology(path="tree-30", profile="iot"), 0, tmp_path)


def test_a_file_without_the_new_fields_is_unchanged():
    text = shipped()["tree-30"].read_text()
    assert Topology.from_json(text).to_json() == text


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("radios", 1, "name"), "fast", r"radios\[1\]: the name 'fast' is taken by radios\[0\]"),
        (("radios", 1, "band_ghz"), 3, r"radios\[1\] 'slow': band_ghz = 3: .*must be 2.4 or 5"),
        (("radios", 1, "standard"), "a", r"radios\[1\] 'slow': standard = 'a'"),
        (("radios", 1, "rate_limits_bps"), {"d": 0}, r"'slow': rate_limits_bps.*greater than or equal to 1"),
        (("radios", 1, "rate_limits_bps"), {"x": 1.0}, r"rate_limits_bps names no device: 'x'"),
        (("radios", 1, "rate_limits_bps"), {"g": 1.0}, r"rate_limits_bps names no device: 'g'"),
        (("radios", 1, "channels"), {"d": 6}, r"channels names no gateway: 'd'"),
        (("nodes", 1, "channel"), 40, r"'g': channel is 40, but the first radio 'fast' gives it 36"),
        (("nodes", 1, "channel"), 0, r"'g': channel = 0"),
        (("nodes", 1, "latitude"), 3.0, r"'g': latitude is 3.0 and longitude is None; give both"),
        (("radios", 0, "width_mhz"), 80, r"radios\[0\] 'fast': 802.11n has no channels at 5 GHz with width_mhz 80; it has: 2.4 GHz with 20 MHz, .*5 GHz with 40 MHz$"),
        (("radios", 0, "width_mhz"), 40, r"radios\[0\] 'fast': gateway 'g' has channel 36, .* 802.11n at 5 GHz with width_mhz 40; allowed: 38, 46, .*175$"),
        (("radios", 0, "standard"), "b", r"radios\[0\] 'fast': 802.11b has no channels at 5 GHz"),
        (("radios", 1, "standard"), "ac", r"radios\[1\] 'slow': 802.11ac has no channels at 2.4 GHz"),
        (("radios", 1, "channels"), {"g": 36}, r"radios\[1\] 'slow': gateway 'g' has channel 36, .*allowed: 1, 2"),
        (("radios", 0, "device_gain_dbi"), 1e9, r"'fast': device_gain_dbi = 1000000000.0: .*less than or equal to 60"),
        (("radios", 0, "tx_power_dbm"), -1e9, r"'fast': tx_power_dbm = .*greater than or equal to -50"),
        (("nodes", 2, "antenna_gain_dbi"), 61, r"'d': antenna_gain_dbi = 61"),
        (("nodes", 2, "tx_power_dbm"), 61, r"'d': tx_power_dbm = 61"),
        (("media", 0, "rate_bps"), 1e7, r"'air': rate_bps is 1e\+07, but .* channel_rate_bps 4e\+07"),
        (("buildings", 0, "north"), 1, r"buildings\[0\]: south 1.* is not below north 1"),
        (("buildings", 0, "west"), 3, r"buildings\[0\]: west 3.* is not below east 2.1"),
        (("buildings", 0, "height_m"), 0, r"buildings\[0\]: height_m = 0"),
        (("buildings", 0, "up"), 0, r"buildings\[0\]: unknown key 'up'"),
    ],
)  # fmt: skip
def test_bad_files(place, value, message):
    raw = json.loads(json.dumps(RAW))
    record = raw
    for key in place[:-1]:
        record = record[key]
    record[place[-1]] = value
    with pytest.raises(UserError, match=r"^x\.json: .*" + message) as caught:
        Topology.from_json(json.dumps(raw), "x.json")
    assert "\n" not in str(caught.value)


def test_a_channel_that_only_the_node_names_is_checked():
    raw = json.loads(json.dumps(RAW))
    del raw["radios"][0]["channels"]
    raw["nodes"][1]["channel"] = 38
    with pytest.raises(UserError, match=r"radios\[0\] 'fast': gateway 'g' has channel 38"):
        Topology.from_json(json.dumps(raw))


def ends(net):
    found = {}
    while (completion := net.advance(10**15)) is not None:
        found[completion.flow] = completion.time / SECOND
    return found


def test_a_limit_paces_each_direction_by_itself():
    net = FlowNetwork(small().with_radio("slow"), Noise(FlowSection(), 0))
    for src, dst in ((D, G), (G, D), (D, C), (E, G)):
        net.send(0, src, dst, 100_000)
    # 800 kbit each at 800 kbit/s: alone downwards, two sharing upwards; e has no limit.
    assert ends(net) == pytest.approx({0: 2.0, 1: 1.0, 2: 2.0, 3: 0.8e6 / (2e7 - 1.6e6)})


def test_without_limits_nothing_is_added():
    assert len(Routes(small()).capacities) == 2 * 3 + 1
    assert len(Routes(small().with_radio("slow")).capacities) == 2 * 3 + 1 + 2
    unlimited = replace(small(), radios=())
    assert Routes(unlimited).capacities == Routes(small()).capacities
