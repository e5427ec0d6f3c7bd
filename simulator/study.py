"""A study: variants of one scenario, each with several seeds, run side by side and compared.

One TOML file names the scenario, what each variant changes, and what a paper has published; a grid
makes variants of all combinations of some keys' values, of which the best may be chosen for each
variant (``tuned``); checks say which findings of the paper hold. Variants are compared by the time
to the scenario's target, or, where it has none, by their best scores. Runs lie in folders of their
own and are finished ones at a time: a study that was stopped goes on where it stood.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveFloat, ValidationError, ValidationInfo, model_validator

from simulator.errors import UserError, did_you_mean
from simulator.folders import slug
from simulator.recorder import SCENARIO, STUDY, SUMMARY, write_text
from simulator.results import Results
from simulator.same import holds
from simulator.scenario import Scenario, explain_all, flattened, laid_over, lay_over
from simulator.section import Section
from simulator.study_checks import Check
from simulator.study_grid import at, check_axis, check_grid, may_be_moved, points, suffix

_SAVED = "saved"
"""Its variants are over the grid already."""


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
    """Below the axis."""
    factor: float = Field(1.0, gt=0)
    """What the key's values are multiplied with."""


class Study(Section):
    title: str
    """Above its table and figures."""
    scenario: Path
    """What all variants have in common; seen from the study's folder."""
    reference: str
    """The variant that ratios are to, unless a variant names another."""
    seeds: tuple[int, ...] = Field((1, 2, 3), min_length=1)
    """Of the runs of each variant."""
    source: str = ""
    """Where the published numbers stand."""
    like: Path | None = None
    """Another study, whose variants are taken, without what was published of them."""
    change: dict[str, dict[str, Any]] = Field({})
    """Tables laid over those of all variants."""
    settings: tuple[str, ...] = ()
    """As ``--set`` has them; laid over everything."""
    published: dict[str, PositiveFloat] = Field({})
    """By variant, for those that do not say themselves; the same for published_bytes."""
    published_bytes: dict[str, PositiveFloat] = Field({})
    """By variant."""
    published_best: dict[str, PositiveFloat] = Field({})
    """By variant, without the grid."""
    curves: tuple[Literal["rounds", "seconds", "bytes"], ...] = ("seconds", "bytes")
    """The x-axes of curves.png."""
    variants: tuple[Variant, ...] = Field(min_length=1)
    """After loading, with the points of the grid."""
    grid: dict[str, tuple[Any, ...]] = Field({})
    """Keys of the scenario and their values: every variant is run with each combination."""
    tuned: str | None = None
    """A key of the grid: each variant is told at that of its values which ends best in the mean,
    or, where runs stop at their target, gets there soonest."""
    tuning: Tuning | None = None
    """Unset: all values are run with all seeds."""
    sweep: Sweep | None = None
    """Unset: no figure over the grid."""
    checks: tuple[Check, ...] = ()
    """Published findings, and whether they hold here."""

    @model_validator(mode="before")
    @classmethod
    def _over_the_grid(cls, content: Any, info: ValidationInfo) -> Any:
        """What is not as it should be is left for the checks that follow."""
        if not isinstance(content, dict) or info.context == _SAVED:
            return content
        grid, variants = content.get("grid"), content.get("variants")
        if not (isinstance(grid, dict) and all(isinstance(v, list) for v in grid.values())):
            return content
        check_grid(grid)
        if not (isinstance(variants, list) and all(map(may_be_moved, variants))):
            return content
        over = [at(variant, point) for variant in variants for point in points(grid)]
        return content | {"variants": over}

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [variant.name for variant in self.variants]
        places = [slug(name) for name in names]
        for name, place in zip(names, places, strict=True):
            if places.count(place) > 1:
                alike = [other for other, its in zip(names, places, strict=True) if its == place]
                raise ValueError(
                    f"{len(alike)} variants are called {name!r} or have that name's letters; "
                    "their folders would be the same: rename them, or take one out"
                )
        if any("seed" in change.get("run", {}) for change in self._changes()):
            raise ValueError("run.seed: seeds has the seeds of all variants; use that")
        for seed in self.seeds:
            if self.seeds.count(seed) > 1:
                raise ValueError(f"seed {seed} is given twice")
        for reference in [self.reference, *(variant.reference for variant in self.variants)]:
            if reference is not None and reference not in names:
                raise ValueError(
                    f"unknown reference {reference!r}; {did_you_mean(reference, names)}"
                )
        for name in [*self.published, *self.published_bytes]:
            if name not in names:
                raise ValueError(f"published: no variant {name!r}; {did_you_mean(name, names)}")
        return self

    def _changes(self) -> list[dict[str, dict[str, Any]]]:
        return [self.change, *(variant.change for variant in self.variants)]

    @model_validator(mode="after")
    def _checks(self) -> Self:
        if self.tuned is not None and self.tuned not in self.grid:
            remedy = did_you_mean(self.tuned, self.grid)
            raise ValueError(f"tuned = {self.tuned!r} is no key of the grid; {remedy}")
        if self.tuning is not None and self.tuned is None:
            raise ValueError("tuning says how values are chosen; name their key: tuned")
        if self.tuning is not None and (both := set(self.tuning.seeds) & set(self.seeds)):
            raise ValueError(f"tuning.seeds: {min(both)} is one of the study's; take others")
        if self.sweep is not None:
            drawn = {key: values for key, values in self.grid.items() if key != self.tuned}
            if len(drawn) != 1:
                raise ValueError("sweep is for a grid of one key, besides the tuned one")
            check_axis(*drawn.popitem())
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
        _check_last_word(content, path)
        if isinstance(like := content.get("like"), str):
            more = content.get("variants", [])
            content["variants"] = cls._variants_of(path, like) + (
                more if isinstance(more, list) else [more]
            )
        return cls._checked(content, path)

    def save(self, out: Path) -> None:
        """Whole, into the folder of its runs: that tells by itself what it holds."""
        write_text(out / STUDY, self.model_dump_json(indent=1) + "\n")

    @classmethod
    def of_folder(cls, out: Path) -> tuple[Self, list[Run]]:
        """The study whose runs lie there, and the runs of those variants that are done."""
        try:
            study = cls.model_validate_json((out / STUDY).read_text(), context=_SAVED)
        except FileNotFoundError:
            raise UserError(
                f"{out}: holds no study ({STUDY} is missing); 'meshfl sweep STUDY --out {out}' "
                "writes it, and runs nothing again"
            ) from None
        except (OSError, ValueError) as error:
            raise UserError(f"{out / STUDY}: cannot be read ({error})") from None
        runs = []
        for variant in study.variants:
            folders = [out / slug(variant.name) / f"seed-{seed}" for seed in study.seeds]
            if all((folder / SUMMARY).is_file() for folder in folders):
                runs += [_found(variant.name, folder) for folder in folders]
        if not runs:
            raise UserError(f"{out}: no variant of this study is done; nothing to tell")
        return study, runs

    def with_settings(self, settings: Iterable[str]) -> Self:
        """``section.key=value``, as of the command line."""
        given = dict.fromkeys(self.grid, "[grid]") | {"run.seed": "list of seeds"}
        for setting in settings:
            key = setting.partition("=")[0].strip()
            if key in given:
                raise UserError(
                    f"--set {setting}: the study's {given[key]} says that; change its file"
                )
        return self.model_copy(update={"settings": tuple(settings)})

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


def _check_last_word(content: dict[str, Any], path: Path) -> None:
    """[change] is laid over other studies' variants, and so it would undo what this one's say."""
    change, grid, variants = (content.get(key) for key in ("change", "grid", "variants"))
    own = [("[grid]", grid)] if isinstance(grid, dict) else []
    for variant in variants if isinstance(variants, list) else []:
        if isinstance(variant, dict) and isinstance(variant.get("change"), dict):
            own.append((f"variant {variant.get('name')!r}", flattened(variant["change"])))
    last = flattened(change) if isinstance(change, dict) else {}
    for place, keys in own:
        for key in keys:
            if key in last:
                raise UserError(
                    f"{path}: {key} is set by {place} and by [change], which comes last; "
                    "take one of them out"
                )


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

    @cached_property
    def results(self) -> Results:
        """Of a run that is done."""
        return Results.load(self.folder)


def _found(variant: str, folder: Path) -> Run:
    scenario = Scenario.load(folder / SCENARIO)
    return Run(variant, scenario.run.seed, scenario, folder, folder)


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
            content = deepcopy(content)
            for setting in study.settings:
                lay_over(content, setting)
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


def check_done(runs: Sequence[Run]) -> None:
    """A finished run of something else would be taken for one of this study."""
    for run in runs:
        if (run.folder / SUMMARY).is_file() and not holds(run.folder, run.scenario, run.base):
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
