"""The command line. Heavy imports wait until a command needs them: help is immediate."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from simulator.advise_cli import advise_app
from simulator.errors import UserError
from simulator.network_cli import network_app
from simulator.report_cli import report, timeline
from simulator.saying import say
from simulator.topology_cli import topology_app

if TYPE_CHECKING:
    from simulator.scenario import Scenario

app = typer.Typer(
    name="meshfl",
    help="A network-realistic simulator of hierarchical federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets: fetch them, look at how they are split.")
app.add_typer(data_app, name="data", no_args_is_help=True)
app.add_typer(topology_app, name="topology")
app.add_typer(network_app, name="network")
app.add_typer(advise_app, name="advise")
app.command()(report)
app.command()(timeline)
console = Console()

ScenarioFile = Annotated[Path, typer.Argument(help="Scenario file (TOML).", metavar="SCENARIO")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a key of the scenario."),
]
Workers = Annotated[
    int,
    typer.Option(min=1, max=1024, help="Threads or processes that train; results are the same."),
]
RunFolders = Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="DIR...")]
INTERRUPTED = 130


def main() -> None:
    """Entry point: bad input is one message and exit code 2, never a traceback."""
    try:
        app()
    except (UserError, OSError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {_escape(str(error))}", highlight=False)
        sys.exit(2)
    except SystemExit as ended:
        if _was_interrupted(ended):
            Console(stderr=True).print("stopped at once; a run continues from its last checkpoint")
        raise


def _was_interrupted(ended: SystemExit) -> bool:
    """Typer makes an exit of a KeyboardInterrupt, without a word."""
    error: BaseException | None = ended
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


@app.command()
def run(
    scenario: ScenarioFile,
    set_: Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run (default: runs/NAME-SEED).")
    ] = None,
    workers: Workers = 1,
) -> None:
    """Run a scenario; results, plots and a summary land in a folder of their own."""
    loaded = _load(scenario, set_)
    folder = out or Path("runs") / f"{scenario.stem}-{loaded.run.seed}"
    from simulator.progress import Bar
    from simulator.runner import start

    with Bar() as bar:
        summary = start(loaded, scenario.parent, folder, workers, bar.update)
    _tell(folder, summary)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of an unfinished run.", metavar="DIR")],
    workers: Workers = 1,
) -> None:
    """Continue a run that was interrupted or killed; it ends as if it had not been."""
    from simulator.recorder import SCENARIO, SUMMARY

    if not (folder / SCENARIO).is_file():
        raise UserError(f"{folder}: holds no run ({SCENARIO} is missing)")
    if (folder / SUMMARY).is_file():
        say(console, f"{folder} is complete already")
    from simulator.progress import Bar
    from simulator.runner import resume as resume_run

    with Bar() as bar:
        summary = resume_run(folder, workers, bar.update)
    _tell(folder, summary)


class EngineName(StrEnum):
    local = "local"
    ray = "ray"
    dask = "dask"
    slurm = "slurm"


@app.command()
@app.command(name="study", help="The same as sweep.")
def sweep(
    file: Annotated[Path, typer.Argument(help="Study file (TOML).", metavar="STUDY")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of its runs (default: runs/NAME).")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Runs at a time (default: as many as cores)."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="VARIANT", help="Run this variant; may be repeated.")
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Where: this machine, or a cluster that shares the folder.")
    ] = EngineName.local,
    address: Annotated[
        str | None, typer.Option(help="Of the Ray or Dask cluster (default: one is made here).")
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Parameter of submitit, as timeout_min=600."),
    ] = None,
    set_: Settings = None,
) -> None:
    """Run variants of a scenario with several seeds; a table and figures beside published numbers.

    Runs that are done already are not run again: the same command continues a study. A run that
    fails does not stop the others; it is listed at the end.
    """
    from simulator.sweeps import engine_named

    chosen = engine_named(engine.value, address, slurm or [])
    from simulator.study_run import Conductor

    place = out or Path("runs") / file.stem
    Conductor(place, chosen, jobs, console).conduct(file, only or [], set_ or [])


@app.command()
def show(
    scenario: ScenarioFile,
    set_: Settings = None,
    heterogeneity: Annotated[
        bool,
        typer.Option(
            "--heterogeneity", help="Estimate too how much losses differ, and L; as comments."
        ),
    ] = False,
) -> None:
    """Print the resolved scenario: every key, defaults included, with its meaning.

    Warnings go to standard error: where parameters lie outside of what a paper's theory asks for.
    """
    loaded = _load(scenario, set_)
    sys.stdout.write(loaded.to_toml())
    if heterogeneity:
        from simulator.heterogeneity import MOST_SAMPLES, lines, measure

        told = lines(measure(loaded, scenario.parent), loaded.training.batch_size, MOST_SAMPLES)
        sys.stdout.write("".join(f"# {line}\n" for line in ["", *told]))
    from simulator.advice import warnings_of

    for warning in warnings_of(loaded, scenario.parent):
        Console(stderr=True).print(f"[yellow]warning:[/] {_escape(warning)}", highlight=False)


@app.command()
def check(scenario: ScenarioFile, set_: Settings = None) -> None:
    """Load everything a scenario names, without running or writing anything."""
    loaded = _load(scenario, set_)
    from simulator.build import build

    world = build(loaded, scenario.parent)
    sizes = [world.learner.num_samples(d) for d in world.topology.devices]
    console.print(
        f"{scenario}: good. {len(sizes)} devices on {len(world.topology.gateways)} gateways, "
        f"{min(sizes)} to {max(sizes)} samples each, "
        f"model {world.learner.model_bytes:,} bytes",
        highlight=False,
    )


class Listed(StrEnum):
    algorithms = "algorithms"
    networks = "networks"
    device_classes = "device-classes"
    selectors = "selectors"
    associators = "associators"
    datasets = "datasets"
    models = "models"
    topologies = "topologies"


@app.command(name="list")
def list_(what: Annotated[Listed, typer.Argument(help="What to list.")]) -> None:
    """List what a scenario can name."""
    from rich.table import Table

    from simulator.listing import entries

    table = Table(what.value, "", box=None, header_style="bold")
    for name, meaning in entries(what.value).items():
        table.add_row(name, meaning)
    console.print(table)


@data_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Data set, see 'meshfl list datasets'.")],
) -> None:
    """Get a data set into the data folder (data/, or $MESHFL_DATA)."""
    from simulator.data.catalog import data_folder
    from simulator.data.fetch import fetch as fetch_data

    with console.status(f"fetching {name} ..."):
        path = fetch_data(name, data_folder(), lambda text: console.print(text, highlight=False))
    say(console, f"{name} is in {path}")


@data_app.command(name="partition")
def partition_(
    scenario: ScenarioFile,
    set_: Settings = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="Picture to write.")] = Path(
        "labels.png"
    ),
) -> None:
    """Draw how the scenario spreads the labels over its devices."""
    loaded = _load(scenario, set_)
    from simulator.build import build, draw_partition

    draw_partition(loaded, build(loaded, scenario.parent), out)
    say(console, f"wrote {out}")


class Style(StrEnum):
    screen = "screen"
    paper = "paper"


@app.command()
def plot(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or of one study.", metavar="DIR...")
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder for the pictures (default: the first DIR)."),
    ] = None,
    style: Annotated[Style, typer.Option(help="What they are for.")] = Style.screen,
) -> None:
    """Draw accuracy against simulated time, and bytes by kind; of a study all its figures.

    In the style of a paper: PDF and SVG for a column, fonts within; a study's table for LaTeX.
    """
    from simulator.figures import LOOKS
    from simulator.plots import plot_runs
    from simulator.recorder import STUDY

    studies = [folder for folder in folders if (folder / STUDY).is_file()]
    if studies and len(folders) > 1:
        raise UserError(f"{studies[0]}: is a study; plot it alone, or some of the runs in it")
    place = out or folders[0]
    if studies:
        from simulator.study_report import write_figures

        written = write_figures(folders[0], place, LOOKS[style.value])
    else:
        written = plot_runs(folders, place, LOOKS[style.value])
    for path in written:
        say(console, f"wrote {path}")


class Target(StrEnum):
    tensorboard = "tensorboard"
    mlflow = "mlflow"


@app.command()
def export(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or of studies.", metavar="DIR...")
    ],
    to: Annotated[Target, typer.Option(help="What is to read them.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Folder for TensorBoard (--logdir).")
    ] = Path("tensorboard"),
    uri: Annotated[str, typer.Option(help="Tracking URI of MLflow.")] = "sqlite:///mlflow.db",
) -> None:
    """Write finished runs for TensorBoard or MLflow; once each, however often this is done."""
    from simulator.exports import export as export_runs

    for where in export_runs(folders, to.value, out, uri):
        say(console, f"wrote {where}")


@app.command()
def compare(
    folders: RunFolders,
    target: Annotated[float, typer.Option(help="Accuracy (for regression: loss) to reach.")],
) -> None:
    """Table of time to target and bytes to target; ratios are to the first run."""
    from simulator.compare import comparison_table

    console.print(comparison_table(folders, target))


def _load(path: Path, settings: list[str] | None) -> Scenario:
    from simulator.scenario import Scenario

    return Scenario.load(path, settings or ())


def _tell(folder: Path, summary: dict[str, Any] | None) -> None:
    if summary is None:
        say(console, f"interrupted; continue with: meshfl resume {folder}")
        sys.exit(INTERRUPTED)
    from simulator.compare import summary_table
    from simulator.plots import plot_runs

    console.print(summary_table(summary))
    if summary["stop_reason"] == "stalled":
        console.print(
            "[yellow]stalled:[/] nothing was left to happen before the run's end; "
            "set a timeout in \\[algorithm] if devices or transfers can be lost"
        )
    for path in plot_runs([folder], folder):
        say(console, f"plot: {path}")
    say(console, f"results: {folder}")


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


if __name__ == "__main__":
    main()
