"""A loss in words: every number comes from the trade-off curve and errs towards the attacker."""

from __future__ import annotations

import math

import pytest

import tallystick as ts
from tallystick.cards import meaning
from tallystick.cards.meaning import frequencies


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


SUBJECTS = {
    (None, "add_remove", 1): "If you are not in the data, {} you are. If you are, {}",
    ("patient", "add_remove", 1): "If you are not in the data, {} you are. If you are, {}",
    ("aircraft", "add_remove", 1): "If one aircraft is not in the data, {} it is. If it is, {}",
    (None, "replace", 1): "If one version of your data is used, {} the other. If the other is used, {}",
    ("patient", "replace", 1): "If one version of your data is used, {} the other. If the other is used, {}",
    (
        "aircraft",
        "replace",
        1,
    ): "If one version of the data of one aircraft is used, {} the other. If the other is used, {}",
    ("patient", "add_remove", 2): "If you and 1 other are not in the data, {} you all are. If you all are, {}",
    (None, "add_remove", 3): "If you and 2 others are not in the data, {} you all are. If you all are, {}",
    ("ship", "add_remove", 3): "If a group of 3 ships is not in the data, {} it is. If it is, {}",
    (
        None,
        "replace",
        3,
    ): "If one version of the data of you and 2 others is used, {} the other. If the other is used, {}",
    (
        "ship",
        "replace",
        3,
    ): "If one version of the data of a group of 3 ships is used, {} the other. If the other is used, {}",
}


@pytest.mark.parametrize(("unit", "adjacency", "group"), SUBJECTS)
def test_the_sentence_is_about_whom_the_loss_protects(unit: str | None, adjacency: str, group: int) -> None:
    """It was about you, in the data or not, also where an aircraft is replaced."""
    found = meaning(ts.gdp(mu=1 / group, adjacency=adjacency, unit=unit).for_groups(group))
    verb = "say" if adjacency == "replace" else "think"
    thinks = f"about 31 of 100 possible results make the best attacker {verb}"
    assert found.plain_sentence == SUBJECTS[unit, adjacency, group].format(thinks, "about 69 of 100 do.")
    assert found.to_dict()["sentence"] == found.plain_sentence


def test_a_unit_known_from_elsewhere_is_spoken_of_where_the_loss_names_none() -> None:
    assert "one ship" in meaning(ts.pure_dp(epsilon=1), unit="ship").plain_sentence
    assert "one port" in meaning(ts.pure_dp(epsilon=1, unit="port"), unit="ship").plain_sentence


@pytest.mark.parametrize(
    ("false_alarm", "hit", "said"),
    [
        (0.27, 0.73, ("27", "73", "100")),
        (0.0003, 0.9997, ("3", "9,997", "10,000")),
        (0.5, 0.5, ("50", "50", "100")),
        (1e-12, 1 - 1e-12, ("fewer than 1", "all", "1,000,000")),
    ],
)
def testfrequencies_never_round_an_error_away(false_alarm: float, hit: float, said: tuple[str, str, str]) -> None:
    assert frequencies(false_alarm, hit) == said
