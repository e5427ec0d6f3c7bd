from pathlib import Path

import pytest

from simulator.errors import UserError
from topologies import Link, ReplayTopology, load_topology, topology_from_replay
from topologies.replay import UNLIMITED_BPS, read_replay


def write(folder, delays, cloud):
    (folder / "delays.csv").write_text(delays)
    (folder / "cloud.csv").write_text(cloud)
    return folder / "delays.csv", folder / "cloud.csv"


def test_topology_of_the_tables(tmp_path):
    files = write(tmp_path, "64.5,0.0\n0,79.0\n56.25,57.0\n", "18.72,20\n")
    topology = topology_from_replay(*files)
    assert [node.name for node in topology.nodes] == ["cloud", "g0", "g1", "d0", "d1", "d2"]
    assert [topology.reach(device) for device in topology.devices] == [(1,), (2,), (1, 2)]
    assert topology.links[:3] == (
        Link(0, 1, UNLIMITED_BPS, 9.36),
        Link(0, 2, UNLIMITED_BPS, 10.0),
        Link(1, 3, UNLIMITED_BPS, 32.25, "wifi"),
    )
    assert topology == load_topology(
        ReplayTopology(delays="delays.csv", cloud="cloud.csv"), 0, tmp_path
    )


def test_round_trip(tmp_path):
    delays, cloud = [[1.5, 0.0], [0.25, 3.125]], [18.72, 0.0]
    text = "".join(",".join(map(str, row)) + "\n" for row in delays)
    files = write(tmp_path, text, ",".join(map(str, cloud)))
    assert read_replay(*files) == (delays, cloud)


@pytest.mark.parametrize(
    ("delays", "cloud", "message"),
    [
        ("1,nan\n", "1,1", r"delays\.csv row 1 column 2: 'nan' is no delay"),
        ("1,1\n-2,1\n", "1,1", r"delays\.csv row 2 column 1: '-2' is no delay"),
        ("1,inf\n", "1,1", r"delays\.csv row 1 column 2: 'inf'"),
        ("1,\n", "1,1", r"delays\.csv row 1 column 2: ''"),
        ("g0,g1\n1,1\n", "1,1", r"delays\.csv row 1 column 1: 'g0' is no delay; .* seconds"),
        ("1,1\n1\n", "1,1", r"delays\.csv row 2: 1 columns, but row 1 has 2"),
        ("", "1,1", r"delays\.csv is empty"),
        ("1,1\n\n1,1\n", "1,1", r"delays\.csv row 2 is empty"),
        ("1,1\n0,0\n", "1,1", r"delays\.csv row 2: every delay is 0.*remove the row"),
        ("1,1\n", "", r"cloud\.csv is empty"),
        ("1,1\n", "1\n1\n", r"cloud\.csv: 2 rows; it must be one"),
        ("1,1\n", "1\n", r"cloud\.csv: 1 delays to the cloud, but .*delays\.csv has 2 columns"),
        ("1,1\n", "1,x\n", r"cloud\.csv row 1 column 2: 'x'"),
    ],
)
def test_malformed(tmp_path, delays, cloud, message):
    with pytest.raises(UserError, match=message) as caught:
        topology_from_replay(*write(tmp_path, delays, cloud))
    assert "\n" not in str(caught.value)


def test_missing_and_unreadable(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*none\.csv"):
        topology_from_replay(tmp_path / "none.csv", Path())
    (tmp_path / "bin.csv").write_bytes(b"\xff\xfe1,2")
    with pytest.raises(UserError, match=r"cannot read .*bin\.csv"):
        topology_from_replay(tmp_path / "bin.csv", Path())
