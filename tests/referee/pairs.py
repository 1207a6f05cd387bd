"""Two smooth draws as one side, summed over the points of one of them, and two oracles for one side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from flint import arb

from referee.balls import ZERO, ball, near, within
from referee.lattice import DiscreteGaussian
from referee.sides import Gaussian, Laplace, Sampled, Searched, Smooth, Tails

SURE = 1e-7
"""A relative error with which no other oracle is asked."""


@dataclass(frozen=True)
class Better(Smooth):
    """Two oracles for one side: the second is asked where the first is not sure."""

    first: Smooth
    second: Smooth

    def _of(self, one: arb, other: Callable[[], arb]) -> arb:
        if one.rad() <= SURE * abs(one.mid()):
            return one
        two = other()
        if not one.overlaps(two):
            raise ArithmeticError(f"two oracles say {one} and {two}")
        return two if two.rad() < one.rad() else one

    def profile(self, a: arb) -> arb:
        return self._of(self.first.profile(a), lambda: self.second.profile(a))

    def tails(self, a: arb) -> Tails:
        one = self.first.tails(a)
        p, q = (self._of(one[i], lambda i=i: self.second.tails(a)[i]) for i in (0, 1))
        return p, q

    def power(self, alpha: arb) -> arb:
        """A search, for which the second takes too long."""
        return self.first.power(alpha)

    def top(self) -> arb | None:
        return self.first.top()


@dataclass(frozen=True)
class Summed(Smooth):
    """Two independent draws: P(r > a) is a sum over the points of one law of tails of the other."""

    outer: Smooth
    inner: Smooth

    @cached_property
    def _points(self) -> tuple[list[Tails], bool]:
        """Weights of the outer law, and whether their sum is exact: lattices, and Gauss panels of a wide inner law."""
        wide = isinstance(self.outer, Laplace) and isinstance(self.inner, Gaussian) and self.inner.mu > 0.2
        drawn = self.outer.base if isinstance(self.outer, Sampled) else self.outer
        listed = self.outer.fine(1.0) if wide or isinstance(drawn, DiscreteGaussian) else None
        if listed is not None:
            return listed, True
        _, log_p, log_q = self.outer.nodes(1.0) or ((), (), ())
        return [(ball(float(p)).exp(), ball(float(q)).exp()) for p, q in zip(log_p, log_q, strict=True)], False

    def tails(self, a: arb) -> Tails:
        values = [(p, q, *self.inner.tails(a * q / p)) for p, q in self._points[0]]
        return self._added([p * y for p, _, y, _ in values]), self._added([q * z for _, q, _, z in values])

    def profile(self, a: arb) -> arb:
        return self._added([p * self.inner.profile(a * q / p) for p, q in self._points[0] if p > 1e-65])

    def _added(self, terms: list[arb]) -> arb:
        """The sum, known to what every fourth point would give: the inner law may be steeper than the step.

        Every other point is not enough. At a bend halfway between two points both halves give the same, and err.
        """
        fourths = [sum(terms[k::4], ZERO) for k in range(4)]
        whole = sum(fourths, ZERO)
        if self._points[1]:
            return within(whole, 1e-20, 1e-60)
        told = [4 * near(part) for part in fourths]
        apart = 0.0 if isinstance(self.outer, Laplace) else max(told) - min(told)
        return within(whole, 1e-11, 1e-28 + apart)

    def power(self, alpha: arb) -> arb:
        return Searched(self.profile).power(alpha)

    def top(self) -> arb | None:
        one, two = self.outer.top(), self.inner.top()
        return None if one is None or two is None else one + two
