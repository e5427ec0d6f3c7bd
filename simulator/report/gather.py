"""Which runs a report is about, and which of them are one thing with several seeds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simulator.errors import UserError, did_you_mean
from simulator.folders import slug
from simulator.recorder import SCENARIO, STUDY, SUMMARY
from simulator.report.run import Run
from simulator.results import Results
from simulator.scenario import flattened


@dataclass(frozen=True)
class Group:
    """Runs of one scenario that differ in their seeds."""

    number: int
    name: str
    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """Shown where one run must do: that of the lowest seed."""
        return self.runs[0]

    @property
    def is_regression(self) -> bool:
        return self.first.results.is_regression


@dataclass(frozen=True)
class Gathered:
    groups: tuple[Group, ...]
    reference: Group
    unfinished: tuple[Path, ...]
    title: str = ""
    """Of the study, if it is one alone."""

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]


def gather(folders: list[Path], reference: str | None = None) -> Gathered:
    """All finished runs of these folders, each of which is a run's or a study's."""
    named: dict[str, list[Run]] = {}
    unfinished: list[Path] = []
    wanted, lone, title = reference, [], ""
    places = list(dict.fromkeys(folder.resolve() for folder in folders))
    for folder in places:
        if (folder / SUMMARY).is_file():
            lone.append(Run(Results.load(folder)))
            continue
        told = _told(folder)
        wanted = wanted or told.reference
        title = told.title if len(places) == 1 else ""
        for name, runs in _study(folder, told.names, unfinished).items():
            named[f"{folder.name}: {name}" if name in named else name] = runs
    for name, runs in _by_scenario(lone).items():
        named[str(runs[0].folder) if name in named else name] = runs
    if not named:
        raise UserError(f"{folders[0]}: none of its runs is finished yet; wait, or resume them")
    if reference is not None and reference not in named:
        remedy = did_you_mean(reference, named)
        raise UserError(f"--reference {reference}: no such variant; {remedy}")
    groups = tuple(
        Group(i, name, tuple(sorted(runs, key=lambda run: run.seed)))
        for i, (name, runs) in enumerate(named.items())
    )
    first = next((group for group in groups if group.name == wanted), groups[0])
    return Gathered(groups, first, tuple(unfinished), title)


def _by_scenario(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs that only their seeds tell apart are one; named by their folders."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        said = json.dumps(flattened(run.scenario) | {"run.seed": None}, default=str)
        again = sum(run.seed == other.seed for other in alike.get(said + "0", []))
        alike.setdefault(f"{said}{again}", []).append(run)
    named: dict[str, list[Run]] = {}
    for its_runs in alike.values():
        names = [run.results.name for run in its_runs]
        stems = {run.results.name.removesuffix(f"-{run.seed}") for run in its_runs}
        name = stems.pop() if len(names) > 1 and len(stems) == 1 else names[0]
        named[str(its_runs[0].folder) if name in named else name] = its_runs
    return named


def _study(folder: Path, variants: list[str], unfinished: list[Path]) -> dict[str, list[Run]]:
    """Runs in VARIANT/seed-N; named and ordered as the study has them, if it is told."""
    if (folder / SCENARIO).is_file():
        raise UserError(f"{folder}: holds an unfinished run; 'meshfl resume {folder}' finishes it")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give a run's, or a study's")
    by_slug: dict[str, list[Run]] = {}
    places = _seed_folders(folder)
    if not places and not (folder / STUDY).is_file():
        raise UserError(f"{folder}: holds neither a run ({SUMMARY}) nor a study (VARIANT/seed-N)")
    for place in places:
        if (place / SUMMARY).is_file():
            by_slug.setdefault(place.parent.name, []).append(Run(Results.load(place)))
        else:
            unfinished.append(place)
    names = {slug(name): name for name in variants}
    ordered = [key for key in names if key in by_slug]
    ordered += [key for key in by_slug if key not in names]
    return {names.get(key, key): by_slug[key] for key in ordered}


def _seed_folders(folder: Path) -> list[Path]:
    places = [place for place in folder.glob("*/seed-*") if place.is_dir()]
    return sorted(places, key=lambda place: (place.parent.name, len(place.name), place.name))


class _Told(NamedTuple):
    """What a study's folder says of it, if anything."""

    title: str
    reference: str | None
    names: list[str]


def _told(folder: Path) -> _Told:
    try:
        study = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        names = [str(variant["name"]) for variant in study["variants"]]
        return _Told(str(study["title"]), str(study["reference"]), names)
    except (OSError, ValueError, KeyError, TypeError):
        return _Told("", None, [])
