"""Energy of radios and processors, by ns-3's framework."""

from pathlib import Path

import pandas as pd
import pytest

from ns3_scenarios.network import Ns3Network
from ns3_scenarios.section import Ns3Section
from simulator.device_classes import DeviceClass
from topologies import load_topology
from topologies.section import FileTopology

pytestmark = pytest.mark.ns3
SECOND = 10**9
SEND_W, RECEIVE_W, IDLE_W, SLEEP_W = (3 * ampere for ampere in (0.380, 0.313, 0.273, 0.033))
"""ns-3's currents for 802.11n, at 3 V."""
MACHINE = DeviceClass(gflops=0.001, cores=2, idle_w=1.5, busy_w=7.0)
CLASSES = {
    "kind": "classes", "mix": {"slow": 1}, "classes": {"slow": MACHINE.model_dump()},
}  # fmt: skip
METERED = {
    "network": {"kind": "ns3", "energy": True},
    "topology": {"kind": "file", "path": "campus-12"},
    "compute": CLASSES,
}


@pytest.fixture
def network():
    """network(): campus-12 with meters, a device, and a gateway that it reaches."""
    running = []

    def make(known=True, **options):
        topology = load_topology(FileTopology(path=Path("campus-12")), 0, Path())
        classes = dict.fromkeys(topology.devices, MACHINE) if known else None
        section = Ns3Section(**{"energy": True} | options)
        running.append(Ns3Network(topology, section, 1, classes))
        device = topology.devices[0]
        return running[-1], device, topology.reach(device)[0]

    yield make
    for one in running:
        one.close()


def test_a_sleeping_radio_and_an_idle_processor_cost_power_by_time(network):
    net, device, _ = network()
    used = net.energy(100 * SECOND)
    assert len(used) == 12
    assert used[device].radio_j == pytest.approx(100 * SLEEP_W)
    assert used[device].processor_j == pytest.approx(100 * 1.5)


def test_a_busy_processor_costs_its_own_power(network):
    net, device, _ = network()
    net.compute(5 * SECOND, device, 10 * SECOND)
    net.advance(100 * SECOND)
    assert net.energy(20 * SECOND)[device].processor_j == pytest.approx(10 * 7.0 + 10 * 1.5)


def test_a_replaced_computation_costs_until_it_is_given_up(network):
    net, device, _ = network()
    given_up = net.compute(0, device, 10 * SECOND)
    net.advance(4 * SECOND)
    net.cancel(given_up)
    assert net.energy(20 * SECOND)[device].processor_j == pytest.approx(4 * 7.0 + 16 * 1.5)


def test_a_processor_without_figures_is_unknown(network):
    net, device, _ = network(known=False)
    assert net.energy(SECOND)[device].processor_j is None


def test_without_meters_nothing_is_told(network):
    net, device, gateway = network(energy=False)
    net.send(0, gateway, device, 1000)
    assert net.advance(SECOND).radio_j is None
    assert net.energy(SECOND) == {}


def test_a_transfer_costs_between_an_idle_and_a_sending_radio(network):
    net, device, gateway = network()
    used = []
    for number, nbytes in enumerate((100_000, 1_000_000)):
        start = 100 * number * SECOND
        net.send(start, device, gateway, nbytes)
        done = net.advance(start + 90 * SECOND)
        seconds = (done.time - start) / SECOND
        assert IDLE_W * seconds < done.radio_j < SEND_W * seconds
        used.append(done.radio_j)
    assert used[1] > 5 * used[0]
    net.send(200 * SECOND, gateway, 0, 1000)
    assert net.advance(300 * SECOND).radio_j is None, "no device has a part in the backhaul"


def test_sending_costs_more_than_receiving(network):
    net, device, gateway = network()
    watts = []
    for start, ends in ((0, (gateway, device)), (100 * SECOND, (device, gateway))):
        net.send(start, *ends, 1_000_000)
        done = net.advance(start + 90 * SECOND)
        watts.append(done.radio_j * SECOND / (done.time - start))
    down, up = watts
    assert IDLE_W < down < RECEIVE_W < up < SEND_W


def test_meters_change_no_nanosecond_and_repeat_their_joules(network):
    def play(**options):
        net, device, gateway = network(**options)
        net.send(0, gateway, device, 500_000)
        net.send(0, device, gateway, 500_000)
        return [net.advance(10**12) for _ in range(2)], net.energy(10**12)

    metered = play()
    assert metered == play()
    assert [d.time for d in metered[0]] == [d.time for d in play(energy=False)[0]]


def test_a_day_without_traffic_costs_nothing_with_meters_too(network):
    net, device, gateway = network()
    net.send(0, gateway, device, 20_000)
    assert net.advance(30 * SECOND) is not None
    assert net.advance(30 * SECOND) is None
    before = net._ns3.ask("events")
    assert net.advance(86_400 * SECOND) is None
    assert net._ns3.ask("events") - before < 100
    expected = SLEEP_W * 86_400
    assert net.energy(86_400 * SECOND)[device].radio_j == pytest.approx(expected, rel=1e-3)


def test_a_run_leaves_energy_by_device_and_in_total(scenario, run_in, tmp_path):
    summary = run_in(scenario(METERED))
    table = pd.read_parquet(tmp_path / "run" / "energy.parquet")
    assert list(table) == ["device", "class", "radio_j", "processor_j"]
    assert len(table) == 12
    assert set(table["class"]) == {"slow"}
    assert summary["energy_radio_j"] == pytest.approx(table["radio_j"].sum())
    assert summary["energy_processor_j"] == pytest.approx(table["processor_j"].sum())
    transfers = pd.read_parquet(tmp_path / "run" / "transfers.parquet")
    assert transfers[transfers["kind"] == "backhaul"]["radio_j"].isna().all()
    by_device = transfers[transfers["kind"] != "backhaul"]["radio_j"]
    assert (by_device > 0).all()
    assert by_device.sum() < summary["energy_radio_j"]


def test_a_resumed_run_has_used_the_same(scenario, run_in, tmp_path):
    whole = run_in(scenario(METERED), "whole")
    parts = run_in(scenario(METERED), "parts", after_events=30)
    assert parts["event_log_sha256"] == whole["event_log_sha256"]
    for name in ("energy.parquet", "transfers.parquet"):
        same = [pd.read_parquet(tmp_path / run / name) for run in ("whole", "parts")]
        pd.testing.assert_frame_equal(*same, check_exact=True)


def test_a_run_without_meters_leaves_no_energy(scenario, run_in, tmp_path):
    summary = run_in(scenario(METERED, {"network": {"energy": False}}))
    assert summary["energy_radio_j"] is None
    assert summary["energy_processor_j"] is None
    assert not (tmp_path / "run" / "energy.parquet").exists()


def test_energy_is_shown_when_it_is_known(scenario, run_in):
    from rich.console import Console

    from simulator.compare import summary_table

    def shown(*changes):
        console = Console(width=80)
        with console.capture() as capture:
            console.print(summary_table(run_in(scenario(METERED, *changes), str(len(changes)))))
        return capture.get()

    assert "energy processor" in shown()
    assert "energy" not in shown({"network": {"energy": False}})
