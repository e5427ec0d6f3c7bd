"""A small study of three algorithms and three seeds, with names that a page must not trust."""

import json
from pathlib import Path

import pytest

from simulator.folders import slug

EVIL = 'Sync </script><script>document.title="broken"</script> & <b>\u2028bold</b>'
TITLE = "Three </title><script>document.title='broken'</script> ways"
NAMES = {EVIL: "sync", "Async-HFL": "async", "RFL-HA": "rfl"}
"""By the variant's name what it is called in these tests."""
CHANGES = {
    "sync": {"algorithm": {"name": "fedavg", "gateway_rounds": 2}},
    "async": {
        "algorithm": {"name": "async-hfl", "updates_per_upload": 4},
        "selection": {"name": "random", "budget_bytes_per_s": 8000.0},
    },
    "rfl": {"algorithm": {"name": "rfl-ha", "gateway_rounds": 2}},
}
SEEDS = (1, 2, 3)
TARGET = 0.7
DEVICE = "d<img src=x onerror=alert(1)>0"
"""The name of a device."""


def _topology(place):
    path = place / "evil.json"
    nodes = [{"name": "cloud", "tier": "cloud"}]
    nodes += [{"name": f"g{i}", "tier": "gateway"} for i in range(2)]
    nodes += [{"name": f"d{i}", "tier": "device"} for i in range(6)]
    wire = {"rate_bps": 1e8, "latency_s": 0.005}
    links = [{"a": "cloud", "b": f"g{i}", **wire} for i in range(2)]
    links += [
        {"a": f"g{i % 2}", "b": f"d{i}", "rate_bps": 2e5 * (i + 1), "latency_s": 0.01}
        for i in range(6)
    ]
    content = {"schema": 1, "name": "evil", "nodes": nodes, "links": links}
    path.write_text(json.dumps(content).replace('"d0"', json.dumps(DEVICE)))
    return path


@pytest.fixture(scope="session")
def study(tmp_path_factory, scenario):
    """The folder of the study, as 'meshfl sweep' leaves it."""
    from simulator.runner import start
    from simulator.study import Study

    out = tmp_path_factory.mktemp("study")
    topology = {"kind": "file", "path": str(_topology(out))}
    for name, kind in NAMES.items():
        for seed in SEEDS:
            own = {"run": {"seed": seed, "epochs": 6, "target": TARGET}, "topology": topology}
            start(scenario(own, CHANGES[kind]), Path(), out / slug(name) / f"seed-{seed}")
    variants = [{"name": name} for name in NAMES]
    content = {"title": TITLE, "scenario": "s.toml", "reference": "Async-HFL", "variants": variants}
    Study.model_validate(content).save(out)
    return out


@pytest.fixture(scope="session")
def page(study, tmp_path_factory):
    """The study's page."""
    from simulator.report.page import write_report

    return write_report([study], tmp_path_factory.mktemp("page") / "report.html", None, None)
