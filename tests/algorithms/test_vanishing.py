"""A device that vanishes in one phase of its round blocks nobody, and its budget is given back.

by_hand.Watched checks the budget after every event.
"""

import pytest
from by_hand import CLOUD, D0, G0, arrivals, rows, run, starts

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.fedasync import FedAsync, FedAsyncSection
from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.rfl_ha import RflHaSection, rfl_ha
from algorithms.semi_async import SemiAsyncSection, semi_async
from algorithms.two_level import TwoLevelSection, two_level


def hga_fl(rule):
    cloud, gateway = {"name": "hga-g", "buffer": 1}, {"name": rule}
    return two_level(
        TwoLevelSection(cloud=cloud, gateway=gateway, gateway_rounds=2, gateway_timeout_s=30)
    )


ALGORITHMS = {
    "async-hfl": lambda: AsyncHFL(AsyncHFLSection(updates_per_upload=2, device_timeout_s=30)),
    "fedavg": lambda: fedavg(FedAvgSection(gateway_timeout_s=30)),
    "rfl-ha": lambda: rfl_ha(RflHaSection(gateway_rounds=2, gateway_timeout_s=30)),
    "hga-fl": lambda: hga_fl("s-dyn"),
    "hga-g over s-scaffold-exp": lambda: hga_fl("s-scaffold-exp"),
    "semi-async": lambda: semi_async(
        SemiAsyncSection(period_s=20, gateway_periods=2, device_timeout_s=30)
    ),
    "semi-async, repeated": lambda: semi_async(
        SemiAsyncSection(period_s=20, gateway_periods=2, device_timeout_s=30, absent="repeat")
    ),
    "fedasync": lambda: FedAsync(FedAsyncSection(device_timeout_s=30)),
}
PHASES = (
    "its model is lost",
    "it dies while computing",
    "its update is lost",
    "it answers after the deadline",
)
"""Flows 0 to g0, 1 and 2 to d0 and d1, 3 d0's update, sent at 12 s; the deadline is at 31 s. Without
gateways: 0 and 1 to d0 and d1, 2 d0's update, sent at 12 s; the deadline is at 30 s."""


def asks(algorithm):
    return CLOUD if algorithm == "fedasync" else G0


def updates(sim, algorithm):
    return rows(sim, "update" if algorithm == "fedasync" else "gateway", "node")


def carry_out(algorithm, phase, budget, **settings):
    """Budgets are for gateways."""
    model, update = (0, 2) if algorithm == "fedasync" else (1, 3)
    happens = {
        "its model is lost": {"lose": (model,)},
        "it dies while computing": {"first": {D0: None}},
        "its update is lost": {"lose": (update,)},
        "it answers after the deadline": {"slow": {update: 25}},
    }[phase]
    budget = None if algorithm == "fedasync" else budget
    return run(ALGORITHMS[algorithm](), budget=budget, **happens, **settings)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_neither_blocks_nor_leaks(algorithm, phase):
    epochs = 10 if algorithm == "fedasync" else 5
    sim = carry_out(algorithm, phase, epochs=epochs, budget=6.0, until_s=400)
    assert sim.progress.stop_reason == "epochs"
    assert len(starts(sim, D0)) >= 3
    late = phase == "it answers after the deadline"
    assert arrivals(sim, D0, asks(algorithm))[late:], "it never came back"
    assert D0 not in sim.manager.ledger.silent


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_late_answer_is_not_mixed_in(algorithm):
    late = "it answers after the deadline"
    before = updates(carry_out(algorithm, late, budget=6.0, epochs=5, until_s=36), algorithm)
    sim = carry_out(algorithm, late, budget=6.0, epochs=5, until_s=37)
    assert 37 in arrivals(sim, D0, asks(algorithm))
    assert [row for row in updates(sim, algorithm) if row[0] == 37] == []
    assert updates(sim, algorithm) == before


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_after_the_other_within_the_budget(algorithm):
    """Of 4 and 2 bytes/s one fits into 4: the other's turn comes, whatever becomes of the first."""
    for phase in PHASES[:3]:
        sim = carry_out(algorithm, phase, epochs=2, budget=4.0, until_s=400)
        assert sim.progress.stop_reason == "epochs"
