"""Rings on networks that know gateways: what devices send each other goes through their own."""

import pandas as pd
import pytest

RING = {
    "algorithm": {"name": "star-ring-hfl", "lower": "ring"},
    "run": {"epochs": 2, "learning": "none"},
    "association": {"name": "random"},
    "model": {"transfer_bytes": 100_000},
}
NETWORKS = {
    "flow": {"topology": {"gateways": 3, "devices": 9, "reach": 3}},
    "profile": {
        "topology": {"kind": "file", "path": "nycmesh-30", "profile": "iot"},
        "network": {"kind": "profile"},
    },
}


def homes_of_hops(world):
    """Of each end of each hop: the gateway that the network knows, and its own."""
    from simulator.kernel import Simulation

    homes = []

    class Recorder:
        def transfer(self, end, status, flow, src, dst, kind, *_):
            if kind == "peer":
                network = sim.network
                known = getattr(network, "_home", None) or network._gateway
                homes.append([(known[end], sim.association[end]) for end in (src, dst)])

        def row(self, *_):
            pass

        alarm = trained = row

    sim = Simulation(world, Recorder())
    sim.start()
    sim.run(lambda: 0.0)
    return homes


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_hop_takes_the_way_up_and_down_of_its_gateway(scenario, kind):
    from simulator.build import build

    homes = homes_of_hops(build(scenario(RING, NETWORKS[kind]), "."))
    assert len(homes) > 10
    assert all(known == own for pair in homes for known, own in pair)


@pytest.mark.parametrize("kind", NETWORKS)
def test_also_of_a_device_that_was_away_and_has_come_back(scenario, kind, monkeypatch):
    from simulator.build import build

    world = build(scenario(RING, NETWORKS[kind], {"run": {"epochs": 5}}), ".")
    begins = {home: device for device, home in sorted(world.association.items(), reverse=True)}
    device, home = next(
        (device, home)
        for device, home in sorted(world.association.items())
        if device != begins[home] and len(world.topology.reach(device)) > 1
    )  # one who hears from another device, and not from the gateway
    away = next(g for g in world.topology.reach(device) if g != home)
    moves = {1: away, 2: home}
    monkeypatch.setattr(
        world.manager, "reassociate",
        lambda sim, epoch: {device: moves[epoch]} if epoch in moves else {},
    )  # fmt: skip
    homes = homes_of_hops(world)
    assert len(homes) > 20
    assert all(known == own for pair in homes for known, own in pair)


def test_a_link_between_devices_or_gateways_is_used(scenario, run_in, tmp_path):
    """Two gateways that are far from the cloud and near to each other; the same for devices."""
    from topologies import Link, Node, Tier, Topology

    nodes = [Node("c", Tier.CLOUD), *(Node(f"g{j}", Tier.GATEWAY) for j in range(2))]
    nodes += [Node(f"d{i}", Tier.DEVICE) for i in range(4)]
    links = [Link(0, 1 + j, 1e9, 5.0) for j in range(2)]
    links += [Link(1 + i // 2, 3 + i, 1e9, 1.0) for i in range(4)]
    links += [Link(1, 2, 1e9, 0.5), Link(3, 4, 1e9, 0.1)]
    Topology("near", tuple(nodes), tuple(links)).save(tmp_path / "near.json")
    near = {"topology": {"kind": "file", "path": str(tmp_path / "near.json")}}
    ring = {"algorithm": {"name": "star-ring-hfl", "top": "ring", "lower": "ring"}}
    run_in(scenario(near, ring, {"run": {"epochs": 2}}))
    transfers = pd.read_parquet(tmp_path / "run" / "transfers.parquet")
    took = (transfers["end_s"] - transfers["start_s"]).round(1)
    by_pair = dict(zip(zip(transfers["src"], transfers["dst"], strict=True), took, strict=True))
    assert by_pair["g0", "g1"] == 0.5
    assert by_pair["d0", "d1"] == 0.1
    assert by_pair["d2", "d3"] == 2.0
