"""Local training in C++, for the models that are worth it: see product.h and train.cc.

A job is trained alone, with its model in the cache of one core, so its result cannot depend on
other jobs. Sums are taken in one order on every processor; tests compare gradients with autograd's.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from simulator.events import Job, Result
from simulator.native.layers import WORDS, layers_of
from simulator.native.library import load_library
from simulator.task import Task, orders, steps_of
from simulator.training import rate_of

_MOST_JOBS = 16
_MOST_PARAMETERS = 1_000_000
"""Of the jobs of one call: few calls for small models, and no long one for large models."""

_TYPES = {torch.float32: 0, torch.float64: 1, torch.int64: 2}

_JOB = np.dtype(
    [
        ("start", np.uintp),
        ("shift", np.uintp),
        ("model", np.uintp),
        ("samples", np.uintp),
        ("per_epoch", np.int64),
        ("steps", np.int64),
        ("rate", np.float64),
        ("pull", np.float64),
        ("loss", np.float64),
    ]
)


class _Task(ctypes.Structure):
    _fields_ = (
        ("x", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("x_type", ctypes.c_int64),
        ("regression", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("momentum", ctypes.c_double),
        ("clip_norm", ctypes.c_double),
    )


@dataclass(frozen=True)
class _Data:
    """What C++ reads: contiguous, and of types that it knows."""

    x: Tensor
    y: Tensor


class NativeTrainer:
    """Trains one job after the other; ``make`` tells whether it knows the task's model."""

    @staticmethod
    def make(task: Task, dtype: torch.dtype = torch.float32) -> NativeTrainer | None:
        shape = tuple(task.x_train.shape[1:])
        layers = layers_of(task.build().module, shape)
        return None if layers is None else NativeTrainer(task, layers, dtype)

    def __init__(self, task: Task, layers: list[tuple[int, ...]], dtype: torch.dtype) -> None:
        self._task, self._dtype = task, dtype
        self._data = _Data(
            task.x_train.contiguous(),
            task.y_train.to(dtype if task.regression else torch.int64).contiguous(),
        )
        _check(task, self._data, layers)
        self._library = load_library("double" if dtype == torch.float64 else "float")
        words = np.zeros((len(layers), WORDS), np.int64)
        for row, layer in zip(words, layers, strict=True):
            row[: len(layer)] = layer
        largest = max(map(len, task.parts.values()), default=1)
        told = _Task(
            self._data.x.data_ptr(),
            self._data.y.data_ptr(),
            _TYPES[self._data.x.dtype],
            int(task.regression),
            min(task.training.batch_size, largest),
            task.training.momentum,
            task.training.clip_norm or 0.0,
        )
        self._x = self._data.x.data_ptr()
        self._net = self._library.meshfl_new(words.ctypes.data, len(words), ctypes.byref(told))
        if not self._net:
            raise MemoryError(f"no memory for batches of {told.batch} samples")
        weakref.finalize(self, self._library.meshfl_delete, self._net).atexit = False

    @staticmethod
    def jobs_at_once(num_parameters: int) -> int:
        return max(1, min(_MOST_JOBS, _MOST_PARAMETERS // num_parameters))

    def train(self, jobs: Sequence[Job], rooms: Sequence[Tensor] | None = None) -> list[Result]:
        """``rooms``: where to leave the models; a job's may be its own start."""
        if self._data.x.data_ptr() != self._x:
            raise RuntimeError("the data have moved (share_memory_?) since this trainer was made")
        if rooms is None:
            rooms = [torch.empty_like(job.start) for job in jobs]
        table = np.zeros(len(jobs), _JOB)
        samples = [self._samples(job) for job in jobs]
        for row, job, numbers, room in zip(table, jobs, samples, rooms, strict=False):
            _check_job(job, room, self._dtype)
            row["start"], row["model"] = job.start.data_ptr(), room.data_ptr()
            row["shift"] = 0 if job.shift is None else job.shift.data_ptr()
            row["samples"] = numbers.ctypes.data
            row["per_epoch"] = len(self._task.parts[job.node])
            row["steps"] = steps_of(self._task, job)[0]
            row["rate"] = rate_of(job, self._task.training)
            row["pull"] = job.pull
        self._library.meshfl_train(self._net, table.ctypes.data, len(table))
        return [Result(*one) for one in zip(rooms, table["loss"].tolist(), strict=False)]

    def _samples(self, job: Job) -> np.ndarray:
        """The sample numbers of all its steps, shuffled anew for every epoch."""
        size = len(self._task.parts[job.node])
        per_epoch = -(-size // self._task.training.batch_size)
        epochs = -(-steps_of(self._task, job)[0] // per_epoch)
        drawn = list(islice(orders(self._task, job), epochs))
        return np.ascontiguousarray(np.concatenate(drawn), np.int64)


def _check(task: Task, data: _Data, layers: list[tuple[int, ...]]) -> None:
    """C++ would read past the end of a table."""
    for name, numbers, bound in (
        ("a label", None if task.regression else data.y, task.outputs),
        ("a symbol", data.x if data.x.dtype == torch.int64 else None, layers[0][4]),
    ):
        if numbers is not None and numbers.numel():
            least, most = int(numbers.min()), int(numbers.max())
            if least < 0 or most >= bound:
                wrong = least if least < 0 else most
                raise ValueError(f"{name} of {wrong} is not in 0..{bound - 1}")


def _check_job(job: Job, room: Tensor, dtype: torch.dtype) -> None:
    assert job.less is None
    for vector in (job.start, room, *([] if job.shift is None else [job.shift])):
        assert vector.dtype == dtype
        assert vector.is_contiguous()
        assert len(vector) == len(job.start)
