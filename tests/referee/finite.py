"""Finite pairs: every outcome listed with its two masses, in balls; exact enumeration of what mechanisms do to them.

An outcome is (p, q).  Sampling, composition, allocation, hulls and chains of neighbours are carried out on the list
itself, from the definitions: nothing here integrates, rounds to a grid or searches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from flint import arb, fmpz

from referee.balls import ONE, ZERO, at_least_zero, ball, joined, near
from referee.sides import Smooth, Tails

MOST_OUTCOMES = 4000
UNLISTED = arb(5e-81, 5e-81)
Outcome = tuple[arb, arb]


class TooMany(Exception):
    """The enumeration would be too long."""


def _ratio_key(outcome: Outcome) -> float:
    p, q = outcome
    if q.is_zero():
        return math.inf
    return -math.inf if p.is_zero() else near((p.mid() / q.mid()).log())


def _kinds(p: arb, q: arb) -> tuple[bool | None, bool | None]:
    """Is each mass zero?  None where the balls cannot tell."""
    return p.is_zero() or (False if p > 0 else None), q.is_zero() or (False if q > 0 else None)


def tidy(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Sorted by falling ratio; outcomes of one ratio (to the last of 256 bits) are one outcome."""
    kept = sorted((o for o in outcomes if not (o[0].is_zero() and o[1].is_zero())), key=_ratio_key, reverse=True)
    merged: list[Outcome] = []
    for p, q in kept:
        if merged:
            p0, q0 = merged[-1]
            alike = _kinds(p, q) == _kinds(p0, q0)
            if alike and None not in _kinds(p, q) and (p0 * q).overlaps(p * q0):
                merged[-1] = (p0 + p, q0 + q)
                continue
        merged.append((p, q))
    return tuple(merged)


@dataclass(frozen=True)
class Finite(Smooth):
    """The pair with these outcomes, in order of falling ratio."""

    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, p: Iterable[object], q: Iterable[object]) -> Finite:
        return cls(tidy((ball(x), ball(y)) for x, y in zip(p, q, strict=True)))

    @cached_property
    def _losses(self) -> tuple[arb | None, ...]:
        """log p/q; None at infinity, on either side."""
        return tuple(None if p.is_zero() or q.is_zero() else (p / q).log() for p, q in self.outcomes)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        finite = [
            (near(loss), near(p)) for loss, (p, _) in zip(self._losses, self.outcomes, strict=True) if loss is not None
        ]
        return np.array([x for x, _ in finite]), np.array([p for _, p in finite])

    def tails(self, a: arb) -> Tails:
        above = [(p, q) for p, q in self.outcomes if p > a * q]
        return sum((p for p, _ in above), ZERO), sum((q for _, q in above), ZERO)

    def profile(self, a: arb) -> arb:
        return sum(((p - a * q).nonnegative_part() for p, q in self.outcomes), ZERO)

    def power(self, alpha: arb) -> arb:
        taken, level = ZERO, ZERO
        for p, q in self.outcomes:
            if q.is_zero() or level + q <= alpha:
                taken, level = taken + p, level + q
            else:
                return taken + p * ((alpha - level) / q).max(ZERO).min(ONE)
        return taken

    def infinite(self) -> arb:
        """A mass that cannot be told from zero may be zero."""
        return sum((p if q.is_zero() else joined(ZERO, p) for p, q in self.outcomes if not q > 0), ZERO)

    def top(self) -> arb | None:
        return next((loss for loss, (p, q) in zip(self._losses, self.outcomes, strict=True) if loss is not None), ZERO)

    def renyi(self, order: float) -> arb | None:
        if self.infinite() > 0:
            return None
        terms = [(p, loss) for (p, _), loss in zip(self.outcomes, self._losses, strict=True) if loss is not None]
        if math.isinf(order):
            return terms[0][1]
        if order == 1:
            return sum((p * loss for p, loss in terms), ZERO)
        rest = ball(order) - 1
        return sum((p * (rest * loss).exp() for p, loss in terms), ZERO).log() / rest

    def cdf(self, x: arb) -> tuple[arb, arb] | None:
        below = sum((p for (p, _), loss in self._finite() if loss < x), ZERO)
        upto = sum((p for (p, _), loss in self._finite() if not loss > x), ZERO)
        return below, upto

    def _finite(self) -> Iterator[tuple[Outcome, arb]]:
        return ((o, loss) for o, loss in zip(self.outcomes, self._losses, strict=True) if loss is not None)

    def moments(self) -> tuple[arb, arb] | None:
        if self.infinite() > 0:
            return None
        mean = sum((p * loss for (p, _), loss in self._finite()), ZERO)
        return mean, sum((p * (loss - mean) * (loss - mean) for (p, _), loss in self._finite()), ZERO)

    def transform(self, t: float) -> complex | None:
        loss, weight = self._table
        return complex(np.dot(weight, np.exp(1j * t * loss)))

    # ---- what mechanisms do ----

    def swapped(self) -> Finite:
        return Finite(tuple((q, p) for p, q in reversed(self.outcomes)))

    def sampled(self, rate: arb, *, adding: bool) -> Finite:
        rest = 1 - rate
        if adding:
            return Finite(tidy((p, rest * p + rate * q) for p, q in self.outcomes))
        return Finite(tidy((rest * q + rate * p, q) for p, q in self.outcomes))

    def times(self, other: Finite) -> Finite:
        if isinstance(other, Endless) and not isinstance(self, Endless):
            return other.times(self)
        if len(self.outcomes) * len(other.outcomes) > MOST_OUTCOMES * 4:
            raise TooMany
        return Finite(tidy((p * x, q * y) for (p, q), (x, y) in product(self.outcomes, other.outcomes)))

    def power_of(self, count: int) -> Finite:
        """The pair of ``count`` independent draws, as a multinomial over the outcomes both laws can give."""
        if count == 1:
            return self
        common = [(p, q) for p, q in self.outcomes if not p.is_zero() and not q.is_zero()]
        if common and math.comb(count + len(common) - 1, len(common) - 1) > MOST_OUTCOMES:
            raise TooMany
        all_p, all_q = sum((p for p, _ in common), ZERO), sum((q for _, q in common), ZERO)
        total_p, total_q = (sum((o[i] for o in self.outcomes), ZERO) for i in (0, 1))
        result = list(_multinomial(common, count)) if common else []
        if len(common) < len(self.outcomes):
            only_p = _gone(total_p, all_p, self.infinite(), count)
            only_q = _gone(total_q, all_q, sum((q for p, q in self.outcomes if p.is_zero()), ZERO), count)
            result += [(only_p, ZERO), (ZERO, only_q)]
        return Finite(tidy(result))

    def allocated(self, steps: int) -> Finite:
        """One of ``steps`` draws, chosen uniformly, is from P and the others from Q, against all from Q."""
        common = [(p, q) for p, q in self.outcomes if not q.is_zero()]
        if math.comb(steps + len(common) - 1, len(common) - 1) > MOST_OUTCOMES:
            raise TooMany
        ratios = [p / q for p, q in common]
        drawn = []
        for counts, mass in _counted([q for _, q in common], steps):
            ratio = sum((n * r for n, r in zip(counts, ratios, strict=True)), ZERO) / steps
            drawn.append((mass * ratio, mass))
        gone = self.infinite()
        if not gone.is_zero():
            drawn.append((gone * sum((q for _, q in common), ZERO) ** (steps - 1), ZERO))
        return Finite(tidy(drawn))

    def symmetric(self) -> bool:
        """Does swapping the two laws give the same pair?"""
        other = self.swapped().outcomes
        return len(other) == len(self.outcomes) and all(
            p.overlaps(x) and q.overlaps(y) for (p, q), (x, y) in zip(self.outcomes, other, strict=True)
        )


@dataclass(frozen=True)
class Endless(Finite):
    """A list cut off where nothing is left (below 1e-80), of a law whose losses have no end."""

    def top(self) -> arb | None:
        return None

    def tails(self, a: arb) -> Tails:
        p, q = super().tails(a)
        return p + UNLISTED, q + UNLISTED

    def profile(self, a: arb) -> arb:
        return super().profile(a) + UNLISTED

    def power(self, alpha: arb) -> arb:
        return super().power(alpha) + UNLISTED

    def swapped(self) -> Finite:
        return Endless(super().swapped().outcomes)

    def sampled(self, rate: arb, *, adding: bool) -> Finite:
        return Endless(super().sampled(rate, adding=adding).outcomes)

    def times(self, other: Finite) -> Finite:
        return Endless(super().times(other).outcomes)


def _gone(total: arb, common: arb, alone: arb, count: int) -> arb:
    """total^n - common^n without cancellation: the mass of draws of which one is in the other law's blind spot."""
    if alone.is_zero():
        return ZERO
    if common.is_zero():
        return total**count
    ratio = alone / common
    return common**count * (ball(count) * ratio.log1p()).expm1()


def _counted(masses: list[arb], count: int) -> Iterator[tuple[tuple[int, ...], arb]]:
    """Every way to draw ``count`` outcomes, with its multinomial mass."""
    powers = [[ONE] for _ in masses]
    for table, mass in zip(powers, masses, strict=True):
        for _ in range(count):
            table.append(table[-1] * mass)

    def deeper(
        index: int, left: int, ways: fmpz, mass: arb, counts: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], arb]]:
        if index == len(masses) - 1:
            yield (*counts, left), mass * powers[index][left] * arb(ways)
            return
        binomial = fmpz(1)
        for n in range(left + 1):
            yield from deeper(index + 1, left - n, ways * binomial, mass * powers[index][n], (*counts, n))
            binomial = binomial * (left - n) // (n + 1)

    yield from deeper(0, count, fmpz(1), ONE, ())


def _multinomial(outcomes: list[Outcome], count: int) -> Iterator[Outcome]:
    firsts = _counted([p for p, _ in outcomes], count)
    seconds = _counted([q for _, q in outcomes], count)
    return ((p, q) for (_, p), (_, q) in zip(firsts, seconds, strict=True))


# ---- trade-off curves as lists of corners (level, power) ----

Corners = list[tuple[arb, arb]]


def corners(pair: Finite) -> Corners:
    """The corners of the most powerful tests, from (0, P(r = infinity)) to (1, 1)."""
    level, taken = ZERO, pair.infinite()
    result = [(level, taken)]
    for p, q in pair.outcomes:
        if not q.is_zero():
            level, taken = level + q, taken + p
            result.append((level, taken))
    return result


def pair_of(points: Corners) -> Finite:
    """The pair whose tests have these corners: a segment is an outcome."""
    outcomes = [(points[0][1], ZERO)]
    outcomes += [(y1 - y0, x1 - x0) for (x0, y0), (x1, y1) in pairwise(points)]
    return Finite(tidy((at_least_zero(p), at_least_zero(q)) for p, q in outcomes))


def _log(level: arb) -> float:
    """To sort by: no double holds the smallest levels themselves."""
    return near(level.log()) if level > 0 else -math.inf


def hull(*pairs: Finite) -> Finite:
    """The pair whose power is the least concave function above all of theirs."""
    points = sorted((c for pair in pairs for c in corners(pair)), key=lambda c: (_log(c[0]), -near(c[1])))
    kept: Corners = []
    for x, y in points:
        if kept and not x > kept[-1][0]:
            continue
        while len(kept) >= 2:
            (x0, y0), (x1, y1) = kept[-2], kept[-1]
            if (y1 - y0) * (x - x0) <= (y - y0) * (x1 - x0) or ((y1 - y0) * (x - x0)).overlaps((y - y0) * (x1 - x0)):
                kept.pop()
            else:
                break
        kept.append((x, y))
    return pair_of(kept)


def chained(first: Finite, second: Finite) -> Finite:
    """Power g2(g1(level)): what the ends of a chain of two neighbours can reach.

    The masses of the first under P and of the second under Q cut one line from 0 to 1; a piece is a share of one
    outcome of each.
    """
    if len(first.outcomes) + len(second.outcomes) > 400:
        raise TooMany
    ones, twos = [o for o in first.outcomes if not o[0].is_zero()], [o for o in second.outcomes if not o[1].is_zero()]
    outcomes = [o for o in second.outcomes if o[1].is_zero()] + [o for o in first.outcomes if o[0].is_zero()]
    for i, j, length in overlaps([p for p, _ in ones], [q for _, q in twos]):
        (p, q), (x, y) = ones[i], twos[j]
        outcomes.append((x * length / y, q * length / p))
    return Finite(tidy(outcomes))


def overlaps(ones: list[arb], twos: list[arb]) -> Iterator[tuple[int, int, arb]]:
    """Two ways to cut a line of length one into pieces: which pieces meet, and how much of them.

    A cut is measured from the nearer end, so that the shortest pieces are known as well as the longest.
    """
    cuts = sorted([*_cuts(ones, 0), *_cuts(twos, 1)], key=_place)
    here, before = [0, 0], (ZERO, ONE, 0)
    for cut in [*cuts, (ONE, ZERO, 0)]:
        length = _between(before, cut)
        if length > 0 and here[0] < len(ones) and here[1] < len(twos):
            yield here[0], here[1], length
        here[cut[2]] += 1
        before = cut


Cut = tuple[arb, arb, int]  # from the left end, from the right end, of which list


def _cuts(masses: list[arb], which: int) -> list[Cut]:
    left, right = [ZERO], [ZERO]
    for one, other in zip(masses[:-1], masses[:0:-1], strict=True):
        left.append(left[-1] + one)
        right.append(right[-1] + other)
    return [(x, y, which) for x, y in zip(left[1:], right[:0:-1], strict=True)]


def _place(cut: Cut) -> tuple[bool, float]:
    """In order along the line; logarithms, for lengths that no double holds."""
    left, right, _ = cut
    return (False, _log(left)) if left < right else (True, -_log(right))


def _between(one: Cut, two: Cut) -> arb:
    if two[0] < two[1]:
        return two[0] - one[0]
    return one[1] - two[1] if one[1] < one[0] else 1 - one[0] - two[1]


def group_of(pair: Finite, size: int) -> Finite:
    """A chain of ``size`` neighbours, every step with the trade-off of the pair."""
    result = pair
    for _ in range(size - 1):
        result = chained(result, pair)
    return result


def meet(pairs: list[Finite]) -> Finite:
    """The pair whose power is the least of theirs at every level: the claim that all of them bound."""
    levels = {near(x): x for pair in pairs for x, _ in corners(pair)}
    ordered = [levels[k] for k in sorted(levels)]
    points: Corners = []
    for low, high in pairwise(ordered):
        points.append((low, least_power(pairs, low)))
        lines = [(p.power(low), p.power(high)) for p in pairs]
        crossings = []
        for i, (y0, y1) in enumerate(lines):
            for z0, z1 in lines[i + 1 :]:
                if (y0 > z0 and y1 < z1) or (y0 < z0 and y1 > z1):
                    crossings.append(low + (high - low) * (z0 - y0) / ((y1 - y0) - (z1 - z0)))
        points += [(x, least_power(pairs, x)) for x in sorted(crossings, key=near)]
    points.append((ordered[-1], least_power(pairs, ordered[-1])))
    return pair_of(points)


def least_power(pairs: list[Finite], level: arb) -> arb:
    value = pairs[0].power(level)
    for pair in pairs[1:]:
        value = value.min(pair.power(level))
    return value


@dataclass(frozen=True)
class Mixed(Smooth):
    """A finite pair and one smooth pair, drawn independently: r is the product of the ratios."""

    finite: Finite
    smooth: Smooth

    def tails(self, a: arb) -> Tails:
        total_p, total_q = ZERO, ZERO
        for p, q in self.finite.outcomes:
            if q.is_zero():
                total_p += p
            elif not p.is_zero():
                x, y = self.smooth.tails(a * q / p)
                total_p, total_q = total_p + p * x, total_q + q * y
        return total_p, total_q

    def profile(self, a: arb) -> arb:
        total = self.finite.infinite()
        for p, q in self.finite.outcomes:
            if not q.is_zero() and not p.is_zero():
                total += p * self.smooth.profile(a * q / p)
        return total

    def infinite(self) -> arb:
        one, two = self.finite.infinite(), self.smooth.infinite()
        return one + two - one * two

    def top(self) -> arb | None:
        one, two = self.finite.top(), self.smooth.top()
        return None if one is None or two is None else one + two
