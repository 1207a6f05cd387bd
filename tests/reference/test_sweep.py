"""Three hundred random compositions with the oracle's truth stored: no bound may be on the wrong side.

The cases were drawn by benchmarks/accounting/sweep.py (``make campaign-accounting`` draws ten thousand new ones).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from reference.expressions import loss_of
from sweeps import share

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("sweep_cases.json").read_text())
PARTS = 12


def several_bounded_range_steps(terms: list[dict[str, Any]]) -> bool:
    """Then the oracle's composed hull is itself only an upper bound."""
    return any(t["leaf"] == "exponential" for t in terms) and sum(t["count"] for t in terms) > 1


def complaint(case: dict[str, Any]) -> str | None:
    """What is wrong with our answer to this case, or None."""
    loss, at, truth = loss_of(case["terms"]), float(case["at"]), float(case["truth"])
    if case["read"] == "epsilon":
        bounds, single = loss.epsilon_bounds(delta=at), loss.epsilon(delta=at)
    else:
        bounds, single = loss.delta_bounds(epsilon=at), loss.delta(epsilon=at)
    slack = truth * (2 * case["error"] + 5e-16)
    if math.isnan(bounds.lower) or math.isnan(bounds.upper) or math.isnan(single):
        return "not a number"
    if bounds.lower > truth + slack:
        return f"lower bound {bounds.lower!r} above the truth {truth!r}"
    if not several_bounded_range_steps(case["terms"]) and min(bounds.upper, single) < truth - slack:
        return f"upper bound {min(bounds.upper, single)!r} below the truth {truth!r}"
    return None


def test_there_are_three_hundred_cases_of_every_leaf() -> None:
    assert len(CASES) == 300
    assert len({term["leaf"] for case in CASES for term in case["terms"]}) == 10


@pytest.mark.parametrize("part", share(range(PARTS), 3))
def test_no_random_composition_is_on_the_wrong_side(part: int) -> None:
    complaints = {json.dumps(case): complaint(case) for case in CASES[part::PARTS]}
    assert not {case: why for case, why in complaints.items() if why is not None}
