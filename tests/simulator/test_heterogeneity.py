"""Estimated constants against parabolas whose constants are known.

A line w x + b through data with x = -1, 1 and y = a x + c: the mean of squares is
(w - a)^2 + (b - c)^2, so a device's gradient is 2 (w - a, b - c), everywhere, and L = 2.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from simulator import heterogeneity
from simulator.cli import app
from simulator.errors import UserError
from simulator.heterogeneity import constants_of, lines, look, look_around, measure
from simulator.model_section import ModelSection
from simulator.task import Task
from simulator.training import TrainingSection

CENTRES = {10: (0.0, 0.0), 11: (2.0, 0.0), 12: (6.0, 4.0), 13: (8.0, 0.0)}
GROUPS = {10: 1, 11: 1, 12: 2, 13: 2}
# Group 1: middle (1, 0), both 1 away: zeta_1^2 = 4 * 1. Group 2: middle (7, 2), both sqrt(1 + 4)
# away: 4 * 5. Everybody: (4, 1), groups sqrt(9 + 1) away: 4 * 10.


def line_task(batch_size=1, curved=None, copies=4):
    x, y, parts = [], [], {}
    for device, (a, c) in CENTRES.items():
        scale = (curved or {}).get(device, 1.0)
        own = np.array([-1.0, 1.0] * copies, np.float32) * scale
        parts[device] = np.arange(len(x), len(x) + len(own))
        x += [[v] for v in own]
        y += [[a * v + c] for v in own]
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return Task(
        x_train=x, y_train=y, x_test=x, y_test=y, outputs=1, regression=True, parts=parts,
        model=ModelSection(name="logistic"), training=TrainingSection(batch_size=batch_size), seed=3,
    )  # fmt: skip


@pytest.mark.parametrize("model", [(0.0, 0.0), (-3.0, 5.0)])
def test_of_parabolas_all_is_known(model):
    found = look(line_task(), GROUPS, torch.tensor(model))
    assert found.between == pytest.approx(40, rel=1e-5)
    assert found.within == pytest.approx({1: 4, 2: 20}, rel=1e-5)
    assert found.mean_within == pytest.approx(12, rel=1e-5)
    assert found.smoothness == pytest.approx(2, rel=1e-4)
    away = {d: (model[0] - a) ** 2 + (model[1] - c) ** 2 for d, (a, c) in CENTRES.items()}
    # A sample's gradient is 2 r (x, 1): of squared length 8 r^2, and r^2 has the mean of the loss
    assert found.noise == pytest.approx(4 * np.mean(list(away.values())), rel=1e-5)
    assert found.most_noise == pytest.approx(4 * max(away.values()), rel=1e-5)
    assert found.loss == pytest.approx(np.mean(list(away.values())), rel=1e-5)
    assert found.gradient == pytest.approx(
        4 * ((model[0] - 4) ** 2 + (model[1] - 1) ** 2), rel=1e-5
    )


def test_a_batch_of_everything_has_no_noise():
    assert look(line_task(batch_size=8), GROUPS, torch.tensor([1.0, 1.0])).noise == pytest.approx(
        0, abs=1e-9
    )


def test_noise_is_that_of_batches_of_a_pass_over_all(monkeypatch):
    """Of b of n samples, none twice: a sample's variance / b, times (n - b) / (n - 1)."""
    batch, samples = 2, 8
    monkeypatch.setattr(heterogeneity, "_smoothness", lambda *_: 2.0)
    alone = look(line_task(), GROUPS, torch.tensor([1.0, 1.0])).noise
    task = line_task(batch)
    noises = [
        look(replace(task, seed=seed), GROUPS, torch.tensor([1.0, 1.0])).noise
        for seed in range(200)
    ]
    expected = alone / batch * (samples - batch) / (samples - 1)
    assert np.mean(noises) == pytest.approx(expected, rel=0.1)


def test_the_groups_decide_what_is_between_and_what_within():
    # {10, 12}: (3, 2); {11, 13}: (5, 0); sqrt(2) from (4, 1). Within: sqrt(9 + 4), 3
    found = look(line_task(), {10: 1, 12: 1, 11: 2, 13: 2}, torch.zeros(2))
    assert found.between == pytest.approx(4 * 2, rel=1e-5)
    assert found.within == pytest.approx({1: 4 * 13, 2: 4 * 9}, rel=1e-5)


def test_groups_of_different_size_count_the_same():
    # (0, 0) alone; (16/3, 4/3) of three: the middle of both is (8/3, 2/3)
    found = look(line_task(), {10: 1, 11: 2, 12: 2, 13: 2}, torch.zeros(2))
    assert found.between == pytest.approx(4 * ((8 / 3) ** 2 + (2 / 3) ** 2), rel=1e-5)
    assert found.within[1] == pytest.approx(0, abs=1e-6)


def test_smoothness_is_that_of_the_most_curved_device():
    # x = -3, 3 on one device: its second derivative by w is 2 * 9; the mean of all is 2 * 3
    assert look(line_task(curved={12: 3.0}), GROUPS, torch.zeros(2)).smoothness == pytest.approx(
        18, rel=1e-3
    )


def test_further_on_the_loss_is_less_and_the_largest_is_taken():
    points = look_around(line_task(), GROUPS, steps=(0, 20, 60))
    assert [point.steps for point in points] == [0, 20, 60]
    assert points[2].gradient < points[0].gradient
    found = constants_of(points)
    assert found.between == pytest.approx(40, rel=1e-4)
    assert found.gap == points[0].loss
    assert found.noise == max(point.noise for point in points)


def test_with_few_samples_of_each():
    (only,) = look_around(line_task(), GROUPS, most_samples=1, steps=(0,))
    assert only.noise == 0, "one sample is all there is"


def test_lines_for_people():
    points = look_around(line_task(), GROUPS, steps=(0, 20))
    told = lines(points, 20, 300)
    assert told[0].startswith("Heterogeneity of 2 groups, on at most 300 samples of each device")
    assert any(line.split()[:3] == ["zeta^2", "between", "groups"] for line in told)
    assert "too large" in told[-1]
    assert "too large" not in lines(points, 20, None)[-1]


def test_show_tells_as_comments(scenario, tmp_path):
    (tmp_path / "small.toml").write_text(scenario().to_toml())
    plain = CliRunner().invoke(app, ["show", str(tmp_path / "small.toml")])
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "small.toml"), "--heterogeneity"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith(plain.stdout)
    more = shown.stdout.removeprefix(plain.stdout).splitlines()
    assert all(line.startswith("#") for line in more)
    assert any("sigma^2    of 20 samples" in line for line in more)


def test_without_learning_there_is_nothing_to_tell(scenario):
    none = {"run": {"learning": "none"}, "model": {"transfer_bytes": 100}}
    with pytest.raises(UserError, match='use learning = "sgd"'):
        measure(scenario(none), Path())
