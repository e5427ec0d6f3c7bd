"""One TOML file describes a run. It is validated here, once; inside, types are trusted."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import tomlkit
from pydantic import BaseModel, Field, PrivateAttr, ValidationError, model_validator

from algorithms import AlgorithmSection
from ns3_scenarios.section import Ns3Section, ProfileSection
from selection import AssociationSection, SelectionSection
from selection.associators import NearestSection, ReassociatorSection
from selection.simple import SelectAllSection
from selection.sketch import PcaSection, SketchSection
from simulator.compute import ComputeSection, ConstantDelay
from simulator.data.section import DataSection
from simulator.device_classes import ClassDelay
from simulator.errors import UserError, did_you_mean
from simulator.model_section import ModelSection
from simulator.networks import NetworkSection
from simulator.section import LONGEST_S, SHORTEST_S, Section
from simulator.training import TrainingSection
from topologies.section import TopologySection


class RunSection(Section):
    seed: int = Field(0, ge=0)
    """All random numbers of the run follow from it."""
    epochs: int | None = Field(None, ge=1)
    """Stop after so many cloud epochs."""
    sim_time_s: float | None = Field(None, gt=0, le=LONGEST_S)
    """Stop at this simulated time."""
    learning: Literal["sgd", "none"] = "sgd"
    """Devices train by SGD; or nothing is learned: network and scheduling alone."""
    target: float | None = None
    """Test accuracy (for regression: loss) whose time is measured."""
    stop_at_target: bool = False
    """Stop when the target is reached."""
    engine: Literal["auto", "serial", "threads", "processes", "ray"] = "auto"
    """Where devices train; auto, with --workers above 1: threads, or processes without C++."""
    ray_address: str | None = None
    """Of a Ray cluster that runs already, for engine = "ray"; unset: one on this machine."""

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        if self.ray_address is not None and self.engine != "ray":
            raise ValueError(
                f'ray_address = {self.ray_address!r} is for engine = "ray", not {self.engine!r}; '
                "delete it, or change the engine"
            )
        if self.stop_at_target and self.target is None:
            raise ValueError("stop_at_target needs a target")
        if self.target is not None and self.learning == "none":
            raise ValueError(
                f'target = {self.target:g} cannot be reached with learning = "none"; '
                "delete one of the two"
            )
        return self


class RecordSection(Section):
    evaluate_every_epochs: int | None = Field(1, ge=1)
    """Evaluate the global model after every so many cloud epochs."""
    evaluate_every_s: float | None = Field(None, ge=SHORTEST_S, le=LONGEST_S)
    """Evaluate the global model at multiples of this simulated time."""
    evaluate_gateway_rounds: int | None = Field(None, ge=1)
    """Evaluate gateways' own models too, after every so many of their synchronous rounds."""
    checkpoint_every_s: float = Field(60.0, gt=0)
    """Wall-clock time between checkpoints; more where writing one takes long."""
    tensorboard: bool = False
    """Write the curves for TensorBoard, into the run's folder, when it ends."""
    mlflow: str | None = None
    """Tracking URI of MLflow, which gets the run when it ends."""


_CHOOSY = ("high-loss", "short-latency", "oort", "divfl", "utility-ilp")


class Scenario(Section):
    run: RunSection
    """When it ends, its seed, where devices train."""
    topology: TopologySection
    """The cloud, gateways and devices, and who reaches whom."""
    network: Annotated[NetworkSection | Ns3Section | ProfileSection, Field(discriminator="kind")]
    """How long a transfer takes."""
    compute: Annotated[ComputeSection | ClassDelay, Field(discriminator="kind")] = ConstantDelay()
    """How long a job takes on a device."""
    data: DataSection = DataSection()
    """What is learned, and who has which samples."""
    model: ModelSection
    """What is trained, and how large it is on the network."""
    training: TrainingSection = TrainingSection()
    """Local SGD on a device."""
    algorithm: AlgorithmSection
    """Who sends what to whom, and what becomes of it."""
    selection: SelectionSection = SelectAllSection()
    """Who trains next."""
    association: AssociationSection = NearestSection()
    """Which gateway a device belongs to."""
    sketch: SketchSection = PcaSection()
    """How devices tell their gradients, where selection or association look at them."""
    record: RecordSection = RecordSection()
    """How often models are scored, and runs saved."""
    _base: Path = PrivateAttr(Path())

    @property
    def base(self) -> Path:
        """Where its paths start: the folder of the file it was loaded from."""
        return self._base

    def __eq__(self, other: object) -> bool:
        """By what it says, wherever it lies."""
        return isinstance(other, Scenario) and self.model_dump() == other.model_dump()

    @model_validator(mode="after")
    def _ends(self) -> Self:
        ends = (
            self.run.epochs,
            self.run.sim_time_s,
            getattr(self.algorithm, "system_time_s", None),
        )
        if all(end is None for end in ends):
            raise ValueError("run: give epochs or sim_time_s (or both), else the run never ends")
        return self

    @model_validator(mode="after")
    def _bounds_of_selection(self) -> Self:
        budget = self.selection.budget_bytes_per_s
        if budget is not None and self.algorithm.name == "fedasync":
            raise ValueError(
                f"selection.budget_bytes_per_s = {budget:g}: gateways keep budgets, and fedasync's "
                "cloud asks devices itself; delete it, or bound algorithm.concurrency"
            )
        limited = budget is not None or getattr(self.algorithm, "concurrency", None) is not None
        if self.selection.name in _CHOOSY and not (limited and self.algorithm.name != "fedasync"):
            raise ValueError(
                f"selection.name = {self.selection.name!r} ranks devices; without a bound all of "
                "them train whatever their rank; give selection.budget_bytes_per_s (with async-hfl "
                'also algorithm.concurrency), or name = "all"'
            )
        return self

    @model_validator(mode="after")
    def _nobody_moves_in_two_tiers(self) -> Self:
        if self.algorithm.name == "fedasync" and isinstance(self.association, ReassociatorSection):
            raise ValueError(
                f"association.name = {self.association.name!r} moves devices between gateways, and "
                "fedasync's only forward: it would never be asked; use one that associates once, "
                "such as 'nearest'"
            )
        return self

    @model_validator(mode="after")
    def _deadline_for_the_silent(self) -> Self:
        chance = self.compute.dropout_probability
        own = getattr(self.algorithm, "deadline_key", None)
        for key in (own,) if own else ("device_timeout_s", "gateway_timeout_s"):
            if chance and getattr(self.algorithm, key, 0.0) is None:
                raise ValueError(
                    f"compute.dropout_probability = {chance:g}: a device that drops out never "
                    f"answers, and {self.algorithm.name} would wait for it for ever; give "
                    f"algorithm.{key}, longer than rounds take"
                )
        return self

    @model_validator(mode="after")
    def _drawn_delays_of_uploads(self) -> Self:
        if self.network.kind == "drawn" and self.algorithm.name in ("async-hfl", "sync-time"):
            raise ValueError(
                'network.kind = "drawn" gives uploads of gateways a time and rounds of devices '
                f"none: {self.algorithm.name}, whose devices never wait, would not come to an end; "
                "use another network or algorithm"
            )
        return self

    @model_validator(mode="after")
    def _plain_steps_of_scaffold(self) -> Self:
        rule = getattr(getattr(self.algorithm, "gateway", None), "name", None)
        if rule == "s-scaffold-exp" and self.training.momentum:
            raise ValueError(
                f"training.momentum = {self.training.momentum:g}: s-scaffold-exp's control "
                "variates are mean gradients of plain steps, and with momentum they would be many "
                "times as long; delete it, or use another sub-center rule"
            )
        return self

    @model_validator(mode="after")
    def _one_step_an_iteration(self) -> Self:
        steps = self.training.steps
        if self.algorithm.name == "sync-time" and steps is not None and steps > 1:
            raise ValueError(
                f"training.steps = {steps}: a local iteration of sync-time is one step; "
                "use steps = 1, or delete it"
            )
        if self.algorithm.name == "sync-time" and self.training.momentum:
            raise ValueError(
                f"training.momentum = {self.training.momentum:g}: a local iteration of sync-time "
                "is one step, and momentum begins each of them from rest; delete it"
            )
        return self

    @classmethod
    def load(cls, path: Path | str, settings: Iterable[str] = ()) -> Self:
        """Read a file, with ``section.key=value`` settings laid over it."""
        try:
            content = tomllib.loads(Path(path).read_text())
        except FileNotFoundError:
            raise UserError(f"{path}: no such scenario file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UserError(f"{path}: not a readable TOML file: {error}") from None
        return cls._with(content, settings, f"{path}:", Path(path).parent)

    def changed(self, *settings: str) -> Self:
        """A copy with ``section.key=value`` settings laid over it, as if loaded with them."""
        said = self.model_dump(mode="json", exclude_unset=True)
        return self._with(said, settings, "changed scenario:", self._base)

    @classmethod
    def _with(
        cls, content: dict[str, Any], settings: Iterable[str], place: str, base: Path
    ) -> Self:
        for setting in settings:
            lay_over(content, setting)
        try:
            scenario = cls.model_validate(content)
        except ValidationError as error:
            raise UserError("\n  ".join([place, *explain_all(cls, error)])) from None
        scenario._base = base
        return scenario

    def to_toml(self) -> str:
        """Every key with its value and meaning; the file gives the same scenario again."""
        document = tomlkit.document()
        for name in type(self).model_fields:
            document[name] = _table(getattr(self, name))
        return tomlkit.dumps(document)


TAGS = ("kind", "name")
"""The keys that choose among the sections of a union."""


def flattened(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """By dotted key its value."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat


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


def lay_over(content: dict[str, Any], setting: str) -> None:
    key, equals, value = setting.partition("=")
    path, parsed = key.strip().split("."), value_of(value)
    whole_section = len(path) == 1 and isinstance(parsed, dict)
    if not equals or not all(path) or (len(path) == 1 and not whole_section):
        raise UserError(f"--set {setting}: must read section.key=value")
    table = content
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {setting}: {part!r} is a value, not a table")
    table[path[-1]] = parsed


def value_of(text: str) -> Any:
    """As TOML has it; what is no value of TOML is a word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def explain_all(root: type[BaseModel], error: ValidationError) -> Iterable[str]:
    """A line for each place; of a value that may be of several types, what the first one says."""
    lines: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        keys, owner = _walk(root, problem["loc"])
        lines.setdefault(".".join(keys), _explain(keys, owner, problem))
    return lines.values()


def _explain(keys: list[str], owner: type[BaseModel] | None, error: Any) -> str:
    """One problem in one line: place, value, what is wrong, remedy."""
    kind, given = error["type"], error["input"]
    place = ".".join(keys)
    if kind == "extra_forbidden":
        known = owner.model_fields if owner else ()
        return f"{place}: unknown key; {did_you_mean(keys[-1], known)}"
    if kind == "missing":
        return f"{place}: missing"
    if kind == "union_tag_invalid":
        context = error["ctx"]
        tag, known = context["tag"], context["expected_tags"].replace("'", "").split(", ")
        field = context["discriminator"].strip("'")
        return f"{place}.{field}: unknown {tag!r}; {did_you_mean(tag, known)}"
    if kind == "union_tag_not_found":
        field = error["ctx"]["discriminator"].strip("'")
        return f"{place}.{field}: missing; known: {', '.join(_known_tags(owner, keys[-1]))}"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    shown = "" if isinstance(given, dict) else f" {given!r}"
    return f"{place}:{shown} {message}" if place else message


def _walk(root: type[BaseModel], loc: tuple[Any, ...]) -> tuple[list[str], type[BaseModel] | None]:
    """The keys as written in the file, and the section that owns the last of them.

    Pydantic puts the tag of a union into the location; the file has no such key.
    """
    keys: list[str] = []
    choices: list[type[BaseModel]] = [root]
    for part in loc:
        tagged = [c for c in choices if part in _tags(c)]
        if len(choices) > 1 and tagged:
            choices = tagged
            continue
        if str(part).startswith(("constrained-", "function-", "tuple[")):
            continue  # pydantic's name for one of the types that a value may have
        keys.append(str(part))
        if len(keys) < len(loc) and part in choices[0].model_fields and part != loc[-1]:
            choices = list(_sections(choices[0].model_fields[part].annotation)) or choices
    return keys, choices[0] if choices else None


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation) if get_origin(annotation) is not None else ():
        yield from _sections(argument)


def _known_tags(owner: type[BaseModel] | None, key: str) -> list[str]:
    field = owner.model_fields.get(key) if owner else None
    return [tag for section in _sections(field and field.annotation) for tag in _tags(section)]


def _tags(section: type[BaseModel]) -> tuple[Any, ...]:
    for name in TAGS:
        if name in section.model_fields:
            return get_args(section.model_fields[name].annotation)
    return ()


def _table(section: BaseModel) -> Any:
    table = tomlkit.table()
    fields = type(section).model_fields
    for name in sorted(fields, key=lambda name: name not in TAGS):
        field, value = fields[name], getattr(section, name)
        if isinstance(value, BaseModel):
            table[name] = _table(value)
        elif value is None:
            table.add(tomlkit.comment(f"{name} is not set.{_described(field.description)}"))
        else:
            plain = section.model_dump(mode="json", include={name})[name]
            item = tomlkit.item(plain)
            table.add(name, item)
            if field.description:
                item.comment(_one_line(field.description))
    return table


def _described(text: str | None) -> str:
    return f" {_one_line(text)}" if text else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
