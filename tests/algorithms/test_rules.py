import pytest
import torch

from algorithms.rules import weighted_mean


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
