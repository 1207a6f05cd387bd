"""What a leaf is asked for its law in ball arithmetic, and the ways to make one from others (``tallystick[rigorous]``).

Every method gives a pair that dominates what it is about (``upper``), or one that is dominated by it: theorems of
docs/theory with every number a ball. ``accounting.rigorous`` reads the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

from flint import arb, ctx

from tallystick.accounting.leaves.nested import Composed
from tallystick.errors import NotComputable
from tallystick.numerics.rigorous import laws as ball_laws
from tallystick.numerics.rigorous.allocation import allocated, finer
from tallystick.numerics.rigorous.continuous import gaussian_law, sampled_profile
from tallystick.numerics.rigorous.gathered import gathered, listed_pair_of
from tallystick.numerics.rigorous.heights import chained, given_away, kinks_of, known_by, largest, mirrored, told, whole
from tallystick.numerics.rigorous.moments import FARTHEST, known_moments
from tallystick.numerics.rigorous.polygon import masses_above
from tallystick.numerics.rigorous.selection import selected

if TYPE_CHECKING:
    from tallystick.accounting.leaf import Leaf, Terms

ROUNDED_UP = 2.0**-49
"""Parameters made from others (``flip_prob=``, ``as_replace()``) are at most this much too large, relatively."""

Law = ball_laws.BallLaw
Ball = Any
Height = Callable[[Ball], Ball]
Pair = tuple[Ball | None, Ball | None]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a leaf's law is wanted for."""

    rate: Ball | None
    removing: bool
    log_tiny: float
    """Mass of an infinite lattice that may be left out and is added as an error."""
    upper: bool
    """The dominating pair, or (bounded range composed) the one that is dominated."""

    @staticmethod
    def ball(value: float) -> Ball:
        """A parameter, exactly as the double it is."""
        return arb(value)

    def at_rate(self, rate: float) -> Ask:
        """Return the question about a Poisson sample; a sample of a sample is one at the product of their rates."""
        return replace(self, rate=arb(rate) if self.rate is None else self.rate * arb(rate))

    def discrete(self, base: ball_laws.Base) -> Law:
        """The law of a discrete pair."""
        return ball_laws.discrete_law(base, self.rate, self.removing)

    def two_points(self, epsilon: float, delta: float = 0.0, choices: int = 2) -> Law:
        """The law of randomized response, with mass delta that gives everything away."""
        return self.discrete(ball_laws.two_points(arb(epsilon), arb(delta), choices))

    def nothing(self) -> Law:
        """No loss at all: what is certain from below where no pair is."""
        return self.two_points(0.0)

    def everything(self) -> Law:
        """All is given away."""
        return self.discrete(ball_laws.Base([], arb(1), arb(1)))

    def known_by(
        self,
        remove: Height,
        add: Height,
        *,
        infinite: Pair = (None, None),
        highest: Pair = (None, None),
        reached: Pair = (None, None),
        exact: bool = False,
        like: Law | None = None,
    ) -> Law:
        """The law of a leaf from H in both orders, and where they end: mass at infinity, and the largest other loss.

        ``exact`` says that H is known on both sides, not only from above. From ``highest`` on nothing but ``infinite``
        is left, so that it must hold all of P's mass there; without it, H itself says what is far out. ``reached`` is
        what losses certainly come near to.
        """
        side, way = (0, remove) if self.removing else (1, add)
        gone, top, near = infinite[side], highest[side], reached[side]
        if self.rate is not None:
            way = sampled_profile(way, self.rate, self.removing)
            if not self.removing and (gone is None or not gone.is_zero()):
                top = None  # what gives everything away without an added person is the end of a sample's losses
            top, near = self.sampled_loss(top), None if near is None else self.sampled_loss(near)
            gone = None if gone is None or not self.removing else self.rate * gone
        return replace(known_by(way, infinite=gone, highest=top, like=like), above_only=not exact, reached=near)

    def sampled_loss(self, loss: Ball | None) -> Ball | None:
        """What a Poisson sample makes of a loss in this direction, which it never puts before a smaller one; None
        stands for one that is larger than any.
        """
        assert self.rate is not None
        if self.removing:
            return None if loss is None else (1 + self.rate * loss.expm1()).log()
        if loss is None or not loss.is_finite():
            return None if self.rate >= 1 else -(1 - self.rate).log()
        return -(1 + self.rate * (-loss).expm1()).log()

    def moments(
        self, log_moment: Callable[[Ball], Ball], leak: float, most: float = FARTHEST, listed: Sequence[float] = ()
    ) -> Law:
        """A law of which only moments are known, and nothing from below."""
        if not self.upper:
            return self.nothing()
        if leak == 1.0:
            return self.everything()
        law = known_moments(log_moment, arb(leak), most, listed)
        if self.rate is None:
            return law
        return self.known_by(whole(law), whole(law), infinite=(law.infinite, law.infinite))

    def polygon(self, knots: Sequence[tuple[Ball, Ball]]) -> Law:
        """Both orders are below these knots (epsilon >= 0, delta): chords between them, and their mirror image."""
        if not self.upper:
            return self.nothing()
        ahead = list(knots)
        if not ahead[0][0].is_zero():  # the chord from (0, 1) at e^x = 1
            x, y = ahead[0]
            ahead.insert(0, (arb(0), 1 - (1 - y) * (-x).exp()))
        behind = [(-x, -(-x).expm1() + (-x).exp() * y) for x, y in reversed(ahead[1:])]
        levels = [x for x, _ in (*behind, *ahead)]
        return self.through(levels, [y for _, y in (*behind, *ahead)])

    def smaller_of_both_orders(self, outcomes: Sequence[tuple[Fraction, Fraction]]) -> Law:
        """A pair that bounds both orders: the convex hull of the smaller H, whose corners are those of one of them."""
        if not self.upper:
            return self.nothing()
        base = ball_laws.listed_pair(outcomes)
        heights = [whole(ball_laws.discrete_law(base, None, way)) for way in (True, False)]
        losses = sorted((loss for loss, _, _ in base.points), key=float)
        levels = sorted([*losses, *(-loss for loss in losses)], key=float)
        apart = [x for n, x in enumerate(levels) if n == 0 or levels[n - 1] < x]
        return self.through(apart, [heights[0](x).min(heights[1](x)) for x in apart])

    def through(self, levels: Sequence[Ball], heights: Sequence[Ball]) -> Law:
        """The pair whose H are chords from (0, 1) through these knots."""
        masses, only_p = masses_above(heights, [x.exp() for x in levels], arb(1))
        if any(mass < 0 for mass in masses):  # of no pair, and sums of such would bound nothing
            raise NotComputable("knots that are not convex")
        points = [(x, p, p * (-x).exp()) for x, p in zip(levels, masses, strict=True) if not p.is_zero()]
        return self.discrete(ball_laws.Base(points, only_p, 1 - sum((q for _, _, q in points), arb(0))))

    def taken_off(self, remove: Height, add: Height) -> tuple[Height, Height]:
        """From below: the same where the unit takes part a little less than always."""
        if self.upper:
            return remove, add
        often = arb(self.unrounded(1.0))
        return sampled_profile(remove, often, True), sampled_profile(add, often, False)

    def worst(self, members: Sequence[tuple[Law, Law]]) -> Law:
        """The larger H of several, which is attained at every x."""
        sides = [[member[way] for member in members] for way in (0, 1)]
        return self.known_by(
            *(largest([whole(law) for law in laws]) for laws in sides),
            infinite=tuple(reduce(arb.max, (law.infinite for law in laws)) for laws in sides),
            highest=(highest_of(sides[0]), highest_of(sides[1])),
            reached=(reached_of(sides[0]), reached_of(sides[1])),
        )

    def replaced(self, terms: Terms) -> Law:
        """A record less in between, or a record more: both chains are bounds. From below, one of the steps alone."""
        remove, add = self.summed(terms)
        if not self.upper:
            return self.worst([(remove, add), (add, remove)])
        laws = [(remove, add), (add, remove)]
        chains = [chained([whole(one), whole(two)], [kinks_of(one), kinks_of(two)]) for one, two in laws]
        gone = [given_away([whole(one), whole(two)], [one.infinite, two.infinite]) for one, two in laws]
        tops = (remove.highest, add.highest)
        top = None if tops[0] is None or tops[1] is None else tops[0] + tops[1]

        def both(x: Ball) -> Ball:
            return chains[0](x).min(chains[1](x))

        return self.known_by(both, both, infinite=(gone[0].min(gone[1]),) * 2, highest=(top, top))

    def leaking(self, base: Leaf, rate: Ball, cut: Ball) -> Law:
        """A sample of the base that moreover gives everything away with probability ``cut``."""
        if self.rate is None:
            plain = base.ball_law(self.at_rate(rate))
            return replace(plain, infinite=plain.infinite + cut, total=plain.total + cut)
        remove, add = self.inside(base)
        heights = [sampled_profile(whole(law), rate, way) for law, way in ((remove, True), (add, False))]
        return self.known_by(
            *(lambda x, height=height: (height(x) + cut).min(arb(1)) for height in heights),
            infinite=(rate * remove.infinite + cut, cut),
        )

    def told(self, parts: Sequence[tuple[Ball, Leaf, Ball]]) -> Law:
        """Return a mixture: with each probability another leaf, sampled at a rate, and the output says which."""
        heights: tuple[list[tuple[Ball, Height]], ...] = ([], [])
        gone = [arb(0), arb(0)]
        for share, leaf, rate in parts:
            for way, law in enumerate(self.inside(leaf)):
                heights[way].append((share, sampled_profile(whole(law), rate, way == 0)))
                gone[way] += share * rate * law.infinite if way == 0 or rate >= 1 else arb(0)
        return self.known_by(told(heights[0]), told(heights[1]), infinite=(gone[0], gone[1]))

    def drawn(self, draws: int, population: int, base: Leaf, groups: Sequence[tuple[int, Leaf | None]]) -> Law:
        """Draws with replacement: groups of each size, the last for all other counts; None gives everything away.

        A group of Gaussians is known by the base, whose mu is not rounded.
        """
        variance = self.inside(base)[0].variance
        chance, none = arb(1) / population, (1 - arb(1) / population) ** draws
        heights, left, gone = [], 1 - none, arb(0)
        for size, leaf in groups:
            last = size == draws
            share = left if last else arb.bin_uiui(draws, size) * chance**size * (1 - chance) ** (draws - size)
            left -= share
            law = self.everything() if leaf is None else self.inside(leaf)[0]
            if variance is not None:
                law = gaussian_law(variance.sqrt() * size, None, True)
            heights.append((share, whole(law)))
            gone += share * law.infinite
        rate = 1 - none

        def height(x: Ball) -> Ball:
            """Told the count: sampling, at the rate of being drawn at all, of a group of that size."""
            inner = (1 + x.expm1() / rate).log()
            return sum((share * one(inner) for share, one in heights), arb(0))

        both = mirrored(height)
        return self.known_by(both, both, infinite=(gone, gone))

    def allocated(self, base: Leaf, steps: int) -> Law:
        """An epoch in which the base is used once, at random; contours are chosen as if it were a sample.

        Adding, B is zero, and all is given away, where every step's ratio V is; where only some can be, the least other
        B is that of a single step that is not, over their number.
        """
        with ctx.workprec(finer(int(ctx.prec))):
            remove, add = self.inside(base)
        sample = sampled_profile(whole(remove if self.removing else add), arb(1) / steps, self.removing)
        least = add.highest
        if least is not None and not add.infinite.is_zero():
            least += arb(steps).log()
        return self.known_by(
            *allocated(whole(remove), whole(add), steps),
            # A mass that is zero up to rounding has no power in python-flint where its middle is zero.
            infinite=(remove.infinite, add.infinite.nonnegative_part() ** steps),
            highest=(remove.highest, least),
            like=known_by(sample, infinite=remove.infinite / steps if self.removing else None),
        )

    def selected(self, base: Leaf, weight: Callable[[Ball], Ball], ranks: Any) -> Law:
        """The best of several runs; if there is none, nothing is told, which is a part of H only below zero."""
        remove, add = self.inside(base)
        heights, tops = [], []
        for ahead, behind in ((remove, add), (add, remove)):
            height, longer = selected(whole(ahead), whole(behind), weight, ranks)
            heights.append(height)
            tops.append(None if ahead.highest is None else ahead.highest + longer)
        mean = weight(arb(0))
        gone = tuple((mean * law.infinite).min(arb(1)) for law in (remove, add))
        sides = mirrored(heights[0], heights[1]), mirrored(heights[1], heights[0])
        return self.known_by(*sides, infinite=gone, highest=(tops[0], tops[1]))

    @staticmethod
    def tail(trials: int, chance: Ball, least: int) -> Ball:
        """P(Binomial(trials, chance) >= least)."""
        return ball_laws.binomial_tail(trials, chance, least)

    def inside(self, leaf: Leaf) -> tuple[Law, Law]:
        """What is inside of a leaf, in both directions and without what is done to it."""
        return self.summed(leaf.terms if isinstance(leaf, Composed) else ((leaf, 1),))

    def summed(self, terms: Terms) -> tuple[Law, Law]:
        """A sum inside of a leaf, in both directions."""
        remove, add = (replace(self, rate=None, removing=way) for way in (True, False))
        if len(terms) == 1 and terms[0][1] == 1:
            return terms[0][0].ball_law(remove), terms[0][0].ball_law(add)
        if all(leaf.symmetric for leaf, _ in terms):
            one = remove.composed(terms)
            return one, one
        # Gathered in its own direction, each knows best where its own losses are.
        found = []
        for way in (remove, add):
            base = gathered([(leaf.ball_law(way), count) for leaf, count in terms], self.log_tiny, self.upper)
            found.append(way.ended(remove.discrete(base), terms))
        return found[0], found[1]

    def composed(self, terms: Terms) -> Law:
        """A sum as one leaf, sampled where a rate is given."""
        remove = replace(self, rate=None, removing=True)
        laws = [(leaf.ball_law(remove), count) for leaf, count in terms]
        mu = _gaussian(laws)
        if mu is not None:
            return gaussian_law(mu, self.rate, self.removing)
        base = gathered(laws, self.log_tiny, True) if self.upper else listed_pair_of(laws, self.log_tiny, False)
        if base is not None:
            return self.ended(self.discrete(base), terms)
        # A lattice pair from below is neither swapped nor mixed: this direction has its own, and its H is sampled.
        own = replace(self, rate=None)
        below = gathered([(leaf.ball_law(own), count) for leaf, count in terms], self.log_tiny, False)
        law = own.ended(remove.discrete(below), terms)
        if self.rate is None:
            return law
        height, gone, top, near = whole(law), (law.infinite,) * 2, (law.highest,) * 2, (law.reached,) * 2
        return self.known_by(height, height, infinite=gone, highest=top, reached=near, exact=True)

    def ended(self, law: Law, terms: Terms) -> Law:
        """A gathered sum that also knows the largest loss of what it was gathered from."""
        plain = replace(self, rate=None)
        laws = [(leaf.ball_law(plain), count) for leaf, count in terms]
        tops: list[tuple[Ball, int]] = [(one.highest, count) for one, count in laws]
        if any(top is None for top, _ in tops):
            return law
        highest: Ball | None = sum((top * count for top, count in tops), arb(0))
        if self.rate is not None:
            leaks = not self.removing and not all(one.infinite.is_zero() for one, _ in laws)
            highest = self.sampled_loss(None if leaks else highest)
        if highest is None:
            return law
        return replace(law, highest=highest if law.highest is None else highest.min(law.highest))

    def unrounded(self, value: float) -> float:
        """A parameter that may have been rounded up by some units: from below they are taken off."""
        return value if self.upper else value * (1.0 - ROUNDED_UP)


def highest_of(laws: Sequence[Law]) -> Ball | None:
    """The largest loss of several laws, where each has one."""
    tops: list[Ball] = [law.highest for law in laws]
    return None if any(top is None for top in tops) else reduce(arb.max, tops)


def reached_of(laws: Sequence[Law]) -> Ball | None:
    """What the losses of some of several laws come near to."""
    known: list[Ball] = [law.reached for law in laws if law.reached is not None]
    return reduce(arb.max, known) if known else None


def _gaussian(laws: Sequence[tuple[Law, int]]) -> Ball | None:
    """mu of a sum of Gaussians alone."""
    squares: list[tuple[Ball, int]] = [(law.variance, count) for law, count in laws]
    if any(square is None for square, _ in squares):
        return None
    total: Ball = sum((square * count for square, count in squares), arb(0))
    return total.sqrt()
