"""``meshfl network``: measure networks with ns-3, and how near the cheaper models come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from simulator.errors import UserError
from simulator.folders import make_folder
from simulator.topology_cli import Named, Profile, load_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ns3_scenarios.section import ProfileSection
    from ns3_scenarios.validate import Fidelity, Played
    from topologies import Topology

network_app = typer.Typer(
    help="Networks: measure them with ns-3, compare models with it.", no_args_is_help=True
)
console = Console()
CORES = os.cpu_count() or 1

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the scenario's network table."
    ),
]
Workers = Annotated[int, typer.Option(min=1, max=64, help="ns-3 processes at a time.")]
Bytes = Annotated[
    int,
    typer.Option(
        "--bytes", min=32_000, max=10**9, help="The largest size measured; larger ones follow."
    ),
]


@network_app.command()
def profile(
    topology: Named,
    profile: Profile = None,
    set_: Settings = None,
    nbytes: Bytes = 1_600_000,
    workers: Workers = CORES,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Profile (.json) to write (default: in the cache)."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Measure though there is such a profile already.")
    ] = False,
) -> None:
    """Measure every link with ns-3, alone and among others, for a network of kind "profile".

    Once: what was measured is kept. Interrupted, the same command goes on where it was.
    """
    with _interruptible("the same command goes on where it was"):
        if out is not None:
            _check_profile_file(out)
        loaded, section = load_named(topology, profile), _section(set_)
        from ns3_scenarios.profile import find_profile, known_profile, make_profile, work_bytes

        if not again and (known := known_profile(loaded, section, nbytes, out)):
            _tell_known(known, out)
            return
        if out is not None:
            make_folder(out.parent, out)
        with _bar(f"measuring {loaded.name}", work_bytes(loaded, nbytes)) as progress:
            path = make_profile(loaded, section, nbytes, workers, progress, out)
        _say(f"wrote {path}")
        if out is None and (chosen := find_profile(loaded, section)) != path:
            _say(f"scenarios take {chosen} unless they name another as [network] path")


def _check_profile_file(out: Path) -> None:
    if out.suffix != ".json" or out.is_dir():
        raise UserError(f"{out}: a profile is a file that ends in .json; choose another --out")


def _tell_known(known: Path, out: Path | None) -> None:
    from simulator.networks.profile_file import write_profile

    _say(f"already measured: {known} (--again measures anew)")
    if out is not None and not (out.exists() and out.samefile(known)):
        make_folder(out.parent, out)
        write_profile(out, known.read_text(encoding="utf-8"))
        _say(f"wrote {out}")


@network_app.command()
def validate(
    topology: Named,
    profile: Profile = None,
    set_: Settings = None,
    transfers: Annotated[
        int, typer.Option(min=20, max=100_000, help="Poisson arrivals at each gateway.")
    ] = 100,
    seeds: Annotated[int, typer.Option(min=2, max=50, help="Runs of live ns-3.")] = 3,
    recorded: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A run on this topology whose transfers to play too."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder (default: fidelity-NAME-RADIO).")
    ] = None,
) -> None:
    """Play the same traffic on live ns-3 and on the cheaper networks; tell how far they are off.

    Median and 95 % are relative errors of single transfers, KS is the distance between the
    distributions of durations; the first line is ns-3 against itself with other seeds.
    """
    with _interruptible("nothing was written"):
        loaded, section = load_named(topology, profile), _section(set_)
        radio = loaded.radio.name if loaded.radio else "wired"
        folder = out or Path(f"fidelity-{loaded.name}-{radio}")
        found = _played(loaded, section, transfers, seeds, recorded or [], folder)
        _tell(f"{loaded.name}, {radio}, {seeds} seeds of live ns-3", found, folder)


Found = dict[str, "tuple[list[Fidelity], dict[str, Played]]"]
"""By traffic."""


def _played(
    topology: Topology,
    section: ProfileSection,
    transfers: int,
    seeds: int,
    runs: list[Path],
    out: Path,
) -> Found:
    from ns3_scenarios.profile import find_profile, read_profile
    from ns3_scenarios.validate import LOADS, compare, nearest, poisson, recorded

    path = section.path or find_profile(topology, section)
    measured = read_profile(path, topology, section)
    home = nearest(topology, measured)
    traffics = {
        name: poisson(topology, measured, load, transfers, home) for name, load in LOADS.items()
    }
    for run in runs:
        traffics[run.resolve().name] = recorded(run, topology, transfers * len(home))
    make_folder(out, out)
    work = seeds * sum(map(len, traffics.values()))
    with _bar(f"playing on {topology.name}", work) as progress:
        found = compare(topology, measured, section, traffics, seeds, progress)
        return dict(zip(traffics, found, strict=True))


def _tell(title: str, found: Found, out: Path) -> None:
    import pandas as pd

    from ns3_scenarios.fidelity import draw_fidelity, fidelity_table, goals_table

    rows = [row for own, _ in found.values() for row in own]
    console.print(title, highlight=False)
    console.print(fidelity_table(rows), highlight=False)
    console.print(goals_table({name: own for name, (own, _) in found.items()}), highlight=False)
    pd.DataFrame([vars(row) for row in rows]).to_csv(out / "fidelity.csv", index=False)
    drawn = draw_fidelity(
        {n: played for n, (_, played) in found.items()}, title, out / "fidelity.png"
    )
    _say(f"wrote {out / 'fidelity.csv'} and {drawn}")


def _say(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def _interruptible(outcome: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _say(f"interrupted; {outcome}")
        raise typer.Exit(130) from None


def _section(settings: list[str] | None) -> ProfileSection:
    from pydantic import ValidationError

    from ns3_scenarios.section import ProfileSection
    from simulator.scenario import explain_all, lay_over

    content: dict[str, dict[str, object]] = {"network": {}}
    for setting in settings or ():
        lay_over(content, f"network.{setting}")
    try:
        return ProfileSection.model_validate(content["network"])
    except ValidationError as error:
        problems = "\n  ".join(explain_all(ProfileSection, error))
        raise UserError(f"--set:\n  {problems}") from None


@contextmanager
def _bar(text: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(text, total=total)
        yield lambda amount: shown.update(task, advance=amount)
