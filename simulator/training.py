"""The [training] table: how a device trains when its job does not say otherwise."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from simulator.events import Job
from simulator.section import Section


class TrainingSection(Section):
    learning_rate: float = Field(0.01, gt=0)
    """Step size of local SGD."""
    batch_size: int = Field(20, ge=1)
    """Samples per local step."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the device's samples per job (default 1 if steps is not given)."""
    steps: int | None = Field(None, ge=1)
    """Local steps per job, instead of epochs."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum of local SGD, starting from rest in every job."""
    clip_norm: float | None = Field(None, gt=0)
    """Bound on the norm of each step's direction, pull and shift included."""
    kernels: Literal["native", "autograd"] = "native"
    """Who computes steps: C++ made for small models, where it knows the model, or torch."""

    @model_validator(mode="before")
    @classmethod
    def _epochs_or_steps(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        given = [key for key in ("epochs", "steps") if content.get(key) is not None]
        if len(given) == 2:
            raise ValueError("give epochs or steps, not both")
        return content if given else {"epochs": 1} | content


def work_of(job: Job, training: TrainingSection, size: int) -> tuple[int, int]:
    """Local steps of a job on a device with ``size`` samples, and the samples that they read."""
    batch = min(training.batch_size, size)
    epochs = job.epochs or (None if job.steps else training.epochs)
    if epochs:
        return epochs * -(-size // batch), epochs * size
    steps = job.steps or training.steps
    assert steps is not None
    whole, rest = divmod(steps, -(-size // batch))
    return steps, whole * size + rest * batch


def rate_of(job: Job, training: TrainingSection) -> float:
    return training.learning_rate if job.learning_rate is None else job.learning_rate
