"""Whole runs on unreliable networks, looked at after every event: nobody holds what is not his.

by_hand.Watched checks that the ledger's busy devices are those whom the algorithm waits for, that
none is busy at two gateways, and that no gateway's are over its budget.
"""

from dataclasses import replace
from pathlib import Path

from by_hand import ListRecorder, Watched
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import SELECTORS
from simulator.build import build
from simulator.kernel import Simulation
from simulator.scenario import Scenario

ALGORITHMS = [
    {"name": "fedavg", "gateway_rounds": 2, "gateway_timeout_s": 4.0, "cloud_timeout_s": 15.0},
    {"name": "async-hfl", "updates_per_upload": 4, "device_timeout_s": 4.0},
    {
        "name": "async-hfl", "updates_per_upload": 2, "device_timeout_s": 4.0, "concurrency": 2,
        "cloud_sends_to": "uploader", "cloud_model": "at-once", "in_flight": "drop",
    },
    {"name": "rfl-ha", "gateway_rounds": 2, "gateway_timeout_s": 4.0},
    {
        "name": "semi-async", "period_s": 2.0, "gateway_periods": 2, "device_timeout_s": 4.0,
        "cloud_timeout_s": 15.0,
    },
    {
        "name": "semi-async", "period_s": 2.0, "gateway_periods": 2, "device_timeout_s": 4.0,
        "cloud_timeout_s": 15.0, "absent": "repeat",
    },
    {
        "name": "two-level", "gateway_rounds": 2, "gateway_timeout_s": 4.0, "cloud_timeout_s": 15.0,
        "cloud": {"name": "hga-g", "buffer": 1}, "gateway": {"name": "s-dyn"},
    },
    {
        "name": "two-level", "gateway_rounds": 2, "gateway_timeout_s": 4.0, "cloud_timeout_s": 3.0,
        "cloud": {"name": "sync-avg"}, "gateway": {"name": "s-scaffold-exp"},
    },
    {"name": "fedasync", "device_timeout_s": 4.0},
    {"name": "fedasync", "device_timeout_s": 4.0, "concurrency": 2, "turns": "longest-idle"},
]  # fmt: skip
MODEST = ("all", "random", "tifl")
"""Selectors that need no bound, which the cloud of fedasync does not keep."""
ASSOCIATIONS = [
    {"name": "nearest"},
    {"name": "rfl-ha", "every_epochs": 1, "tolerance": 0.1},
    {"name": "utility-ilp", "every_epochs": 2, "solver": "greedy"},
]
_SOLVER = {"utility-ilp": {"solver": "greedy"}}


@st.composite
def scenarios(draw):
    algorithm = draw(st.sampled_from(ALGORITHMS))
    two_tiers = algorithm["name"] == "fedasync"
    selector = draw(st.sampled_from(MODEST if two_tiers else list(SELECTORS)))
    gateways = draw(st.integers(1, 3))
    dropouts = draw(st.sampled_from([0.0, 0.2]))
    timeouts = dropouts > 0 or draw(st.booleans())
    algorithm = {k: v for k, v in algorithm.items() if timeouts or not k.endswith("timeout_s")}
    unbounded = st.none() if selector in MODEST else st.nothing()
    budget = draw(unbounded if two_tiers else unbounded | st.floats(500, 50_000))
    selection = {"name": selector, **_SOLVER.get(selector, {})}
    return {
        "run": {
            "seed": draw(st.integers(0, 1000)), "learning": "none",
            "epochs": 40 if two_tiers else 6, "sim_time_s": 100.0,
        },
        "topology": {
            "kind": "tree", "gateways": gateways, "devices": draw(st.integers(gateways, 8)),
            "reach": draw(st.integers(1, gateways)),
        },
        "network": {
            "kind": "flow", "noise_sigma": draw(st.sampled_from([0.0, 0.5])),
            "loss_probability": draw(st.sampled_from([0.0, 0.1, 0.4])),
        },
        "compute": {
            "kind": "exponential", "shift_s": 0.1, "mean_s": 0.5, "drawn": "job",
            "dropout_probability": dropouts,
        },
        "data": {"name": "digits"},
        "model": {"name": "logistic", "transfer_bytes": 2600},
        "training": {"learning_rate": 0.1, "batch_size": 20},
        "algorithm": algorithm,
        "selection": selection | ({} if budget is None else {"budget_bytes_per_s": budget}),
        "association": draw(st.sampled_from(ASSOCIATIONS[:1] if two_tiers else ASSOCIATIONS)),
    }  # fmt: skip


@settings(max_examples=150)
@given(scenarios())
def test_budgets_are_kept_and_nothing_leaks(content):
    world = build(Scenario.model_validate(content), Path())
    watched = Watched(world.algorithm)
    sim = Simulation(replace(world, algorithm=watched), ListRecorder())
    sim.start()
    sim.run(lambda: 0.0)
    assert sim.progress.stop_reason in ("epochs", "time")
