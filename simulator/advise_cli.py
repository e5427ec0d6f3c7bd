"""``meshfl advise``: what a scenario's parameters should be, by a paper's theory and by trying."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from simulator.errors import UserError
from simulator.folders import make_folder
from simulator.saying import say

if TYPE_CHECKING:
    import pandas as pd

advise_app = typer.Typer(
    help="Advice on parameters: sync times, topologies, bounds of a run.", no_args_is_help=True
)
console = Console()
_LEAST_SHARE = 1e-6
"""Bounds need some 1e12 times as many rounds to it as to a share of 1."""


@advise_app.command("sync-time")
def sync_time(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (TOML).", metavar="SCENARIO")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a key of the scenario."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of table and curve (default: runs/advice-NAME).")
    ] = None,
    times: Annotated[
        list[float] | None,
        typer.Option("--time", min=0, help="S to look at, in seconds; may be repeated."),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=5, help="Iterations of a group that are measured.")
    ] = 60,
    race: Annotated[
        int,
        typer.Option(
            min=0, help="Race so many S, from 0 to the longest, by short runs, halving them."
        ),
    ] = 0,
    rates: Annotated[
        list[float] | None,
        typer.Option("--rate", min=0, help="Step size in the race; may be repeated."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Runs of the race at a time.")] = 1,
) -> None:
    """Which sync time S? From the network's delays, a bound, and, if asked for, a race."""
    from simulator import sync_advice
    from simulator.gradient_facts import estimate_constants
    from simulator.scenario import Scenario
    from simulator.sync_delays import measure_delays

    loaded, base = Scenario.load(scenario, set_ or ()), scenario.parent
    until = sync_advice.horizon(loaded)
    _check_times(times or [], until.time_s)
    _check_rates(rates or [], race)
    _check_race(race, "S")
    section: Any = loaded.algorithm
    folder = out or Path("runs") / f"advice-{scenario.stem}"
    make_folder(folder, folder)
    delays = measure_delays(loaded, base, samples)
    constants, members = estimate_constants(loaded, base)
    table = sync_advice.bounds_over(
        constants, list(members.values()), delays,
        sorted(set(times or sync_advice.sync_times(delays, until.time_s))),
        until, section.normalise, loaded.run.seed,
    )  # fmt: skip
    table.to_csv(folder / "advice.csv", index=False)
    console.print(_bounds_table(table, f"{loaded.algorithm.name}, T = {until.time_s:g} s"))
    heats = None
    if race:
        field = sync_advice.candidates(table, race, rates or [loaded.training.learning_rate])
        heats = sync_advice.race(loaded, base, folder / "race", field, jobs)
        heats.to_csv(folder / "race.csv", index=False)
        console.print(_race_table(heats))
    sync_advice.draw_advice(table, heats, folder / "advice.png")
    if section.schedule.kind != "constant":
        _say(
            f"bounds are for an S that stays; schedule {section.schedule.kind!r} is left to a race"
        )
    _say(f"by the bound: S = {sync_advice.advised(table):g} s (normalise = {section.normalise!r})")
    if heats is not None:
        best = sync_advice.winner(heats)
        _say(f"by the race: S = {best.sync_time_s:g} s with step size {best.rate:g}")
    say(console, f"written: {folder / 'advice.csv'}")
    say(console, f"written: {folder / 'advice.png'}")


@advise_app.command()
def topology(
    scenario: Annotated[
        Path, typer.Argument(help="Scenario of star-ring-hfl (TOML).", metavar="SCENARIO")
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a key of the scenario."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of table and plot (default: runs/advice-NAME).")
    ] = None,
    share: Annotated[
        float,
        typer.Option(help="Target |gradient|^2, as a share of the one at the beginning."),
    ] = 0.1,
    by: Annotated[
        str, typer.Option(help="Bound: corollary-1, theorem-1 or appendix.")
    ] = "corollary-1",
    rounds: Annotated[
        int, typer.Option(min=1, help="Global rounds of each topology that are measured.")
    ] = 3,
    samples: Annotated[int, typer.Option(min=1, help="Of each device, for its gradients.")] = 300,
    race: Annotated[
        int, typer.Option(min=0, max=4, help="Race so many, the first by seconds, by short runs.")
    ] = 0,
    rates: Annotated[
        list[float] | None,
        typer.Option(
            "--rate",
            min=0,
            help="Step size in the race; may be repeated (default: the scenario's).",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Runs of the race at a time.")] = 1,
) -> None:
    """Star or ring, above and below? By rounds, seconds and bytes: bounds, the network, a race."""
    from simulator import topology_advice as advice
    from simulator.scenario import Scenario
    from simulator.topology_delays import measure_rounds

    loaded, base = Scenario.load(scenario, set_ or ()), scenario.parent
    advice.check(loaded)
    reading = advice.reading_of(by)
    _check_share(share)
    _check_race(race, "topology")
    _check_rates(rates or [], race)
    folder = out or Path("runs") / f"advice-{scenario.stem}"
    make_folder(folder, folder)
    costs = measure_rounds(loaded, base, rounds)
    facts = advice.facts_of(loaded, base, samples)
    target = share * facts.gradient
    table = advice.table_of(facts, costs, target, reading)
    table.to_csv(folder / "advice.csv", index=False)
    _say(", ".join(f"{name} = {value:.4g}" for name, value in advice.told(facts).items()))
    console.print(_topologies_table(table, f"to |gradient|^2 = {target:.3g}, by {by}"))
    for sentence in advice.explain(table, facts.shape):
        _say(sentence)
    heats = None
    if race:
        field = advice.candidates(table, race, rates or [], loaded, facts.shape)
        time_s = advice.race_time_s(loaded, costs)
        heats = advice.race(loaded, base, folder / "race", field, time_s, jobs)
        heats.to_csv(folder / "race.csv", index=False)
        names = ("heat", "until, s", "topology", "step size", "score", "at the target, s")
        console.print(_table("race", names, heats))
        best = advice.winner(heats)
        _say(f"by the race: {best.topology} with step size {best.rate:g}")
    advice.draw_advice(facts, costs, heats, target, reading, folder / "advice.png")
    say(console, f"written: {folder / 'advice.csv'}")
    say(console, f"written: {folder / 'advice.png'}")


def _topologies_table(table: pd.DataFrame, title: str) -> Table:
    names = ("topology", "a round, s", "MB", "rounds", "seconds", "GB", "at step size")
    shown = table.assign(mb=table["round_bytes"] / 1e6, gb=table["bytes"] / 1e9)
    columns = ["topology", "round_s", "mb", "rounds", "seconds", "gb", "rate"]
    return _table(title, names, shown[columns])


@advise_app.command()
def bounds(
    folder: Annotated[Path, typer.Argument(help="Folder of a run of sync-time.", metavar="DIR")],
) -> None:
    """Lemma 1, Theorems 1 and 2, Corollary 1 of a run: its own t_i and U, estimated L, G, sigma."""
    from simulator.sync_bounds import bounds_of_run

    table, facts = bounds_of_run(folder)
    normalise = facts.pop("normalise")
    _say(", ".join(f"{name} = {value:.4g}" for name, value in facts.items()))
    _say(
        "Lemma 1, the theorems, the corollary and 'mean steps' are for normalise = 'printed', "
        f"'whole steps' for 'none' and 'fednova'; this run has {normalise!r}"
    )
    if facts["step size"] > facts["1 / L"]:
        _say("the step size is above 1 / L: the theorems do not speak of such runs")
    console.print(_table("", [str(name) for name in table], table))


def _check_times(times: Sequence[float], total_s: float) -> None:
    for time_s in times:
        if time_s > total_s:
            raise UserError(
                f"--time {time_s:g}: longer than T = {total_s:g} s, in which groups would never "
                "meet; give at most T"
            )


def _check_share(share: float) -> None:
    if not _LEAST_SHARE <= share < 1:
        raise UserError(
            f"--share {share:g}: the target is a share of |gradient|^2 where training begins; give "
            f"one from {_LEAST_SHARE:g} to less than 1"
        )


def _check_race(race: int, what: str) -> None:
    if race == 1:
        raise UserError(f"--race 1: one {what} has nobody to race with; give 2 or more")


def _check_rates(rates: Sequence[float], race: int) -> None:
    if rates and not race:
        raise UserError("--rate is the step size of a race; give --race, too")
    for rate in rates:
        if not 0 < rate < inf:
            raise UserError(f"--rate {rate:g}: a step size is above 0, and finite")


def _bounds_table(table: pd.DataFrame, title: str) -> Table:
    names = ("S, s", "rounds", "mean t", "waiting", "(20)", "ours", "at step size")
    shares = [f"{100 * share:.1f} %" for share in table["waiting"]]
    return _table(title, names, table.assign(waiting=shares))


def _race_table(heats: pd.DataFrame) -> Table:
    return _table("race", ("heat", "until, s", "S, s", "step size", "score"), heats)


def _table(title: str, names: Sequence[str], content: pd.DataFrame) -> Table:
    shown = Table(title=title or None, box=SIMPLE, pad_edge=False, show_edge=False)
    for name in names:
        shown.add_column(name, justify="right", no_wrap=True)
    for row in content.to_numpy().tolist():
        shown.add_row(*(_cell(value) for value in row))
    return shown


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None or value != value else f"{value:,.4g}"


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False)
