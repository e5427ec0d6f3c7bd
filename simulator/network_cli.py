"""``meshfl network``: measure networks with ns-3, and how near the cheaper models come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from simulator.topology_cli import Named, Profile, load_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ns3_scenarios.section import ProfileSection

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
) -> None:
    """Measure every link with ns-3, alone and among others, for a network of kind "profile".

    Interrupted, the same command goes on where it was.
    """
    loaded, section = load_named(topology, profile), _section(set_)
    from ns3_scenarios.profile import make_profile, work_bytes

    with _bar(f"measuring {loaded.name}", work_bytes(loaded, nbytes)) as progress:
        path = make_profile(loaded, section, nbytes, workers, progress, out)
    console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _section(settings: list[str] | None) -> ProfileSection:
    from pydantic import ValidationError

    from ns3_scenarios.section import ProfileSection
    from simulator.errors import UserError
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
