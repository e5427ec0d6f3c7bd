"""A study: variants of one scenario, each with several seeds, run side by side and compared.

One TOML file names the scenario, what each variant changes, and what a paper has published; a grid
makes variants of all combinations of some keys' values, of which the best may be chosen for each
variant (``tuned``); checks say which findings of the paper hold. Variants are compared by the time
to the scenario's target, or, where it has none, by their best scores. Runs lie in folders of their
own and are finished ones at a time: a study that was stopped goes on where it stood.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import shutil
import signal
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, PositiveFloat, ValidationError, model_validator

from simulator.errors import UserError, did_you_mean
from simulator.orphans import end_with_parent
from simulator.recorder import SCENARIO, SUMMARY
from simulator.scenario import TAGS, Scenario, explain_all
from simulator.section import Section
from simulator.study_checks import Check

_LOOKED_UP = "looked up"
"""In place of a file that the scenario does not name."""


class Variant(Section):
    name: str = Field(min_length=1)
    """As tables and figures show it."""
    change: dict[str, dict[str, Any]] = Field({})
    """Tables laid over the scenario; one of another kind or name replaces the scenario's."""
    published: float | None = Field(None, gt=0)
    """Time to target, as a multiple of the reference's, that the paper reports."""
    published_bytes: float | None = Field(None, gt=0)
    """The same for bytes to target."""
    reference: str | None = None
    """The variant that its ratios are to; unset: the study's."""
    published_best: float | None = Field(None, gt=0)
    """Best accuracy (for regression: loss) of the global model that the paper reports."""


class Tuning(Section):
    """How the values of the tuned key are chosen, if not with the study's own runs."""

    seeds: tuple[int, ...] = Field(min_length=1)
    """Of the runs that choose; only what they have chosen is run with the study's seeds."""
    epochs: int | None = Field(None, ge=1)
    """Of these runs; unset: as many as the study's."""


class Sweep(Section):
    """The x-axis of sweep.png, for a grid of one key that is not tuned."""

    label: str
    factor: float = Field(1.0, gt=0)
    """What the key's values are multiplied with."""


class Study(Section):
    title: str
    scenario: Path
    """What all variants have in common; seen from the study's folder."""
    reference: str
    """The variant that ratios are to, unless a variant names another."""
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1)
    source: str = ""
    """Where the published numbers stand."""
    like: Path | None = None
    """Another study, whose variants are taken, without what was published of them."""
    change: dict[str, dict[str, Any]] = Field({})
    """Tables laid over those of all variants."""
    published: dict[str, PositiveFloat] = Field({})
    """By variant, for those that do not say themselves; the same for published_bytes."""
    published_bytes: dict[str, PositiveFloat] = Field({})
    published_best: dict[str, PositiveFloat] = Field({})
    """By variant, without the grid."""
    curves: tuple[Literal["rounds", "seconds", "bytes"], ...] = ("seconds", "bytes")
    """The x-axes of curves.png."""
    variants: tuple[Variant, ...] = Field(min_length=1)
    """After loading, with the points of the grid."""
    grid: dict[str, tuple[Any, ...]] = Field({})
    """Keys of the scenario and their values: every variant is run with each combination."""
    tuned: str | None = None
    """A key of the grid: each variant is told at that of its values which ends best in the mean."""
    tuning: Tuning | None = None
    """Unset: all values are run with all seeds."""
    sweep: Sweep | None = None
    checks: tuple[Check, ...] = ()
    """Published findings, and whether they hold here."""

    @model_validator(mode="before")
    @classmethod
    def _over_the_grid(cls, content: Any) -> Any:
        """What is not as it should be is left for the checks that follow."""
        if not isinstance(content, dict):
            return content
        grid, variants = content.get("grid"), content.get("variants")
        if not (isinstance(grid, dict) and all(isinstance(v, list) for v in grid.values())):
            return content
        if not (isinstance(variants, list) and all(isinstance(v, dict) for v in variants)):
            return content
        over = [_at(variant, point) for variant in variants for point in points(grid)]
        return content | {"variants": over}

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [variant.name for variant in self.variants]
        places = [slug(name) for name in names]
        if len(set(places)) < len(places):
            raise ValueError("two variants have the same name, or names of the same letters")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is given twice")
        for reference in [self.reference, *(variant.reference for variant in self.variants)]:
            if reference is not None and reference not in names:
                raise ValueError(
                    f"unknown reference {reference!r}; {did_you_mean(reference, names)}"
                )
        for name in [*self.published, *self.published_bytes]:
            if name not in names:
                raise ValueError(f"published: no variant {name!r}; {did_you_mean(name, names)}")
        return self

    @model_validator(mode="after")
    def _checks(self) -> Self:
        if self.tuned is not None and self.tuned not in self.grid:
            remedy = did_you_mean(self.tuned, self.grid)
            raise ValueError(f"tuned = {self.tuned!r} is no key of the grid; {remedy}")
        if self.tuning is not None and self.tuned is None:
            raise ValueError("tuning says how values are chosen; name their key: tuned")
        if self.tuning is not None and (both := set(self.tuning.seeds) & set(self.seeds)):
            raise ValueError(f"tuning.seeds: {min(both)} is one of the study's; take others")
        if self.sweep is not None and len(self.grid.keys() - {self.tuned}) != 1:
            raise ValueError("sweep is for a grid of one key, besides the tuned one")
        known = self.stems
        for name in self.published_best:
            if not any(stem == name or stem.startswith(f"{name}, ") for stem in known):
                remedy = did_you_mean(name, known)
                raise ValueError(f"published_best: no variant {name!r}; {remedy}")
        for check in self.checks:
            for measure in (check.more, *check.than):
                if measure.variant not in known:
                    raise ValueError(
                        f"checks: no variant {measure.variant!r}; "
                        f"{did_you_mean(measure.variant, known)}"
                    )
        return self

    @property
    def stems(self) -> dict[str, list[str]]:
        """By name without the tuned key: the variants that differ in it alone."""
        spots = points(self.grid)
        found: dict[str, list[str]] = {}
        for i, variant in enumerate(self.variants):
            spot = spots[i % len(spots)]
            kept = {key: value for key, value in spot.items() if key != self.tuned}
            stem = variant.name.removesuffix(suffix(spot)) + suffix(kept)
            found.setdefault(stem, []).append(variant.name)
        return found

    @classmethod
    def load(cls, path: Path) -> Self:
        content = _read(path)
        if isinstance(like := content.get("like"), str):
            more = content.get("variants", [])
            content["variants"] = cls._variants_of(path, like) + (
                more if isinstance(more, list) else [more]
            )
        return cls._checked(content, path)

    @classmethod
    def _variants_of(cls, path: Path, like: str) -> list[dict[str, Any]]:
        other = _read(path.parent / like)
        if "like" in other:
            raise UserError(
                f"{path}: like = {like!r}: that study takes its own variants from "
                f"{other['like']!r}; name that one"
            )
        unsaid = {"published", "published_bytes", "published_best"}
        variants = cls._checked(other, path.parent / like).variants
        return [variant.model_dump(exclude=unsaid) for variant in variants]

    @classmethod
    def _checked(cls, content: dict[str, Any], path: Path) -> Self:
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise UserError("\n  ".join([f"{path}:", *explain_all(cls, error)])) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path}: no such study file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: not a readable TOML file: {error}") from None


def points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations; the last key changes fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def suffix(point: dict[str, Any]) -> str:
    """What a variant's name ends with there."""
    return "".join(f", {key.rpartition('.')[2]} {value}" for key, value in point.items())


def _at(variant: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    change = variant.get("change", {})
    for key, value in point.items():
        nested: Any = value
        for part in reversed(key.split(".")):
            nested = {part: nested}
        change = laid_over(change, nested)
    return variant | {"name": variant.get("name", "") + suffix(point), "change": change}


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "variant"


@dataclass(frozen=True)
class Run:
    variant: str
    seed: int
    scenario: Scenario
    base: Path
    """Where the scenario's paths start."""
    folder: Path

    @property
    def target(self) -> float | None:
        return self.scenario.run.target


def runs_of(study: Study, path: Path, out: Path) -> list[Run]:
    """Every run of the study; all scenarios are checked before any of them begins."""
    file = path.parent / study.scenario
    try:
        common = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: scenario {file} cannot be read ({error})") from None
    runs = []
    for variant in study.variants:
        for seed in study.seeds:
            content = laid_over(laid_over(common, variant.change), study.change)
            content = laid_over(content, {"run": {"seed": seed}})
            try:
                scenario = Scenario.model_validate(content)
            except ValidationError as error:
                problems = explain_all(Scenario, error)
                place = f"{path}: variant {variant.name!r}:"
                raise UserError("\n  ".join([place, *problems])) from None
            folder = out / slug(variant.name) / f"seed-{seed}"
            runs.append(Run(variant.name, seed, scenario, file.parent, folder))
    if len({run.target is None for run in runs}) > 1:
        raise UserError(
            f"{path}: give every variant a [run] target, to compare them at, or none of them any"
        )
    return runs


def laid_over(content: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key, but for those that become another kind of table."""
    result = dict(content)
    for key, value in change.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            other = any(tag in value and before.get(tag) != value[tag] for tag in TAGS)
            result[key] = value if other else laid_over(before, value)
        else:
            result[key] = value
    return result


def carry_out(runs: list[Run], jobs: int, tell: Callable[[Run, str], None]) -> dict[str, str]:
    """Run what is not done yet, ``jobs`` at a time; by folder what went wrong."""
    left = [run for run in runs if not (run.folder / SUMMARY).is_file()]
    for run in runs:
        if run not in left:
            tell(run, "done before")
    problems: dict[str, str] = {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _start_worker) as pool:
        begun = {pool.submit(_carry_out, run): run for run in left}
        try:
            for future in as_completed(begun):
                run, problem = begun[future], outcome(future)
                if problem:
                    problems[str(run.folder)] = problem
                tell(run, problem or "done")
        except KeyboardInterrupt:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return problems


def outcome(future: Future[str]) -> str:
    try:
        return future.result()
    except BrokenProcessPool:
        return "a process of the study has died (out of memory?); the same command continues it"
    except Exception as error:
        return f"unexpected {type(error).__name__}: {error}"


def _start_worker() -> None:
    """Between two runs an interrupt is for the study alone; a run saves itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _carry_out(run: Run) -> str:
    """In a process of its own; what went wrong, if anything."""
    from simulator.runner import resume, start

    try:
        if (run.folder / SCENARIO).is_file() and _is_same(run):
            summary = resume(run.folder)
        else:
            shutil.rmtree(run.folder, ignore_errors=True)
            summary = start(run.scenario, run.base, run.folder)
    except UserError as error:
        return str(error)
    return "" if summary is not None else "interrupted"


def _is_same(run: Run) -> bool:
    """Whether what was begun there is what the study asks for now; files may lie elsewhere."""
    began = dict(_plain(Scenario.load(run.folder / SCENARIO), run.folder))
    asked = dict(_plain(run.scenario, run.base))
    return all(began.get(key) == value for key, value in asked.items() if value != _LOOKED_UP)


def _plain(
    section: Section, base: Path, keys: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key; for a file what it holds."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from _plain(value, base, (*keys, name))
        elif isinstance(value, Path) and (base / value).is_file():
            yield (*keys, name), hashlib.sha256((base / value).read_bytes()).hexdigest()
        elif value is None and Path in get_args(field.annotation):
            yield (*keys, name), _LOOKED_UP
        else:
            yield (*keys, name), value


def check_done(runs: list[Run]) -> None:
    """A finished run of something else would be taken for one of this study."""
    for run in runs:
        if (run.folder / SUMMARY).is_file() and not _is_same(run):
            raise UserError(
                f"{run.folder}: holds a finished run of another scenario than the study's now; "
                "remove that folder, or choose another --out"
            )
        if run.folder.exists() and not _is_run(run.folder):
            raise UserError(
                f"{run.folder}: is no run's folder, and not empty; remove it, "
                "or choose another --out"
            )


def _is_run(folder: Path) -> bool:
    """Or the empty place for one."""
    return folder.is_dir() and ((folder / SCENARIO).is_file() or not any(folder.iterdir()))
