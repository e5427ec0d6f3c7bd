"""The reference has every key, with its default, its bounds and a meaning."""

import json
import re
from typing import get_args

import annotated_types as at
import pytest
from pydantic import BaseModel

from simulator.reference import reference
from simulator.scenario import TAGS, Scenario
from simulator.study import Study

BOUNDS = ((at.Ge, "ge", "≥"), (at.Gt, "gt", ">"), (at.Le, "le", "≤"), (at.Lt, "lt", "<"))


def sections(annotation):
    """Every model that a value may be made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from sections(part)


def all_sections(root, found=None):
    found = [] if found is None else found
    if root not in found:
        found.append(root)
        for field in root.model_fields.values():
            for section in sections(field.annotation):
                all_sections(section, found)
    return found


@pytest.fixture(scope="module", params=[Scenario, Study])
def told(request):
    return request.param, reference(request.param)


def tables(page):
    """Their rows, by key."""
    for lines in re.findall(r"\| key \|.*\n\| ---.*\n((?:\|.*\n)+)", page):
        rows = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines.splitlines()]
        yield {row[0].strip("`"): row[1:] for row in rows}


def test_every_section_and_key_is_there(told):
    root, page = told
    known = [set(table) for table in tables(page)]
    for section in all_sections(root):
        assert set(section.model_fields) in known, section


def test_every_key_has_a_meaning(told):
    for table in tables(told[1]):
        for key, row in table.items():
            assert len(row) == 3, key
            assert all(row), key


def test_bounds_and_defaults_are_the_models(told):
    root, page = told
    found = list(tables(page))
    for section in all_sections(root):
        rows = [table for table in found if set(table) == set(section.model_fields)]
        for key, field in section.model_fields.items():
            fitting = [row[key] for row in rows if fits(field, key, row[key])]
            assert fitting, (section, key)


def fits(field, key, row):
    bounds, default, meaning = row
    for kind, name, sign in BOUNDS:
        for limit in field.metadata:
            if isinstance(limit, kind) and not has(bounds, sign, getattr(limit, name)):
                return False
    if field.description and " ".join(
        field.description.replace("``", "`").split()
    ) not in meaning.replace("\\", ""):
        return False
    if field.is_required():
        return default == "**required**"
    if field.default is None:
        return default == "not set"
    if isinstance(field.default, bool | int | float | str) and key not in TAGS:
        return json.loads(default.strip("`")) == field.default
    return True


def has(bounds, sign, limit):
    return any(float(number) == limit for number in re.findall(rf"{sign} ([-\d.e]+)", bounds))


def test_a_table_that_is_used_twice_is_told_once():
    page = reference(Scenario)
    assert page.count("`q`") == 1
    assert "The same as [above](#key-algorithm-async-hfl-staleness)." in page


def test_headings_are_what_stands_in_a_file():
    page = reference(Scenario)
    for heading in ("## `[run]`", "#### `[algorithm.staleness]`", "`[compute.classes.NAME]`"):
        assert heading in page
    assert "## `[[variants]]`" in reference(Study)


def test_anchors_are_unique_and_links_lead_to_them(told):
    anchors = re.findall(r"^\((.*)\)=$", told[1], re.M)
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\]\(#([^)]*)\)", told[1])) <= set(anchors)
