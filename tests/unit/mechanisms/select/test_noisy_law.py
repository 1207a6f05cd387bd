"""The exact law of a noisy maximum against draws and closed forms, and Lemma 2 for any symmetric noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tallystick.errors import InvalidInput
from tallystick.mechanisms.select import accuracy, noisy_law
from tallystick.mechanisms.select.candidates import exponential, permute_and_flip


def test_two_candidates_with_laplace_noise_have_a_closed_form() -> None:
    for gap in (0.0, 0.3, 2.0, 30.0):  # Pr[difference of two Laplace > gap] = (2 + gap) e^-gap / 4
        chances = noisy_law.noisy_max_law([0.0, gap], scale=1.0)
        assert chances[0] == pytest.approx((2 + gap) * math.exp(-gap) / 4, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("scores", [[0, 2], [5.0, 1.0, 1.0, 4.5], [0.0] * 50, [1e6, 1e6 - 3, 0.0]])
def test_gumbel_and_exponential_noise_have_the_laws_of_their_mechanisms(scores: list[float]) -> None:
    # Proposition 7.1 and Ding et al. 2021: rate epsilon/2 is a scale of 2/epsilon
    chances = noisy_law.noisy_max_law(scores, noise="gumbel", scale=2.0)
    assert chances == pytest.approx(exponential(epsilon=1.0).probabilities(scores), abs=1e-9)
    chances = noisy_law.noisy_max_law(scores, noise="exponential", scale=2.0)
    assert chances == pytest.approx(permute_and_flip(epsilon=1.0).probabilities(scores), abs=1e-9)


@pytest.mark.parametrize(("word", "law"), [("laplace", stats.laplace()), ("gaussian", stats.norm())])
def test_the_law_is_that_of_draws_and_of_any_law_with_a_density(word: str, law: object) -> None:
    scores = np.array([3.0, 2.5, 0.0, 2.5])
    exact = noisy_law.noisy_max_law(scores, noise=word, scale=1.3)
    assert noisy_law.noisy_max_law(scores, noise=law, scale=1.3) == pytest.approx(exact, abs=1e-9)
    drawn = law.rvs(size=(40_000, 4), random_state=np.random.default_rng(3)) * 1.3 + scores
    shares = np.bincount(drawn.argmax(axis=1), minlength=4) / 40_000
    assert np.all(np.abs(shares - exact) < 5 * np.sqrt(exact / 40_000) + 1e-4)


@pytest.mark.parametrize("candidates", [2, 5, 1000, 10**6])
def test_lemma_2_is_above_the_exact_expectations_and_near_them(candidates: int) -> None:
    sharp = accuracy.laplace_max_gap_sharp(candidates=candidates, epsilon=1.0)
    found = noisy_law.noisy_max_gap(candidates=candidates, scale=2.0)
    assert sharp <= found <= sharp * 1.001
    largest = np.abs(np.random.default_rng(1).normal(size=(4000, min(candidates, 1000) - 1))).max(axis=1).mean()
    gaussian = noisy_law.noisy_max_gap(candidates=min(candidates, 1000), scale=1.0, noise="gaussian")
    assert gaussian == pytest.approx(math.sqrt(2 / math.pi) + largest, rel=0.05)


def test_lemma_2_bounds_what_the_exact_law_loses() -> None:
    for law in ("laplace", "gaussian"):
        for below in (0.0, 1.0, 3.0, 8.0):
            scores = np.array([0.0] + [-below] * 99)
            lost = float(-scores @ noisy_law.noisy_max_law(scores, noise=law, scale=1.0))
            assert lost <= noisy_law.noisy_max_gap(candidates=100, scale=1.0, noise=law)
    assert noisy_law.noisy_max_gap(candidates=1, scale=1.0) == 0.0


def test_the_expected_loss_of_the_exponential_mechanism_stays_below_its_bound() -> None:
    for k in (2, 10, 100):
        bound = accuracy.exponential_mean_gap(candidates=k, epsilon=1.0)
        for below in np.linspace(0, 40, 30):
            scores = np.array([0.0] + [-below] * (k - 1))
            assert -scores @ exponential(epsilon=1.0).probabilities(scores) <= bound


def test_order_statistics_have_the_beta_law() -> None:
    uniforms = np.sort(np.random.default_rng(2).random((20_000, 9)), axis=1)
    gaps = uniforms[:, 6] - uniforms[:, 1]
    mean, limit = accuracy.order_statistic_gap(count=9, first=2, second=7, confidence=0.9)
    assert mean == pytest.approx(0.5)
    assert gaps.mean() == pytest.approx(mean, abs=0.01)
    assert (gaps <= limit).mean() == pytest.approx(0.9, abs=0.01)


def test_pumpkins_noise_falls_off_the_cliff() -> None:
    sale = noisy_law.pumpkin_prices([1.0, 1.0, 1.0, 4.01], epsilon=1.0)
    at = {round(float(price), 2): float(value) for price, value in zip(sale.prices, sale.revenue, strict=True)}
    assert (at[4.01], at[1.0], at[1.01], at[4.02]) == pytest.approx((4.01, 4.0, 1.01, 0.0))
    crowd = noisy_law.pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 250, epsilon=1.0)
    assert crowd.chances.sum() == pytest.approx(1.0)
    assert crowd.expected > 0.95 * crowd.best > 4 * crowd.expected_by_noise
    draws = np.round(np.random.default_rng(0).laplace(4.01, 5.0, 40_000), 2)
    earned = np.interp(draws, crowd.prices, np.arange(crowd.prices.size), left=-1, right=-1)
    kept = crowd.revenue[np.round(earned[(draws >= 0) & (draws <= 5)]).astype(int)]
    assert kept.sum() / 40_000 == pytest.approx(crowd.expected_by_noise, rel=0.05)


@pytest.mark.parametrize(
    "call",
    [
        lambda: noisy_law.noisy_max_law([], scale=1.0),
        lambda: noisy_law.noisy_max_law([math.nan], scale=1.0),
        lambda: noisy_law.noisy_max_law(["a"], scale=1.0),
        lambda: noisy_law.noisy_max_law([0.0], scale=0.0),
        lambda: noisy_law.noisy_max_law([0.0, 1.0], noise="cauchy", scale=1.0),
        lambda: noisy_law.noisy_max_law([0.0, 1.0], noise=3.0, scale=1.0),
        lambda: noisy_law.noisy_max_gap(candidates=3, scale=1.0, noise="gumbel"),
        lambda: noisy_law.noisy_max_gap(candidates=3, scale=1.0, noise=stats.cauchy()),
        lambda: noisy_law.pumpkin_prices([1.0], epsilon=1.0, step=1e-9),
        lambda: accuracy.order_statistic_gap(count=9, first=7, second=2, confidence=0.9),
    ],
)
def test_what_has_no_answer_is_refused(call) -> None:
    with pytest.raises(InvalidInput):
        call()


def test_only_symmetric_noise_has_this_bound():
    """Found from outside: noise around 5 was said to lose next to nothing."""
    for law in (stats.norm(5, 1), stats.expon()):
        with pytest.raises(InvalidInput, match="symmetric"):
            noisy_law.noisy_max_gap(candidates=5, scale=1.0, noise=law)
