"""Sampling: numbers, pairs and the subsampling operator, against enumeration of all samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import PiecewiseTradeoff
from unit.theorems import brute

GRID = np.linspace(0, 1, 101)


@given(st.floats(0, 8), st.floats(0, 1), st.sampled_from([0.0, 1e-5, 0.1]))
def test_the_amplified_numbers_are_the_closed_form_rounded_up(epsilon, rate, delta):
    found, found_delta = theorems.amplified(epsilon=epsilon, rate=rate, delta=delta)
    exact = math.log1p(rate * math.expm1(epsilon))
    assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-11) + 1e-14
    assert rate * delta <= found_delta <= rate * delta * (1 + 1e-11)


@given(brute.pairs(), st.floats(0, 2), st.floats(0, 1))
def test_sampling_an_approximate_pair_is_amplified_in_both_directions(pair, epsilon, rate):
    without, present = pair
    delta = max(brute.hockey(without, present, epsilon), brute.hockey(present, without, epsilon))
    small, small_delta = theorems.amplified(epsilon=epsilon, rate=rate, delta=min(1.0, delta))
    for p, q in theorems.poisson_pairs(without, present, rate=rate):
        assert brute.hockey(p, q, small) <= small_delta + 1e-12


def poisson_mechanism(records, rate, mechanism):
    """The law of mechanism(sample), summing over every sample."""
    law = None
    for kept in itertools.product([0, 1], repeat=len(records)):
        weight = math.prod(rate if keep else 1 - rate for keep in kept)
        part = weight * mechanism([r for r, keep in zip(records, kept, strict=True) if keep])
        law = part if law is None else law + part
    return law


def noisy_parity(sample):
    """A mechanism with an asymmetric pair: a sample with a 1 in it leaks, one without says nothing."""
    return np.array([0.5, 0.5]) if 1 in sample else np.array([1.0, 0.0])


def test_the_pairs_dominate_a_real_mechanism_summed_over_all_samples():
    rate = 0.3
    without, present = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    remove, add = theorems.poisson_pairs(without, present, rate=rate)
    for base in ([], [0], [0, 0], [1], [0, 1]):
        with_record = poisson_mechanism([*base, 1], rate, noisy_parity)
        without_record = poisson_mechanism(base, rate, noisy_parity)
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            assert brute.hockey(with_record, without_record, epsilon) <= brute.hockey(*remove, epsilon) + 1e-12
            assert brute.hockey(without_record, with_record, epsilon) <= brute.hockey(*add, epsilon) + 1e-12


def test_the_three_numbers_of_a_sampled_one_dp_mechanism_increase():
    for rate in (0.0, 0.01, 0.3, 1.0):
        exact, linear, doubled = theorems.amplified_one_dp(rate=rate)
        assert math.log1p(rate * (math.e - 1)) <= exact * (1 + 1e-12)
        assert exact <= linear * (1 + 1e-9)
        assert linear <= doubled * (1 + 1e-9)


@given(st.floats(0.001, 3), st.floats(0.1, 30))
def test_the_rate_for_a_target_reaches_it_and_is_at_least_the_remark(epsilon, base):
    rate = theorems.sampling_rate_for(epsilon=epsilon, base_epsilon=base)
    assert theorems.amplified(epsilon=base, rate=rate)[0] <= epsilon * (1 + 1e-9)
    assert rate >= min(1.0, epsilon * math.exp(-base)) * (1 - 1e-9)


@given(st.floats(0.001, 3), st.floats(0.001, 1))
def test_the_base_for_a_rate_reaches_the_target(epsilon, rate):
    base = theorems.base_epsilon_for(epsilon=epsilon, rate=rate)
    assert theorems.amplified(epsilon=base, rate=rate)[0] == pytest.approx(epsilon, rel=1e-9)


def subset_law(records, batch, mechanism):
    samples = list(itertools.combinations(records, batch))
    return sum(mechanism(list(sample)) for sample in samples) / len(samples)


def response(sample, keep=0.8):
    """Randomised sum of three bits: symmetric enough to have a pure epsilon under replace."""
    total = sum(sample)
    law = np.full(4, (1 - keep) / 3)
    law[total] = keep
    return law


@pytest.mark.parametrize(("batch", "population"), [(1, 3), (2, 3), (2, 4)])
def test_the_subsampling_operator_holds_for_all_replace_neighbours(batch, population):
    f = PiecewiseTradeoff.identity()
    for sample in itertools.product([0, 1], repeat=batch):
        for i in range(batch):
            other = [*sample]
            other[i] = 1 - other[i]
            f = theorems.hull_of_min(f, PiecewiseTradeoff.of_pair(response(sample), response(other)))
    bound = theorems.subsampling_operator(f, rate=batch / population)
    for records in itertools.product([0, 1], repeat=population):
        for i in range(population):
            other = [*records]
            other[i] = 1 - other[i]
            law, moved = subset_law(records, batch, response), subset_law(other, batch, response)
            assert np.all(PiecewiseTradeoff.of_pair(law, moved)(GRID) >= bound(GRID) - 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate"), [(1.0, 0.0, 0.2), (1.0, 0.05, 0.3), (2.0, 0.01, 0.5), (0.5, 0.2, 1.0)]
)
def test_the_closed_form_of_the_operator_is_the_operator(epsilon, delta, rate):
    numeric = theorems.subsampling_operator(PiecewiseTradeoff.of_approx_dp(epsilon=epsilon, delta=delta), rate=rate)
    closed = [theorems.subsampled_approx_tradeoff(alpha=a, epsilon=epsilon, delta=delta, rate=rate) for a in GRID]
    assert np.max(np.abs(numeric(GRID) - closed)) <= 1e-9


def test_subset_pairs_use_the_larger_data_set():
    remove, add = theorems.subset_pairs([1.0, 0.0], [0.5, 0.5], batch=2, larger_population=5)
    assert remove[0] == pytest.approx([0.8, 0.2])
    assert add[1] == pytest.approx([0.8, 0.2])
    with pytest.raises(InvalidInput):
        theorems.subset_pairs([1.0, 0.0], [0.5, 0.5], batch=6, larger_population=5)


@given(brute.pairs(most=3), st.floats(0, 1), st.floats(0, 2))
def test_the_worse_direction_counts(pair, rate, epsilon):
    pairs = theorems.poisson_pairs(*pair, rate=rate)
    worst = max(brute.hockey(*p, epsilon) for p in pairs)
    assert theorems.composed_directions_delta(pairs, epsilon=epsilon) == pytest.approx(worst, abs=1e-9)


def test_a_secret_sample_is_worth_its_share_and_a_sample_of_everybody_nothing():
    assert theorems.survey_amplified(epsilon=1.0, sample=10, population=1000, delta=1e-5) == theorems.amplified(
        epsilon=1.0, rate=0.01, delta=1e-5
    )
    assert theorems.survey_amplified(epsilon=1.0, sample=7, population=7)[0] == pytest.approx(1.0)
    with pytest.raises(InvalidInput, match="population"):
        theorems.survey_amplified(epsilon=1.0, sample=8, population=7)


def test_a_composition_that_cannot_be_counted_is_refused():
    pair = ([0.2] * 5, [0.2] * 5)
    with pytest.raises(InvalidInput, match="counted"):
        theorems.composed_directions_delta([pair], epsilon=0.1, steps=500)
