"""Flower's simulation runtime, one Ray worker a core: run_flwr.py MODEL ROUNDS WORKERS

Workers keep the data and the module from message to message.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import torch
import workload
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from workload import CLIENTS, SAMPLES

client = ClientApp()
server = ServerApp()
stamps: list[float] = []
final: list[ArrayRecord] = []


@cache
def worker_module(name: str) -> nn.Module:
    torch.set_num_threads(1)
    return workload.MODELS[name]()


@client.train()
def train(message: Message, context: Context) -> Message:
    module = worker_module(str(message.content["config"]["model"]))
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    workload.train(module, int(context.node_config["partition-id"]))
    content = RecordDict(
        {
            "arrays": ArrayRecord(module.state_dict()),
            "metrics": MetricRecord({"num-examples": SAMPLES}),
        }
    )
    return Message(content=content, reply_to=message)


class Stamped(FedAvg):
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        assert len(replies) == CLIENTS
        assert not any(reply.has_error() for reply in replies)
        result = super().aggregate_train(server_round, replies)
        stamps.append(time.perf_counter())
        return result


@server.main()
def serve(grid: Grid, context: Context) -> None:
    name, rounds = sys.argv[1], int(sys.argv[2])
    strategy = Stamped(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    result = strategy.start(
        grid,
        ArrayRecord(workload.first_model(name).state_dict()),
        num_rounds=1 + rounds,
        train_config=ConfigRecord({"model": name}),
    )
    final.append(result.arrays)


def main() -> None:
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    resources = {
        "init_args": {"num_cpus": int(sys.argv[3])},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=resources)
    module = workload.first_model(sys.argv[1])
    module.load_state_dict(final[0].to_torch_state_dict())
    workload.report(version("flwr"), stamps, module)


if __name__ == "__main__":
    import run_flwr  # by its name, so that functions travel to the workers by name too

    run_flwr.main()
