"""From a validated scenario to a simulation: the only place that knows all the parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from algorithms import ALGORITHMS
from algorithms.warm_up import WarmUp
from ns3_scenarios.section import Ns3Section, ProfileSection
from selection import ASSOCIATORS, SELECTORS
from selection.alike import Alike
from selection.associators import Associator
from selection.ledger import Ledger
from selection.manager import DeviceManager
from selection.milp import check_solver
from selection.utility import LearningUtility
from simulator.compute import DeviceCompute
from simulator.data.catalog import data_folder
from simulator.data.dataset import Dataset, load
from simulator.data.partition import choose_test, partition
from simulator.data.picture import plot_labels
from simulator.device_classes import ClassCompute, ClassDelay
from simulator.engines import build_engine
from simulator.errors import UserError
from simulator.flops import training_flops
from simulator.kernel import Algorithm
from simulator.learner import DeferredLearner
from simulator.models import build_model, model_bytes
from simulator.network import Network
from simulator.networks import build_network
from simulator.no_learning import NOMINAL_SAMPLES, NoLearner
from simulator.parts import FOREVER, Compute, Goals, Learner, World
from simulator.rng import Stream, generator
from simulator.scenario import Scenario
from simulator.task import Task
from simulator.units import NodeId, to_ns
from topologies import Topology, load_topology


def build(scenario: Scenario, base: Path, workers: int = 1) -> World:
    """Load and check everything the scenario names; its paths start at ``base``."""
    seed = scenario.run.seed
    for section in (scenario.selection, scenario.association):
        check_solver(getattr(section, "solver", "auto"))
    topology = load_topology(scenario.topology, seed, base)
    dataset = load(scenario.data.name, data_folder()) if _needs_data(scenario) else None
    module = None if dataset is None else _module(scenario, dataset)
    compute = _compute(scenario, topology, module, dataset, base)
    network = _network(scenario, topology, compute, base)
    nbytes = model_bytes(scenario.model, module)
    associator = ASSOCIATORS[scenario.association.name](scenario.association)
    association = associator.associate(
        topology, lambda a, b: network.estimate(a, b, nbytes), generator(seed, Stream.ASSOCIATION)
    )
    learner = _learner(scenario, dataset, association, nbytes, workers)
    _tell_labels(scenario, associator, learner)
    return World(
        topology=topology,
        network=network,
        compute=compute,
        learner=learner,
        algorithm=_algorithm(scenario),
        manager=_manager(scenario, topology, associator),
        association=association,
        goals=_goals(scenario),
        seed=seed,
    )


def _algorithm(scenario: Scenario) -> Algorithm:
    algorithm: Algorithm = ALGORITHMS[scenario.algorithm.name](scenario.algorithm)
    sketch = scenario.sketch
    if not _looks_at_gradients(scenario) or sketch.warm_up == "none":
        return algorithm
    timeouts = (
        sketch.warm_up_timeout_s,
        getattr(scenario.algorithm, "device_timeout_s", None),
        getattr(scenario.algorithm, "gateway_timeout_s", None),
    )
    timeout_s = next((timeout for timeout in timeouts if timeout is not None), None)
    return WarmUp(algorithm, sketch.warm_up_share, timeout_s, sketch.warm_up)


def _looks_at_gradients(scenario: Scenario) -> bool:
    selector = SELECTORS[scenario.selection.name]
    return bool(selector.uses_gradients or ASSOCIATORS[scenario.association.name].uses_gradients)


def _manager(scenario: Scenario, topology: Topology, associator: Associator) -> DeviceManager:
    section = scenario.selection
    sketch = scenario.sketch if _looks_at_gradients(scenario) else None
    gradients = LearningUtility([] if sketch is None else list(topology.devices))
    ledger = Ledger(gradients, section.budget_bytes_per_s, section.latency_weight)
    selector = SELECTORS[section.name](section)
    return DeviceManager(selector, associator, ledger, sketch, scenario.training.learning_rate)


def _needs_data(scenario: Scenario) -> bool:
    """For learning, for the size of the model, or for the operations it takes."""
    learns, nbytes = scenario.run.learning != "none", scenario.model.transfer_bytes
    return learns or nbytes is None or isinstance(scenario.compute, ClassDelay)


def _module(scenario: Scenario, dataset: Dataset) -> nn.Module:
    _check_fit(scenario, dataset)
    return build_model(scenario.model, dataset.x_train.shape[1:], outputs_of(dataset))


def _learner(
    scenario: Scenario,
    dataset: Dataset | None,
    association: dict[NodeId, NodeId],
    nbytes: int,
    workers: int,
) -> Learner:
    if scenario.run.learning == "none":
        samples = scenario.data.samples_per_device or NOMINAL_SAMPLES
        return NoLearner(nbytes, scenario.training, samples)
    assert dataset is not None
    task = make_task(scenario, dataset, association)
    engine = build_engine(scenario.run.engine, task, workers, scenario.run.ray_address)
    return DeferredLearner(task, engine)


def _tell_labels(scenario: Scenario, associator: Associator, learner: Learner) -> None:
    """Devices know which labels they have."""
    if not isinstance(associator, Alike):
        return
    if not isinstance(learner, DeferredLearner) or learner.task.regression:
        raise UserError(
            "[association] name = 'alike' puts devices together by their labels, and there are "
            f"none (data set {scenario.data.name!r}, learning {scenario.run.learning!r}); use "
            "'alike-gradients' or 'shares'"
        )
    labels, classes = learner.task.y_train.numpy(), learner.task.outputs
    for device, part in learner.task.parts.items():
        counts = np.bincount(labels[part], minlength=classes)
        associator.shares[device] = (counts / len(part)).tolist()


def _network(scenario: Scenario, topology: Topology, compute: Compute, base: Path) -> Network:
    section, seed = scenario.network, scenario.run.seed
    if isinstance(section, ProfileSection):
        from ns3_scenarios.profile import build_profile_network

        return build_profile_network(topology, section, seed, base)
    if not isinstance(section, Ns3Section):
        return build_network(section, topology, seed, base)
    from ns3_scenarios.network import Ns3Network

    classes = None
    if isinstance(compute, ClassCompute):
        classes = {device: compute.class_of(device) for device in topology.devices}
    return Ns3Network(topology, section, seed, classes)


def _compute(
    scenario: Scenario,
    topology: Topology,
    module: nn.Module | None,
    dataset: Dataset | None,
    base: Path,
) -> Compute:
    section, devices, seed = scenario.compute, topology.devices, scenario.run.seed
    if not isinstance(section, ClassDelay):
        return DeviceCompute(section, devices, seed, base)
    assert dataset is not None
    assert module is not None
    sample = torch.from_numpy(dataset.x_train[:1])
    flops = training_flops(module, tuple(sample.shape[1:]), sample.dtype)
    return ClassCompute(section, devices, seed, flops)


def with_files(scenario: Scenario, base: Path) -> Scenario:
    """Name what is otherwise looked up, so that it can be copied along with the run."""
    section = scenario.network
    if not isinstance(section, ProfileSection) or section.path is not None:
        return scenario
    from ns3_scenarios.profile import find_profile

    topology = load_topology(scenario.topology, scenario.run.seed, base)
    named = section.model_copy(update={"path": find_profile(topology, section).resolve()})
    return scenario.model_copy(update={"network": named})


def _check_fit(scenario: Scenario, dataset: Dataset) -> None:
    """The model's shape is checked where it is built; here, that it takes this kind of input."""
    characters = np.issubdtype(dataset.x_train.dtype, np.integer)
    if characters != (scenario.model.name == "char-lstm"):
        kind = "characters" if characters else "numbers"
        raise UserError(
            f"[model] name = {scenario.model.name!r} does not fit data set {dataset.name!r}, whose "
            f"samples are {kind}; 'char-lstm' is for characters, every other model for numbers"
        )
    target = scenario.run.target
    if target is not None and dataset.num_classes is not None and not 0 < target <= 1:
        raise UserError(
            f"run.target = {target:g} cannot be an accuracy on {dataset.name!r}; "
            "use a share of right answers, above 0 and at most 1"
        )


def outputs_of(dataset: Dataset) -> int:
    return dataset.num_classes or dataset.y_train.shape[1]


def parts_of(
    scenario: Scenario, dataset: Dataset, association: dict[NodeId, NodeId]
) -> dict[NodeId, np.ndarray]:
    """Each device's samples; devices of one gateway are one group."""
    rng = generator(scenario.run.seed, Stream.PARTITION)
    devices, groups = list(association), list(association.values())
    parts = partition(dataset, scenario.data, len(devices), groups, rng)
    return dict(zip(devices, parts, strict=True))


def draw_partition(scenario: Scenario, world: World, path: Path) -> None:
    """A picture of the labels on each device."""
    dataset = load(scenario.data.name, data_folder())
    parts = parts_of(scenario, dataset, world.association)
    names = [world.topology.nodes[device].name for device in parts]
    plot_labels(dataset, list(parts.values()), names, path, list(world.association.values()))


def make_task(scenario: Scenario, dataset: Dataset, association: dict[NodeId, NodeId]) -> Task:
    tests = choose_test(dataset, scenario.data, generator(scenario.run.seed, Stream.DATA))
    return Task(
        x_train=torch.from_numpy(dataset.x_train),
        y_train=torch.from_numpy(dataset.y_train),
        x_test=torch.from_numpy(dataset.x_test[tests]),
        y_test=torch.from_numpy(dataset.y_test[tests]),
        outputs=outputs_of(dataset),
        regression=dataset.num_classes is None,
        parts=parts_of(scenario, dataset, association),
        model=scenario.model,
        training=scenario.training,
        seed=scenario.run.seed,
    )


def _goals(scenario: Scenario) -> Goals:
    run, record = scenario.run, scenario.record
    return Goals(
        max_time=FOREVER if run.sim_time_s is None else to_ns(run.sim_time_s),
        max_epochs=run.epochs,
        target=run.target,
        stop_at_target=run.stop_at_target,
        evaluate_every_epochs=record.evaluate_every_epochs,
        evaluate_every=None if record.evaluate_every_s is None else to_ns(record.evaluate_every_s),
        evaluate_gateway_rounds=record.evaluate_gateway_rounds,
    )
