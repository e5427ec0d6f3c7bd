"""FedAvg in Flower's simulation, of what meshfl has written down: run_flwr_same.py FILE.npz ROUNDS

The file holds the data, the first model, and which samples each client reads in each round, in
which order (``benchmarks/flower.py``). Prints accuracy and loss by round; leaves the last model
beside it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

client = ClientApp()
server = ServerApp()


@cache
def given(path: str) -> dict[str, torch.Tensor]:
    """Workers keep it from message to message."""
    torch.set_num_threads(1)
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def first_model(task: dict[str, torch.Tensor]) -> nn.Module:
    """meshfl's mlp."""
    inputs, hidden, outputs = task["sizes"].tolist()
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )
    vector_to_parameters(task["model"].clone(), module.parameters())
    return module


def module_of(task: dict[str, torch.Tensor], arrays: ArrayRecord) -> nn.Module:
    module = first_model(task)
    module.load_state_dict(arrays.to_torch_state_dict())
    return module


@client.train()
def train(message: Message, context: Context) -> Message:
    config = message.content["config"]
    task = given(str(config["file"]))
    module = module_of(task, message.content["arrays"])
    optimiser = torch.optim.SGD(module.parameters(), float(task["rate"]))
    order = task[f"order-{context.node_config['partition-id']}"][int(config["server-round"]) - 1]
    for epoch in order:
        for batch in epoch.split(int(task["batch"])):
            optimiser.zero_grad()
            output = module(task["x_train"][batch])
            nn.functional.cross_entropy(output, task["y_train"][batch]).backward()
            optimiser.step()
    metrics = MetricRecord({"num-examples": order.shape[1]})
    content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@torch.inference_mode()
def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
    task = given(sys.argv[1])
    output, truth = module_of(task, arrays)(task["x_test"]), task["y_test"]
    accuracy = float((output.argmax(1) == truth).double().mean())
    return MetricRecord(
        {"accuracy": accuracy, "loss": float(nn.functional.cross_entropy(output, truth))}
    )


@server.main()
def serve(grid: Grid, context: Context) -> None:
    task, rounds = given(sys.argv[1]), int(sys.argv[2])
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=len(task["clients"]))
    result = strategy.start(
        grid,
        ArrayRecord(first_model(task).state_dict()),
        num_rounds=rounds,
        train_config=ConfigRecord({"file": sys.argv[1]}),
        evaluate_fn=evaluate,
    )
    model = parameters_to_vector(module_of(task, result.arrays).parameters()).detach()
    np.save(Path(sys.argv[1]).with_name("final.npy"), model.numpy())
    scores = result.evaluate_metrics_serverapp
    answer = {key: [scores[i][key] for i in range(rounds + 1)] for key in ("accuracy", "loss")}
    print(json.dumps({"version": version("flwr")} | answer), flush=True)


def main() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    resources = {
        "init_args": {"num_cpus": 1},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    clients = len(given(sys.argv[1])["clients"])
    run_simulation(server, client, num_supernodes=clients, backend_config=resources)


if __name__ == "__main__":
    import run_flwr_same  # by its name, so that functions travel to the workers by name too

    run_flwr_same.main()
