"""What the tests of algorithms and of selection share: whole runs that can be followed by hand.

       cloud
   1 s /    \\ 2 s           local training adds: d0 +4, d1 +8, d2 -6 to every number,
      g0    g1             and takes 10 s, 15 s, 4 s
1 s  /  \\ 2 s \\ 1 s
   d0    d1    d2          other gateway: d0 and d1 to g1 3 s, d2 to g0 4 s
"""

from types import SimpleNamespace

import torch

from algorithms.async_hfl import AsyncHFL
from algorithms.fedasync import FedAsync
from algorithms.semi_async import GatewayPeriods
from algorithms.star_ring_hfl import ClientRings
from algorithms.warm_up import WarmUp
from selection.associators import Nearest, NearestSection
from selection.ledger import Ledger
from selection.manager import DeviceManager
from selection.simple import SelectAll, SelectAllSection
from selection.utility import LearningUtility
from simulator.association import Association
from simulator.events import Job, Result, Update
from simulator.kernel import Simulation
from simulator.networks.noise import Noise, NoisySection
from simulator.networks.table import TableNetwork
from simulator.parts import Goals, Score, World
from simulator.rng import generator
from simulator.units import SECOND
from topologies import Link, Node, Tier, Topology

CLOUD, G0, G1, D0, D1, D2 = range(6)
NODES = (
    Node("cloud", Tier.CLOUD), Node("g0", Tier.GATEWAY), Node("g1", Tier.GATEWAY),
    Node("d0", Tier.DEVICE), Node("d1", Tier.DEVICE), Node("d2", Tier.DEVICE),
)  # fmt: skip
DELAYS_S = {
    (G0, CLOUD): 1, (G1, CLOUD): 2, (D0, G0): 1, (D1, G0): 2, (D2, G1): 1,
    (D0, G1): 3, (D1, G1): 3, (D2, G0): 4,
}  # fmt: skip
END_TO_END_S = {(D0, CLOUD): 2, (D1, CLOUD): 3}
"""Where gateways only forward."""
STEP = {D0: 4.0, D1: 8.0, D2: -6.0}
TRAINING_S = {D0: 10, D1: 15, D2: 4}
PAIR = {D0: G0, D1: G0}
ALL = {D0: G0, D1: G0, D2: G1}


def manager(topology, selector=None, budget=None, associator=None, sketch=None):
    """Who asks for everybody, or for whom ``selector`` says."""
    ledger = Ledger(LearningUtility(list(topology.devices)), budget)
    selector = selector or SelectAll(SelectAllSection())
    return DeviceManager(selector, associator or Nearest(NearestSection()), ledger, sketch)


class HandLearner:
    """Training whose result is plain to see."""

    model_bytes = 8

    def __init__(self, samples=None):
        self.samples = samples or dict.fromkeys(STEP, 1)
        self.jobs = []

    def initial_model(self):
        return torch.tensor([0.0, 1.0])

    def num_samples(self, node):
        return self.samples[node]

    def work(self, job):
        return 1, self.samples[job.node]

    def train(self, job, due=0):
        self.jobs.append(job)
        return Update(
            job, self.samples[job.node], 1, lambda _: Result(job.start + STEP[job.node], 0.5)
        )

    def expect(self, updates):
        pass

    def evaluate(self, model):
        return Score(None, float(model[0]))


class Quadratics(HandLearner):
    """Device i goes down curvature / 2 * (w - centre)^2 by plain gradient steps from w = 5."""

    def __init__(self, curvature, centre, steps=20, rate=0.1, samples=None):
        super().__init__(samples)
        self.curvature, self.centre, self.steps, self.rate = curvature, centre, steps, rate

    def initial_model(self):
        return torch.tensor([5.0])

    def work(self, job):
        return self.steps, self.samples[job.node]

    def train(self, job, due=0):
        self.jobs.append(job)
        size = self.samples[job.node]
        return Update(job, size, self.steps, lambda _: Result(self.descend(job), 0.0), self.rate)

    def descend(self, job):
        w = job.start
        for _ in range(self.steps):
            gradient = self.curvature[job.node] * (w - self.centre[job.node])
            gradient = gradient + job.pull * (w - job.start)
            w = w - self.rate * (
                gradient if job.whole_shift is None else gradient + job.whole_shift
            )
        return w


class HandCompute:
    """``first`` has the seconds of some devices' first job; None: it never ends."""

    def __init__(self, first, usual=TRAINING_S):
        self.first, self.usual = first, usual

    def estimate(self, node, steps, samples):
        return 0

    def duration(self, node, count, steps, samples):
        usual = self.usual[node]
        seconds = self.first.get(node, usual) if count == 0 else usual
        return None if seconds is None else seconds * SECOND


class Mover:
    """Associates as its plans say: one for each epoch, by device its new gateway."""

    uses_gradients = False
    params = SimpleNamespace(every_epochs=1)

    def __init__(self, *plans):
        self.plans = list(plans)

    def associate(self, topology, estimate, rng):
        raise NotImplementedError

    def reassociate(self, sim, ledger):
        return self.plans.pop(0) if self.plans else {}


def simulation(
    algorithm, *, epochs=None, who=PAIR, lose=(), slow=(), first=(), until_s=1000, learner=None,
    **management,
):  # fmt: skip
    """Not started; ``management`` is for ``manager``."""
    topology = Topology("hand", NODES, tuple(Link(a, b, 1e6, 0.0) for a, b in DELAYS_S), ())
    known = (DELAYS_S | END_TO_END_S).items()
    delays = {p: s * SECOND for (a, b), s in known for p in ((a, b), (b, a))}
    network = HandNetwork(topology, delays, Noise(NoisySection(), 0), "hand")
    network.lose, network.slow = lose, dict(slow)
    world = World(
        topology=topology,
        network=network,
        compute=HandCompute(dict(first)),
        learner=learner or HandLearner(),
        algorithm=algorithm,
        manager=manager(topology, **management),
        association=dict(who),
        goals=Goals(max_epochs=epochs, max_time=until_s * SECOND),
        seed=0,
    )
    return Simulation(world, ListRecorder())


def run(algorithm, **settings):
    sim = simulation(Watched(algorithm), **settings)
    sim.start()
    sim.run(lambda: 0.0)
    return sim


def cloud_rows(sim):
    return [(r["time_s"], r["epoch"], r["loss"]) for r in sim.recorder.rows if r["tier"] == "cloud"]


def rows(sim, tier, *names):
    found = [r for r in sim.recorder.rows if r["tier"] == tier]
    return [tuple(r[name] for name in ("time_s", *names)) for r in found]


def starts(sim, device):
    return [job.start[0].item() for job in sim.learner.jobs if job.node == device]


def arrivals(sim, src, dst):
    found = sim.recorder.transfers
    return [t for t, status, s, d in found if (status, s, d) == ("arrived", src, dst)]


def overhead(sim):
    """Of all that is no model: when it ended, how, from whom to whom, how many bytes."""
    return [row for row in sim.recorder.overhead if row[4]]


class Watched:
    """Checks after every event that the ledger's busy devices are the algorithm's, and no others.

    No gateway's are over its budget, and nobody is busy at two gateways.
    """

    def __init__(self, algorithm):
        self.algorithm = algorithm

    def start(self, sim):
        self.algorithm.start(sim)
        self.check(sim)

    def handle(self, sim, event):
        self.algorithm.handle(sim, event)
        self.check(sim)

    def check(self, sim):
        ledger = sim.manager.ledger
        holding = {g: set(devices) for g, devices in ledger.under_way.items() if devices}
        assert holding == busy(self.algorithm)
        everybody = [device for devices in holding.values() for device in devices]
        assert len(everybody) == len(set(everybody)), f"busy at two gateways: {holding}"
        if ledger.budget is not None:
            for gateway, running in ledger.under_way.items():
                held = sum(r.rate for r in running.values())
                assert held <= ledger.budget * (1 + 1e-9), (gateway, running)


def busy(algorithm):
    """By gateway, or the cloud itself: whom the algorithm is waiting for."""
    found = {}
    if isinstance(algorithm, WarmUp):
        found = {g: set(s.under_way) for g, s in algorithm.gateways.items()}
        algorithm = algorithm.algorithm
    for node, waiting in waited_for(algorithm).items():
        found[node] = found.get(node, set()) | set(waiting)
    return {node: devices for node, devices in found.items() if devices}


def waited_for(algorithm):
    if isinstance(algorithm, FedAsync):
        return {CLOUD: algorithm.under_way}
    lower = algorithm if isinstance(algorithm, AsyncHFL) else algorithm.lower
    if isinstance(lower, AsyncHFL | GatewayPeriods):
        return {gateway: state.under_way for gateway, state in lower.gateways.items()}
    if isinstance(lower, ClientRings):
        return {gateway: state.waiting for gateway, state in lower.gateways.items()}
    return {gateway: state.gathering.waiting for gateway, state in lower.gateways.items()}


class FakeSim:
    """As much of a simulation as selection looks at. ``ways_s``: (gateway, device) one way."""

    def __init__(self, association, ways_s=None, model_bytes=100, reach=None, seed=0, gateways=()):
        self.association = Association(association)
        gateways = tuple(gateways or sorted(set(association.values())))
        self.topology = SimpleNamespace(
            gateways=gateways, reach=lambda d: (reach or {}).get(d, gateways), cloud=0
        )
        self.ways_s = ways_s or {}
        self.learner = SimpleNamespace(model_bytes=model_bytes)
        self.model = torch.zeros(2)
        self.seed, self.now, self.rows, self._draws = seed, 0, [], 0

    def estimate_round(self, gateway, device):
        return self.estimate(gateway, device) + self.estimate(device, gateway)

    def estimate(self, src, dst):
        pair = (src, dst) if src in self.topology.gateways else (dst, src)
        return round(self.ways_s.get(pair, 1) * SECOND)

    def devices_of(self, gateway):
        return self.association.members(gateway)

    def rng(self, stream, node=0):
        self._draws += 1
        return generator(self.seed, stream, node, self._draws)

    def record(self, **row):
        self.rows.append(row)

    def round(self, ledger, gateway, device, seconds, answered=True):
        """The device has a round with the gateway."""
        ledger.begin(self, gateway, device)
        self.now += round(seconds * SECOND)
        ledger.end(self, gateway, device, answered)


def update_of(device, change, loss=0.5, samples=1, steps=1):
    """What a device gives back that has moved by ``change``."""
    change = torch.tensor(change)
    job = Job(node=device, start=torch.zeros(len(change)))
    return Update(job, samples, steps, lambda _: Result(change, loss))


class ListRecorder:
    def __init__(self):
        self.rows, self.transfers, self.overhead = [], [], []

    def transfer(self, end, status, flow, src, dst, kind, nbytes, start, reason, extra=0, *_):
        self.transfers.append((end // SECOND, status, src, dst))
        self.overhead.append((end // SECOND, status, src, dst, extra))

    def trained(self, time, update):
        pass

    def alarm(self, time, tag):
        pass

    def row(self, time, row):
        self.rows.append({"time_s": time / SECOND} | row)


class HandNetwork(TableNetwork):
    """Loses the flows with the given numbers; ``slow`` ones take so many seconds."""

    lose: tuple
    slow: dict

    def send(self, now, src, dst, nbytes):
        usual = self._delays[src, dst]
        self._delays[src, dst] = self.slow.get(self._sent, usual // SECOND) * SECOND
        flow = super().send(now, src, dst, nbytes)
        self._delays[src, dst] = usual
        return flow

    def advance(self, limit):
        done = super().advance(limit)
        return done and (done._replace(lost="gone") if done.flow in self.lose else done)
