from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simulator.data.catalog import CATALOG, EMBEDDED, SYSTEM_FOLDERS, data_folder, find
from simulator.data.dataset import DATASETS, load
from simulator.data.sources import SOURCES
from simulator.errors import UserError


def test_catalog_loaders_and_sources_agree() -> None:
    assert list(CATALOG) == list(DATASETS)
    by_hand = {name for name, entry in CATALOG.items() if entry.by_hand}
    assert set(SOURCES) | by_hand | {EMBEDDED} == set(CATALOG)
    assert not set(SOURCES) & by_hand
    assert set(SYSTEM_FOLDERS) <= set(SOURCES)
    assert all("\n" not in entry.description for entry in CATALOG.values())


def test_listing_and_sections_import_nothing_heavy() -> None:
    heavy = ["numpy", "torch", "pandas", "sklearn", "matplotlib", "PIL"]
    code = (
        "import sys, simulator.data.catalog, simulator.data.section;"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MESHFL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert data_folder() == tmp_path / "data"
    monkeypatch.setenv("MESHFL_DATA", str(tmp_path / "elsewhere"))
    assert data_folder() == tmp_path / "elsewhere"


def test_missing_data_names_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'mnist' is not in .*mnist.*`meshfl data fetch mnist`"):
        load("mnist", tmp_path)


def test_missing_data_that_no_command_gets_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'femnist' is not in .*preprocess\.sh"):
        load("femnist", tmp_path)


def test_unknown_name_is_corrected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown data set 'fashion-minst'; did you mean 'fashion-"):
        load("fashion-minst", tmp_path)


def test_own_folder_goes_before_the_systems(tmp_path: Path) -> None:
    (tmp_path / "fashion-mnist").mkdir()
    assert find("fashion-mnist", tmp_path) == tmp_path / "fashion-mnist"
