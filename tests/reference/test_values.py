"""Stored truths of the oracle (values.json, written by make_values.py) must lie inside what tallystick certifies."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from reference.expressions import loss_of

STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("values.json").read_text())
SLACK = 1e-4  # relative excess allowed of a certified upper bound; issue 3 tightens it to 1e-6


def truth(record: dict[str, Any]) -> tuple[float, float]:
    """The epsilon of the worse direction, and the oracle's own absolute error (plus one rounding)."""
    best, error = 0.0, 0.0
    for direction in ("remove", "add"):
        value = float(record[direction])
        if value >= best:
            best, error = value, value * (record[f"{direction}_error"] + 2.3e-16) if math.isfinite(value) else 0.0
    return best, error


def hull_only(terms: list[dict[str, Any]]) -> bool:
    return any(t["leaf"] == "exponential" for t in terms) and sum(t["count"] for t in terms) > 1


def test_at_least_forty_values_are_stored_to_ten_digits() -> None:
    assert len(STORED) >= 40
    assert all(max(r["remove_error"], r["add_error"]) < 1e-12 for r in STORED.values())


@pytest.mark.parametrize("name", STORED)
def test_epsilon_encloses_the_stored_truth(name: str) -> None:
    record = STORED[name]
    value, error = truth(record)
    loss, delta = loss_of(record["terms"]), float(record["delta"])
    bounds = loss.epsilon_bounds(delta=delta)
    if hull_only(record["terms"]):  # several bounded-range steps: the composed hull is a bound, and ours may be better
        assert bounds.lower <= value
        assert loss.epsilon(delta=delta) <= value * (1 + SLACK)
        return
    assert bounds.lower <= value + error, f"lower bound {bounds.lower!r} is above the truth {value!r}"
    assert bounds.upper >= value - error, f"upper bound {bounds.upper!r} is below the truth {value!r}"
    single = loss.epsilon(delta=delta)
    assert single >= value - error
    if math.isfinite(value):
        assert single <= value * (1 + SLACK)


def test_sampling_is_read_in_both_directions() -> None:
    """The stored sets hold the asymmetry: REMOVE is the worse one for sampled Gaussians, by more than any tolerance."""
    sampled = [r for r in STORED.values() if any("rate" in t for t in r["terms"])]
    assert sum(float(r["remove"]) > 1.001 * float(r["add"]) for r in sampled) >= 10
