"""What the cloud makes of uploads, in numbers: sub-centers 1 and 2, models of one number."""

import pytest
import torch

from algorithms.global_rules import (
    Ca2flG,
    Ca2flGSection,
    FedAsyncG,
    FedAsyncGSection,
    FedBuffG,
    FedBuffGSection,
    HgaG,
    HgaGSection,
    SyncAvg,
    SyncAvgSection,
    Upload,
)

PLAIN = {"decay": 1.0, "staleness": {"kind": "constant"}}


def upload(gateway, start, end, staleness=0):
    return Upload(gateway, torch.tensor([float(start)]), torch.tensor([float(end)]), staleness)


def steps(rule, *buffers, start=0.0, sub_centers=2):
    """The global model after each buffer of uploads."""
    model, found = torch.tensor([start]), []
    for epoch, uploads in enumerate(buffers):
        model = rule.step(model, epoch, list(uploads), sub_centers)
        found.append(pytest.approx(model.item()))
    return found


def test_a_difference_points_up_the_loss():
    assert upload(1, 5, 3).change.item() == 2


def test_hga_with_a_buffer_of_one():
    # c = 0: w = 0 - 1/2 (2 * 4 - 0) = -4, c_1 = 4
    # c = 4/2 = 2: v = 2 + 6 = 8, w = -4 - 1/2 (-6 - 8) = 3, c_2 = -6
    # c = (4 - 6)/2 = -1: v = -1 - 2 = -3, w = 3 - 1/2 (2 + 3) = 1/2
    rule = HgaG(HgaGSection(rate=0.5, buffer=1))
    found = steps(rule, [upload(1, 0, -4)], [upload(2, 0, 6)], [upload(1, -4, -6)])
    assert found == [-4, 3, 0.5]


def test_hga_with_a_buffer_of_two():
    # Means 1/K sum Delta = (4 - 6)/2 = -1; c = 0, v = 1: w = 0 - 1/2 (-1 - 1) = 1
    # 1/K sum Delta = (2 + 4)/2 = 3; c = -1, v = -4: w = 1 - 1/2 (3 + 4) = -5/2
    rule = HgaG(HgaGSection(rate=0.5, buffer=2))
    first = [upload(1, 0, -4), upload(2, 0, 6)]
    assert steps(rule, first, [upload(1, 1, -1), upload(2, 1, -3)]) == [1, -2.5]


def test_hga_is_twice_the_buffers_mean_less_the_cached_mean():
    rule = HgaG(HgaGSection(rate=1.0, buffer=2))
    rule.cache.changes = {g: torch.tensor([float(g)]) for g in (1, 2, 3, 4)}
    found = steps(rule, [upload(1, 0, -5), upload(3, 0, -7)], sub_centers=4)
    assert found == [-(2 * (5 + 7) / 2 - (1 + 2 + 3 + 4) / 4)]
    assert [c.item() for _, c in sorted(rule.cache.changes.items())] == [5, 2, 7, 4]


def test_with_the_new_differences_in_the_cache_all_of_them_are_a_plain_mean():
    first = [upload(1, 0, -4), upload(2, 0, 6)]
    rule = HgaG(HgaGSection(rate=1.0, buffer=2, cached="new"))
    again = [upload(1, 1, -1), upload(2, 1, -3)]
    assert steps(rule, first, again) == steps(SyncAvg(SyncAvgSection()), first, again) == [1, -2]


def test_one_center_alone_is_its_own_model():
    """Section 3.2: M = 1 and K = 1 reduce to single-center FL, if c has the new difference."""
    rule = HgaG(HgaGSection(rate=1.0, buffer=1, cached="new"))
    assert steps(rule, [upload(1, 0, 3)], [upload(1, 3, 4)], sub_centers=1) == [3, 4]


def test_one_center_alone_as_listed_goes_twice_as_far_and_takes_the_last_step_back():
    rule = HgaG(HgaGSection(rate=1.0, buffer=1))
    found = steps(rule, [upload(1, 0, 3)], [upload(1, 6, 8)], sub_centers=1)
    assert found == [6, 6 + 2 * 2 - 3]


def test_the_printed_sign_turns_every_step_round():
    first = [upload(1, 0, -4), upload(2, 0, 6)]
    second = [upload(1, 0, -1), upload(2, 0, 2)]
    right = steps(HgaG(HgaGSection(buffer=2)), first, second)
    wrong = steps(HgaG(HgaGSection(buffer=2, sign="printed")), first, second)
    assert [w.expected for w in wrong] == pytest.approx([-r.expected for r in right])


def test_fedasync_mixes_models_by_staleness():
    # 1/2 of 8; then a half of a quarter of 12: staleness 3 with q = 1
    section = FedAsyncGSection(alpha=0.5, staleness={"kind": "polynomial", "q": 1})
    found = steps(FedAsyncG(section), [upload(1, 0, 8)], [upload(2, 0, 12, staleness=3)])
    assert found == [4, 4 * 7 / 8 + 12 / 8]


def test_fedbuff_weighs_differences_by_staleness_and_its_step_decays():
    # (1 * 4 + 1/2 * -6)/2 = 1/2 at rate 1; then (2 + 2)/2 at rate 1/2
    section = FedBuffGSection(
        rate=1.0, decay=0.5, buffer=2, staleness={"kind": "polynomial", "q": 1}
    )
    first = [upload(1, 0, -4), upload(2, 0, 6, staleness=1)]
    assert steps(FedBuffG(section), first, [upload(1, 0, -2), upload(2, 0, -2)]) == [-0.5, -1.5]


def test_ca2fl_calibrates_by_what_is_cached():
    # c = 0: w = -(4 - 6)/2 = 1; c = -1, residuals 2 - 4 and 4 + 6: w = 1 - (-1 + (-2 + 10)/2) = -2
    rule = Ca2flG(Ca2flGSection(rate=1.0, buffer=2))
    first = [upload(1, 0, -4), upload(2, 0, 6)]
    assert steps(rule, first, [upload(1, 1, -1), upload(2, 1, -3)]) == [1, -2]


def test_ca2fl_takes_those_who_did_not_come_from_the_cache():
    # 2 alone: c = (4 - 6)/2 = -1 and its residual 1 + 6 = 7
    rule = Ca2flG(Ca2flGSection(rate=1.0, buffer=1))
    steps(rule, [upload(1, 0, -4), upload(2, 0, 6)])
    assert steps(rule, [upload(2, 0, -1)]) == [-(-1 + 7)]


@pytest.mark.parametrize("buffer", [1, 2])
def test_ca2fl_with_an_empty_cache_is_fedbuff(buffer):
    uploads = [upload(1, 0, -4, staleness=2), upload(2, 1, 6)][:buffer]
    calibrated = steps(Ca2flG(Ca2flGSection(rate=0.3, buffer=buffer)), uploads)
    assert calibrated == steps(FedBuffG(FedBuffGSection(rate=0.3, buffer=buffer, **PLAIN)), uploads)


def test_fedbuff_of_one_mixes_like_fedasync_from_the_newest_model():
    fresh = [upload(1, 2, 5)]
    constant = {"kind": "constant"}
    buffered = FedBuffG(FedBuffGSection(rate=0.6, buffer=1, **PLAIN))
    mixed = FedAsyncG(FedAsyncGSection(alpha=0.6, staleness=constant))
    assert steps(buffered, fresh, start=2.0) == steps(mixed, fresh, start=2.0)


def test_sync_average_counts_sub_centers_not_samples():
    assert steps(SyncAvg(SyncAvgSection()), [upload(1, 0, 3), upload(2, 0, -5)]) == [-1]
