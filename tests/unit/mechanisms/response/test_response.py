"""Local privacy: laws, unbiased estimates, variances, intervals, interaction."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tallystick import theorems
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import BudgetExceeded, InvalidInput
from tallystick.mechanisms import response
from tallystick.mechanisms.response import rates
from tallystick.mechanisms.response.choices import RandomizedResponse, UnaryEncoding
from tallystick.mechanisms.response.estimates import from_ones, mean_laplace_width
from tallystick.mechanisms.response.interactive import in_turn, protocol
from tallystick.mechanisms.response.numbers import LocalLaplace
from tallystick.mechanisms.select.candidates import exponential
from unit.mechanisms.coverage import ENUMERATION, INTERVAL, checks
from unit.mechanisms.neighbours import holds, log_ratio, refuses

EPSILONS = [0.1, 1.0, 3.0]


def response_law(mechanism, truth: int) -> np.ndarray:
    law = np.full(len(mechanism.choices), mechanism.lie_probability)
    law[truth] = mechanism.truth_probability
    return law


@checks(ENUMERATION, RandomizedResponse)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("choices", [2, 3, 7])
def test_randomized_response_keeps_its_price_and_attains_it(epsilon: float, choices: int) -> None:
    mechanism = response.randomize(epsilon=epsilon, choices=choices)
    laws = [response_law(mechanism, t) for t in range(choices)]
    assert laws[0].sum() == pytest.approx(1)
    pairs = list(itertools.permutations(laws, 2))
    assert holds(mechanism.privacy, pairs, scale=epsilon)
    assert log_ratio(pairs) == pytest.approx(epsilon)
    assert mechanism.privacy.adjacency is Adjacency.REPLACE


def unary_law(mechanism, truth: int) -> np.ndarray:
    low = 1 / (math.exp(mechanism.epsilon) + 1)
    ones = np.full(len(mechanism.choices), low)
    ones[truth] = 0.5
    return np.array([np.prod(np.where(bits, ones, 1 - ones)) for bits in itertools.product((0, 1), repeat=ones.size)])


@checks(ENUMERATION, UnaryEncoding)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unary_encoding_keeps_its_price_which_is_better_than_pure(epsilon: float) -> None:
    mechanism = response.unary_encoding(epsilon=epsilon, choices=4)
    pairs = list(itertools.permutations([unary_law(mechanism, t) for t in range(4)], 2))
    assert holds(mechanism.privacy, pairs, scale=epsilon)
    assert log_ratio(pairs) == pytest.approx(epsilon)
    half = float(mechanism.privacy.delta(epsilon=0.0))
    assert half == pytest.approx(math.tanh(epsilon / 2) / 2, rel=1e-6)


def test_the_variance_of_a_yes_no_share_is_the_notes_formula() -> None:
    for epsilon, share in itertools.product(EPSILONS, (0.0, 0.3, 1.0)):
        e = math.exp(epsilon)
        expected = (e / (e - 1) ** 2 + share * (1 - share)) / 100
        assert response.randomize(epsilon=epsilon).variance(share=share, reports=100) == pytest.approx(expected)


def test_estimates_are_exactly_unbiased() -> None:
    for mechanism in (response.randomize(epsilon=0.7, choices=3), response.randomize(epsilon=2.0, choices=5)):
        for truth in range(len(mechanism.choices)):
            law = response_law(mechanism, truth)
            one_report = [mechanism.estimate([c]).values for c in mechanism.choices]
            assert law @ np.array(one_report) == pytest.approx(np.eye(len(law))[truth], abs=1e-12)


def test_unary_estimates_are_exactly_unbiased() -> None:
    mechanism = response.unary_encoding(epsilon=1.0, choices=3)
    rows = [np.array([bits], dtype=bool) for bits in itertools.product((0, 1), repeat=3)]
    values = np.array([mechanism.estimate(row).values for row in rows])
    for truth in range(3):
        assert unary_law(mechanism, truth) @ values == pytest.approx(np.eye(3)[truth], abs=1e-12)


@checks(INTERVAL, RandomizedResponse)
def test_intervals_cover_at_least_as_often_as_stated_by_exact_enumeration() -> None:
    from scipy.special import comb

    mechanism = response.randomize(epsilon=1.0)
    reports, share = 40, 0.35
    rate = mechanism.lie_probability + share * (mechanism.truth_probability - mechanism.lie_probability)
    covered = 0.0
    for ones in range(reports + 1):
        found = mechanism.estimate([1] * ones + [0] * (reports - ones), confidence=0.9)
        if found.lower[1] <= share <= found.upper[1]:
            covered += comb(reports, ones) * rate**ones * (1 - rate) ** (reports - ones)
    assert 0.9 <= covered < 0.97


def test_labels_go_in_and_come_out() -> None:
    survey = response.randomize(epsilon=30.0, choices=("yes", "no", "unsure"))
    assert survey.release(["no", "yes", "unsure"]) == ("no", "yes", "unsure")
    assert response.estimate(survey, ["no"] * 9 + ["yes"]).values.round(3).tolist() == [0.1, 0.9, 0.0]


def test_local_laplace_reports_lie_on_the_lattice_and_estimate_the_mean() -> None:
    mechanism = response.laplace(epsilon=1.0, bounds=(0, 10), granularity=0.5)
    answers = [2.0] * 5000 + [8.0] * 5000
    reports = mechanism.release(answers)
    assert (reports * 2 == np.round(reports * 2)).all()
    found = mechanism.estimate(reports, confidence=1 - 1e-9)
    assert found.lower[0] <= 5 <= found.upper[0]
    assert found.upper[0] - found.lower[0] < 3


@checks(ENUMERATION, LocalLaplace)
def test_local_laplace_keeps_its_price_across_the_whole_range() -> None:
    mechanism = response.laplace(epsilon=1.0, bounds=(0, 2), granularity=1.0)
    at = np.arange(-80, 83)
    laws = [np.exp(-np.abs(at - x) / mechanism.steps) * math.tanh(1 / (2 * mechanism.steps)) for x in range(3)]
    assert holds(mechanism.privacy, itertools.permutations(laws, 2))
    assert float(mechanism.privacy.epsilon(delta=0.0)) <= 1.0 + 1e-9


def test_the_chernoff_width_covers_a_mean_of_laplace_noise() -> None:
    noise = np.random.default_rng(0).laplace(size=(20_000, 25)).mean(axis=1)
    width = mean_laplace_width(1.0, reports=25, confidence=0.9)
    assert (np.abs(noise) <= width).mean() > 0.9
    assert width < 3 * math.sqrt(2 / 25) * 1.645


def test_all_and_no_reports_one_give_finite_intervals() -> None:
    for ones in (0, 10):
        found = from_ones(np.array([ones]), reports=10, if_true=0.75, if_false=0.25, confidence=0.95)
        assert 0 <= found.lower[0] <= found.upper[0] <= 1


def test_a_question_may_depend_on_earlier_reports_and_everyone_stays_within_epsilon() -> None:
    asked = []

    def question(seen):
        asked.append(len(seen))
        return response.randomize(epsilon=0.5 if len(seen) % 2 else 0.25)

    talk = in_turn([0, 1, 1, 0], question, epsilon=0.51)
    assert asked == [0, 1, 2, 3]
    assert max(talk.spent(person) for person in range(4)) <= 0.51
    assert talk.privacy.adjacency is Adjacency.REPLACE


def test_a_question_that_does_not_fit_is_refused_and_the_answer_not_used() -> None:
    talk = protocol(epsilon=1.0)
    talk.ask("ann", response.randomize(epsilon=0.7), [1])
    with pytest.raises(BudgetExceeded):
        talk.ask("ann", response.randomize(epsilon=0.7), [1])
    assert len(talk.transcript) == 1
    talk.ask("bob", response.randomize(epsilon=0.7), [0])


def test_a_central_mechanism_is_no_local_question() -> None:
    with pytest.raises(InvalidInput):
        protocol(epsilon=1.0).ask("ann", exponential(epsilon=0.1), [1.0])


def test_clamping_far_out_is_a_number() -> None:
    assert rates.local_clamp(count=10, epsilon=1e-200, moments=2) == 1.0
    assert rates.local_clamp(count=10, epsilon=1e200, moments=2) == pytest.approx(1e100 * 10**0.25)
    assert rates.local_clamp_error(count=10, epsilon=1e-200, moments=2) == math.inf


def test_clamping_attains_the_local_rate() -> None:
    for moments in (2, 3, 6):
        ratios = [
            rates.local_clamp_error(count=n, epsilon=0.5, moments=moments)
            / theorems.local_rate(people=n, epsilon=0.5, moments=moments)
            for n in (10**3, 10**5, 10**8)
        ]
        assert max(ratios) < 12


@pytest.mark.parametrize("value", [[], None, "yes", [2], [0, 5], [[0]], 3])
def test_bad_answers_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(response.randomize(epsilon=1.0), value)
    assert refuses(response.unary_encoding(epsilon=1.0, choices=2), value)


@pytest.mark.parametrize("choices", [1, 0, -2, True, "ab", ["a"], ["a", "a"], 10**9])
def test_bad_choices_are_refused(choices) -> None:
    with pytest.raises(InvalidInput):
        response.randomize(epsilon=1.0, choices=choices)


def test_too_many_bits_are_refused() -> None:
    mechanism = response.unary_encoding(epsilon=1.0, choices=1_000_000)
    assert refuses(mechanism, [0] * 401)


def test_noise_too_large_to_draw_is_refused_before_a_charge() -> None:
    with pytest.raises(InvalidInput, match="granularity"):
        response.laplace(epsilon=1e-12, bounds=(0, 1))


def test_bad_epsilon_and_moments_are_refused() -> None:
    for build in (
        lambda: response.randomize(epsilon=0.0),
        lambda: response.laplace(epsilon=-1.0, bounds=(0, 1)),
        lambda: rates.local_clamp(count=10, epsilon=1.0, moments=1.5),
        lambda: rates.open_mean_rate(count=0),
    ):
        with pytest.raises(InvalidInput):
            build()
