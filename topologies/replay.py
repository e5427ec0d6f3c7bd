"""The delay tables of the Async-HFL authors' program, read as they published them.

One csv of round delays in seconds, a row per device and a column per gateway, 0 where there is no
link; and one csv line of gateway-to-cloud delays. No headers.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from simulator.errors import UserError
from topologies.records import Link, Node, Tier
from topologies.topology import Topology

UNLIMITED_BPS = 1e12
"""The tables know no rates, so the links get one that never matters beside the delays."""


def topology_from_replay(delays_csv: Path, cloud_csv: Path) -> Topology:
    """The topology that the tables imply: every delay above 0 is a link of half that latency."""
    delays, cloud = read_replay(delays_csv, cloud_csv)
    count = len(cloud)
    nodes = [Node("cloud", Tier.CLOUD)]
    nodes += [Node(f"g{j}", Tier.GATEWAY) for j in range(count)]
    nodes += [Node(f"d{i}", Tier.DEVICE) for i in range(len(delays))]
    links = [Link(0, 1 + j, UNLIMITED_BPS, cloud[j] / 2) for j in range(count)]
    for i, row in enumerate(delays):
        for j, delay_s in enumerate(row):
            if delay_s > 0:
                links.append(Link(1 + j, 1 + count + i, UNLIMITED_BPS, delay_s / 2, "wifi"))
    return Topology("replay", tuple(nodes), tuple(links))


def read_replay(delays_csv: Path, cloud_csv: Path) -> tuple[list[list[float]], list[float]]:
    """Round delays (devices x gateways) and the gateways' delays to the cloud, in seconds."""
    delays = _read_matrix(delays_csv)
    cloud = _read_matrix(cloud_csv)
    if len(cloud) != 1:
        raise UserError(f"{cloud_csv}: {len(cloud)} rows; it must be one, with a delay per gateway")
    if len(cloud[0]) != len(delays[0]):
        raise UserError(
            f"{cloud_csv}: {len(cloud[0])} delays to the cloud, but {delays_csv} has "
            f"{len(delays[0])} columns; there must be one per gateway in both"
        )
    for i, row in enumerate(delays, 1):
        if not any(row):
            raise UserError(
                f"{delays_csv} row {i}: every delay is 0, so the device reaches no gateway; "
                "give it a delay or remove the row"
            )
    return delays, cloud[0]


def _read_matrix(path: Path) -> list[list[float]]:
    matrix = []
    for i, row in enumerate(read_rows(path), 1):
        matrix.append([parse_delay(text, path, i, str(j)) for j, text in enumerate(row, 1)])
        if len(row) != len(matrix[0]):
            raise UserError(
                f"{path} row {i}: {len(row)} columns, but row 1 has {len(matrix[0])}; "
                "make them equal"
            )
    return matrix


def read_rows(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if not rows:
        raise UserError(f"{path} is empty; it must hold delays in seconds")
    for i, row in enumerate(rows, 1):
        if not row:
            raise UserError(f"{path} row {i} is empty; remove the blank line")
    return rows


def parse_delay(text: str, path: Path, row: int, column: str) -> float:
    try:
        delay_s = float(text)
    except ValueError:
        delay_s = math.nan
    if not (math.isfinite(delay_s) and delay_s >= 0):
        raise UserError(
            f"{path} row {row} column {column}: {text!r} is no delay; "
            "it must be a number of seconds, 0 or more"
        )
    return delay_s
