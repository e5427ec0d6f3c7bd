"""Which of the four topologies? By global rounds, by simulated seconds, and by bytes.

The star/ring paper compares bounds by rounds (``algorithms.star_ring_bounds``), of which one takes
a ring as long as all of its members take one after another. Here a bound says how many rounds each
topology needs until |gradient|^2 is at a target, with the step size at which they are fewest; the
scenario's network says what a round takes and sends (``simulator.topology_delays``).

There are three readings of the theory. ``corollary-1`` is (9) to (12), bounds at their best step
size; ``theorem-1`` (5) to (8), with eta~ <= 1/(12 L), under which rounds hardly differ; both
without the constants that the paper leaves out, which ``appendix`` has. What is best by a bound
need not be best: a race of the first few is the proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from algorithms.star_ring_bounds import (
    FOUR,
    Bound,
    Constants,
    Shape,
    Tier,
    appendix,
    corollary_1,
    most_rate,
    rounds_of_corollary,
    steps_along,
    theorem_1,
)
from simulator import race as halving
from simulator.errors import unknown_name
from simulator.events import Job
from simulator.figures import COLOURS
from simulator.heterogeneity import check_learning, constants_of, learning_world, look_around
from simulator.parts import World
from simulator.scenario import Scenario
from simulator.study import Run
from simulator.topology_delays import Cost, section_of, shaped

Pair = tuple[Tier, Tier]
Reading = Literal["corollary-1", "theorem-1", "appendix"]
READINGS: tuple[Reading, ...] = get_args(Reading)
MEASURES = ("rounds", "seconds", "bytes")


def reading_of(name: str) -> Reading:
    for reading in READINGS:
        if reading == name:
            return reading
    raise unknown_name("bound", name, READINGS)


class Facts(NamedTuple):
    shape: Shape
    constants: Constants
    gradient: float
    """|gradient|^2 where training begins."""


def told(facts: Facts) -> dict[str, float]:
    """As the paper calls them."""
    g, m, p, k = facts.shape
    length, noise, within, between, gap = facts.constants
    return {
        "G": g, "M": m, "P": p, "K": k, "L": length, "sigma^2": noise, "zeta_g^2": within,
        "zeta^2": between, "A": gap, "|gradient|^2 at the beginning": facts.gradient,
    }  # fmt: skip


def check(scenario: Scenario) -> None:
    """That there is something to advise on, before any work."""
    section_of(scenario)
    check_learning(scenario)


def facts_of(scenario: Scenario, base: Path, most_samples: int | None) -> Facts:
    with learning_world(scenario, base) as (world, task):
        shape = _shape(scenario, world)
        points = look_around(task, world.association, most_samples)
    return Facts(shape, constants_of(points), points[0].gradient)


def _shape(scenario: Scenario, world: World) -> Shape:
    section, devices = section_of(scenario), sorted(world.association)
    groups = len(set(world.association.values()))
    start = world.learner.initial_model()
    jobs = (Job(device, start, steps=section.local_steps) for device in devices)
    steps = np.mean([world.learner.work(job)[0] for job in jobs])
    return Shape(groups, len(devices) / groups, section.group_rounds, max(1, round(float(steps))))


class Bounded(NamedTuple):
    """A bound on |gradient|^2, and up to which eta~ it speaks."""

    bound: Bound
    most: float

    def rounds_to(self, target: float) -> float:
        return self.bound.rounds_to(target, self.rate(target))

    def rate(self, target: float) -> float:
        return self.bound.best_rate(target, self.most)


def _tightest(shape: Shape, pair: Pair, reading: Reading) -> Pair:
    """Of one client in a group, or of one group, star and ring are the same: the lower bound."""
    top, lower = pair
    if shape.clients == 1:
        lower = "star" if reading == "appendix" else "ring"
    return ("star" if shape.groups == 1 else top), lower


def bounded(facts: Facts, pair: Pair, reading: Reading) -> Bounded:
    """(9) to (12) are Theorem 1 at its best eta~; they have no step size of their own."""
    shape, constants = facts.shape, facts.constants
    make = appendix if reading == "appendix" else theorem_1
    there = _tightest(shape, pair, reading)
    return Bounded(make(shape, constants, *there), most_rate(constants))


def rounds_to(facts: Facts, pair: Pair, reading: Reading, target: float) -> float:
    if reading == "corollary-1":
        there = _tightest(facts.shape, pair, reading)
        return rounds_of_corollary(facts.shape, facts.constants, *there, target)
    return bounded(facts, pair, reading).rounds_to(target)


def name_of(pair: Pair) -> str:
    return "-".join(pair)


def table_of(
    facts: Facts, costs: Mapping[Pair, Cost], target: float, reading: Reading
) -> pd.DataFrame:
    """A row for each topology; rounds by every reading, seconds and bytes by the one asked for."""
    rows = []
    for pair in FOUR:
        by_reading: dict[str, float] = {
            name: rounds_to(facts, pair, name, target) for name in READINGS
        }
        rounds, cost = by_reading[reading], costs[pair]
        rate = bounded(facts, pair, reading).rate(target)
        row: dict[str, Any] = {
            "topology": name_of(pair),
            "round_s": cost.seconds,
            "round_bytes": cost.nbytes,
            "participants": cost.participants,
            **by_reading,
            "rate": rate / steps_along(facts.shape, *pair),
            "rounds": rounds,
            "seconds": rounds * cost.seconds,
            "bytes": rounds * cost.nbytes,
            "held_back_by": _held_back_by(facts, pair, reading, target),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _held_back_by(facts: Facts, pair: Pair, reading: Reading, target: float) -> str:
    """The largest of what the bound is made of, where it is at the target."""
    rounds = rounds_to(facts, pair, reading, target)
    rate = bounded(facts, pair, reading).rate(target)

    def part(**kept: float) -> float:
        only = facts.constants._replace(**({"noise": 0.0, "within": 0.0, "between": 0.0} | kept))
        if reading == "corollary-1":
            return corollary_1(facts.shape, only, *_tightest(facts.shape, pair, reading), rounds)
        return bounded(facts._replace(constants=only), pair, reading).bound.at(rate, rounds)

    start = part()
    sizes = {
        key: part(**{key: getattr(facts.constants, key)}) - start
        for key in ("noise", "within", "between")
    }
    if reading == "corollary-1" or rate == bounded(facts, pair, reading).most:
        sizes["limit"] = start
    return max(sizes, key=lambda key: sizes[key])


def ranking(table: pd.DataFrame, measure: str) -> list[str]:
    """Best first; of equals the paper's first."""
    order = np.argsort(table[measure].to_numpy(), kind="stable")
    return [str(table["topology"].iloc[i]) for i in order]


_MUCH = 0.9
_WHY = {
    "limit": "way to go, with a step size that the loss's curvature limits",
    "noise": "the noise of mini-batches",
    "within": "how much the clients of a group differ",
    "between": "how much groups differ, which no topology mends",
}


def explain(table: pd.DataFrame, shape: Shape) -> list[str]:
    """The rankings in words."""
    by = {measure: ranking(table, measure) for measure in MEASURES}
    why = dict(zip(table["topology"], table["held_back_by"], strict=True))
    told = []
    for measure in MEASURES:
        first, *others = by[measure]
        of = _column(table, measure)
        rest = ", ".join(f"{name} {_times(of[name] / of[first])}" for name in others)
        told.append(f"by {measure}: {first} first; {rest}")
    fewest, most, fastest = by["rounds"][0], by["rounds"][-1], by["seconds"][0]
    rounds = _column(table, "rounds")
    if _times(rounds[most] / rounds[fewest]) == _AS_MANY:
        told.append(f"all need as many rounds; most of them for {_WHY[why[fewest]]}")
    else:
        told.append(f"{fewest} needs the fewest rounds; most of them for {_WHY[why[fewest]]}")
        told.append(f"{most} needs the most; most of them for {_WHY[why[most]]}")
    told.append(_of_time(_column(table, "round_s"), shape))
    told += _left_out(_column(table, "participants"))
    told += _the_same(shape)
    if fastest != fewest:
        told.append(_turned(table, fewest, fastest))
    return told


_AS_MANY = "as many"


def _times(ratio: float) -> str:
    number = f"{ratio:.3g}"
    return _AS_MANY if number == "1" else f"{number} times {_AS_MANY}"


def _left_out(participants: dict[str, float]) -> list[str]:
    """Timeouts and losses cut rounds of some topologies short, of which bounds know nothing."""
    fewest, most = (pick(participants, key=participants.__getitem__) for pick in (min, max))
    if participants[fewest] > _MUCH * participants[most]:
        return []
    return [
        f"in a group's round of {fewest} {participants[fewest]:.3g} devices take part, of {most} "
        f"{participants[most]:.3g}: others are lost or too late, and bounds do not know of that"
    ]


def _the_same(shape: Shape) -> list[str]:
    told = []
    if shape.clients == 1:
        told.append("groups of one client: below, star and ring are the same")
    if shape.groups == 1:
        told.append("one group: above, star and ring differ in where the model stays")
    return told


def _column(table: pd.DataFrame, name: str) -> dict[str, float]:
    """By topology."""
    return dict(zip(table["topology"], table[name].astype(float), strict=True))


def _of_time(round_s: dict[str, float], shape: Shape) -> str:
    order = sorted(round_s, key=lambda name: round_s[name])
    short, long = order[0], order[-1]
    per_s = {name: steps_along(shape, *_pair(name)) / round_s[name] for name in round_s}
    first, *others = sorted(per_s, key=lambda name: -per_s[name])
    return (
        f"a round of {long} takes {round_s[long]:.3g} s, one of {short} {round_s[short]:.3g} s; "
        f"most steps that follow each other in a second are {first}'s, {per_s[first]:.3g} ("
        + ", ".join(f"{name} {per_s[name]:.3g}" for name in others)
        + ")"
    )


def _turned(table: pd.DataFrame, by_rounds: str, by_seconds: str) -> str:
    rounds, round_s = _column(table, "rounds"), _column(table, "round_s")
    return (
        f"{by_seconds} needs {rounds[by_seconds] / rounds[by_rounds]:.3g} times as many rounds as "
        f"{by_rounds}, but {by_rounds}'s each take {round_s[by_rounds] / round_s[by_seconds]:.3g} "
        f"times as long: by the clock {by_seconds} is first"
    )


def _pair(name: str) -> Pair:
    return next(pair for pair in FOUR if name_of(pair) == name)


@dataclass(frozen=True)
class Candidate:
    topology: str
    rate: float


def candidates(
    table: pd.DataFrame, count: int, rates: Sequence[float], scenario: Scenario, shape: Shape
) -> list[Candidate]:
    """The first few by seconds, with every step size, or with the scenario's."""
    return [
        Candidate(name, rate)
        for name in ranking(table, "seconds")[:count]
        for rate in rates or [_own_rate(scenario, shape, _pair(name))]
    ]


def _own_rate(scenario: Scenario, shape: Shape, pair: Pair) -> float:
    """Of an eta~ each topology makes a step size of its own."""
    effective = section_of(scenario).effective_rate
    if effective is None:
        return scenario.training.learning_rate
    return effective / steps_along(shape, *pair)


def race_time_s(scenario: Scenario, costs: Mapping[Pair, Cost]) -> float:
    """Of the last heat: the scenario's, or what its rounds take."""
    run, section = scenario.run, section_of(scenario)
    if run.sim_time_s is not None:
        return run.sim_time_s
    assert run.epochs is not None
    return run.epochs * costs[section.top, section.lower].seconds


def race(
    scenario: Scenario,
    base: Path,
    out: Path,
    field: Sequence[Candidate],
    total_s: float,
    jobs: int,
) -> pd.DataFrame:
    """A row for each candidate and heat; all have the same simulated time.

    With [run] target the first to reach it is the best, else the score at the end decides.
    """

    def run_of(candidate: Candidate, share: float, folder: Path) -> Run:
        return _run(scenario, base, folder, share * total_s, candidate)

    heats = halving.race(field, run_of, out, jobs)
    return pd.DataFrame(
        {
            "heat": heat, "time_s": share * total_s, "topology": candidate.topology,
            "rate": candidate.rate, "score": score,
            "target_s": np.nan if target_s is None else target_s,
        }
        for heat, share, candidate, score, target_s in heats
    )  # fmt: skip


def winner(heats: pd.DataFrame) -> Candidate:
    last = heats[heats["heat"] == heats["heat"].max()]
    places = [halving.place(*one) for one in zip(last["target_s"], last["score"], strict=True)]
    best = last.iloc[min(range(len(places)), key=places.__getitem__)]
    return Candidate(str(best["topology"]), float(best["rate"]))


def _run(scenario: Scenario, base: Path, out: Path, time_s: float, candidate: Candidate) -> Run:
    there = shaped(scenario, *_pair(candidate.topology))
    changes = {
        "algorithm": {"effective_rate": None},
        "run": {"sim_time_s": time_s, "epochs": None, "stop_at_target": False},
        "training": {"learning_rate": candidate.rate},
    }
    parts = {key: getattr(there, key).model_copy(update=change) for key, change in changes.items()}
    folder = out / f"{candidate.topology}-{candidate.rate:g}"
    name = f"{candidate.topology}, rate {candidate.rate:g}"
    return Run(name, scenario.run.seed, there.model_copy(update=parts), base, folder)


def draw_advice(
    facts: Facts, costs: Mapping[Pair, Cost], heats: pd.DataFrame | None, target: float,
    reading: Reading, path: Path,
) -> None:  # fmt: skip
    """How the bound falls by rounds, seconds and bytes; and, after a race, its scores."""
    count = 3 if heats is None else 4
    figure, panels = plt.subplots(1, count, figsize=(3.8 * count, 3.8), layout="constrained")
    labels = ("global rounds", "simulated time [s]", "GB sent")
    targets = np.geomspace(target / 3, facts.gradient, 60)
    for pair, colour in zip(FOUR, COLOURS, strict=False):
        rounds = np.array([rounds_to(facts, pair, reading, t) for t in targets])
        cost = costs[pair]
        for axes, each in zip(panels, (1.0, cost.seconds, cost.nbytes / 1e9), strict=False):
            axes.plot(rounds * each, targets, color=colour, label=name_of(pair))
    for axes, label in zip(panels, labels, strict=False):
        axes.axhline(target, color="0.5", lw=1, ls=":")
        axes.set(xscale="log", yscale="log", xlabel=label)
    panels[0].set(ylabel=f"bound on |gradient|² ({reading})")
    if heats is not None:
        _draw_race(heats, panels[3])
    for axes in panels:
        axes.grid(alpha=0.3)
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_race(heats: pd.DataFrame, axes: Axes) -> None:
    """Of each topology the best step size; until when it ran."""
    best = heats.groupby(["topology", "time_s"])["score"].max()
    names = [name_of(pair) for pair in FOUR]
    for topology in best.index.get_level_values("topology").unique():
        colour, line = COLOURS[names.index(topology)], best.loc[topology]
        axes.plot(line.index, line, marker="o", color=colour, label=topology)
    axes.set(xlabel="end of the heat [s]", ylabel="score, best step size")
