"""Small groups: readers see intervals of counts cut at 0, and a mean has a value only where its count excludes 0."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.tables.estimates import Estimate, Noisy, cut_at_zero, plain, ratio
from tallystick.tables.layout import layout
from tallystick.tables.parts import Rows
from tallystick.tables.release import Release, answer_of

LAW = DiscreteGaussian(10.0)


def noisy(*values: int) -> Noisy:
    return Noisy(np.array(values, dtype=np.int64)[:, None], LAW, 1.0)


def test_the_interval_of_a_count_is_cut_at_zero_for_readers_and_its_value_is_as_drawn() -> None:
    uncut = plain(noisy(-40, -3, 5, 90), 0.95)
    assert uncut.lower.tolist() == [-60.0, -23.0, -15.0, 70.0]
    assert uncut.upper.tolist() == [-20.0, 17.0, 25.0, 110.0]
    assert cut(uncut) == [(0.0, 20.0), (0.0, 20.0), (0.0, 25.0), (70.0, 110.0)]


@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_the_cut_interval_of_a_count_holds_it_as_often_as_the_uncut_one(count: int) -> None:
    k = np.arange(-100, 101)
    chance = np.exp(-(k**2) / 200.0)
    chance /= chance.sum()
    found = cut(plain(noisy(*(count + k).tolist()), 0.95))
    held = np.array([low <= count <= high for low, high in found])
    assert float(chance[held].sum()) >= 0.95


def cut(found: Estimate) -> list[tuple[float, float]]:
    """The interval of each cell, as a reader sees it."""
    return [cut_at_zero(*cell) for cell in zip(found.value, found.lower, found.upper, strict=True)]


def test_only_readers_see_the_cut_interval_of_a_count() -> None:
    found = released(-40, 900)
    half = found.data["n_upper"][1] - 900
    assert 1 <= half < 40
    assert found.data["n_lower"] == [-40 - half, 900 - half]
    assert found.to_csv().splitlines()[1] == f"a,-40,{-40 - half},{-40 + half}"
    assert json.loads(found.to_json())["rows"][0]["n_lower"] == -40 - half
    assert [line.split() for line in found.lines()[:2]] == [["g", "n", f"±{half}"], ["a", "-40"]]
    assert found.bars()[0]["lower"] == [0, 900 - half]
    assert found.bars()[0]["upper"] == [half, 900 + half]
    assert f">{-40 - half}<" not in found.html()
    uneven = {**found.data, "n_upper": [-40 + half, 901 + half]}  # no one error for all groups
    [_, shown] = layout(uneven, found.groups, found.counts)
    assert shown.cells == [f"-40 (0 to {half})", f"900 ({900 - half} to {901 + half})"]


def released(*counts: int) -> Release:
    """A table with these noisy counts."""
    people = ts.Private(pa.table({"u": [1], "g": ["a"]})).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = people.group_by("g", keys=["a", "b"]).agg(n=ts.count()).plan(rho=0.5)
    counting, *others = plan.noises
    assert counting.part == Rows()
    numbers = [[[count] for count in counts], *([[0] * noise.part.width] for noise in others)]
    return Release(plan, answer_of(plan, None, numbers))


def test_a_mean_has_no_value_and_the_whole_bounds_where_its_count_does_not_exclude_zero() -> None:
    """It is decided from the released count alone: 20 with noise 10 may be 0, 21 may not."""
    found = ratio(noisy(9, 9, 9, 9), noisy(-5, 0, 20, 21), 50.0, 0.95)
    assert np.isnan(found.value).tolist() == [True, True, True, False]
    assert found.lower.tolist()[:3] == [0.0, 0.0, 0.0]
    assert found.upper.tolist()[:3] == [50.0, 50.0, 50.0]
    assert found.value[3] == pytest.approx(9 / 21)
    assert plain(noisy(21), 0.95).lower[0] > 0.0
    assert plain(noisy(20), 0.95).lower[0] == 0.0
