"""What is on the page, against the runs' own files; no browser needed."""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from simulator.errors import UserError
from simulator.folders import slug
from simulator.report.chart import wrapped
from simulator.report.gateways import rates
from simulator.report.gather import gather
from simulator.report.page import script_json, write_report

from .conftest import DEVICE, EVIL, NAMES, SEEDS, TARGET

KINDS = ("up", "down", "backhaul", "peer", "overhead")


@pytest.fixture(scope="module")
def charts(page):
    text = page.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text).group(1)
    return {chart["id"]: chart["views"] for chart in json.loads(data)["charts"]}


def folders(study, name):
    return [study / slug(name) / f"seed-{seed}" for seed in SEEDS]


def tables(study, name, file):
    return [pd.read_parquet(folder / file) for folder in folders(study, name)]


def summaries(study, name):
    return [json.loads((folder / "summary.json").read_text()) for folder in folders(study, name)]


def trace_of(view, number, **meta):
    return next(
        trace
        for trace in view["data"]
        if trace.get("meta", {}).get("group") == number and not trace["meta"].get("band")
    )


def test_curves_are_the_means_of_the_seeds(study, charts):
    for number, name in enumerate(NAMES):
        curves = [t[t["tier"] == "cloud"] for t in tables(study, name, "metrics.parquet")]
        trace = trace_of(charts["curves"]["epochs|accuracy"], number)
        assert trace["x"] == list(range(7))
        for x, y in zip(trace["x"], trace["y"], strict=True):
            scores = [c.loc[c["epoch"] == x, "accuracy"].iloc[-1] for c in curves]
            assert y == pytest.approx(np.mean(scores), rel=1e-5)
        trace = trace_of(charts["curves"]["seconds|loss"], number)
        for x, y in zip(trace["x"][::50], trace["y"][::50], strict=True):
            losses = [np.interp(x, c["sim_time_s"], c["loss"]) for c in curves]
            assert y == pytest.approx(np.mean(losses), rel=1e-3)


def test_one_runs_curve_is_drawn_point_by_point(study, tmp_path):
    folder = folders(study, "Async-HFL")[0]
    text = write_report([folder], tmp_path / "one.html", None, None).read_text(encoding="utf-8")
    data = re.search(r'id="data">(.*?)</script>', text).group(1)
    views = json.loads(data)["charts"][0]["views"]
    curve = pd.read_parquet(folder / "metrics.parquet")
    curve = curve[curve["tier"] == "cloud"]
    sent = curve[[f"bytes_{kind}" for kind in KINDS]].sum(axis=1)
    trace = trace_of(views["bytes|accuracy"], 0)
    assert trace["x"] == pytest.approx(list(sent), rel=1e-6)
    assert trace["y"] == pytest.approx(list(curve["accuracy"]), rel=1e-6)


def test_bars_are_means_to_the_target(study, charts):
    bar = charts["costs"]["seconds"]["data"][0]
    by_kind = {t["meta"]["kind"]: t["x"] for t in charts["costs"]["bytes"]["data"]}
    for number, name in enumerate(NAMES):
        told = summaries(study, name)
        reached = [s["time_to_target_s"] for s in told if s["time_to_target_s"] is not None]
        assert reached, "the study should come to its target"
        assert bar["x"][number] == pytest.approx(np.mean(reached), rel=1e-6)
        to_target = [s["bytes_to_target"] for s in told if s["bytes_to_target"] is not None]
        assert sum(x[number] for x in by_kind.values()) == pytest.approx(np.mean(to_target))
    everything = {t["meta"]["kind"]: t["x"] for t in charts["costs"]["all"]["data"]}
    for kind, sent in everything.items():
        for number, name in enumerate(NAMES):
            mean = np.mean([s[f"bytes_{kind}"] for s in summaries(study, name)])
            assert sent[number] == pytest.approx(mean, rel=1e-6)


def test_boxes_are_percentiles_of_the_rounds(study, charts):
    (view,) = charts["latency"].values()
    for number, name in enumerate(NAMES):
        up = pd.concat(tables(study, name, "transfers.parquet"))
        up = up[(up["kind"] == "up") & (up["status"] == "arrived")]
        box = trace_of(view, number)
        at = box["y"].index("answer of device")
        took = up["end_s"] - up["start_s"]
        for mark, percent in {"lowerfence": 5, "q1": 25, "median": 50, "upperfence": 95}.items():
            assert box[mark][at] == pytest.approx(np.percentile(took, percent), rel=1e-6)


def test_participation_counts_answers(study, charts):
    (view,) = charts["devices"].values()
    for number, name in enumerate(NAMES):
        counts = []
        for table in tables(study, name, "transfers.parquet"):
            up = table[(table["kind"] == "up") & (table["status"] == "arrived")]
            counts.append(up.groupby("src").size())
        mean = pd.concat(counts, axis=1).fillna(0).mean(axis=1).sort_values(ascending=False)
        assert trace_of(view, number)["y"][: len(mean)] == pytest.approx(list(mean), rel=1e-6)


def test_staleness_is_what_was_recorded(study, charts):
    number = list(NAMES).index("Async-HFL")
    rows = pd.concat(tables(study, "Async-HFL", "metrics.parquet"))
    stale = rows.loc[rows["tier"] == "upload", "staleness"]
    trace = trace_of(charts["staleness"]["upload"], number)
    for x, share in zip(trace["x"], trace["y"], strict=True):
        assert share == pytest.approx((stale <= x).mean(), rel=1e-5)


def test_gateways_are_shown_with_their_budget(study, charts):
    number = list(NAMES).index("Async-HFL")
    view = charts["gateways"][f"{number}|held"]["data"]
    assert view[-1]["y"] == [8000.0, 8000.0]
    up = charts["gateways"][f"{number}|up"]["data"]
    table = tables(study, "Async-HFL", "transfers.parquet")[0]
    end = summaries(study, "Async-HFL")[0]["sim_time_s"]
    for trace in up:
        own = table[(table["dst"] == trace["name"]) & (table["kind"] == "up")]
        done = own[own["status"] == "arrived"]["bytes"].sum()
        drawn = np.mean(trace["y"]) * end
        assert done * 0.999 <= drawn <= own["bytes"].sum() * 1.001


def test_rates_spread_bytes_evenly():
    second = 1_000_000_000
    edges = np.arange(5) * second
    start = np.array([0, second // 2, 3 * second])
    end = np.array([2 * second, second, 3 * second])
    found = rates(start, end, np.array([200, 50, 7]), edges)
    assert found == pytest.approx([150, 100, 0, 7], abs=1e-6)


def test_the_timeline_is_that_of_the_run(study, charts):
    number = list(NAMES).index("RFL-HA")
    bars = {trace["name"]: trace for trace in charts["timeline"][str(number)]["data"]}
    folder = folders(study, "RFL-HA")[0]
    ends = {}
    for line in (folder / "events.log").read_text().splitlines():
        time_ns, what, *told = line.split("\t")
        if what == "trained":
            ends.setdefault(told[0], []).append(int(time_ns) / 1e9)
    trained = bars["trains"]
    for node in ("d1", "d5"):
        spans = zip(trained["y"], trained["base"], trained["x"], strict=True)
        drawn = [base + x for y, base, x in spans if y == node]
        assert drawn == pytest.approx(ends[node], rel=1e-5)


def test_the_page_is_small_and_needs_nobody(page):
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 8e6
    assert "default-src 'none'" in text
    ours = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!#|data:)", ours)


def test_text_from_files_is_escaped(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == 3
    assert "<script>document" not in text
    assert "<img" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    data = re.search(r'id="data">(.*?)</script>', text).group(1)
    assert "\u2028" not in data
    assert "<" not in data
    told = json.loads(data)
    assert told["groups"][0]["name"] == EVIL
    topology = json.dumps(next(c for c in told["charts"] if c["id"] == "topology"))
    assert DEVICE not in topology
    assert DEVICE.replace("<", "&lt;").replace(">", "&gt;") in topology


def test_json_for_a_script_is_still_the_same():
    odd = {"a": "</script><!-- \u2028 \u2029 & ' \""}
    assert json.loads(script_json(odd)) == odd
    assert not set("<>&\u2028\u2029") & set(script_json(odd))


def test_names_beside_bars_are_broken():
    assert wrapped("a variant with a rather long name") == "a variant with a<br>rather long name"
    assert wrapped("<b>") == "&lt;b&gt;"


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))


def runs_on(scenario, place, **changes):
    """A folder for each, by its name."""
    from simulator.runner import start

    for name, change in changes.items():
        start(scenario(change), Path(), place / name)
    return [place / name for name in changes]


def test_the_first_variant_may_miss_the_target(scenario, tmp_path):
    late = {"run": {"epochs": 1, "target": 0.8}}
    soon = {"run": {"epochs": 9, "target": 0.8}, "training": {"learning_rate": 0.5}}
    written = write_report(
        runs_on(scenario, tmp_path, late=late, soon=soon), tmp_path / "r.html", None, None
    )
    costs = next(chart for chart in data_of(written)["charts"] if chart["id"] == "costs")
    bars, words = costs["views"]["seconds"]["data"]
    assert bars["x"][0] == 0
    assert bars["x"][1] == pytest.approx(
        json.loads((tmp_path / "soon/summary.json").read_text())["time_to_target_s"]
    )
    assert words["text"][0] == " not reached"


@pytest.mark.parametrize(
    "changes",
    [
        {"a": {"algorithm": {"name": "fedasync"}}},
        {"a": {"run": {"learning": "none"}, "model": {"transfer_bytes": 1000}}},
        {"a": {"algorithm": {"name": "star-ring-hfl", "top": "ring", "lower": "ring"}}},
        {"a": {}, "b": {"run": {"target": 0.2}}, "c": {"algorithm": {"name": "rfl-ha"}}},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_what_is_chosen_at_first_is_there(changes, scenario, tmp_path):
    written = write_report(runs_on(scenario, tmp_path, **changes), tmp_path / "r.html", None, None)
    for chart in data_of(written)["charts"]:
        assert "|".join(keys[0] for keys in chart["controls"]) in chart["views"], chart["id"]


def test_devices_of_a_ring_belong_to_the_gateway_that_leads_it(scenario, tmp_path):
    ring = {"algorithm": {"name": "star-ring-hfl", "top": "ring", "lower": "ring"}}
    run = gather(runs_on(scenario, tmp_path, ring=ring)).groups[0].first
    assert sorted(run.partners.index) == [f"d{i}" for i in range(6)]
    assert set(run.partners["last"]) == {"g0", "g1"}
    assert (run.partners["moves"] == 0).all()


def test_a_page_that_cannot_be_written_leaves_nothing(study, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda *_: exec('raise OSError(28, "No space left")'))
    with pytest.raises(UserError, match=r"r\.html: cannot be written \(No space left\)"):
        write_report(folders(study, "RFL-HA"), tmp_path / "r.html", None, None)
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_recorded_is_left_out_with_a_word(page):
    text = page.read_text(encoding="utf-8")
    assert '<section id="energy">' not in text
    assert "Energy: no run metered it" in text


def test_a_run_without_learning_has_a_page_too(tmp_path, scenario):
    from simulator.runner import start

    quiet = {"run": {"learning": "none"}, "model": {"transfer_bytes": 1000}}
    start(scenario(quiet), Path(), tmp_path / "run")
    text = write_report([tmp_path / "run"], tmp_path / "r.html", None, None).read_text()
    assert "nothing was learned" in text
    assert '<section id="latency">' in text


def test_another_target_may_be_asked_for(study, tmp_path):
    folder = folders(study, "RFL-HA")[0]
    text = write_report([folder], tmp_path / "r.html", 0.3, None).read_text(encoding="utf-8")
    assert "Target: 0.3" in text
    text = write_report([folder], tmp_path / "r.html", 0.99999, None).read_text(encoding="utf-8")
    assert "Nobody has reached a target" in text


@pytest.mark.parametrize(
    ("out", "problem"), [(".", "is a folder"), ("nowhere/r.html", "there is no folder")]
)
def test_a_place_that_cannot_be_is_told(study, tmp_path, out, problem):
    with pytest.raises(UserError, match=problem):
        write_report([study], tmp_path / out, None, None)


def test_the_command_writes_the_page_in_time(study, tmp_path):
    """Three algorithms, three seeds: under ten seconds, of processor: other tests run beside."""
    command = [str(Path(sys.executable).parent / "meshfl"), "report", str(study), "-o", "r.html"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrote r.html\n"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10


def test_other_commands_do_not_load_the_reports_libraries():
    code = "import sys, simulator.cli; print({'jinja2', 'plotly', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_the_summary_tells_targets_and_ratios(page):
    text = page.read_text(encoding="utf-8")
    assert f"Target: {TARGET:g}. Ratios are to Async-HFL" in text


def test_a_run_alone_is_compared_with_nobody(study, tmp_path):
    written = write_report([study / "rfl-ha" / "seed-1"], tmp_path / "r.html", None, None)
    page = re.sub(r"<script.*?</script>", "", written.read_text(encoding="utf-8"), flags=re.S)
    summary = re.search(r'<section id="summary">.*?</table>', page, re.S)[0]
    names = re.findall(r'<th scope="col".*?>(.*?)</th>', summary)
    assert names == ["variant", "seeds", "best", "reached", "time to target", "bytes to target"]
    assert len(re.findall("<td>", summary)) == len(names) - 1
    assert f"Target: {TARGET:g}.</p>" in page
    assert "eans over the seeds; " not in page
