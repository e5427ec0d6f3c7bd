"""What sub-centers do in a round, in numbers: devices 1 and 2, models of one number."""

from collections import deque

import pytest
import torch

from algorithms.rounds import SampleMean
from algorithms.sub_center import (
    SAvgSection,
    SDyn,
    SDynSection,
    SProxSection,
    SScaffoldExp,
    SScaffoldExpSection,
    fedexp_step,
    sub_center_rule,
)
from simulator.events import Result, Update

BOTH = [1, 2]


def vector(value):
    return torch.tensor([float(value)])


def answer(rule, device, model, end, devices=BOTH, samples=1, steps=1, rate=1.0):
    """What comes back from a device that was asked by the rule and ended at ``end``."""
    job = rule.job(device, model, rule.control(model, devices), None)
    return Update(job, samples, steps, lambda _: Result(vector(end), 0.0), rate)


def round_of(rule, model, ends, devices=BOTH, **how):
    """The next model, after these devices have ended where ``ends`` says."""
    model = vector(model)
    answers = deque(answer(rule, d, model, end, devices, **how) for d, end in ends.items())
    return rule.merge(model, answers, devices).item()


def shifts(rule, model=0.0, devices=BOTH):
    model = vector(model)
    control = rule.control(model, devices)
    found = [rule.job(device, model, control, None).whole_shift for device in devices]
    return [0.0 if shift is None else shift.item() for shift in found]


@pytest.mark.parametrize("params", [SDynSection(), SScaffoldExpSection()])
def test_a_job_has_no_copy_of_what_its_device_keeps(params):
    rule = sub_center_rule(params)
    round_of(rule, 0, {1: 4, 2: -1})
    states = rule.gradients if params.name == "s-dyn" else rule.controls
    job = rule.job(1, vector(3), rule.control(vector(3), BOTH), None)
    assert job.less is states.kept(1)


def descend(job, curvature, centre, steps=200, rate=0.1):
    """Gradient steps on curvature / 2 (w - centre)^2, as a device takes them."""
    w = job.start
    for _ in range(steps):
        direction = curvature * (w - centre) + job.pull * (w - job.start)
        w = w - rate * (direction if job.whole_shift is None else direction + job.whole_shift)
    return w.item()


def play(rule, model, curvature, centre, rounds, steps=200, rate=0.1):
    """The sub-center's model after so many rounds of devices on quadratics."""
    for _ in range(rounds):
        control = rule.control(vector(model), BOTH)
        ends = {
            d: descend(rule.job(d, vector(model), control, None), curvature[d], centre[d], steps)
            for d in BOTH
        }
        model = round_of(rule, model, ends, steps=steps, rate=rate)
    return model


def test_s_avg_is_a_mean_by_samples():
    rule = sub_center_rule(SAvgSection())
    model = vector(0)
    answers = deque([answer(rule, 1, model, 4), answer(rule, 2, model, 8, samples=3)])
    assert rule.merge(model, answers, BOTH).item() == 7
    assert not answers, "no more models are held than need be"


def test_s_prox_pulls():
    rule = sub_center_rule(SProxSection())
    assert rule == SampleMean(2.0)
    assert rule.job(1, vector(0), None, "tag").pull == 2


def test_s_dyn_by_hand():
    # g = -2 (4, -1) = (-8, 2), h = -3, w = 3/2 + 3/2 = 3
    rule = SDyn(SDynSection(alpha=2.0))
    assert shifts(rule) == [0, 0]
    assert round_of(rule, 0, {1: 4, 2: -1}) == 3
    assert shifts(rule) == [8, -2]
    # from 3 to (5, 3): g = (-8 - 4, 2 - 0), h = -5, w = 4 + 5/2
    assert round_of(rule, 3, {1: 5, 2: 3}) == 6.5
    assert shifts(rule) == [12, -2]
    assert rule.job(1, vector(0), None, None).pull == 2


def test_the_mean_of_g_is_what_equation_5_adds_up_to():
    alpha, h = 0.7, 0.0
    rule = SDyn(SDynSection(alpha=alpha))
    model = 1.0
    for ends in ({1: 4.0, 2: -1.0}, {1: 0.5, 2: 2.0}, {1: 3.0, 2: -2.5}):
        h -= alpha * ((ends[1] - model) + (ends[2] - model)) / 2
        expected = (ends[1] + ends[2]) / 2 - h / alpha
        model = round_of(rule, model, ends)
        assert model == pytest.approx(expected, rel=1e-5)
    assert -sum(shifts(rule)) / 2 == pytest.approx(h, rel=1e-5)


def test_a_device_left_out_of_a_round_keeps_its_state_and_still_counts_in_h():
    rule = SDyn(SDynSection(alpha=2.0))
    round_of(rule, 0, {1: 4, 2: -1})
    # Only 1 is back, at 5: g = (-12, 2), h = -5, the mean of models is 5
    assert round_of(rule, 3, {1: 5}) == 5 + 5 / 2
    assert shifts(rule) == [12, -2]


def test_feddyn_stands_still_at_a_common_minimiser():
    rule = SDyn(SDynSection(alpha=2.0))
    assert play(rule, 1.5, {1: 1, 2: 4}, {1: 1.5, 2: 1.5}, rounds=5) == 1.5
    assert shifts(rule) == [0, 0]


def test_feddyn_comes_to_the_minimum_of_unequal_devices_and_stays():
    # F' = (w + 4 (w - 3))/2 = 0 at 12/5, where the devices' gradients are 12/5 and -12/5
    curvature, centre = {1: 1, 2: 4}, {1: 0, 2: 3}
    rule = SDyn(SDynSection(alpha=2.0))
    model = play(rule, 0.0, curvature, centre, rounds=60)
    assert model == pytest.approx(2.4, abs=1e-4)
    assert shifts(rule) == pytest.approx([-2.4, 2.4], abs=1e-3)
    assert play(rule, model, curvature, centre, rounds=5) == pytest.approx(2.4, abs=1e-4)
    average = play(sub_center_rule(SAvgSection()), 0.0, curvature, centre, rounds=60)
    assert average == pytest.approx(1.5, abs=1e-4), "the mean of the devices' own minima"


def test_scaffold_by_hand():
    # From 0 to (4, -2) in 2 steps of 1/2: c_i = (-4, 2), FedExP's step: 10 / (2 * 1) = 5
    rule = SScaffoldExp(SScaffoldExpSection(epsilon=0.0))
    assert shifts(rule) == [0, 0]
    assert round_of(rule, 0, {1: 4, 2: -2}, steps=2, rate=0.5) == 5
    # c = -1: shifts c - c_i
    assert shifts(rule) == [3, -3]
    # From 5 to (6, 6): c_i = -shift - 1; equal changes: the step is 1/2, clipped to 1
    assert round_of(rule, 5, {1: 6, 2: 6}, steps=2, rate=0.5) == 6
    assert shifts(rule) == [3, -3]
    assert [rule.controls[d].item() for d in BOTH] == [-4, 2]


def test_a_control_variate_is_the_mean_gradient_of_the_local_steps():
    # 2 steps of 1/10 from 1 along w + shift 1/2: gradients 1 and 1 - 3/20
    rule = SScaffoldExp(SScaffoldExpSection())
    rule.controls[1], rule.controls[2] = vector(0), vector(1)
    job = rule.job(1, vector(1), rule.control(vector(1), BOTH), None)
    end = descend(job, 1, 0, steps=2)
    round_of(rule, 1, {1: end}, steps=2, rate=0.1)
    assert rule.controls[1].item() == pytest.approx((1 + 0.85) / 2, rel=1e-5)


def test_scaffolds_corrections_sum_to_zero_whoever_is_left_out():
    rule, devices = SScaffoldExp(SScaffoldExpSection()), [1, 2, 3]
    for ends in ({1: 4, 2: -2, 3: 1}, {2: 5}, {3: -1, 1: 0.5}, {2: 1, 3: 2}):
        round_of(rule, 0, ends, devices, steps=3, rate=0.1)
        assert sum(shifts(rule, devices=devices)) == pytest.approx(0, abs=1e-4)
        assert any(shifts(rule, devices=devices))


def test_scaffold_comes_to_the_minimum_of_unequal_devices():
    rule = SScaffoldExp(SScaffoldExpSection())
    model = play(rule, 0.0, {1: 1, 2: 4}, {1: 0, 2: 3}, rounds=300, steps=5)
    assert model == pytest.approx(2.4, abs=1e-3)


def test_fedexps_step_is_never_below_one():
    assert fedexp_step(10.0, 1.0, 0.0) == 5
    assert fedexp_step(1.0, 1.0, 0.0) == 1
    assert fedexp_step(8.0, 0.0, 0.5) == 8
    assert fedexp_step(0.0, 0.0, 0.0) == 1


@pytest.mark.parametrize(
    ("kind", "section"), [(SDyn, SDynSection), (SScaffoldExp, SScaffoldExpSection)]
)
def test_state_is_kept_or_reset_when_a_global_model_comes(kind, section):
    for keeping, kept in (("keep", True), ("reset", False)):
        rule = kind(section(on_new_model=keeping))
        round_of(rule, 0, {1: 4, 2: -2}, steps=2, rate=0.5)
        rule.begin([2])
        states = rule.gradients if kind is SDyn else rule.controls
        assert 1 in states, "of another sub-center's device"
        assert (2 in states) == kept


def test_a_message_with_a_control_is_two_models_long():
    assert (SampleMean.vectors, SDyn.vectors, SScaffoldExp.vectors) == (1, 1, 2)
