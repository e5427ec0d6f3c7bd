"""Figures and tables for papers: their form, what is in them, and that they never change."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from simulator.cli import app
from simulator.errors import UserError
from simulator.figures import PAPER
from simulator.latex import booktabs, escaped
from simulator.study import Study
from simulator.study_figures import figures
from simulator.study_findings import findings

STUDY = """
title = "Two ways & more"
scenario = "small.toml"
reference = "FedAvg"
seeds = [1, 2]

[[variants]]
name = "FedAvg"
published = 1.0

[[variants]]
name = "Two_rounds, 100 %"
published = 2.5
change = {algorithm = {gateway_rounds = 2}}

[[variants]]
name = "Hopeless"
change = {training = {learning_rate = 1e-9}}
"""
COLUMN_PT = 252.0


@pytest.fixture(scope="module")
def done(tmp_path_factory, scenario):
    """The folder of a study that is done."""
    place = tmp_path_factory.mktemp("study")
    (place / "small.toml").write_text(scenario({"run": {"target": 0.5}}).to_toml())
    (place / "study.toml").write_text(STUDY)
    out = place / "out"
    told = CliRunner().invoke(app, ["sweep", str(place / "study.toml"), "--out", str(out)])
    assert told.exit_code == 0, told.output
    return out


@pytest.fixture(scope="module")
def paper(done):
    """Where its figures for a paper are."""
    plotted(done, "-o", done.parent / "paper")
    return done.parent / "paper"


def plotted(*arguments):
    told = CliRunner().invoke(app, ["plot", *map(str, arguments), "--style", "paper"])
    assert told.exit_code == 0, told.output
    return told.output


def test_a_study_is_drawn_for_a_column_of_text(paper):
    assert {path.name for path in paper.iterdir()} == {
        "findings.tex", "curves.pdf", "curves.svg", "ratios.pdf", "ratios.svg",
    }  # fmt: skip
    for path in paper.glob("*.pdf"):
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", path.read_bytes())
        assert float(box) == COLUMN_PT
    for path in paper.glob("*.svg"):
        assert f'width="{COLUMN_PT:.0f}pt"' in path.read_text()


def test_fonts_are_embedded(paper):
    for path in paper.glob("*.pdf"):
        content = path.read_bytes()
        assert b"/FontFile2" in content, "TrueType"
        assert b"/Type3" not in content
    for path in paper.glob("*.svg"):
        assert "<text" not in path.read_text(), "letters are drawn"
    if shutil.which("pdffonts"):
        told = subprocess.run(["pdffonts", paper / "ratios.pdf"], capture_output=True, text=True)
        assert re.search(r"STIXGeneral-Regular +CID TrueType +Identity-H +yes yes", told.stdout)


def test_published_numbers_stand_beside_ours(done, paper):
    drawn = (paper / "ratios.svg").read_text()
    words = {text.strip() for text in re.findall(r"<!--(.*?)-->", drawn)}
    ours = pd.read_csv(done / "findings.csv").set_index("variant")["ratio"]
    assert {"2.50", "1.00", f"{ours['Two_rounds, 100 %']:.2f}", "not reached"} <= words
    assert {"FedAvg", "Two_rounds, 100 %", "Hopeless", "here", "published"} <= words
    assert "Two ways & more" not in drawn.replace("&amp;", "&"), "that is for the caption"


def test_what_is_drawn_is_what_was_found(done):
    study, runs = Study.of_folder(done)
    table = findings(study, runs)
    with PAPER.used():
        drawn = dict(figures(study, runs, table, PAPER))
    seconds = drawn["curves"].axes[0]
    line = next(line for line in seconds.lines if line.get_label() == "FedAvg")
    last = [run.results.curve["accuracy"].iloc[-1] for run in runs if run.variant == "FedAvg"]
    assert line.get_ydata()[-1] == pytest.approx(np.mean(last))
    styles = {(line.get_color(), line.get_linestyle()) for line in seconds.lines[:3]}
    assert len({colour for colour, _ in styles}) == len({dashes for _, dashes in styles}) == 3
    bars = [bar.get_width() for bar in drawn["ratios"].axes[0].patches]
    assert bars[:2] == pytest.approx(table["ratio"].tolist()[:2])
    assert bars[3:] == [1.0, 2.5, 0.0]


@pytest.mark.parametrize("seed", ["1", "2"])
def test_bytes_do_not_change(done, paper, tmp_path, seed):
    meshfl = Path(sys.executable).parent / "meshfl"
    command = [meshfl, "plot", done, "--style", "paper", "-o", tmp_path]
    env = os.environ | {"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": seed}
    subprocess.run(command, check=True, capture_output=True, env=env)
    for path in paper.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_table_is_latex(paper):
    text = (paper / "findings.tex").read_text()
    rows = text.splitlines()
    assert rows[0] == "% ±: standard deviation over the seeds"
    assert rows[2] == r"\begin{tabular}{lrrrrrrrr}"
    assert rows[-1] == r"\end{tabular}"
    assert [row for row in rows if row.endswith("rule")] == [
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
    ]
    body = [row for row in rows if row.endswith(r"\\")]
    assert {row.count(" & ") for row in body} == {8}
    assert body[0].startswith("variant & reached & seconds & ratio & paper & bytes")
    assert body[2].startswith(r"Two\_rounds, 100 \% & 2/2 & ")
    assert " & 2.50 & " in body[2]
    assert body[3].startswith("Hopeless & 0/2 & $>$ ")


def test_what_latex_would_take_for_commands_is_escaped():
    assert escaped(r"a\b {c} 1 ± 2 & #3 ~ ^ $ x_1") == (
        r"a\textbackslash{}b \{c\} 1 $\pm$ 2 \& \#3 \textasciitilde{} \textasciicircum{} \$ x\_1"
    )
    assert escaped("-") == "--"
    assert booktabs(pd.DataFrame({"a": ["x"], "b ": ["-"]})).splitlines()[3] == r"a & b \\"


def test_runs_are_drawn_for_a_paper(done, tmp_path):
    plotted(
        done / "fedavg/seed-1", done / "fedavg/seed-2", done / "hopeless/seed-1", "-o", tmp_path
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"accuracy.pdf", "accuracy.svg", "bytes.pdf", "bytes.svg"}
    drawn = (tmp_path / "accuracy.svg").read_text()
    assert "<!-- fedavg/seed-2 -->" in drawn
    assert "<!-- hopeless/seed-1 -->" in drawn


def test_a_study_is_drawn_again_for_a_screen(done, tmp_path):
    told = CliRunner().invoke(app, ["plot", str(done), "-o", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert {path.name for path in tmp_path.iterdir()} == {"curves.png", "ratios.png"}
    assert (tmp_path / "ratios.png").read_bytes() == (done / "ratios.png").read_bytes()


def test_what_cannot_be_drawn_is_told(done, tmp_path):
    first = done / "fedavg/seed-1"
    told = CliRunner().invoke(app, ["plot", str(done), str(first)])
    assert isinstance(told.exception, UserError)
    assert "is a study; plot it alone" in str(told.exception)
    with pytest.raises(UserError, match=r"holds no study .*'meshfl sweep STUDY --out"):
        Study.of_folder(tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(UserError, match=r"study\.json: cannot be read"):
        Study.of_folder(tmp_path)
    shutil.copy(done / "study.json", tmp_path)
    with pytest.raises(UserError, match="no variant of this study is done"):
        Study.of_folder(tmp_path)


def test_a_saved_study_is_the_same_study(done):
    study, runs = Study.of_folder(done)
    assert study == Study.load(done.parent / "study.toml")
    assert [(run.variant, run.seed) for run in runs][:2] == [("FedAvg", 1), ("FedAvg", 2)]
    assert runs[0].target == 0.5


def test_the_variants_of_a_grid_are_saved_once(tmp_path):
    grid = STUDY.replace('"FedAvg"\nseeds', '"FedAvg, epochs 1"\nseeds')
    path = tmp_path / "study.toml"
    path.write_text(grid + '\n[grid]\n"run.epochs" = [1, 2]\n')
    study = Study.load(path)
    study.save(tmp_path)
    saved = Study.model_validate_json((tmp_path / "study.json").read_text(), context="saved")
    assert saved == study
    assert len(saved.variants) == 6
