"""meshfl's learner: run_ours.py MODEL ROUNDS WORKERS"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version

import numpy as np
import workload
from torch import nn
from workload import BATCH, CLASSES, CLIENTS, RATE, SAMPLES

from algorithms.rules import weighted_mean
from simulator.engines import build_engine
from simulator.events import Job
from simulator.learner import DeferredLearner
from simulator.model_section import ModelSection
from simulator.task import Task
from simulator.training import TrainingSection

NAMES = {"mlp": "mlp", "cnn": "cnn-async-hfl"}


def main() -> None:
    name, rounds, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    x, y = workload.data()
    parts = {k: np.arange(k * SAMPLES, (k + 1) * SAMPLES) for k in range(CLIENTS)}
    training = TrainingSection(learning_rate=RATE, batch_size=BATCH, epochs=1)
    section = ModelSection(name=NAMES[name])
    task = Task(x, y, x[:1], y[:1], CLASSES, False, parts, section, training, seed=0)
    learner = DeferredLearner(task, build_engine("auto", task, workers, None))
    module = workload.first_model(name)
    model = nn.utils.parameters_to_vector(module.parameters()).detach()
    assert len(model) == len(learner.initial_model())
    stamps = []
    for count in range(1 + rounds):
        updates = [learner.train(Job(node=k, start=model, count=count)) for k in parts]
        weights = [update.num_samples for update in updates]
        model = weighted_mean((update.model for update in updates), weights)
        stamps.append(time.perf_counter())
    learner.close()
    nn.utils.vector_to_parameters(model, module.parameters())
    workload.report(version("meshfl"), stamps, module)


if __name__ == "__main__":
    main()
