"""The documentation is built, and a broken link would be told."""

import re
import shutil
import subprocess
import sys

import pytest
from pages import ROOT


def build(source, out):
    """Without running the notebooks: test_notebooks.py does."""
    command = [
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"),
        *("-D", "nb_execution_mode=off", "-d", out / "doctrees", source, out / "html"),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT / "docs", out)
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_page_is_there_and_fetches_nothing(site):
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 15
    for page in pages:
        html = (site / page.with_suffix(".html")).read_text()
        fetched = re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="(\w+:)?//[^"]*"', html)
        assert fetched == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text()), style


def test_a_broken_link_and_a_lost_page_are_errors(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "docs/lost.md").write_text(
        "# Lost\n\n[nowhere](tuor.md), [no place](tour.md#nix)\n"
    )
    done = build(tmp_path / "docs", tmp_path)
    assert done.returncode != 0
    for told in ("tuor.md", "nix", "isn't included in any toctree"):
        assert told in done.stderr


def test_links_of_the_readme_lead_somewhere():
    for target, _, anchor in re.findall(
        r"\]\((?!https:)([^)#]+)(#([^)]+))?\)", (ROOT / "README.md").read_text()
    ):
        assert (ROOT / target).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", (ROOT / target).read_text(), re.M)
            assert anchor in [heading.lower().replace(" ", "-") for heading in headings]
