"""Reading what others have written: nothing is trusted, nothing is guessed."""

from __future__ import annotations

import json
import math
from pathlib import Path

from simulator.errors import UserError


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def read_json(path: Path) -> object:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: line {error.lineno} column {error.colno}: not JSON ({error.msg})"
        ) from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply to be read") from None


def number(value: object) -> float | None:
    """A finite number, else None; true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def text(value: object) -> str | None:
    """A text or a whole number with something in it, else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**18 else None
    return value.strip() or None if isinstance(value, str) else None


def degrees(value: object) -> tuple[float, float, float | None] | None:
    """Longitude, latitude and altitude (None if absent) from a list, else None."""
    if not isinstance(value, list | tuple) or len(value) < 2:
        return None
    longitude, latitude = number(value[0]), number(value[1])
    if longitude is None or latitude is None:
        return None
    if not (-180 <= longitude <= 180 and -90 <= latitude <= 90):
        return None
    return longitude, latitude, number(value[2]) if len(value) > 2 else None
