"""The grid of a study: keys of the scenario and their values, over which variants are laid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from typing import Any

from simulator.scenario import laid_over


def points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations; the last key changes fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def suffix(point: dict[str, Any]) -> str:
    """What a variant's name ends with there."""
    return "".join(f", {key.rpartition('.')[2]} {value}" for key, value in point.items())


def check_grid(grid: dict[str, list[Any]]) -> None:
    for key, values in grid.items():
        if "." not in key:
            example = '"training.learning_rate" = [0.01, 0.1]'
            raise ValueError(f"grid.{key}: must name section and key, as {example}")
        if not values:
            raise ValueError(f'grid."{key}": an empty list; give it values, or take it out')
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f'grid."{key}": {value} is given twice')


def check_axis(key: str, values: Sequence[Any]) -> None:
    """Now, and not when all is run and sweep.png is drawn."""
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < inf):
            raise ValueError(
                f'sweep draws over grid."{key}" on a logarithmic axis, and {value!r} is no number '
                "above 0; take sweep or that value out"
            )


def may_be_moved(variant: Any) -> bool:
    """Whether it has what a point of the grid is added to, of the right types."""
    if not isinstance(variant, dict) or not isinstance(variant.get("change", {}), dict):
        return False
    return bool(variant.get("name")) and isinstance(variant["name"], str)


def at(variant: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    change = variant.get("change", {})
    for key, value in point.items():
        nested: Any = value
        for part in reversed(key.split(".")):
            nested = {part: nested}
        change = laid_over(change, nested)
    return variant | {"name": variant["name"] + suffix(point), "change": change}
