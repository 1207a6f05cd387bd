"""Small groups: intervals of counts are cut at 0, and a mean has a value only where its count excludes 0."""

from __future__ import annotations

import numpy as np
import pytest

from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.tables.estimates import Noisy, counted, plain, ratio

LAW = DiscreteGaussian(10.0)


def noisy(*values: int) -> Noisy:
    return Noisy(np.array(values, dtype=np.int64)[:, None], LAW, 1.0)


def test_the_interval_of_a_count_is_cut_at_zero_and_its_value_is_as_drawn() -> None:
    found, uncut = counted(noisy(-40, -3, 5, 90), 0.95), plain(noisy(-40, -3, 5, 90), 0.95)
    assert found.value.tolist() == [-40.0, -3.0, 5.0, 90.0]
    assert found.lower.tolist() == [0.0, 0.0, 0.0, 70.0]
    assert found.upper.tolist() == [20.0, 20.0, 25.0, 110.0]
    assert uncut.lower.tolist() == [-60.0, -23.0, -15.0, 70.0]


@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_the_cut_interval_of_a_count_holds_it_as_often_as_the_uncut_one(count: int) -> None:
    k = np.arange(-100, 101)
    chance = np.exp(-(k**2) / 200.0)
    chance /= chance.sum()
    found = counted(noisy(*(count + k).tolist()), 0.95)
    held = (found.lower <= count) & (count <= found.upper)
    assert float(chance[held].sum()) >= 0.95


def test_a_mean_has_no_value_and_the_whole_bounds_where_its_count_does_not_exclude_zero() -> None:
    """It is decided from the released count alone: 20 with noise 10 may be 0, 21 may not."""
    found = ratio(noisy(9, 9, 9, 9), noisy(-5, 0, 20, 21), 50.0, 0.95)
    assert np.isnan(found.value).tolist() == [True, True, True, False]
    assert found.lower.tolist()[:3] == [0.0, 0.0, 0.0]
    assert found.upper.tolist()[:3] == [50.0, 50.0, 50.0]
    assert found.value[3] == pytest.approx(9 / 21)
    assert counted(noisy(21), 0.95).lower[0] > 0.0
    assert counted(noisy(20), 0.95).lower[0] == 0.0
