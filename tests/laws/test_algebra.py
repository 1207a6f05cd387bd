"""Losses add like numbers, and an expression is the same value however it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from laws.strategies import LEAVES, few, leaf, quick_losses, total

DELTA = 1e-6


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data(), times=st.integers(2, 5))
@few
def test_n_times_a_loss_is_the_loss_added_n_times(name: str, data: st.DataObject, times: int) -> None:
    """The law that catches a forgotten count."""
    a = data.draw(leaf(name))
    product, repeated = times * a, total([a] * times)
    assert product == repeated
    assert hash(product) == hash(repeated)
    assert product.to_json() == repeated.to_json()


@pytest.mark.parametrize("name", ["pure_dp", "randomized_response", "discrete_laplace", "gaussian", "zcdp"])
@given(data=st.data(), times=st.integers(2, 6))
def test_counts_are_not_forgotten_when_read(name: str, data: st.DataObject, times: int) -> None:
    a = data.draw(leaf(name))
    product = times * a
    assert product.epsilon(delta=DELTA) == total([a] * times).epsilon(delta=DELTA)
    assert product.delta_bounds(epsilon=0.0).upper >= a.delta_bounds(epsilon=0.0).lower
    once = a.epsilon_bounds(delta=DELTA).upper
    assert product.epsilon(delta=DELTA) >= a.epsilon_bounds(delta=DELTA).lower
    assert once == 0 or product.epsilon(delta=DELTA) > a.epsilon_bounds(delta=DELTA).lower


@given(a=quick_losses(), b=quick_losses())
def test_addition_commutes(a: ts.PrivacyLoss, b: ts.PrivacyLoss) -> None:
    assert a + b == b + a
    assert hash(a + b) == hash(b + a)
    assert (a + b).to_json() == (b + a).to_json()


@given(a=quick_losses(), b=quick_losses(), c=quick_losses())
def test_addition_is_associative(a: ts.PrivacyLoss, b: ts.PrivacyLoss, c: ts.PrivacyLoss) -> None:
    assert (a + b) + c == a + (b + c)


@given(a=quick_losses())
def test_no_loss_and_zero_copies_change_nothing(a: ts.PrivacyLoss) -> None:
    assert a + ts.no_loss() == a
    assert a + 0 * a == a
    assert sum([a]) == a
    assert (0 * a).epsilon(delta=0.0) == 0.0
    assert (0 * a).delta(epsilon=0.0) == 0.0


@pytest.mark.parametrize("name", LEAVES)
@given(data=st.data(), times=st.integers(1, 10**9))
@few
def test_json_brings_back_the_same_loss(name: str, data: st.DataObject, times: int) -> None:
    loss = times * data.draw(leaf(name))
    back = ts.PrivacyLoss.from_json(loss.to_json())
    assert back == loss
    assert hash(back) == hash(loss)
    assert back.to_json() == loss.to_json()
    assert back.adjacency is loss.adjacency


@given(a=quick_losses(), b=quick_losses())
@few
def test_json_brings_back_the_same_numbers(a: ts.PrivacyLoss, b: ts.PrivacyLoss) -> None:
    loss = a + b
    assert ts.PrivacyLoss.from_json(loss.to_json()).epsilon(delta=1e-3) == loss.epsilon(delta=1e-3)


@given(a=quick_losses(), b=quick_losses())
def test_adding_a_loss_never_lowers_delta(a: ts.PrivacyLoss, b: ts.PrivacyLoss) -> None:
    assert (a + b).delta_bounds(epsilon=0.5).upper >= a.delta_bounds(epsilon=0.5).lower


def test_unlike_adjacencies_do_not_add() -> None:
    replace = ts.gaussian(sigma=1, adjacency=ts.Adjacency.REPLACE)
    with pytest.raises(ts.errors.AdjacencyMismatch, match="as_replace"):
        ts.gaussian(sigma=1) + replace
    with pytest.raises(ts.errors.AdjacencyMismatch):
        ts.randomized_response(epsilon=1) + ts.pure_dp(epsilon=1)


def test_unlike_units_do_not_add() -> None:
    with pytest.raises(ts.errors.UnitMismatch):
        ts.gaussian(sigma=1, unit="patient") + ts.gaussian(sigma=1, unit="visit")
    assert (ts.gaussian(sigma=1, unit="patient") + ts.gaussian(sigma=1)).unit == "patient"
