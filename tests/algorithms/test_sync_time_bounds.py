"""Sync-time HFL's bounds by hand, term by term, and against what noisy quadratics really do."""

import numpy as np
import pytest

from algorithms.sync_time_bounds import (
    Constants,
    corollary_bound,
    corollary_rate,
    distances_of,
    global_bound,
    group_bound,
    kappa,
    mean_step_bound,
    most_deviation,
    whole_steps_bound,
)

PLAIN = Constants(smoothness=1.0, gradient=2.0, noise=3.0, dissimilarity=2.0, loss_drop=5.0)
SIZES = [2, 1]


def test_kappa():
    assert kappa(SIZES) == pytest.approx(10 / 9)  # 2 * (4 + 1) / 9
    assert kappa([7, 7, 7]) == pytest.approx(1)


def test_lemma_1():
    # 2 * .01 * (9 + 10 / 9) * 4
    assert most_deviation(0.1, 2.0, 3, SIZES) == pytest.approx(0.08 * 91 / 9)


def test_theorem_1_term_by_term():
    # 5 iterations in 2 rounds; (1 / .5 + 2 * 2 * 10 / 9 * .5) * 1 + 2 * 2 * .5 * 2^2, times 4 / 5
    found = group_bound(PLAIN, 0.5, [2, 3], SIZES, group=1)
    assert found.start == pytest.approx(2 * 5 / (0.5 * 5))
    assert found.noise == pytest.approx(0.5 * 9 / 1)
    assert found.drift == pytest.approx((2 + 20 / 9 + 8) * 4 / 5)
    assert group_bound(PLAIN, 0.5, [2, 3], SIZES, group=0).noise == pytest.approx(0.5 * 9 / 2)


def test_theorem_1_of_isolated_groups_has_no_drift():
    assert group_bound(PLAIN, 0.5, [7], SIZES, 0).drift == 0, "U = 1, Remark 4"


def test_theorem_2_term_by_term():
    # Second term 12 * 100 / 81. Fourth: 12 * 2 / 9 * (4 * 2^2 + 1 * 3^2) / 2 rounds. Fifth: sums of
    # l^2 over t are .5, 5 / 3, 0 and .5: 4 * 2 / 9 * (4 * .5 + 5 / 3 + .5) / 2. All are 50
    found = global_bound(PLAIN, 0.5, [[2, 3], [1, 2]], SIZES)
    assert found.start == pytest.approx(10)
    assert found.noise == pytest.approx(0.5 * 10 / 9 * 9)
    assert found.drift == pytest.approx(50.0)
    assert found.total == pytest.approx(65.0)


def test_by_theorem_2_more_iterations_never_help():
    often = global_bound(PLAIN, 0.1, [[1, 1]] * 20, SIZES)
    seldom = global_bound(PLAIN, 0.1, [[3, 3]] * 10, SIZES)
    assert all(a <= b for a, b in zip(often, seldom, strict=True))


def test_corollary_1():
    assert corollary_rate(100, 2.0) == 0.1
    assert corollary_rate(4, 10.0) == 0.1
    # At 1 / sqrt(4): second term 12 * 100 / 81; fourth, in three rounds of four, 12 * 2 / 9 * (4 * 2^2
    # + 1 * 3^2); fifth 4 * 2 / 9 * (4 * .5 + 5 / 3)
    found = corollary_bound(PLAIN, 4, [2, 3], SIZES)
    assert found == pytest.approx((5, 5, 1200 / 81 + 50 + 88 / 27))
    bounds = [corollary_bound(PLAIN, rounds, [5, 5], SIZES).total for rounds in (100, 400, 1600)]
    assert bounds[0] / bounds[1] > 1.9, "as 1 / sqrt(U), or faster"
    assert bounds[1] / bounds[2] > 1.9


def test_a_mean_step_by_hand():
    # Weights 2/3 and 1/3, t 2 and 3: noise 2/9 / 2 + 1/9 / 3; drift 2/3 * .5 + 1/3 * 5/3
    found = mean_step_bound(PLAIN, 0.5, [[2, 3]], SIZES)
    assert found.start == pytest.approx(20)
    assert found.noise == pytest.approx(2 * 0.5 * 9 * (1 / 9 + 1 / 27))
    assert found.drift == pytest.approx(1 / 3 + 5 / 9)
    assert mean_step_bound(PLAIN, 0.5, [[1, 1]], SIZES).drift == 0


def test_whole_steps_by_hand():
    # After one step groups are at .5 * 2 from each other's mean, and noise adds 2 * (.5 * 3)^2 / 3
    assert distances_of(PLAIN, 0.5, 2, SIZES, convex=False) == pytest.approx([0, 2.5])
    third = (2.5**0.5 + 1) ** 2 + 1.5
    assert distances_of(PLAIN, 0.5, 3, SIZES, convex=True) == pytest.approx([0, 2.5, third])
    found = whole_steps_bound(PLAIN, 0.5, [[2, 2]], SIZES)
    assert found == pytest.approx((2 * 5 / (0.5 * 2), 0.5 * 9 / 3, 2.5 / 2))
    # Groups of one client, t of 2 and 2.5 in the mean: the third distance counts by half
    found = whole_steps_bound(PLAIN, 0.5, [[2, 2], [2, 3]], [1, 1])
    second = 1 + 1.5**2
    third = (1.5 * second**0.5 + 1) ** 2 + 1.5**2
    assert found.drift == pytest.approx((2 * second + third / 2) / 4.5)
    assert whole_steps_bound(PLAIN, 1.0, [[5000, 5000]], SIZES).total == float("inf")


class Landscape:
    """Noisy quadratics: client k of group i has curvatures up to 1 and a centre of its own."""

    def __init__(self, seed, sizes=(4, 2), noise=0.3):
        self.rng = np.random.default_rng(seed)
        self.sizes, self.noise = sizes, noise
        self.curvature = [self.rng.uniform(0.2, 1.0, (n, 3)) for n in sizes]
        self.centre = [self.rng.normal(i, 1.0, (n, 3)) for i, n in enumerate(sizes)]
        self.weights = np.array(sizes) / sum(sizes)
        self.largest = self.apart = 0.0

    def gradients(self, group, x):
        return self.curvature[group] * (x - self.centre[group])

    def of_group(self, group, x):
        return self.gradients(group, x).mean(axis=0)

    def gradient(self, x):
        return sum(w * self.of_group(i, x) for i, w in enumerate(self.weights))

    def loss(self, x):
        total = 0.0
        for i, w in enumerate(self.weights):
            squares = self.curvature[i] * (x - self.centre[i]) ** 2 / 2
            total += w * squares.sum(axis=1).mean()
        return total

    def step(self, group, x, rate):
        """Keeps G^2 as it goes: the largest second moment of any client's stochastic gradient."""
        exact = self.gradients(group, x)
        most = (exact**2).sum(axis=1).max() + 3 * self.noise**2
        self.largest = max(self.largest, most)
        noisy = exact + self.rng.normal(0, self.noise, exact.shape)
        return x - rate * noisy.mean(axis=0)

    def look_apart(self, places):
        parts = [self.of_group(i, x) - self.gradient(x) for i, x in enumerate(places)]
        apart = sum(w * (p**2).sum() for w, p in zip(self.weights, parts, strict=True))
        self.apart = max(self.apart, apart)

    def constants(self, start, repeats_of_losses):
        drop = self.loss(start) - np.mean(repeats_of_losses)
        noise = (3 * self.noise**2) ** 0.5
        return Constants(1.0, self.largest**0.5, noise, self.apart**0.5, drop)


def play(land, rate, iterations, whole, repeats=20):
    """Mean |gradient|^2 at global models, or at the mean of groups' models; and last losses."""
    squares, losses = [], []
    for _ in range(repeats):
        x = np.full(3, 4.0)
        for row in iterations:
            ends = [x.copy() for _ in row]
            squares += [] if whole else [(land.gradient(x) ** 2).sum()]
            for number in range(max(row)):
                mean = sum(w * end for w, end in zip(land.weights, ends, strict=True))
                land.look_apart([mean] * len(row))
                land.look_apart(ends)
                squares += [(land.gradient(mean) ** 2).sum()] if whole else []
                for i in range(len(row)):
                    if number < row[i]:
                        ends[i] = land.step(i, ends[i], rate)
            scale = [1 if whole else t for t in row]
            moved = [(end - x) / s for end, s in zip(ends, scale, strict=True)]
            x = x + sum(w * m for w, m in zip(land.weights, moved, strict=True))
        losses.append(land.loss(x))
    return np.mean(squares), losses


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_mean_steps_do_is_within_their_bounds(rate, seed):
    land = Landscape(seed)
    iterations = np.random.default_rng(seed).integers(1, 6, (15, 2)).tolist()
    found, losses = play(land, rate, iterations, whole=False)
    constants = land.constants(np.full(3, 4.0), losses)
    ours = mean_step_bound(constants, rate, iterations, land.sizes)
    theirs = global_bound(constants, rate, iterations, land.sizes)
    assert found <= ours.total <= theirs.total


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("count", [1, 5])
def test_what_whole_steps_do_is_within_their_bound(rate, count):
    land = Landscape(3)
    iterations = [[count, count]] * 10
    found, losses = play(land, rate, iterations, whole=True)
    constants = land.constants(np.full(3, 4.0), losses)
    for convex in (True, False):
        bound = whole_steps_bound(constants, rate, iterations, land.sizes, convex)
        assert found <= bound.total


def test_lemma_1_holds_for_them():
    land, rate, start = Landscape(4), 0.3, np.full(3, 4.0)
    gone, moved = [], []
    for i, t in enumerate((4, 2)):
        end = start
        for _ in range(t):
            end = land.step(i, end, rate)
        gone.append(end)
        moved.append((end - start) / t)
    after = start + sum(w * m for w, m in zip(land.weights, moved, strict=True))
    for end, t in zip(gone, (4, 2), strict=True):
        bound = most_deviation(rate, land.largest**0.5, t, land.sizes)
        assert ((after - end) ** 2).sum() <= bound
