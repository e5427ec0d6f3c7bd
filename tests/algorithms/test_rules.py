import pytest
import torch

from algorithms.rules import hinge_staleness, mix, polynomial_staleness, weighted_mean


def test_weighted_mean_by_hand():
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5.0, 6.0, -1.0])
    assert weighted_mean([a, b], [1, 3]).tolist() == [4.0, 5.0, 0.0]


def test_mean_of_one_is_itself_and_a_new_vector():
    a = torch.tensor([0.1, 0.2, 0.3])
    mean = weighted_mean([a], [7])
    assert torch.equal(mean, a)
    assert mean.data_ptr() != a.data_ptr()


def test_scale_of_the_weights_is_irrelevant():
    a, b = torch.tensor([1.0, 0.0, 0.5]), torch.tensor([0.0, 1.0, 0.25])
    small, large = weighted_mean([a, b], [1, 2]), weighted_mean([a, b], [100, 200])
    assert small.tolist() == pytest.approx(large.tolist())


def test_mix_by_hand():
    old, new = torch.tensor([0.0, 4.0, -8.0]), torch.tensor([8.0, 4.0, 0.0])
    assert mix(old, new, 0.25).tolist() == [2.0, 4.0, -6.0]


def test_mix_with_weight_one_is_the_new_model_and_leaves_the_old_alone():
    old, new = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.7, 0.8, 0.9])
    assert torch.equal(mix(old, new, 1.0), new)
    assert torch.equal(mix(old, new, 0.0), old)
    mix(old, new, 0.5)
    assert torch.equal(old, torch.tensor([0.1, 0.2, 0.3]))


@pytest.mark.parametrize(
    ("staleness", "q", "weight"), [(0, 0.5, 1), (3, 0.5, 1 / 2), (1, 1, 1 / 2), (2, 2, 1 / 9)]
)
def test_polynomial_staleness_by_hand(staleness, q, weight):
    assert polynomial_staleness(staleness, q) == pytest.approx(weight)


@pytest.mark.parametrize(
    ("staleness", "weight"), [(0, 1), (4, 1), (5, 1 / 11), (6, 1 / 21), (14, 1 / 101)]
)
def test_hinge_staleness_by_hand(staleness, weight):
    assert hinge_staleness(staleness, a=10, b=4) == pytest.approx(weight)
