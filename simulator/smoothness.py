"""L, the smoothness that papers' bounds are made of, estimated from a scenario's model and data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from simulator.build import outputs_of
from simulator.data.dataset import Dataset
from simulator.models import build_model, initial_model
from simulator.rng import Stream, generator
from simulator.scenario import Scenario

SAMPLES = 256
_ITERATIONS = 20


def estimate_smoothness(scenario: Scenario, dataset: Dataset) -> float:
    """The largest eigenvalue, without sign, of the loss's Hessian where training begins.

    By power iteration, on some samples of all devices: elsewhere, and on one device's samples, the
    loss may be curved more strongly.
    """
    seed, shape, outputs = scenario.run.seed, dataset.x_train.shape[1:], outputs_of(dataset)
    start = initial_model(scenario.model, shape, outputs, generator(seed, Stream.MODEL))
    module = build_model(scenario.model, shape, outputs)
    vector_to_parameters(start, module.parameters())
    size = len(dataset.y_train)
    chosen = generator(seed, Stream.DATA).choice(size, min(SAMPLES, size), replace=False)
    x, y = torch.from_numpy(dataset.x_train[chosen]), torch.from_numpy(dataset.y_train[chosen])
    loss = (F.mse_loss if dataset.num_classes is None else F.cross_entropy)(module(x), y)
    return largest_curvature(loss, list(module.parameters()))


def largest_curvature(loss: torch.Tensor, parameters: Sequence[torch.Tensor]) -> float:
    gradient = parameters_to_vector(torch.autograd.grad(loss, parameters, create_graph=True))
    direction, length = torch.ones_like(gradient.detach()), 0.0
    for _ in range(_ITERATIONS):
        norm = direction.norm()
        if norm == 0:
            return 0.0
        product = torch.autograd.grad(gradient @ (direction / norm), parameters, retain_graph=True)
        direction = parameters_to_vector([part.contiguous() for part in product]).detach()
        length = float(direction.norm())
    return length
