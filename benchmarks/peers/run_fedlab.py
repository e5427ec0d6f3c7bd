"""FedLab's standalone simulation with its serial trainer: run_fedlab.py MODEL ROUNDS

FedLab imports torchvision, for the datasets that it downloads; PyPI's does not load beside a
torch without CUDA, so an empty module stands in for it.
"""
# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from copy import deepcopy
from importlib.metadata import version
from unittest.mock import MagicMock

sys.modules["torchvision"] = MagicMock()

import torch
import workload
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline
from workload import BATCH, CLIENTS, RATE


class InMemory(FedDataset):
    def get_dataloader(self, id: int, batch_size: int) -> workload.Batches:  # noqa: A002
        assert batch_size == BATCH
        return workload.Batches(id)


class Pipeline(StandalonePipeline):
    def evaluate(self) -> None:
        """Called at the end of each round."""
        stamps.append(time.perf_counter())


stamps: list[float] = []


def main() -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    module = workload.first_model(name)
    handler = SyncServerHandler(module, 1 + rounds, sample_ratio=1.0)
    trainer = SGDSerialClientTrainer(deepcopy(module), CLIENTS)
    trainer.setup_dataset(InMemory())
    trainer.setup_optim(epochs=1, batch_size=BATCH, lr=RATE)
    Pipeline(handler, trainer).main()
    workload.report(version("fedlab"), stamps, handler.model)


if __name__ == "__main__":
    main()
