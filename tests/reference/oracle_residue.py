"""Exact profile of compositions of Laplace, bounded-range and discrete terms, by residues.

Their moment generating functions are sums of  weight * e^{z shift} * (z+1)^a z^b / (z + 1/2)^m, so with
delta(epsilon) = 1/(2 pi i) int M(z) e^{-z epsilon} / (z (z+1)) dz every piece with shift > epsilon contributes the
sum of its residues to the left of the line, and every other piece nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb

from flint import arb, ctx, fmpq, fmpq_poly

from reference.oracle_laws import Law, Node


def residue_profile(laws: list[Law], discrete: list[Node]) -> Callable[[arb], arb]:
    """delta(epsilon) of the laws (each with ``rational``) composed with an enumerated discrete part."""
    order = sum(law.count for law in laws)
    working = 256 + 8 * order
    pieces: list[tuple[arb, arb, int, int]] = [(arb(0), arb(1), 0, 0)]
    before = ctx.prec
    ctx.prec = working
    try:
        for law in laws:
            assert law.rational is not None
            (s1, w1, a1, b1), (s2, w2, a2, b2) = law.rational[0]
            n = law.count
            if len(pieces) * (n + 1) * len(discrete) > 60_000:
                raise OverflowError("too many residues")
            raised = [
                (
                    s1 * (n - j) + s2 * j,
                    comb(n, j) * w1 ** (n - j) * w2**j,
                    a1 * (n - j) + a2 * j,
                    b1 * (n - j) + b2 * j,
                )
                for j in range(n + 1)
            ]
            pieces = [(s + t, w * v, a + c, b + d) for s, w, a, b in pieces for t, v, c, d in raised]
    finally:
        ctx.prec = before

    def profile(epsilon: arb) -> arb:
        outer = ctx.prec
        ctx.prec = working
        try:
            total = arb(0)
            for loss, mass in discrete:
                for shift, weight, a, b in pieces:
                    gap = shift + loss - epsilon
                    if float(gap) > 0:
                        total += mass * weight * inverse(gap, a, b, order)
        finally:
            ctx.prec = outer
        return +total

    return profile


def inverse(y: arb, a: int, b: int, m: int) -> arb:
    """Sum of the residues of e^{zy} (z+1)^{a-1} z^{b-1} / (z+1/2)^m, y > 0."""
    total = arb(0)
    if b == 0:
        total += arb(2) ** m
    if a == 0:
        total += (-y).exp() * arb(-1) ** (b - 1) * arb(-2) ** m
    coefficients = series(a - 1, b - 1, m)
    power, polynomial = arb(1), arb(0)
    # residue at s = z + 1/2 = 0: sum over k of c_k y^(m-1-k) / (m-1-k)!
    for k in range(m - 1, -1, -1):
        polynomial += coefficients[k] * power
        power = power * y / (m - k)
    return total + (-y / 2).exp() * polynomial


@lru_cache(maxsize=5000)
def series(a: int, b: int, m: int) -> list[arb]:
    """The first m coefficients in s of (s + 1/2)^a (s - 1/2)^b, exactly and then as balls."""
    half = fmpq(1, 2)
    result = fmpq_poly([1])
    for exponent, root in ((a, half), (b, -half)):
        if exponent >= 0:
            result = _truncated(result * fmpq_poly([root, 1]) ** exponent, m)
        else:
            inverse_series = fmpq_poly([(-1) ** k / root ** (k + 1) for k in range(m)])
            result = _truncated(result * inverse_series, m)
    raw = [result[k] for k in range(m)]
    return [arb(c.p) / arb(c.q) for c in raw]


def _truncated(polynomial: fmpq_poly, m: int) -> fmpq_poly:
    return fmpq_poly([polynomial[k] for k in range(min(m, polynomial.degree() + 1))])
