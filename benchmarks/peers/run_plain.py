"""The loop that one would write by hand: run_plain.py MODEL ROUNDS"""

from __future__ import annotations

import sys
import time

import torch
import workload
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from workload import CLIENTS


def main() -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    module = workload.first_model(name)
    model = parameters_to_vector(module.parameters()).detach()
    stamps = []
    for _ in range(1 + rounds):
        mean = torch.zeros_like(model)
        for client in range(CLIENTS):
            # A copy: the parameters become views of it.
            vector_to_parameters(model.clone(), module.parameters())
            workload.train(module, client)
            trained = parameters_to_vector(module.parameters()).detach()
            mean.add_(trained, alpha=1 / CLIENTS)
        model = mean
        stamps.append(time.perf_counter())
    vector_to_parameters(model, module.parameters())
    workload.report(f"torch {torch.__version__.partition('+')[0]}", stamps, module)


if __name__ == "__main__":
    main()
