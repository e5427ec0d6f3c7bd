"""Groups of given sizes, on a tree of three gateways 1, 2, 3 and devices 4 and so on."""

import numpy as np
import pytest

from selection.associators import Shares, SharesSection, divided
from simulator.errors import UserError
from topologies import Link, Node, Tier, Topology

ALL = (1, 2, 3)


def topology(*reach):
    """A device for each tuple of gateways."""
    nodes = [Node("cloud", Tier.CLOUD), *(Node(f"g{i}", Tier.GATEWAY) for i in range(3))]
    nodes += [Node(f"d{i}", Tier.DEVICE) for i in range(len(reach))]
    links = [Link(0, g, 1.0, 0.0) for g in ALL]
    links += [Link(g, 4 + i, 1.0, 0.0) for i, gateways in enumerate(reach) for g in gateways]
    return Topology("t", tuple(nodes), tuple(links))


def associate(where, delays=(), **params):
    """By gateway its devices; ``delays``: of each device, to any gateway."""
    section = SharesSection(name="shares", **params)

    def estimate(device, gateway):
        return delays[device - 4]

    found = Shares(section).associate(where, estimate, np.random.default_rng(0))
    assert list(found) == list(where.devices)
    return [[d - 4 for d, g in found.items() if g == gateway] for gateway in ALL]


def test_sizes():
    assert divided(10, [1, 1, 1]) == [4, 3, 3]
    assert divided(10, [3, 1]) == [8, 2], "7.5 and 2.5: the first of equal remainders"
    assert divided(64, [1] * 8) == [8] * 8
    assert divided(3, [100, 1]) == [3, 0]


def test_equal_groups_take_devices_in_turn():
    assert associate(topology(*[ALL] * 6)) == [[0, 3], [1, 4], [2, 5]]


def test_unequal_groups():
    groups = associate(topology(*[ALL] * 12), shares=(4, 1, 1))
    assert [len(group) for group in groups] == [8, 2, 2]


def test_who_can_go_to_one_gateway_only_goes_there():
    groups = associate(topology(ALL, ALL, (1, 3), (1,)), shares=(1, 2, 1))
    assert groups == [[3], [0, 1], [2]]


def test_devices_of_like_delays_together():
    delays = [5, 1, 9, 2, 8, 4]
    groups = associate(topology(*[ALL] * 6), delays, together="by-delay")
    assert groups == [[1, 3], [0, 5], [2, 4]]


def test_no_room():
    with pytest.raises(UserError, match=r"no room for 'd1' .* groups of 1, 1, 0; use other shares"):
        associate(topology((1,), (1,)))
    with pytest.raises(UserError, match="2 shares for 3 gateways; give one for each"):
        associate(topology(ALL), shares=(1, 1))


def test_a_solver_is_for_the_nearest():
    with pytest.raises(ValueError, match="is for together = 'nearest'; delete one of them"):
        SharesSection(name="shares", solver="highs")


def test_a_scenario_chooses_groups(scenario):
    from pathlib import Path

    from simulator.build import build

    tree = {"topology": {"gateways": 2, "devices": 8, "reach": 2}}
    uneven = {"association": {"name": "shares", "shares": [3, 1]}}
    world = build(scenario(tree, uneven), Path())
    assert [list(world.association.values()).count(g) for g in world.topology.gateways] == [6, 2]
