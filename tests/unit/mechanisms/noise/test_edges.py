"""At the edge of the lattice a noisy number says nothing about how large the value was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tallystick as ts

SURE = 1 - 1e-12


@pytest.mark.parametrize(
    ("mechanism", "value"),
    [
        (ts.noise.add_laplace(scale=1, sensitivity=1), 5e12),
        (ts.noise.add_gaussian(sigma=1, sensitivity=1), 1e14),
        (ts.noise.add_discrete_laplace(scale=1, sensitivity=1), 2**70),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_at_the_edge_is_open(mechanism: Any, value: float, sign: int) -> None:
    low, high = mechanism.interval(mechanism.release(sign * value), confidence=SURE)
    assert low <= sign * value <= high
    assert math.isinf(high if sign > 0 else low)
    low, high = mechanism.interval(mechanism.release(sign * 1000))
    assert math.isfinite(low)
    assert math.isfinite(high)


def test_an_array_is_open_where_it_reaches_the_edge() -> None:
    mechanism = ts.noise.add_laplace(scale=1, sensitivity=1)
    edge = mechanism.release(5e12)
    low, high = mechanism.interval(np.array([0.0, edge]), confidence=SURE)
    assert np.isfinite(low).all()
    assert np.isinf(high).tolist() == [False, True]
