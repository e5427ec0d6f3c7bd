"""``learning = "none"``: the network and the scheduling alone, for studies of communication.

A model is one number that no training changes, a job's steps and samples are nominal, and there
is nothing to evaluate: 100,000 devices need neither data nor models.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from simulator.events import Job, Result, Update
from simulator.parts import Score
from simulator.training import TrainingSection, rate_of, work_of
from simulator.units import NodeId, Time

NOMINAL_SAMPLES = 100
"""Of every device, unless [data] samples_per_device says otherwise."""


class NoLearner:
    """Trains nothing; every device has as many samples."""

    def __init__(self, model_bytes: int, training: TrainingSection, samples: int) -> None:
        self.model_bytes = model_bytes
        self._training = training
        self._samples = samples

    def initial_model(self) -> torch.Tensor:
        return torch.zeros(1)

    def num_samples(self, node: NodeId) -> int:
        return self._samples

    def work(self, job: Job) -> tuple[int, int]:
        return work_of(job, self._training, self._samples)

    def train(self, job: Job, due: Time = 0) -> Update:
        steps, rate = self.work(job)[0], rate_of(job, self._training)
        return Update(job, self._samples, steps, lambda _: Result(job.start, 0.0), rate)

    def expect(self, updates: Sequence[Update]) -> None:
        pass

    def evaluate(self, model: torch.Tensor) -> Score:
        return Score(None, None)

    def close(self) -> None:
        pass
