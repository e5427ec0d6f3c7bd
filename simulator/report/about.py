"""What was run: the resolved scenarios, what tells them apart, versions and hashes."""

from __future__ import annotations

from typing import Any, NamedTuple

from simulator.report.chart import Section, Table
from simulator.report.gather import Gathered
from simulator.scenario import flattened

_FEW_KEYS = 12


class Text(NamedTuple):
    """A group's resolved scenario."""

    group: int
    name: str
    content: str


def scenarios(gathered: Gathered) -> list[Text]:
    return [Text(g.number, f"{g.name}, seed {g.first.seed}", g.first.scenario_text)
            for g in gathered.groups]  # fmt: skip


def differences(gathered: Gathered) -> Section:
    title = "What tells the variants apart"
    if len(gathered.groups) < 2:
        return Section("differences", title, missing="there is one variant")
    flat = [flattened(group.first.scenario) for group in gathered.groups]
    keys = [key for key in dict.fromkeys(k for one in flat for k in one) if _differs(key, flat)]
    if not keys:
        return Section("differences", title, missing="their scenarios differ in the seed alone")
    columns = ("key", *(group.name for group in gathered.groups))
    rows = [[key, *(_shown(one[key]) if key in one else "–" for one in flat)] for key in keys]
    folded = f"{len(keys)} keys" if len(keys) > _FEW_KEYS else ""
    return Section("differences", title, (), (Table(columns, rows, folded=folded),))


def _differs(key: str, flat: list[dict[str, Any]]) -> bool:
    return key != "run.seed" and any(one.get(key) != flat[0].get(key) for one in flat)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def versions(gathered: Gathered) -> Section:
    """Of every run: with what it was made, and the hash that says whether two runs are the same."""
    columns = (
        "variant", "seed", "algorithm", "stopped by", "meshfl", "python", "torch", "numpy",
        "event log (SHA-256)",
    )  # fmt: skip
    rows, numbers = [], []
    for group in gathered.groups:
        for run in group.runs:
            told = run.summary
            by_name = told.get("versions") or {}
            rows.append(
                [
                    group.name, str(run.seed), str(told["algorithm"]), str(told["stop_reason"]),
                    str(told.get("meshfl_version", "–")),
                    *(str(by_name.get(name, "–")) for name in ("python", "torch", "numpy")),
                    str(told.get("event_log_sha256", "–"))[:16],
                ]
            )  # fmt: skip
            numbers.append(group.number)
    return Section("versions", "Runs and versions", (), (Table(columns, rows, numbers),))
