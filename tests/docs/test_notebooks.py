"""The notebooks run as they are, and are kept without outputs."""

import nbformat
import pytest
from nbclient import NotebookClient
from pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs"), "clear the outputs: the pages are made by running it"
    NotebookClient(notebook, resources={"metadata": {"path": path.parent}}, timeout=120).execute()


def test_there_are_three():
    assert len(NOTEBOOKS) == 3
