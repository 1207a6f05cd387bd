"""Noise that pushes a number out of its range leaves an interval as wide as the noise; no possible value is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.tables.estimates import Estimate, Noisy, ratio
from tallystick.tables.plan import Plan
from unit.tables.tables import awkward, numbers_of

LOW, HIGH = -30.0, 70.0


def _plan(**measures: Any) -> Plan:
    visits = ts.Private(awkward()).table(unit="pid").per_unit(max_rows_per_group=3)
    return visits.agg(**measures).plan(rho=0.5)


@pytest.mark.parametrize("off", [-40.0, -4.0, -2.5, 40.0, 200.0])
def test_a_mean_that_noise_pushed_beyond_a_bound_is_as_uncertain_as_the_noise(off: float) -> None:
    plan = _plan(late=ts.mean("cost", LOW, HIGH))
    rows = 300.0 if off < 0 else 5 * _deviation(plan, "present")
    numbers = numbers_of(plan, rows, total=off)
    [estimate] = plan.query.measures[0][1].read(numbers, 0.95)
    assert estimate.value[0] == (LOW if off < 0 else HIGH)
    width = float(estimate.upper[0] - estimate.lower[0])
    assert width >= 1.9 * _deviation(plan, "total") / rows
    assert LOW <= estimate.lower[0] <= estimate.value[0] <= estimate.upper[0] <= HIGH


def _deviation(plan: Plan, kind: str) -> float:
    [noise] = [noise for noise in plan.noises if noise.part.kind == kind]
    return float(noise.law.variance**0.5 * noise.part.scale)


def test_reading_a_total_as_the_end_of_its_range_loses_no_mean_that_the_noise_allows() -> None:
    plan = _plan(late=ts.mean("cost", LOW, HIGH))
    [total, present] = [
        Noisy(np.array([[0]]), noise.law, noise.part.scale)
        for noise in plan.noises
        if noise.part.kind in ("total", "present")
    ]
    most, z, random = HIGH - LOW, total.law.deviations(0.95), np.random.default_rng(3)
    tops = random.uniform(-6, 12, 2000) * total.deviation / total.scale
    bottoms = random.uniform(-2, 6, 2000) * present.deviation / present.scale
    top = Noisy(np.rint(tops)[:, None].astype(np.int64), total.law, total.scale)
    bottom = Noisy(np.rint(bottoms)[:, None].astype(np.int64), present.law, present.scale)
    found = ratio(top, bottom, most, 0.95)
    for r in np.linspace(0.0, most, 101):
        allowed = np.abs(top.column - r * bottom.column) <= z * np.hypot(top.deviation, r * bottom.deviation)
        held = (found.lower <= r + 1e-9) & (r - 1e-9 <= found.upper)
        assert not np.any(allowed & (bottom.column > 0) & ~held)
    assert np.all(found.upper > found.lower)


def test_a_variance_of_numbers_that_contradict_each_other_is_all_of_its_range() -> None:
    plan = _plan(spread=ts.variance("cost", 0, 10))
    rows = 100 * _deviation(plan, "present")
    numbers = numbers_of(plan, rows, squares=-5.0)
    [total] = [part for part in numbers if part.kind == "total"]
    numbers[total] = Noisy(np.array([[round(9 * rows / total.scale)]]), numbers[total].law, total.scale)
    [estimate] = plan.query.measures[0][1].read(numbers, 0.95)
    assert (estimate.value[0], estimate.lower[0], estimate.upper[0]) == (0.0, 0.0, 25.0)
    narrow = Estimate(*(np.array([end]) for end in (4.0, 3.0, 5.0))).clipped(0.0, 25.0)
    assert (narrow.lower[0], narrow.upper[0]) == (3.0, 5.0)
