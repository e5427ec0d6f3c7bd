import gc
import os
import tempfile
import tracemalloc
from dataclasses import dataclass, field

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.device_state import DeviceState
from simulator.state import load_state, save_state


@dataclass
class Algorithm:
    """As one with control variates keeps them."""

    rounds: int
    variates: DeviceState = field(default_factory=DeviceState)


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float32)


def filled(count, length, most_bytes):
    state = DeviceState(most_bytes)
    generator = torch.Generator().manual_seed(1)
    for device in range(count):
        state[3 * device] = torch.randn(length, generator=generator)
    return state


def test_only_devices_that_have_one_are_held():
    state = DeviceState()
    assert 5 not in state
    state[5] = vector(1, 2)
    assert list(state) == [5]
    assert state[5].tolist() == [1, 2]
    with pytest.raises(KeyError):
        state[6]


def test_beyond_the_limit_vectors_are_in_a_file():
    state = filled(200, 10, most_bytes=1000)  # 40 bytes each
    assert state.spilled == 175
    again = filled(200, 10, most_bytes=10**6)
    assert again.spilled == 0
    for device in state:
        assert torch.equal(state[device], again[device])


@pytest.mark.parametrize("most_bytes", [0, 1000])
def test_what_was_got_does_not_change(most_bytes):
    state = DeviceState(most_bytes)
    state[1] = vector(1, 2)
    before = state[1]
    state[1] = vector(3, 4)
    assert (before.tolist(), state[1].tolist()) == ([1, 2], [3, 4])


def test_a_row_that_somebody_holds_is_not_written_over():
    state = DeviceState(most_bytes=0)
    state[1] = vector(1, 2)
    held = state.kept(1)
    for number in range(200):
        state[1] = vector(number, number)
    assert held.read().tolist() == [1, 2]
    assert state[1].tolist() == [199, 199]
    assert len(state._file.rows) == 64
    assert len(state._file.free) == 62
    del held
    assert len(state._file.free) == 63
    assert state.kept(2) is None


def test_a_free_row_is_used_again():
    state = filled(64, 10, most_bytes=0)
    for device in range(1000, 1100):
        del state[next(iter(state))]
        state[device] = torch.full((10,), float(device))
    assert len(state._file.rows) == 64
    assert [int(v[0]) for v in state.values()] == list(range(1036, 1100))


@pytest.mark.parametrize("bad", [vector(1, 2, 3), torch.zeros(2, dtype=torch.float64)])
def test_vectors_of_another_kind_are_refused(bad):
    state = DeviceState()
    state[1] = vector(1, 2)
    with pytest.raises(ValueError, match=r"device 7 is .* must be torch.float32 of shape \(2,\)"):
        state[7] = bad


devices, numbers = st.integers(0, 6), st.none() | st.floats(width=32, allow_nan=False)


@given(st.lists(st.tuples(devices, numbers)), st.integers(0, 5))
def test_as_a_dict_whatever_the_limit(changes, held):
    state, plain = DeviceState(8 * held), {}
    for device, number in changes:
        if number is not None:
            state[device] = vector(number, 0)
            plain[device] = number
        elif device in plain:
            del state[device]
            del plain[device]
    assert [(d, float(v[0])) for d, v in state.items()] == list(plain.items())


@pytest.mark.parametrize("most_bytes", [0, 1000, 10**9])
def test_saved_and_loaded_bit_for_bit(tmp_path, most_bytes):
    state = filled(100, 10, most_bytes)
    state[300] = vector(*([float("nan"), -0.0] * 5))
    save_state(tmp_path / "s", {"algorithm": Algorithm(3, state), "model": torch.ones(7)})
    back = load_state(tmp_path / "s", None)["algorithm"]
    assert back.rounds == 3
    assert back.variates.most_bytes == most_bytes
    assert list(back.variates) == list(state)
    assert back.variates.spilled == state.spilled
    for device in state:
        assert back.variates[device].numpy().tobytes() == state[device].numpy().tobytes()
    save_state(tmp_path / "again", {"algorithm": back, "model": torch.ones(7)})
    assert (tmp_path / "again").read_bytes() == (tmp_path / "s").read_bytes()


def test_what_was_saved_does_not_follow_later_changes(tmp_path):
    state = filled(3, 10, most_bytes=0)
    first = state[0]
    save_state(tmp_path / "s", state)
    state[0] = torch.zeros(10)
    assert torch.equal(load_state(tmp_path / "s", None)[0], first)


def test_the_file_goes_with_the_object(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    state = filled(10, 10, most_bytes=0)
    assert os.listdir(tmp_path) == []  # it has no name
    descriptors = psutil.Process().num_fds()
    del state
    gc.collect()
    assert psutil.Process().num_fds() < descriptors


def test_a_save_needs_no_memory_for_what_is_on_disk(tmp_path):
    """Written and read one vector at a time."""
    state = DeviceState(most_bytes=0)
    for device in range(50):
        state[device] = torch.full((250_000,), float(device))  # 1 MB
    tracemalloc.start()
    save_state(tmp_path / "s", state)
    back = load_state(tmp_path / "s", None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6
    assert torch.equal(back[49], state[49])
