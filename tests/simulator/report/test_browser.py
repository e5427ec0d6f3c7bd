"""The page in a real browser: Debian's chromium, or the one that $MESHFL_CHROMIUM names."""

import os
import shutil

import pandas as pd
import pytest

from simulator.folders import slug

from .conftest import EVIL, NAMES, TITLE

NEEDED = "no Chromium: on Debian apt-get install chromium, or name one in MESHFL_CHROMIUM"
CHROMIUM = os.environ.get("MESHFL_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)
PATIENCE_MS = 60_000
"""With other tests beside, a machine may be slow."""
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright from PyPI")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, page):
    """visit(**context): the page, opened; ends by asking whether anything was wrong."""
    contexts, problems = [], []

    def open_page(**more):
        context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}} | more)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda said: problems.append(f"{said.type}: {said.text}"))
        tab.on("pageerror", lambda error: problems.append(f"error: {error}"))
        tab.on("request", lambda request: note(request.url))
        tab.set_default_timeout(PATIENCE_MS)
        tab.goto(page.as_uri())
        tab.wait_for_selector("#chart-curves .main-svg")
        return tab

    def note(url):
        if not url.startswith(("file:", "data:", "blob:")):
            problems.append(f"request: {url}")

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def eventually(tab, condition):
    """The page's policy forbids what playwright's own waiting needs: eval."""
    for _ in range(PATIENCE_MS // 50):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never came true: {condition}")


def near(tab, chart):
    """Charts are drawn when they come near the window."""
    tab.evaluate(
        """(id) => document.getElementById(id)
            .scrollIntoView({ block: "center", behavior: "instant" })""",
        f"chart-{chart}",
    )
    tab.wait_for_selector(f"#chart-{chart} .main-svg")


def drawn(tab, chart):
    """The lines that a chart draws, by name, with their numbers."""
    near(tab, chart)
    return tab.evaluate(
        """(id) => document.getElementById("chart-" + id)._fullData
            .filter((trace) => trace.visible === true && !(trace.meta && trace.meta.band))
            .map((trace) => ({
                name: trace.name, x: [...trace.x], y: [...trace.y],
                colour: trace.line && trace.line.color,
            }))""",
        chart,
    )


def test_every_chart_is_drawn(visit):
    tab = visit()
    charts = tab.locator(".chart").evaluate_all("all => all.map((one) => one.id)")
    assert len(charts) >= 8
    for chart in charts:
        near(tab, chart.removeprefix("chart-"))
        assert tab.locator(f"#{chart} .main-svg").first.bounding_box()["height"] > 100
    assert tab.title() == f"{TITLE} – meshfl"


def test_a_toggled_variant_disappears_everywhere(visit):
    tab = visit()
    assert len(drawn(tab, "curves")) == 3
    near(tab, "costs")
    bars = "document.getElementById('chart-costs')._fullData[0].y.length"
    assert tab.evaluate(bars) == 3
    tab.locator(".chip", has_text="Async-HFL").click()
    assert [line["name"] for line in drawn(tab, "curves")][1:] == ["RFL-HA"]
    assert tab.evaluate(bars) == 2
    assert tab.locator("#chart-curves .scatterlayer .trace path.js-line").count() == 4  # and bands
    tab.locator(".chip", has_text="Async-HFL").click()
    assert len(drawn(tab, "curves")) == 3


def test_hovering_tells_the_numbers_of_the_run(visit, study):
    tab = visit()
    tab.locator("label", has_text="epochs").first.click()
    near(tab, "curves")
    plot = tab.locator("#chart-curves .draglayer .nsewdrag").bounding_box()
    axis = "document.getElementById('chart-curves')._fullLayout.xaxis"
    at = tab.evaluate(f"{axis}.d2p(4)")
    tab.mouse.move(plot["x"] + at, plot["y"] + plot["height"] / 2)
    tab.wait_for_selector("#chart-curves .hoverlayer .legend")
    told = tab.locator("#chart-curves .hoverlayer").text_content()
    for name in ("Async-HFL", "RFL-HA"):
        scores = []
        for folder in (study / slug(name)).iterdir():
            table = pd.read_parquet(folder / "metrics.parquet")
            table = table[(table["tier"] == "cloud") & (table["epoch"] == 4)]
            scores.append(table["accuracy"].iloc[-1])
        assert f"{name} : {sum(scores) / 3:.4f}" in told.replace("\xa0", " ")


def test_the_axis_can_be_chosen(visit):
    tab = visit()
    title = "document.getElementById('chart-curves')._fullLayout.xaxis.title.text"
    assert tab.evaluate(title).startswith("simulated time")
    tab.locator("#curves label", has_text="bytes").click()
    assert tab.evaluate(title) == "bytes sent in all"
    tab.locator("#curves label", has_text="loss").click()
    assert tab.evaluate(title.replace("xaxis", "yaxis")) == "test loss"
    tab.locator("#curves label", has_text="logarithmic").click()
    assert tab.evaluate("document.getElementById('chart-curves')._fullLayout.xaxis.type") == "log"


def test_what_is_drawn_are_the_runs_numbers(visit, study):
    tab = visit()
    tab.locator("#timeline select, #timeline label", has_text="RFL-HA, seed 1").first.click()
    bars = {trace["name"]: trace for trace in drawn(tab, "timeline")}
    trained = bars["trains"]
    log = (study / "rfl-ha/seed-1/events.log").read_text().splitlines()
    ended = [line.split("\t")[2] for line in log if line.split("\t")[1] == "trained"]
    assert {node: trained["y"].count(node) for node in ("d1", "d2")} == {
        node: ended.count(node) for node in ("d1", "d2")
    }


def test_zooming_and_going_back(visit):
    tab = visit()
    scope = "document.getElementById('chart-curves')._fullLayout.xaxis.range"
    whole = tab.evaluate(scope)
    near(tab, "curves")
    plot = tab.locator("#chart-curves .draglayer .nsewdrag").bounding_box()
    x, y = plot["x"] + plot["width"] * 0.3, plot["y"] + plot["height"] * 0.5
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x + plot["width"] * 0.3, y, steps=5)
    tab.mouse.up()
    eventually(tab, f"{scope}[1] < {whole[1] * 0.8}")
    tab.mouse.dblclick(x, y)
    eventually(tab, f"Math.abs({scope}[1] - {whole[1]}) < 1e-6")


def test_the_theme_can_be_switched(visit):
    tab = visit(color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light, before = tab.evaluate(paper), drawn(tab, "curves")[0]["colour"]
    tab.locator("#theme").click()
    assert tab.evaluate(paper) != light
    assert drawn(tab, "curves")[0]["colour"] != before
    tab.locator("#theme").click()
    assert tab.evaluate(paper) == light
    assert drawn(tab, "curves")[0]["colour"] == before


def test_the_theme_follows_the_system(visit):
    assert visit(color_scheme="dark").evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_phone_does_not_scroll_sideways(visit):
    tab = visit(**PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    for chart in ("latency", "topology", "timeline", "gateways", "devices", "staleness"):
        near(tab, chart)
    wide = tab.evaluate(
        """[...document.querySelectorAll(".main-svg")]
            .filter((svg) => svg.getBoundingClientRect().right > 390).length"""
    )
    assert wide == 0


def test_print_is_on_white_paper_and_fits(visit, tmp_path):
    tab = visit(color_scheme="dark")
    tab.emulate_media(media="print")
    eventually(tab, "document.documentElement.dataset.theme === 'light'")
    widths = tab.evaluate(
        """[...document.querySelectorAll(".chart")]
            .map((chart) => chart.querySelector(".main-svg").getBoundingClientRect().width)"""
    )
    assert set(widths) == {680}
    assert not tab.locator("#theme").is_visible()
    tab.emulate_media(media="screen")
    eventually(tab, "document.documentElement.dataset.theme === 'dark'")
    sheet = tab.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
    assert sheet.startswith(b"%PDF")


def test_nothing_is_sent_to_the_maker_of_the_library(visit):
    tab = visit()
    tab.locator("#chart-curves").hover()
    titles = tab.locator(".modebar-btn").evaluate_all("all => all.map((b) => b.dataset.title)")
    assert titles
    assert not [title for title in titles if "hare" in title or "loud" in title or "lotly" in title]


def test_names_from_files_are_only_text(visit):
    tab = visit()
    assert tab.locator("img").count() == 0
    told = tab.locator(".chip").first.text_content()
    assert told == EVIL
    assert tab.locator("table b").count() == 0
    assert len(NAMES) == tab.locator(".chip").count()
