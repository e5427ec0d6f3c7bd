from pathlib import Path

import numpy as np
import pytest

from simulator.compute import (
    ConstantDelay,
    DeviceCompute,
    ExponentialDelay,
    FileDelay,
    LogNormalDelay,
)
from simulator.errors import UserError

DEVICES = (10, 11, 12)


def compute(section, seed=1, base=Path()):
    return DeviceCompute(section, DEVICES, seed, base)


@pytest.mark.parametrize(("per", "expected_s"), [("round", 2), ("step", 10), ("sample", 100)])
def test_a_delay_scales_with_the_work(per, expected_s):
    delays = compute(ConstantDelay(delay_s=2.0, per=per))
    assert delays.duration(10, 0, steps=5, samples=50) == expected_s * 10**9


def test_lognormal_has_a_floor_and_a_cap():
    delays = compute(LogNormalDelay(kind="lognormal", drawn="job"))
    drawn = np.array([delays.duration(10, n, 1, 1) / 1e9 for n in range(4000)])
    assert drawn.min() >= 30
    assert drawn.max() == 15000
    assert np.median(drawn) == pytest.approx(30 + np.exp(4), rel=0.15)


def test_exponential_mean():
    delays = compute(ExponentialDelay(kind="exponential", shift_s=1, mean_s=2, drawn="job"))
    drawn = [delays.duration(11, n, 1, 1) / 1e9 for n in range(4000)]
    assert np.mean(drawn) == pytest.approx(3, rel=0.05)


def test_a_device_keeps_its_delay_or_draws_one_a_job():
    once = compute(ExponentialDelay(kind="exponential"))
    assert once.duration(10, 0, 1, 1) == once.duration(10, 1, 1, 1)
    assert once.duration(10, 0, 1, 1) != once.duration(11, 0, 1, 1)
    anew = compute(ExponentialDelay(kind="exponential", drawn="job"))
    assert anew.duration(10, 0, 1, 1) != anew.duration(10, 1, 1, 1)


def test_a_draw_depends_on_seed_node_and_count_alone():
    section = ExponentialDelay(kind="exponential", drawn="job")
    first, second = compute(section), compute(section)
    second.duration(12, 0, 1, 1)
    assert first.duration(10, 3, 1, 1) == second.duration(10, 3, 1, 1)
    assert first.duration(10, 3, 1, 1) != compute(section, seed=2).duration(10, 3, 1, 1)


def test_dropouts_come_at_their_rate():
    delays = compute(ConstantDelay(delay_s=1, dropout_probability=0.25))
    drawn = [delays.duration(10, n, 1, 1) for n in range(2000)]
    assert drawn.count(None) == pytest.approx(500, rel=0.15)
    assert {d for d in drawn if d is not None} == {10**9}


def test_delays_from_a_file(tmp_path):
    (tmp_path / "delays.txt").write_text("1.5\n2\n0\n")
    delays = compute(FileDelay(kind="file", path=Path("delays.txt")), base=tmp_path)
    assert [delays.duration(d, 0, 1, 1) for d in DEVICES] == [1_500_000_000, 2_000_000_000, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\n2\n", "2 delays for 3 devices"),
        ("1\nnan\n3\n", "line 2: delay nan must be within 0 to"),
        ("1\n2\n-3\n", "line 3: delay -3 must be within 0 to"),
        ("1\nfast\n3\n", "line 2: 'fast' is not a number"),
        (None, "cannot read"),
    ],
)
def test_bad_files_are_told(tmp_path, content, message):
    path = tmp_path / "delays.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message) as error:
        compute(FileDelay(kind="file", path=path))
    assert "delays.txt" in str(error.value)
