"""The oracle itself, against closed forms, published truths and exact enumeration in rational arithmetic."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from reference import fast, oracle
from sweeps import ALL, campaign_only


def gaussian(sigma: float, count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"leaf": "gaussian", "sigma": sigma, "count": count, **more}]


@pytest.mark.parametrize(
    ("terms", "delta", "truth"),
    [
        (gaussian(1.0, 10_000, rate=0.01), "1e-5", 6.18771239),
        (gaussian(0.8, 10**6, rate=0.001), "1e-6", 10.6824075),
        (gaussian(10.0, 100), "1e-30", 11.743883),
        (gaussian(0.3, 50), "1e-5", 377.383456),
        ([{"leaf": "laplace", "scale": 20.0, "count": 1000}], "1e-6", 8.20444034),
        ([{"leaf": "randomized_response", "epsilon": 0.1, "count": 1000}], "1e-6", 19.3446714),
    ],
)
def test_the_truth_column_of_the_targets_is_reproduced(terms: Any, delta: str, truth: float) -> None:
    answer = oracle.epsilon(terms, delta=delta, direction="remove")
    assert answer.value == pytest.approx(truth, rel=1e-8)
    assert answer.error < 1e-10


@campaign_only
def test_the_subset_hull_reproduces_its_oracle() -> None:
    assert oracle.delta(gaussian(0.8, 100, subset=[1, 10]), epsilon=2.0, direction="remove").value == pytest.approx(
        0.3400, abs=5e-5
    )


@pytest.mark.parametrize("times", [1, 4, 9])
def test_two_points_agree_with_rational_enumeration(times: int) -> None:
    """delta at a = e^epsilon = 2, with p, q dyadic: every quantity is rational."""
    p, q = Fraction(3, 4), Fraction(1, 2)
    exact = Fraction(0)
    for k in range(times + 1):
        left = math.comb(times, k) * p**k * (1 - p) ** (times - k)
        right = math.comb(times, k) * q**k * (1 - q) ** (times - k)
        exact += max(Fraction(0), left - 2 * right)
    terms = [{"leaf": "discrete_pair", "p": [0.75, 0.25], "q": [0.5, 0.5], "count": times}]
    found = oracle.delta(terms, epsilon=math.log(2), direction="remove").value
    assert found == pytest.approx(float(exact), rel=1e-14, abs=1e-16)


def test_a_lattice_with_a_coarser_lattice_inside_is_summed_over_the_whole_period() -> None:
    """Nearly all mass at the two ends: the integrand revives inside the period (value from a plain convolution)."""
    terms = [{"leaf": "discrete_laplace", "count": 6768, "sensitivity": 4, "scale": 3032.9359347904915}]
    found = oracle.delta(terms, epsilon=1.2047381281731334e-06, direction="remove")
    assert found.value == pytest.approx(0.0432546332285, rel=1e-9)


def test_residues_and_contours_agree_where_both_apply() -> None:
    """100 bounded-range steps by the contour; 60 by residues; both next to a smooth neighbour of the other kind."""
    steps = {"leaf": "exponential", "epsilon": 0.5, "count": 60}
    by_residue = oracle.epsilon([steps], delta="1e-6", direction="remove")
    by_contour = oracle.epsilon([steps, *gaussian(1e9, 1)], delta="1e-6", direction="remove")
    assert (by_residue.route, by_contour.route) == ("residue", "contour")
    assert by_contour.value == pytest.approx(by_residue.value, rel=1e-12)


def test_the_oracle_says_when_it_does_not_know() -> None:
    """Two sampled Gaussians: the integrand decays too slowly for the contour, and there is no closed form."""
    with pytest.raises(oracle.OracleCannot):
        oracle.epsilon(gaussian(1.0, 2, rate=0.1), delta="1e-8", direction="remove")


STORED = json.loads(Path(__file__).with_name("values.json").read_text())
KNOWN = [n for n, r in STORED.items() if n != "W5 at 1e-6" and not any("subset" in t for t in r["terms"])]

SLOW = ("Laplace once at 1e-3", "response and Laplace at 1e-8")
"""A second each; other cases of one or few Laplace releases take the same way."""


def test_the_fast_oracle_agrees_with_the_slow_one_to_its_own_error() -> None:
    """Where it claims 1e-9; it must do so for most, or the sweep would judge little."""
    sure, known = 0, [name for name in KNOWN if ALL or name not in SLOW]
    for name in known:
        record = STORED[name]
        for direction in ("remove", "add"):
            try:
                found = fast.epsilon(record["terms"], delta=float(record["delta"]), direction=direction)
            except oracle.OracleCannot:
                continue
            truth = float(record[direction])
            if math.isinf(truth) or truth == 0.0:
                assert found.value == truth, name
            else:
                assert abs(found.value / truth - 1) <= found.error + 1e-15, name
            sure += found.error < 1e-9
    assert sure >= 1.6 * len(known)


def test_the_fast_oracle_sees_a_lattice_hidden_in_a_sampled_laplace_law() -> None:
    """Nearly all mass in two atoms: the integrand revives far out, and a cut before that is off by 1e-6."""
    terms = [{"leaf": "laplace", "count": 2170, "rate": 0.31442136129490245, "scale": 27735.330020719277}]
    found = fast.epsilon(terms, delta=4.252555506772751e-07, direction="remove")
    # The accountant's enclosure is [0.00146944154564, 0.00146944156559]; the oracle's own claim is 2e-6.
    assert found.value == pytest.approx(0.00146944155, rel=1e-7)
    assert found.error > 1e-9


def test_the_fast_oracle_says_when_it_does_not_know() -> None:
    with pytest.raises(oracle.OracleCannot):
        fast.epsilon([{"leaf": "laplace", "count": 30, "scale": 2.0}], delta=1e-20, direction="remove")
