"""``meshfl advise``: what a scenario's parameters should be, by a paper's theory and by trying."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from simulator.folders import make_folder

if TYPE_CHECKING:
    import pandas as pd

advise_app = typer.Typer(
    help="Advice on parameters: sync times, bounds of a run.", no_args_is_help=True
)
console = Console()


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
        int, typer.Option(min=5, help="Iterations of each group that are measured.")
    ] = 60,
    race: Annotated[
        int, typer.Option(min=0, help="Race so many S by short runs, halving them.")
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
    total_s = sync_advice.system_time_s(loaded)
    section: Any = loaded.algorithm
    folder = out or Path("runs") / f"advice-{scenario.stem}"
    make_folder(folder, folder)
    delays = measure_delays(loaded, base, samples)
    constants, sizes = estimate_constants(loaded, base)
    table = sync_advice.bounds_over(
        constants, sizes, delays, sorted(times or sync_advice.sync_times(delays, total_s)),
        total_s, section.normalise, loaded.run.seed,
    )  # fmt: skip
    table.to_csv(folder / "advice.csv", index=False)
    console.print(_bounds_table(table, f"{loaded.algorithm.name}, T = {total_s:g} s"))
    heats = None
    if race:
        field = sync_advice.candidates(table, race, rates or [loaded.training.learning_rate])
        heats = sync_advice.race(loaded, base, folder / "race", field, jobs, _say)
        heats.to_csv(folder / "race.csv", index=False)
        console.print(_race_table(heats))
    sync_advice.draw_advice(table, heats, folder / "advice.png")
    _say(f"by the bound: S = {sync_advice.advised(table):g} s (normalise = {section.normalise!r})")
    if heats is not None:
        best = sync_advice.winner(heats)
        _say(f"by the race: S = {best.sync_time_s:g} s with step size {best.rate:g}")
    _say(f"written: {folder / 'advice.csv'}")
    _say(f"written: {folder / 'advice.png'}")


@advise_app.command()
def bounds(
    folder: Annotated[Path, typer.Argument(help="Folder of a run of sync-time.", metavar="DIR")],
) -> None:
    """Lemma 1, Theorems 1 and 2, Corollary 1 of a run: its own t_i and U, estimated L, G, sigma."""
    from simulator.sync_bounds import bounds_of_run

    table, facts = bounds_of_run(folder)
    _say(", ".join(f"{name} = {value:.4g}" for name, value in facts.items()))
    if facts["step size"] > facts["1 / L"]:
        _say("the step size is above 1 / L: the theorems do not speak of such runs")
    console.print(_table("", [str(name) for name in table], table))


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
