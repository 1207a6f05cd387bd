"""A loss in words: every number comes from the trade-off curve and errs towards the attacker."""

from __future__ import annotations

import math

import pytest

import tallystick as ts
from tallystick.cards import meaning
from tallystick.cards.meaning import _frequencies


@pytest.mark.parametrize(
    ("epsilon", "odds", "belief", "accuracy"),
    [(0.1, 1.105, 0.01104, 0.525), (1, 2.718, 0.02673, 0.7311), (8, 2980.96, 0.9679, 0.99966)],
)
def test_pure_losses_have_their_textbook_meaning(epsilon: float, odds: float, belief: float, accuracy: float) -> None:
    found = meaning(ts.pure_dp(epsilon=epsilon))
    assert found.odds_factor == pytest.approx(odds, rel=1e-3)
    assert found.beliefs[0.01] == pytest.approx(belief, rel=1e-3)
    assert found.guess_accuracy == pytest.approx(accuracy, rel=1e-3)
    assert (found.delta, found.exceptions) == (0.0, 0.0)
    assert found.false_alarm == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-3)


def test_nothing_released_leaves_an_attacker_with_a_coin() -> None:
    found = meaning(ts.no_loss())
    assert "about 50 of 100" in found.plain_sentence
    assert found.odds_factor == 1
    assert found.beliefs[0.01] == pytest.approx(0.01)
    assert found.hit_rates[0.01] == pytest.approx(0.01)


def test_the_even_handed_test_of_a_gaussian_is_the_known_one() -> None:
    # For mu = 1 the even-handed test errs with probability Phi(-1/2) on either side.
    found = meaning(ts.gdp(mu=1))
    assert found.false_alarm == pytest.approx(0.3085375387259869, abs=1e-4)
    assert found.false_alarm <= 0.3085375387259869  # rounded towards the attacker
    assert found.guess_accuracy == pytest.approx(1 - 0.3085375387259869, rel=1e-9)


def test_an_unbounded_loss_sets_rare_results_apart_and_says_so() -> None:
    found = meaning(ts.gdp(mu=1))
    assert found.exceptions > 0
    assert found.delta > 0
    assert found.beliefs[0.01] < 1


def test_more_loss_never_means_less_for_the_attacker() -> None:
    small, large = (meaning(n * ts.gaussian(sigma=5)) for n in (1, 10))
    assert large.hit > small.hit
    assert all(large.hit_rates[alpha] > small.hit_rates[alpha] for alpha in small.hit_rates)
    assert all(large.beliefs[prior] > small.beliefs[prior] for prior in small.beliefs)


@pytest.mark.parametrize(
    ("false_alarm", "hit", "said"),
    [
        (0.27, 0.73, ("27", "73", "100")),
        (0.0003, 0.9997, ("3", "9,997", "10,000")),
        (0.5, 0.5, ("50", "50", "100")),
        (1e-12, 1 - 1e-12, ("fewer than 1", "all", "1,000,000")),
    ],
)
def test_frequencies_never_round_an_error_away(false_alarm: float, hit: float, said: tuple[str, str, str]) -> None:
    assert _frequencies(false_alarm, hit) == said
