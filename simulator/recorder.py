"""The run's folder: an append-only event log, tables in parts, and a summary at the end.

Whatever is written between two checkpoints is cut off again on resume, so a run that was
killed ends with the same files as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.errors import UserError
from simulator.events import Update
from simulator.units import FlowId, NodeId, Time, to_seconds

EVENTS, METRICS, TRANSFERS = "events.log", "metrics.parquet", "transfers.parquet"
ENERGY = "energy.parquet"
STUDY = "study.json"
SCENARIO, SUMMARY, CHECKPOINT = "scenario.toml", "summary.json", "checkpoint.safetensors"
PARTS = "parts"

_BUFFERED = 8192
_TRANSFER_LINE = "%d\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%s\n"
_TRANSFER_SCHEMA = pa.schema(
    [
        ("flow", pa.int64()), ("src", pa.string()), ("dst", pa.string()), ("kind", pa.string()),
        ("bytes", pa.int64()), ("start_s", pa.float64()), ("end_s", pa.float64()),
        ("status", pa.string()), ("reason", pa.string()), ("overhead_bytes", pa.int64()),
        ("radio_j", pa.float64()),
    ]
)  # fmt: skip


class FolderRecorder:
    """Writes into ``folder``; ``names`` are the nodes' names by id.

    With a saved ``state`` the files are cut back to it and continued.
    """

    def __init__(
        self, folder: Path, names: Iterable[str], state: dict[str, Any] | None = None
    ) -> None:
        self._folder = folder
        self._names = list(names)
        self._pending: list[str | tuple[Any, ...]] = []
        """Lines of the log in order; transfers wait as tuples, to be formatted in one go."""
        self._transfers: list[tuple[Any, ...]] = []
        self._rows: list[dict[str, Any]] = []
        self._parts = dict(state["parts"]) if state else {METRICS: 0, TRANSFERS: 0}
        self._hash = _cut(folder / EVENTS, state["log_bytes"]) if state else hashlib.sha256()
        self._log = (folder / EVENTS).open("ab" if state else "wb")
        for table, count in self._parts.items():
            for number in range(count):
                _check_part(part_path(folder, table, number))

    def transfer(
        self, end: Time, status: str, flow: FlowId, src: NodeId, dst: NodeId,
        kind: str, nbytes: int, start: Time, reason: str, overhead_bytes: int,
        radio_j: float | None,
    ) -> None:  # fmt: skip
        names = self._names
        self._pending.append(
            (end, status, flow, names[src], names[dst], kind, nbytes, start, reason,
             overhead_bytes, radio_j)
        )  # fmt: skip
        if len(self._pending) >= _BUFFERED:
            self._flush_log()

    def trained(self, time: Time, update: Update) -> None:
        node = self._names[update.node]
        self._pending.append(f"{time}\ttrained\t{node}\t{update.num_steps}\n")

    def alarm(self, time: Time, tag: object) -> None:
        self._pending.append(f"{time}\talarm\t{tag!r}\n")

    def row(self, time: Time, row: dict[str, Any]) -> None:
        self._pending.append(f"{time}\trecord\t{json.dumps(row)}\n")
        self._rows.append({"sim_time_s": to_seconds(time)} | row)

    def save(self) -> dict[str, object]:
        """Put all that was recorded on disk; the state says how far the files reach."""
        self._flush_log()
        os.fsync(self._log.fileno())
        self._write_part(TRANSFERS, _transfer_table(self._transfers), len(self._transfers))
        self._write_part(METRICS, _metric_table(self._rows), len(self._rows))
        self._transfers, self._rows = [], []
        return {"log_bytes": self._log.tell(), "parts": dict(self._parts)}

    def finish(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Merge the parts, write the summary last: a folder with a summary is complete."""
        self.save()
        for table, count in self._parts.items():
            merge_parts(self._folder, table, count)
        digest = {"event_log_sha256": self._hash.hexdigest()}
        write_text(self._folder / SUMMARY, json.dumps(summary | digest, indent=2) + "\n")
        for leftover in [*(self._folder / PARTS).iterdir(), self._folder / CHECKPOINT]:
            leftover.unlink(missing_ok=True)
        (self._folder / PARTS).rmdir()
        return summary | digest

    def close(self) -> None:
        self._flush_log()
        self._log.close()

    def _flush_log(self) -> None:
        transfers = [entry for entry in self._pending if not isinstance(entry, str)]
        lines = [e if isinstance(e, str) else _TRANSFER_LINE % e[:9] for e in self._pending]
        chunk = "".join(lines).encode()
        self._hash.update(chunk)
        self._log.write(chunk)
        self._log.flush()
        self._transfers += transfers
        self._pending = []

    def _write_part(self, table: str, content: pa.Table, num_rows: int) -> None:
        if num_rows:
            part = part_path(self._folder, table, self._parts[table])
            part.parent.mkdir(exist_ok=True)
            write_parquet(part, content)
            self._parts[table] += 1


def _transfer_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _TRANSFER_SCHEMA]
    end, status, flow, src, dst, kind, nbytes, start, reason, overhead_bytes, radio_j = columns
    end_s = [None if s == "in-flight" else to_seconds(t) for t, s in zip(end, status, strict=True)]
    start_s = [to_seconds(t) for t in start]
    data = [
        flow, src, dst, kind, nbytes, start_s, end_s, status, reason, overhead_bytes, radio_j,
    ]  # fmt: skip
    return pa.table(data, schema=_TRANSFER_SCHEMA)


def _metric_table(rows: list[dict[str, Any]]) -> pa.Table:
    """All keys in the order in which they first appear; a row that lacks one has null there."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return pa.table({key: [row.get(key) for row in rows] for key in keys})


def part_path(folder: Path, table: str, number: int) -> Path:
    return folder / PARTS / f"{number:06d}-{table}"


def _check_part(path: Path) -> None:
    """Now, not when the run is over."""
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path}: cannot be read ({error}); delete {CHECKPOINT} to start afresh"
        ) from None


def merge_parts(folder: Path, table: str, count: int) -> None:
    read = [pq.read_table(part_path(folder, table, i)) for i in range(count)]
    empty = _transfer_table([]) if table == TRANSFERS else pa.table({"sim_time_s": []})
    merged = pa.concat_tables(read, promote_options="permissive") if read else empty
    write_parquet(folder / table, merged.combine_chunks())


def write_parquet(path: Path, table: pa.Table) -> None:
    partial = path.with_name(path.name + ".partial")
    pq.write_table(table, partial)
    _put(partial, path)


def write_text(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    _put(partial, path)


def _put(partial: Path, path: Path) -> None:
    """On disk before it has its name: a power cut leaves the old file or the new one."""
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(partial, path)


def _cut(path: Path, length: int) -> Any:
    """Shorten the log to ``length`` bytes; the hash of what is left."""
    found = path.stat().st_size if path.exists() else 0
    if found < length:
        raise UserError(
            f"{path}: {found} bytes, the checkpoint needs {length}; "
            f"delete {CHECKPOINT} beside it to start afresh"
        )
    os.truncate(path, length)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")
