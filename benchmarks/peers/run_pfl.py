"""Apple's pfl, as its benchmarks use it, with every user's tensors in memory: MODEL ROUNDS

It takes the batches of a user in the same order each time, which saves the shuffling.
"""

from __future__ import annotations

import sys
import time
from importlib.metadata import version
from typing import Any

import torch
import workload
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from workload import BATCH, CLIENTS, RATE, SAMPLES


class Net(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.body(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        """Asked for in the first round, which pfl always evaluates."""
        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


class Stamps(TrainingProcessCallback):
    def __init__(self) -> None:
        self.times: list[float] = []

    def after_central_iteration(self, *args: Any, **kwargs: Any) -> tuple[bool, Metrics]:
        self.times.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    net = Net(workload.first_model(name))
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0))
    x, y = workload.data()
    users = [
        PyTorchTensorDataset((x[first : first + SAMPLES], y[first : first + SAMPLES]))
        for first in range(0, CLIENTS * SAMPLES, SAMPLES)
    ]
    sampler = get_user_sampler("minimize_reuse", range(CLIENTS))
    data = FederatedDataset(users.__getitem__, sampler)
    stamps = Stamps()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=1 + rounds,
            evaluation_frequency=1 + rounds,
            train_cohort_size=CLIENTS,
            val_cohort_size=None,
        ),
        SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(local_learning_rate=RATE, local_num_epochs=1, local_batch_size=BATCH),
        callbacks=[stamps],
        send_metrics_to_platform=False,
    )
    workload.report(version("pfl"), stamps.times, net.body)


if __name__ == "__main__":
    main()
