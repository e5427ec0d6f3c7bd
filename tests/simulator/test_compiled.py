"""What is compiled once and kept: by whichever compiler there is, with options or without."""

import os

import pytest

from simulator.compiled import compiled, run_compiler
from simulator.errors import UserError

COMPILER = """#!/bin/sh
if [ "$1" = --version ] || [ "$2" = --version ]; then echo "{version}"; exit; fi
for last; do :; done
echo "{version} $*" > "$last"
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a compiler where there is none else; the cache is empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)

    def put(version):
        place = folder / "c++"
        place.write_text(COMPILER.format(version=version))
        place.chmod(0o755)
        return place

    return put


def make(compiler, work):
    run_compiler([*compiler, str(work / "made")], "a part")
    return work / "made"


def part(key="source and flags"):
    return compiled("part", key, make, "a part")


def test_each_compiler_and_key_has_a_library_of_its_own(install):
    install("c++ 1")
    first = part()
    assert part() == first
    assert part("other flags") != first
    install("c++ 2")
    assert part() != first
    assert first.read_text().startswith("c++ 1")


def test_a_compiler_may_have_options(install, monkeypatch):
    install("c++ 1")
    plain = part()
    monkeypatch.setenv("CXX", "c++ -m64")
    with_option = part()
    assert with_option != plain
    assert with_option.read_text().startswith("c++ 1 -m64 ")
    monkeypatch.setenv("CXX", "c++ 'no end")
    with pytest.raises(UserError, match="is missing"):
        part()


def test_what_has_been_compiled_needs_no_compiler(install):
    place = install("c++ 1")
    made = part()
    place.unlink()
    assert part() == made
    with pytest.raises(UserError, match=r"build a part, and 'c\+\+' is missing.*apt-get install"):
        part("other flags")


def test_of_several_compilers_libraries_the_newest_is_taken(install):
    for number in (3, 1, 2):
        place = install(f"c++ {number}")
        os.utime(part(), (number, number))
    place.unlink()
    assert part().read_text().startswith("c++ 3")


def test_the_compiler_that_is_asked_for_has_to_be_there(install, monkeypatch):
    install("c++ 1")
    part()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match="'no-such-compiler' is missing"):
        part()
