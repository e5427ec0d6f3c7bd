"""Computations in ns-3's own queue: one clock for all that happens."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ns3_scenarios.network import Ns3Network
from ns3_scenarios.section import Ns3Section
from simulator.network import Completion, ComputingNetwork
from topologies import load_topology
from topologies.section import FileTopology

pytestmark = pytest.mark.ns3
SECOND = 10**9
CLASSES = {
    "kind": "classes", "mix": {"slow": 1},
    "classes": {"slow": {"gflops": 0.001, "cores": 2, "idle_w": 1.0, "busy_w": 2.0}},
}  # fmt: skip
ON_NS3 = {"network": {"kind": "ns3"}, "topology": {"kind": "file", "path": "campus-12"}}


@pytest.fixture
def network():
    """network(): campus-12 on ns-3, its devices, and a gateway that the third of them reaches."""
    running = []

    def make(**options):
        topology = load_topology(FileTopology(path=Path("campus-12")), 0, Path())
        running.append(Ns3Network(topology, Ns3Section(**options), 1))
        return running[-1], topology.devices, topology.reach(topology.devices[2])[0]

    yield make
    for one in running:
        one.close()


def drain(net, limit=10**14):
    ended = []
    while (done := net.advance(limit)) is not None:
        ended.append(done)
    return ended


def test_computations_end_to_the_nanosecond_among_transfers(network):
    net, devices, gateway = network()
    assert isinstance(net, ComputingNetwork)
    long = net.compute(0, devices[0], 5 * SECOND + 1)
    transfer = net.send(0, gateway, devices[2], 20_000)
    short = net.compute(7, devices[1], 3)
    assert (long, transfer, short) == (0, 1, 2)
    ended = drain(net)
    assert [done.flow for done in ended] == [short, transfer, long]
    assert ended[0] == Completion(short, 10)
    assert ended[2] == Completion(long, 5 * SECOND + 1)


def test_equal_computations_end_in_the_order_of_asking(network):
    net, devices, _ = network()
    flows = [net.compute(SECOND, device, 0) for device in reversed(devices)]
    assert drain(net) == [Completion(flow, SECOND) for flow in flows]


def test_a_cancelled_computation_does_not_end(network):
    net, devices, _ = network()
    given_up = net.compute(0, devices[0], 5 * SECOND)
    assert net.advance(2 * SECOND) is None
    net.cancel(given_up)
    kept = net.compute(2 * SECOND, devices[0], 5 * SECOND)
    assert drain(net) == [Completion(kept, 7 * SECOND)]


def test_cancelled_computations_leave_the_queue(network):
    net, devices, _ = network()
    for _ in range(1000):
        net.cancel(net.compute(0, devices[0], 5 * SECOND))
    before = net._ns3.ask("events")
    assert net.advance(10 * SECOND) is None
    assert net._ns3.ask("events") - before < 100


def test_a_saved_network_computes_on(network):
    net, devices, gateway = network()
    given_up = net.compute(0, devices[0], 5 * SECOND)
    net.compute(0, devices[1], 3 * SECOND)
    net.send(0, gateway, devices[2], 200_000)
    net.advance(2 * SECOND)
    net.cancel(given_up)
    net.compute(2 * SECOND, devices[0], SECOND // 3)
    state = net.save()
    again, *_ = network()
    again.load(state)
    assert drain(again) == drain(net) != []


def trained_lines(folder):
    events = [line.split("\t") for line in (folder / "events.log").read_text().splitlines()]
    begun = {e[4]: int(e[0]) for e in events if e[1] == "arrived" and e[5] == "down"}
    return [int(e[0]) - begun[e[2]] for e in events if e[1] == "trained"]


def test_a_run_logs_the_end_of_training_at_its_nanosecond(scenario, run_in, tmp_path):
    """120 or 121 samples a device, 2560 operations each, two million a second."""
    run_in(scenario(ON_NS3, {"compute": CLASSES, "run": {"epochs": 1}}))
    lasted = trained_lines(tmp_path / "run")
    assert len(lasted) == 12
    assert set(lasted) == {120 * 1_280_000, 121 * 1_280_000}


def test_resumed_in_the_middle_of_a_computation(scenario, run_in, tmp_path):
    """Twelve models go down, the first devices compute when the last model arrives."""
    told = scenario(ON_NS3, {"compute": CLASSES | {"sigma": 1.0}, "run": {"epochs": 2}})
    whole = run_in(told, "whole")
    for after in (12, 15, 20):
        parts = run_in(told, f"parts-{after}", after_events=after)
        assert parts["event_log_sha256"] == whole["event_log_sha256"]


@dataclass
class Restart:
    """Sends a second job to a device that is computing its first."""

    seen: list = field(default_factory=list)

    def start(self, sim):
        from simulator.events import Job

        device = sim.topology.devices[0]
        sim.train(Job(device, sim.model, "first"))
        sim.after(0.1, "again")

    def handle(self, sim, event):
        from simulator.events import Alarm, Job

        if isinstance(event, Alarm):
            sim.train(Job(sim.topology.devices[0], sim.model, "second"))
        else:
            self.seen.append((sim.now, event.update.job.tag))


def test_a_job_on_a_busy_device_replaces_the_one_it_is_running(scenario):
    from dataclasses import replace

    from simulator.build import build
    from simulator.kernel import Simulation

    class Silent:
        def trained(self, *row): ...
        def alarm(self, *row): ...
        def row(self, *row): ...

    constant = {"kind": "constant", "delay_s": 1.0}
    world = build(scenario(ON_NS3, {"compute": constant}), Path())
    try:
        sim = Simulation(replace(world, algorithm=Restart()), Silent())
        sim.start()
        sim.run(lambda: float("inf"))
    finally:
        world.network.close()
    assert sim.algorithm.seen == [(1_100_000_000, "second")]
    assert sim.progress.stop_reason == "stalled"
    assert sim.progress.jobs_abandoned == 1
    assert world.network._completions == [(1, 1_100_000_000, 0)], "the first was cancelled in ns-3"
