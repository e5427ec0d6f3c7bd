from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
import torch

from simulator.device_state import DeviceState
from simulator.errors import UserError
from simulator.events import Alarm, Job, Result, Update
from simulator.section import Section
from simulator.state import load_state, save_state


class Params(Section):
    rate: float = 0.5


class Message(NamedTuple):
    round: int
    model: torch.Tensor


@dataclass
class Holder:
    params: Params
    flows: dict[int, Message] = field(default_factory=dict)
    heap: list[tuple[int, int, Alarm]] = field(default_factory=list)


def load(path, train=None):
    return load_state(path, train)


def round_trip(tmp_path, value):
    save_state(tmp_path / "s", value)
    return load(tmp_path / "s")


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -1.5, "text", [], [1, [2.0]], (1, ("a", None)), {1: "a", (2, "b"): [3]}],
)
def test_plain_values_come_back(tmp_path, value):
    back = round_trip(tmp_path, value)
    assert back == value
    assert type(back) is type(value)


def test_nested_classes_come_back(tmp_path):
    model = torch.tensor([1.0, 2.0, 3.0])
    holder = Holder(Params(rate=0.25), {7: Message(2, model)}, [(5, 0, Alarm(("g", 1)))])
    back = round_trip(tmp_path, holder)
    assert isinstance(back, Holder)
    assert back.params == holder.params
    assert back.heap == holder.heap
    assert back.flows[7].round == 2
    assert torch.equal(back.flows[7].model, model)


def test_frozen_slotted_dataclass_comes_back(tmp_path):
    job = Job(node=3, start=torch.ones(2), tag=(1, 2), pull=0.1, count=9)
    back = round_trip(tmp_path, job)
    assert (back.node, back.tag, back.pull, back.count, back.shift) == (3, (1, 2), 0.1, 9, None)
    assert torch.equal(back.start, job.start)


def test_a_shared_tensor_is_written_once_and_stays_shared(tmp_path):
    model = torch.zeros(250_000)
    first, second = round_trip(tmp_path, [model, Message(1, model)])
    assert first is second.model
    assert (tmp_path / "s").stat().st_size < 1.1 * 4 * 250_000


@pytest.mark.parametrize("most_bytes", [0, 10**9])
def test_a_vector_that_a_device_and_a_job_have_is_written_once(tmp_path, most_bytes):
    state = DeviceState(most_bytes)
    state[5] = torch.arange(250_000.0)
    jobs = [Job(5, torch.zeros(1), less=state.kept(5)), Job(6, torch.zeros(1))]
    back, (job, other) = round_trip(tmp_path, (state, jobs))
    assert (tmp_path / "s").stat().st_size < 1.1 * 4 * 250_000
    assert job.less is back.kept(5)
    assert torch.equal(job.whole_shift, -state[5])
    assert other.less is None


def test_a_job_keeps_what_its_device_has_lost_since(tmp_path):
    state = DeviceState(most_bytes=0)
    state[5] = torch.arange(3.0)
    job = Job(5, torch.zeros(3), less=state.kept(5))
    state[5] = torch.ones(3)
    # The job comes first: its row is read before the state has any.
    job, back = round_trip(tmp_path, (job, state))
    assert job.whole_shift.tolist() == [-0.0, -1.0, -2.0]
    assert back[5].tolist() == [1, 1, 1]
    back[6] = torch.zeros(3)
    assert (back.spilled, list(back)) == (2, [5, 6])


def test_views_of_one_buffer_are_allowed(tmp_path):
    buffer = torch.arange(6.0)
    a, b = round_trip(tmp_path, [buffer[:3], buffer[::2]])
    assert a.tolist() == [0, 1, 2]
    assert b.tolist() == [0, 2, 4]


def test_arrays_keep_their_type(tmp_path):
    back = round_trip(tmp_path, {"parts": np.array([3, 1], dtype=np.int64)})
    assert back["parts"].dtype == np.int64
    assert back["parts"].tolist() == [3, 1]


@pytest.mark.parametrize("value", [{1, 2}, object(), np.float64(1.0), lambda: None])
def test_what_is_no_plain_data_is_refused(tmp_path, value):
    with pytest.raises(TypeError, match="cannot save"):
        save_state(tmp_path / "s", [value])
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_truncated_file_is_one_clear_error(tmp_path, keep):
    path = tmp_path / "checkpoint.safetensors"
    save_state(path, {"model": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: damaged.*start afresh"):
        load(path)


def test_a_flipped_byte_in_the_text_is_noticed(tmp_path):
    path = tmp_path / "s"
    save_state(path, {"now": 123456789})
    path.write_bytes(path.read_bytes().replace(b"123456789", b"123456780"))
    with pytest.raises(UserError, match="checksum"):
        load(path)


def test_a_flipped_byte_in_a_tensor_is_noticed(tmp_path):
    path = tmp_path / "s"
    save_state(path, {"model": torch.full((100,), 1.5)})
    content = path.read_bytes()
    number = torch.tensor(1.5).numpy().tobytes()
    path.write_bytes(content.replace(number, torch.tensor(2.5).numpy().tobytes(), 1))
    with pytest.raises(UserError, match="checksum"):
        load(path)


def test_a_file_cannot_name_just_any_class(tmp_path, monkeypatch):
    save_state(tmp_path / "s", Params())
    monkeypatch.setattr("simulator.state._type_name", lambda value: "subprocess:Popen")
    save_state(tmp_path / "s", Params())
    with pytest.raises(UserError, match="subprocess:Popen"):
        load(tmp_path / "s")


def test_an_update_comes_back_with_its_result_or_is_trained_anew(tmp_path):
    trained = []

    def train(job):
        def compute(_):
            trained.append(job.tag)
            return Result(job.start + 1, 0.5)

        return Update(job, 10, 2, compute)

    done, pending = (train(Job(node=1, start=torch.zeros(2), tag=t)) for t in ("done", "pending"))
    assert done.loss == 0.5
    save_state(tmp_path / "s", {"updates": [done, pending]})
    assert trained == ["done"], "saving computes nothing"
    done, pending = load(tmp_path / "s", train)["updates"]
    assert done.model.tolist() == pending.model.tolist() == [1, 1]
    assert (pending.num_samples, pending.job.tag) == (10, "pending")
    assert trained == ["done", "pending"]
