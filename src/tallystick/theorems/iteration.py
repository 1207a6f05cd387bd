"""Privacy amplification by iteration in the words of optimisation: the amplification note (004), sections 2 and 3."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tallystick.accounting import check, gdp
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.iteration import gradient_step_lipschitz, recurring
from tallystick.accounting.leaves.last_iterate import last_iterate
from tallystick.accounting.loss import PrivacyLoss
from tallystick.rounding import delta_up, double_above, up
from tallystick.theorems import require

LONGEST_PASS = 10**5


def noisy_gradient_descent(
    *,
    steps: int,
    step_size: float,
    smoothness: float,
    lipschitz: float,
    batch_size: int,
    noise: float,
    strong_convexity: float = 0.0,
    diameter: float | None = None,
    batches: Any = None,
    delta: float | None = None,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """x <- project(x - step_size (sum of gradients / batch_size + N(0, noise^2))), of which the last x is released.

    ``lipschitz`` bounds the gradient of one record; ``batch_size`` is a public divisor (the number of records for full
    batches); smoothness and strong convexity are those of every batch's objective **without** the record. A record
    moves a step by step_size lipschitz / batch_size, twice that under REPLACE; steps beyond 2/smoothness are refused.
    Page ``theory/last-iterate.md``.

    >>> given = {"step_size": 0.5, "smoothness": 1, "lipschitz": 1, "batch_size": 1000, "noise": 0.05}
    >>> round(noisy_gradient_descent(steps=1000, strong_convexity=0.02, **given).gdp_bound(), 4)
    0.2821
    """
    contraction = gradient_step_lipschitz(step_size=step_size, smoothness=smoothness, strong_convexity=strong_convexity)
    records = 2 if check.adjacency(adjacency) is Adjacency.REPLACE else 1
    gradient = (
        records * Fraction(check.positive("lipschitz", lipschitz)) / check.count("batch_size", batch_size, least=1)
    )
    ratio = gradient / Fraction(check.positive("noise", noise))
    domain = None
    if diameter is not None:
        domain = double_above(Fraction(check.positive("diameter", diameter)) / (gradient * Fraction(step_size)))
    return last_iterate(
        steps=steps,
        contraction=contraction,
        sigma=1.0 / up(double_above(ratio), slack=2.0**-50),
        diameter=domain,
        batches=batches,
        delta=delta,
        adjacency=adjacency,
        unit=unit,
    )


def contraction_reduction(*, shift: float, contraction: float, displacement: float) -> float:
    """D_a^(c z + s)(phi(mu) || phi'(nu)) <= D_a^(z)(mu || nu): the shift after a step of which one record moves by s.

    For phi' Lipschitz with constant c, and |phi - phi'| <= s (Feldman, Mironov, Talwar and Thakurta 2018);
    page ``theory/last-iterate.md``. Rounded up.

    >>> round(contraction_reduction(shift=2, contraction=0.5, displacement=1), 9)
    2.0
    """
    z, s = check.nonnegative("shift", shift), check.nonnegative("displacement", displacement)
    c = check.between("contraction", contraction, 0.0, 1.0)
    return up(c * z + s, positive=s > 0.0 or (c > 0.0 and z > 0.0))


def shift_reduction(*, divergence: float, order: float, hidden: float, sigma: float) -> float:
    """D_a^(z)(mu * N || nu * N) <= D_a^(z + hidden)(mu || nu) + a hidden^2/(2 sigma^2), N = N(0, sigma^2).

    Lemma 3.1 of the amplification note (004), which leaves it out (erratum 48): noise buys a shift of ``hidden`` for
    its Renyi divergence. Page ``theory/last-iterate.md``. Rounded up.

    >>> round(shift_reduction(divergence=0, order=2, hidden=1, sigma=2), 9)
    0.25
    """
    before, a = check.nonnegative("divergence", divergence), require.order("order", order)
    share = check.nonnegative("hidden", hidden) / check.positive("sigma", sigma)
    return up(before + a * share * share / 2.0, positive=hidden > 0.0)


def shuffled_pass_delta(*, epsilon: float, steps: int, contraction: float, sigma: float) -> float:
    """delta of one pass in a random order whose last iterate only is released: the mean over the record's positions.

    Position j alone has mu_j = c^(T-j) / (sigma sqrt(1 + c^2 + ... + c^(2(T-j)))), and delta is jointly convex in the
    two laws. Page ``theory/last-iterate.md``. Rounded up.

    >>> worst = gdp.delta_bounds(1 / 5, 0.1).upper
    >>> shuffled_pass_delta(epsilon=0.1, steps=100, contraction=1, sigma=5) < worst / 20
    True
    """
    e, count = check.nonnegative("epsilon", epsilon), check.count("steps", steps, least=1, most=LONGEST_PASS)
    c, s = check.between("contraction", contraction, 0.0, 1.0), check.scale("sigma", sigma)
    positions = (recurring(uses=1, every=count, after=k, contraction=c, sigma=s) for k in range(count))
    return delta_up(math.fsum(gdp.delta_bounds(mu, e).upper for mu in positions) / count)
