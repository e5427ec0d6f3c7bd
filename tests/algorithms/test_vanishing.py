"""A device that vanishes in one phase of its round blocks nobody, and its budget is given back.

by_hand.Watched checks the budget after every event.
"""

import pytest
from by_hand import D0, G0, arrivals, rows, run, starts

from algorithms.async_hfl import AsyncHFL, AsyncHFLSection
from algorithms.fedavg import FedAvgSection, fedavg
from algorithms.rfl_ha import RflHaSection, rfl_ha
from algorithms.semi_async import SemiAsyncSection, semi_async

ALGORITHMS = {
    "async-hfl": lambda: AsyncHFL(AsyncHFLSection(updates_per_upload=2, device_timeout_s=30)),
    "fedavg": lambda: fedavg(FedAvgSection(gateway_timeout_s=30)),
    "rfl-ha": lambda: rfl_ha(RflHaSection(gateway_rounds=2, gateway_timeout_s=30)),
    "semi-async": lambda: semi_async(
        SemiAsyncSection(period_s=20, gateway_periods=2, device_timeout_s=30)
    ),
}
PHASES = {
    "its model is lost": {"lose": (1,)},
    "it dies while computing": {"first": {D0: None}},
    "its update is lost": {"lose": (3,)},
    "it answers after the deadline": {"slow": {3: 25}},
}
"""Flows 0 to g0, 1 and 2 to d0 and d1, 3 d0's update, sent at 12 s; the deadline is at 31 s."""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_neither_blocks_nor_leaks(algorithm, phase):
    sim = run(ALGORITHMS[algorithm](), epochs=5, budget=6.0, until_s=400, **PHASES[phase])
    assert sim.progress.stop_reason == "epochs"
    assert len(starts(sim, D0)) >= 3
    late = phase == "it answers after the deadline"
    assert arrivals(sim, D0, G0)[late:], "it never came back"
    assert D0 not in sim.manager.ledger.silent


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_late_answer_is_not_mixed_in(algorithm):
    sim = run(ALGORITHMS[algorithm](), epochs=5, until_s=36, slow={3: 25}, budget=6.0)
    before = rows(sim, "gateway", "participants")
    sim = run(ALGORITHMS[algorithm](), epochs=5, until_s=37, slow={3: 25}, budget=6.0)
    assert 37 in arrivals(sim, D0, G0)
    assert [row for row in rows(sim, "gateway", "participants") if row[0] == 37] == []
    assert rows(sim, "gateway", "participants") == before


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_after_the_other_within_the_budget(algorithm):
    """Of 4 and 2 bytes/s one fits into 4: the other's turn comes, whatever becomes of the first."""
    for phase in PHASES.values():
        settings = {key: value for key, value in phase.items() if key != "slow"}
        sim = run(ALGORITHMS[algorithm](), epochs=2, budget=4.0, until_s=400, **settings)
        assert sim.progress.stop_reason == "epochs"
