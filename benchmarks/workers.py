"""Training in one thread, in several threads and in several processes, in turn, round by round.

100 clients of 100 samples, batch 20, one epoch, then the mean, as in peers.py; wall time of the
best round. All must end with the same model.
    .venv/bin/python benchmarks/workers.py [--model mlp] [--workers 2] [--rounds 40]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from algorithms.rules import weighted_mean
from simulator.engines import build_engine
from simulator.events import Job
from simulator.learner import DeferredLearner
from simulator.model_section import ModelSection
from simulator.task import Task
from simulator.training import TrainingSection

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import workload

MODELS = {"mlp": "mlp", "cnn": "cnn-async-hfl"}
GOAL = 1.7
"""How many times as fast as one thread two of them should be."""


def one_round(learner: DeferredLearner, model: torch.Tensor, count: int) -> torch.Tensor:
    nodes = range(workload.CLIENTS)
    updates = [learner.train(Job(node=node, start=model, count=count)) for node in nodes]
    learner.expect(updates)
    weights = [update.num_samples for update in updates]
    return weighted_mean((update.model for update in updates), weights)


def make_task(name: str) -> Task:
    x, y = workload.data()
    size = workload.SAMPLES
    parts = {k: np.arange(k * size, (k + 1) * size) for k in range(workload.CLIENTS)}
    training = TrainingSection(learning_rate=workload.RATE, batch_size=workload.BATCH, epochs=1)
    section = ModelSection(name=MODELS[name])
    return Task(x, y, x[:1], y[:1], workload.CLASSES, False, parts, section, training, seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    task = make_task(options.model)
    several = dict.fromkeys(("processes", "threads"), options.workers)
    learners = {  # processes first: they move the data
        name: DeferredLearner(task, build_engine(name, task, workers, None))
        for name, workers in (several | {"serial": 1}).items()
    }
    first = nn.utils.parameters_to_vector(workload.first_model(options.model).parameters())
    models = dict.fromkeys(learners, first.detach())
    best = dict.fromkeys(learners, float("inf"))
    for count in range(1 + options.rounds):
        for name, learner in learners.items():
            began = time.perf_counter()
            models[name] = one_round(learner, models[name], count)
            if count:
                best[name] = min(best[name], time.perf_counter() - began)
    for name, learner in learners.items():
        learner.close()
        assert torch.equal(models[name], models["serial"])
        ratio = best["serial"] / best[name]
        told = "" if name == "serial" else f"{ratio:6.2f} x serial; goal {GOAL:g} with two"
        print(f"{name:10}{1e3 * best[name]:10,.1f} ms a round {told}")


if __name__ == "__main__":
    main()
