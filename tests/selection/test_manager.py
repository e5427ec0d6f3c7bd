"""The device manager by hand: gateways 1 and 2, devices 10 to 13, models of 100 bytes, two numbers."""

import pytest
from by_hand import FakeSim, Mover, update_of
from pydantic import ValidationError

from selection.associators import Nearest, NearestSection
from selection.ledger import Ledger
from selection.manager import DeviceManager, fitting, gradient
from selection.rfl_ha import RflHa, RflHaSection
from selection.simple import (
    HighLoss,
    HighLossSection,
    SelectAll,
    SelectAllSection,
    ShortLatency,
    ShortLatencySection,
)
from selection.sketch import FullSection, PcaSection, RandomProjectionSection
from selection.utility import LearningUtility
from selection.utility_ilp import (
    UtilityAssociation,
    UtilityAssociationSection,
    UtilitySelection,
    UtilitySelectionSection,
)

G1, G2, A, B, C, D = 1, 2, 10, 11, 12, 13
HIGH_LOSS = HighLoss(HighLossSection(name="high-loss"))
ALL = SelectAll(SelectAllSection())
GRADIENTS = {A: [-6.0, -8.0], B: [4.0, -3.0]}
"""Of two directions: a sketch of two components is 8 bytes, its parameters two models."""


@pytest.fixture
def sim():
    return FakeSim({A: G1, B: G1, C: G1, D: G2})


def manager(selector=ALL, sketch=None, associator=None, budget=None):
    ledger = Ledger(LearningUtility([A, B, C, D]), budget)
    associator = associator or Nearest(NearestSection())
    return DeviceManager(selector, associator, ledger, sketch)


def by_utility():
    return UtilitySelection(UtilitySelectionSection(name="utility-ilp"))


def to_utility():
    return UtilityAssociation(UtilityAssociationSection(name="utility-ilp", every_epochs=3))


def answer(manager, sim, device, gateway=G1, **update):
    manager.begin(sim, gateway, device)
    manager.end(sim, gateway, device, update_of(device, [1.0, 2.0], **update))


def fitted(manager, sim):
    manager.fit(sim, [update_of(d, g) for d, g in GRADIENTS.items()])
    return manager


# Who trains


def test_fitting_passes_over_who_does_not_fit():
    assert fitting([A, B, C, D], [5, 4, 3, 1], 9.5) == [A, B]
    assert fitting([A, B, C, D], [5, 6, 3, 1], 9.5) == [A, C, D]
    assert fitting([A, B], [5, 4], 3) == []
    assert fitting([A, B], [5, 4], 9) == [A, B]


def test_the_choice_comes_in_the_order_of_idle(sim):
    high = manager(HIGH_LOSS)
    for device, loss in ((A, 1.0), (B, 3.0), (C, 2.0)):
        answer(high, sim, device, loss=loss)
    assert high.select(sim, G1, [C, A, B]) == [C, A, B]


def test_the_best_come_first_until_the_budget_is_full(sim):
    """All at 4 s: 25 bytes/s each, two of them fit into 60."""
    high = manager(HIGH_LOSS, budget=60.0)
    for device, loss in ((A, 1.0), (B, 3.0), (C, 2.0)):
        high.ledger.learn(update_of(device, [1.0], loss=loss))
        sim.round(high.ledger, G1, device, 4)
    assert high.select(sim, G1, [A, C, B]) == [C, B]
    high.begin(sim, G1, B)
    assert high.select(sim, G1, [A, C]) == [C]
    high.begin(sim, G1, C)
    assert high.select(sim, G1, [A]) == []
    high.end(sim, G1, B, None)
    assert high.select(sim, G1, [A]) == [A]


def test_a_lone_device_always_fits(sim):
    """It believes 2 s: 50 bytes/s, held to the budget of 7."""
    everyone = manager(budget=7.0)
    assert everyone.select(sim, G1, [B, A]) == [B]


def test_who_does_not_fit_is_passed_over_for_who_comes_after(sim):
    quick = manager(ShortLatency(ShortLatencySection(name="short-latency")), budget=60.0)
    for device, seconds in ((A, 2), (B, 4), (C, 10)):  # 50, 25 and 10 bytes/s
        sim.round(quick.ledger, G1, device, seconds)
    assert quick.select(sim, G1, [C, B, A]) == [C, A]


def test_nobody_idle_is_no_selection(sim):
    everyone = manager()
    assert everyone.select(sim, G1, []) == []
    assert everyone.ledger.selections == {}
    everyone.select(sim, G1, [A])
    everyone.select(sim, G1, [A])
    assert everyone.ledger.selections == {G1: 2}


def test_a_device_that_was_given_up_teaches_nothing(sim):
    high = manager(HIGH_LOSS)
    high.begin(sim, G1, A)
    high.end(sim, G1, A, None)
    assert high.ledger.losses == {}
    assert high.ledger.under_way == {G1: {}}


# What travels along


def test_a_gradient_is_the_mean_of_the_steps():
    assert gradient(update_of(A, [6.0, -9.0], steps=3)).tolist() == [-2, 3]


def test_who_looks_at_nothing_is_told_nothing(sim):
    assert manager().report_bytes(sim, A) == 0
    assert manager().upload_bytes(sim, G1) == 0


def test_a_loss_is_4_bytes(sim):
    assert manager(HIGH_LOSS).report_bytes(sim, A) == 4


def test_pca_at_devices_is_reported_by_those_who_have_the_parameters(sim):
    pca = fitted(manager(by_utility(), PcaSection(components=2)), sim)
    assert pca.devices_sketch
    assert pca.parameter_bytes(sim) == 200
    assert pca.report_bytes(sim, A) == 0
    pca.equip(A)
    pca.equip(G1)
    assert pca.report_bytes(sim, A) == 8
    assert pca.report_bytes(sim, B) == 0


def test_pca_before_it_is_fitted_is_nothing(sim):
    assert manager(by_utility(), PcaSection()).report_bytes(sim, A) == 0


def test_losses_and_sketches_add_up(sim):
    both = fitted(manager(HIGH_LOSS, PcaSection(components=1), to_utility()), sim)
    both.equip(A)
    assert both.report_bytes(sim, A) == 4 + 4
    assert both.report_bytes(sim, B) == 4


def test_pca_at_gateways_costs_devices_nothing(sim):
    pca = fitted(manager(by_utility(), PcaSection(components=2, where="gateway")), sim)
    pca.equip(A)
    assert not pca.devices_sketch
    assert pca.report_bytes(sim, A) == 0
    assert pca.parameter_bytes(sim) == 200


def test_random_projection_needs_no_parameters(sim):
    projection = manager(by_utility(), RandomProjectionSection(kind="random-projection"))
    assert projection.report_bytes(sim, A) == 120
    assert projection.parameter_bytes(sim) == 8


def test_the_full_gradient_is_a_model_more(sim):
    full = manager(by_utility(), FullSection(kind="full"))
    assert full.report_bytes(sim, A) == 100
    assert full.parameter_bytes(sim) == 0


def test_gateways_tell_the_cloud_of_whom_there_is_something_new(sim):
    """Number, latency, sketch: 4 + 4 + 8 bytes of each; of C there is no sketch."""
    pca = fitted(manager(ALL, PcaSection(components=2), to_utility()), sim)
    assert pca.upload_bytes(sim, G1) == 0  # the cloud made the fit
    for node in (A, B, D):
        pca.equip(node)
    for device in (A, B, A, C):  # C has no parameters
        answer(pca, sim, device)
    answer(pca, sim, D, G2)
    pca.begin(sim, G1, C)
    pca.end(sim, G1, C, None)
    assert pca.upload_bytes(sim, G1) == 2 * 16 + 8
    assert pca.upload_bytes(sim, G1) == 0
    assert pca.upload_bytes(sim, G2) == 16


def test_gateways_tell_the_cloud_latencies_if_it_associates_by_them(sim):
    """Number and latency: 4 + 4 bytes of each."""
    rfl_ha = manager(associator=RflHa(RflHaSection(name="rfl-ha")))
    for device in (A, B, A):
        answer(rfl_ha, sim, device)
    rfl_ha.begin(sim, G1, C)
    rfl_ha.end(sim, G1, C, None)
    assert rfl_ha.upload_bytes(sim, G1) == 3 * 8
    assert rfl_ha.upload_bytes(sim, G1) == 0


def test_gateways_tell_the_cloud_nothing_if_it_does_not_associate_by_it(sim):
    full = manager(by_utility(), FullSection(kind="full"))
    answer(full, sim, A)
    assert full.upload_bytes(sim, G1) == 0


def test_sketches_are_known_at_devices_or_gateways_with_parameters(sim):
    for where, node in (("device", A), ("gateway", G1)):
        pca = manager(by_utility(), PcaSection(components=2, where=where))
        pca.fit(sim, [update_of(B, GRADIENTS[B])])
        answer(pca, sim, A)
        assert not pca.ledger.gradients.knows(A)
        pca.equip(node)
        answer(pca, sim, A)
        assert pca.ledger.gradients.knows(A)


def test_a_fit_knows_the_gradients_it_was_made_of(sim):
    """(6, 8) and (-4, 3): across each other, 10 and 5 long."""
    pca = fitted(manager(by_utility(), PcaSection()), sim)
    known = pca.ledger.gradients
    assert known.gram_of([A, B]).flatten().tolist() == pytest.approx([100, 0, 0, 25], abs=1e-4)
    assert not known.knows(C)


# Who belongs where


def test_only_those_who_move_are_named(sim):
    moving = manager(associator=Mover({A: G1, D: G1, B: G2}))
    assert moving.reassociate(sim, 1) == {D: G1, B: G2}


def test_associated_anew_every_so_many_epochs(sim):
    mover = Mover({A: G2}, {B: G2})
    mover.params = UtilityAssociationSection(name="utility-ilp", every_epochs=3)
    moving = manager(associator=mover)
    assert [moving.reassociate(sim, epoch) for epoch in (1, 2, 3, 4, 6)] == [
        {}, {}, {A: G2}, {}, {B: G2}
    ]  # fmt: skip


def test_who_only_associates_at_first_moves_nobody(sim):
    assert manager().reassociate(sim, 10) == {}


def test_the_summary_has_the_solvers_answers():
    assert manager().told() == {}
    told = manager(by_utility(), associator=to_utility()).told()
    assert sorted(told) == ["association_solvers", "selection_solvers"]


def test_the_summary_has_the_length_of_sketches(sim):
    """Two gradients have no more than two components, however many were asked for."""
    told = fitted(manager(by_utility(), PcaSection(components=30)), sim).told()
    assert told["sketch"] == {"gradients": 2, "components": 2}


def test_the_best_of_those_who_fit_if_only_some_may(sim):
    high = manager(HIGH_LOSS)
    high.ledger.losses = {A: 1.0, B: 9.0, C: 2.0}
    assert high.select(sim, G1, [A, B, C], 1) == [B]
    assert high.select(sim, G1, [A, B, C], 2) == [B, C]


def test_the_most_useful_if_only_some_may(scenario, run_in):
    """Without a budget all fit; who of them trains is for the utility to say."""
    bounded = {"algorithm": {"name": "async-hfl", "concurrency": 2}, "run": {"epochs": 4}}
    by_utility = run_in(scenario(bounded, {"selection": {"name": "utility-ilp"}}), "utility")
    everyone = run_in(scenario(bounded), "all")
    assert by_utility["event_log_sha256"] != everyone["event_log_sha256"]


def test_a_dropped_device_gives_its_budget_back_and_is_not_silent(sim):
    everyone = manager(budget=100.0)
    everyone.begin(sim, G1, A)
    assert everyone.ledger.free(G1) < 100
    everyone.drop(G1, A)
    assert everyone.ledger.free(G1) == 100
    assert not everyone.ledger.silent
    assert everyone.ledger.is_new(G1, A)


@pytest.mark.parametrize("name", ["high-loss", "oort", "utility-ilp"])
def test_a_ranking_without_a_bound_is_refused(scenario, name):
    with pytest.raises(ValidationError, match=r"give selection\.budget_bytes_per_s"):
        scenario({"selection": {"name": name}})
    scenario({"selection": {"name": name, "budget_bytes_per_s": 1.0}})
    bounded = {"algorithm": {"name": "async-hfl", "concurrency": 2}, "selection": {"name": name}}
    scenario(bounded)


@pytest.mark.parametrize("name", ["utility-ilp", "oort", "divfl", "high-loss", "short-latency"])
def test_rounds_that_take_no_time_are_ranked_too(scenario, run_in, name, recwarn):
    """Where only uploads of gateways take any."""
    summary = run_in(
        scenario(
            {"network": {"kind": "drawn", "gamma_max": 20}, "compute": {"kind": "constant"}},
            {"selection": {"name": name, "budget_bytes_per_s": 4000.0}},
        )
    )
    assert summary["stop_reason"] == "epochs"
    assert [w for w in recwarn if w.category is RuntimeWarning] == []
