"""What a release does to one ordered pair of neighbouring data sets, and how the transformations change it.

A ``World`` is the list of independent parts an attacker sees; a ``Truth`` holds

- ``variants``  mechanisms that really exist, each with its two orders (remove, add; under replace forward, backward):
                no upper bound may lie below any of them;
- ``pointwise`` sides each of whose points some mechanism attains, though none attains them all: a lower bound on one
                number of one release may reach them;
- ``ceiling``   one pair per order that no mechanism with this loss exceeds (None where none is known to the referee):
                no lower bound may lie above it.

Where the leaf's pair is attained, both are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any

from flint import arb

from referee import epochs, lines, splines
from referee.balls import ONE, ZERO, ball, near, within
from referee.binomials import repeated
from referee.brackets import coarse, dilated
from referee.finite import Finite, Mixed, TooMany, hull, tidy
from referee.lattice import DiscreteGaussian
from referee.mixtures import GaussianMixture
from referee.pairs import Better, Summed
from referee.sides import BoundedRange, Gaussian, Laplace, Largest, Sampled, Searched, Side, Smooth


@dataclass(frozen=True, eq=False)
class Part:
    """``count`` independent draws of one side; ``term`` is its name in the language of tests/reference, if any."""

    side: Side
    count: int = 1
    term: dict[str, Any] | None = None


World = tuple[Part, ...]
Orders = tuple[World, World]


@dataclass(eq=False)
class Truth:
    variants: list[Orders]
    ceiling: Orders | None
    replace: bool = False
    law: bool = False  # is the law of L that of this pair, rather than of some pair that bounds it?
    pointwise: tuple[Side, ...] = ()
    stated: Truth | None = None  # what a loss says, where that is more than any of these mechanisms does
    _resolved: dict[str, Any] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        return self.ceiling is not None and len(self.variants) == 1 and self.ceiling is self.variants[0]

    def low(self) -> list[Side]:
        """Sides of real mechanisms, both orders."""
        return self._sides("low", [w for orders in self.variants for w in orders], False)

    def reach(self) -> list[Side]:
        """Sides that a lower end may reach: of real mechanisms, at one point, and of what the loss says."""
        return [*self.low(), *self.pointwise, *(self.stated.reach() if self.stated else [])]

    def roof(self) -> list[Side] | None:
        """Sides that no lower end may exceed; None where the referee knows none."""
        return self.high() or (self.stated.roof() if self.stated else None)

    def high(self) -> list[Side] | None:
        """Sides that bound every mechanism, both orders; None where the referee knows none."""
        if self.ceiling is None:
            return None
        found = self._sides("high", list(self.ceiling), True)
        return found if len(found) == 2 else None

    def _sides(self, name: str, worlds: list[World], above: bool) -> list[Side]:
        if name not in self._resolved:
            direction = ["remove", "add"] * len(worlds)
            tried = [resolved(w, above, d) for w, d in zip(worlds, direction, strict=False)]
            self._resolved[name] = [s for s in tried if s is not None]
        return self._resolved[name]

    def mapped(self, change: Callable[[World, int], World], top: Callable[[World, int], World] | None = None) -> Truth:
        """The same change to every order of every variant and to the ceiling."""
        variants = [(change(a, 0), change(b, 1)) for a, b in self.variants]
        if self.exact and top is None:
            return Truth(variants, variants[0], self.replace)
        over = top or change
        ceiling = (over(self.ceiling[0], 0), over(self.ceiling[1], 1)) if self.ceiling else None
        return Truth(variants, ceiling, self.replace)


def exact(
    remove: Side, add: Side | None = None, term: dict[str, Any] | None = None, *, replaced: bool = False
) -> Truth:
    """A loss whose pair is attained; with one side only, a pair that is its own swap."""
    orders = ((Part(remove, 1, term),), (Part(add or remove, 1, term),))
    return Truth([orders], orders, replaced, law=True)


# ------------------------------------------------------------------------------------------------- reading a world


def resolved(world: World, above: bool, direction: str) -> Side | None:
    """One side for the whole world: listed, in closed form, or from the contour of tests/reference with its error."""
    finite = Finite(((ONE, ONE),))
    square = ZERO
    smooth: list[Part] = []
    for part in world:
        if isinstance(part.side, Finite):
            try:
                finite = finite.times(part.side.power_of(part.count))
            except TooMany:
                return (repeated(part.side, part.count) if len(world) == 1 else None) or contour(world, direction)
        elif isinstance(part.side, Gaussian):
            square += part.count * part.side.mu**2
        else:
            smooth.append(part)
    if square > 0:
        smooth.append(Part(Gaussian(square.sqrt())))
    if not smooth:
        return finite
    single = _single(smooth) or along_lines(smooth) or joined_pair(smooth)
    if single is None or (not isinstance(single, Smooth) and len(finite.outcomes) > 1):
        return contour(world, direction) or bracketed(finite, smooth, above)
    if len(finite.outcomes) == 1:
        return single
    return Mixed(finite, single) if isinstance(single, Smooth) else None


def _single(parts: list[Part]) -> Side | None:
    if len(parts) > 1:
        return None
    side, count = parts[0].side, parts[0].count
    if count == 1:
        return side
    if isinstance(side, Laplace | BoundedRange):
        return splines.summed(side, count)
    return side.added(count) if isinstance(side, DiscreteGaussian) else None


def along_lines(parts: list[Part]) -> Side | None:
    """Mixtures and samples of Gaussians by contours; two of them, where that is not sure, over the points of one."""
    line = lines.summed([(p.side, p.count) for p in parts])
    other = joined_pair(parts) if line is not None else None
    return line if not isinstance(other, Smooth) or line is None else Better(line, other)


def joined_pair(parts: list[Part]) -> Side | None:
    """Two smooth draws, one of them Gaussian, a mixture or a sample: summed over the points of the other."""
    draws = [p.side for p in parts for _ in range(min(p.count, 3))]
    if len(draws) != 2:
        return None
    line = (Gaussian, GaussianMixture)
    plain = [s for s in draws if isinstance(s, line) or (isinstance(s, Sampled) and isinstance(s.base, line))]
    if not plain:
        return None
    inner = next((s for s in plain if isinstance(s, Gaussian)), plain[0])
    outer = draws[1] if draws[0] is inner else draws[0]
    if not isinstance(outer, Smooth):
        return None
    found = Summed(outer, inner)
    return found if found._points[0] else None  # without points every sum would be nothing


def bracketed(finite: Finite, parts: list[Part], above: bool) -> Side | None:
    """A finite pair below (coarse outcomes) or above (outcomes pulled apart), for two or three draws."""
    if sum(p.count for p in parts) > 2 or len(finite.outcomes) > 8:
        return None
    make = dilated if above else coarse
    total = finite
    try:
        for part in parts:
            if not isinstance(part.side, Smooth):
                return None
            for _ in range(part.count):
                total = total.times(make(part.side, 40))
    except TooMany:
        return None
    return total


def contour(world: World, direction: str) -> Side | None:
    """The oracle of tests/reference: independent of the accountant, with an error estimate of its own."""
    if any(part.term is None for part in world):
        return None
    from referee.contours import searched

    found = searched(tuple((tuple(sorted(p.term.items())), p.count) for p in world if p.term), direction)
    if found is None:
        return None
    finite, tops = ONE, [part.side.top() for part in world]
    for part in world:
        finite *= (part.count * (-part.side.infinite()).log1p()).exp() if part.side.infinite() < 1 else ZERO
    end = None if any(t is None for t in tops) else sum((p.count * t for p, t in zip(world, tops, strict=True)), ZERO)
    return replace(found, mass=1 - finite, end=end)


# ----------------------------------------------------------------------------------------------- transformations


def times(truth: Truth, count: int) -> Truth:
    if count == 1:
        return truth

    def change(world: World, _: int) -> World:
        return tuple(replace(part, count=part.count * count) for part in world)

    result = truth.mapped(change)
    result.law = truth.law
    if truth.replace and count > 1:
        result.variants += [_halves(a, b, count) for a, b in truth.variants if a is not b]
    return result


def _halves(one: World, two: World, count: int) -> Orders:
    """Under replace a data set may be the heavier one in some steps and the lighter in others."""
    half = count // 2

    def both(x: World, y: World) -> World:
        return tuple(replace(p, count=p.count * half) for p in x) + tuple(
            replace(p, count=p.count * (count - half)) for p in y
        )

    return both(one, two), both(two, one)


def plus(first: Truth, second: Truth) -> Truth:
    size = max(len(first.variants), len(second.variants))
    left, right = islice(cycle(first.variants), size), islice(cycle(second.variants), size)
    variants = [(a + c, b + d) for (a, b), (c, d) in zip(left, right, strict=True)]
    if first.exact and second.exact:
        result = Truth(variants, variants[0], first.replace)
    else:
        both = first.ceiling and second.ceiling
        ceiling = (first.ceiling[0] + second.ceiling[0], first.ceiling[1] + second.ceiling[1]) if both else None
        result = Truth(variants, ceiling, first.replace)
    result.law = first.law and second.law
    return result


def single_side(world: World, above: bool, adding: bool) -> Side | None:
    if len(world) == 1 and world[0].count == 1:
        return world[0].side
    return resolved(world, above, "add" if adding else "remove")


def _sampled_world(rate: arb, above: bool, plain: float | None) -> Callable[[World, int], World]:
    def change(world: World, order: int) -> World:
        if not world:
            return world
        side = single_side(world, above, order == 1)
        term = world[0].term if len(world) == 1 and world[0].count == 1 else None
        if side is None or isinstance(side, Unknown):
            return (Part(Unknown()),)
        if not isinstance(side, Smooth):
            return (Part(side if rate >= 1 else sampled_profile(side, rate, adding=order == 1)),)
        if isinstance(side, Finite):
            new: Smooth = side.sampled(rate, adding=order == 1)
        elif isinstance(side, Sampled):
            new = Sampled(side.base, side.rate * rate, order == 1)
        else:
            new = Sampled(side, rate, order == 1)
        if rate >= 1:
            new = side
        known = term is not None and "rate" not in term and plain is not None
        return (Part(new, 1, {**term, "rate": plain} if known and term is not None else None),)

    return change


def sampled_profile(base: Side, rate: arb, *, adding: bool) -> Side:
    """Poisson sampling of a side known by its profile: ((1-q) Q + q P, Q) and (P, (1-q) P + q Q) at every a."""

    def remove(a: arb) -> arb:
        inner = (a - 1 + rate) / rate
        return rate * base.profile(inner) if inner > 0 else (1 - a).max(ZERO)

    def add(a: arb) -> arb:
        rest = 1 - a * (1 - rate)
        return rest * base.profile(a * rate / rest) if rest > 0 else ZERO

    mass = base.infinite()
    return Searched(add, ZERO) if adding else Searched(remove, rate * mass)


class Unknown(Side):
    """A side about which the referee can say nothing."""

    def profile(self, a: arb) -> arb:
        return ball(0.5) + arb(0, 0.5)

    def power(self, alpha: arb) -> arb:
        return ball(0.5) + arb(0, 0.5)

    def infinite(self) -> arb:
        return ball(0.5) + arb(0, 0.5)


def sampled(truth: Truth, rate: float) -> Truth:
    if rate == 0:
        return Truth([((), ())], ((), ()))
    below, above = _sampled_world(ball(rate), False, rate), _sampled_world(ball(rate), True, rate)
    simple = all(len(w) <= 1 for orders in truth.variants for w in orders)
    result = truth.mapped(below) if truth.exact and simple else truth.mapped(below, above)
    result.law = truth.law and simple
    result.pointwise = tuple(Sampled(side, ball(rate), adding) for side in truth.pointwise for adding in (False, True))
    return result


def truncated(truth: Truth, rate: float, most: int, population: int, cut: str) -> Truth:
    """A rule that keeps the unit whenever it was sampled makes this Poisson sampling: a real mechanism.

    At random, among null units, it is Poisson sampling of those that are kept. Nothing exceeds Poisson sampling and a
    leak of rate times P(Binomial(population - 1, rate) >= most), whatever the rule.
    """
    share, whole = ball(rate), population + (cut == "random")
    leak = share * binomial_tail(whole - 1, share, most)
    plain = sampled(truth, rate)
    if not leak > 0:
        plain.law = False
        return plain
    kept = share * (1 - binomial_tail(population - 1, share, most))
    kept += ball(most) / population * binomial_tail(population, share, most + 1)
    real = sampled(truth, float(kept.lower()) * (1 - 2.0**-50)) if cut == "random" else plain
    if plain.ceiling is None:
        return Truth(real.variants, None)
    loud = Part(Finite.of([leak, 1 - leak, 0], [0, 1 - leak, leak]))
    ceiling = ((*plain.ceiling[0], loud), (*plain.ceiling[1], loud))
    return Truth(real.variants, ceiling, pointwise=real.pointwise)


def binomial_tail(trials: int, rate: arb, least: int) -> arb:
    """P(Binomial(trials, rate) >= least), term by term."""
    if least > trials:
        return ZERO
    if least <= 0 or rate >= 1:
        return ONE
    odds = rate / (1 - rate)
    term = (ball(trials) * (-rate).log1p()).exp()
    low = ZERO
    high = ZERO
    for k in range(trials + 1):
        if k >= least:
            high += term
        else:
            low += term
        term = term * odds * (trials - k) / (k + 1)
    return high


def subset(truth: Truth, batch: int, population: int) -> Truth:
    """The changed unit is in the subset with probability batch/population, in one order or the other."""
    rate = ball(batch) / population
    if batch == population:
        return truth

    def change(above: bool) -> Callable[[World, int], World]:
        def mixed(world: World, order: int) -> World:
            return _sampled_world(rate, above, None)(world, order)

        return mixed

    below = change(False)
    either = truth.variants + [(b, a) for a, b in truth.variants]  # the rest of the data may be like x or like y
    variants = [(below(a, 0), below(b, 1)) for a, b in either]
    variants += [(b, a) for a, b in variants]
    top = None
    if truth.ceiling is not None:
        one, two = (change(True)(w, i) for i, w in enumerate(truth.ceiling))
        top = _hulled(one, two)
    attained = tuple(Sampled(side, rate, adding) for side in truth.pointwise for adding in (False, True))
    return Truth(variants, top, True, pointwise=attained)


def replacement(truth: Truth, batch: int, population: int) -> Truth:
    """A mechanism that counts copies of a unit once: the unit is there with probability 1 - (1 - 1/n)^m."""
    chance = 1 - (1 - ball(1) / population) ** batch
    found = subset(truth, 1, 1) if not chance < 1 else sampled_both(truth, chance)
    return Truth(found.variants, None, True)


def sampled_both(truth: Truth, rate: arb) -> Truth:
    change = _sampled_world(rate, False, None)
    either = truth.variants + [(b, a) for a, b in truth.variants]
    return Truth([(change(a, 0), change(b, 1)) for a, b in either], None, True)


def tested(release: Truth, delta: float) -> Truth:
    """Data that pass for certain release; data for which nothing holds differ with probability delta."""
    return Truth([*release.variants, *leak(delta).variants], None)


def leak(delta: float) -> Truth:
    """Nothing, or with probability delta everything."""
    return exact(Finite.of([ball(delta), 1 - ball(delta), 0], [0, 1 - ball(delta), ball(delta)]))


def _hulled(one: World, two: World) -> Orders | None:
    if not one:
        return one, two
    if len(one) != 1 or len(two) != 1:
        return None
    first, second = one[0].side, two[0].side
    both = hull(first, second) if isinstance(first, Finite) and isinstance(second, Finite) else Largest((first, second))
    world = (Part(both, one[0].count),)
    return world, world


def allocated(truth: Truth, steps: int) -> Truth:
    if steps == 1:
        return truth

    def change(above: bool) -> Callable[[World, World], Orders]:
        def epoch(remove: World, add: World) -> Orders:
            if not remove:
                return remove, add
            side = single_side(remove, above, False)
            if isinstance(side, Smooth) and not isinstance(side, Finite):
                if steps == 2 and epochs.knows(side):
                    return two_steps(side)
                side = (dilated if above else coarse)(side, 48 if steps == 2 else 16)
            if not isinstance(side, Finite):
                return (Part(Unknown()),), (Part(Unknown()),)
            try:
                whole = side.allocated(steps)
            except TooMany:
                return (Part(Unknown()),), (Part(Unknown()),)
            return (Part(whole),), (Part(whole.swapped()),)

        return epoch

    variants = [change(False)(a, b) for a, b in truth.variants]
    variants += [epoch for a, _ in truth.variants for epoch in _merged_epochs(a, steps)]
    if truth.exact and isinstance(single_side(truth.variants[0][0], False, False), Finite | type(None)):
        return Truth(variants, variants[0])
    return Truth(variants, change(True)(*truth.ceiling) if truth.ceiling else None)


def _merged_epochs(world: World, steps: int) -> list[Orders]:
    """Two steps of merged outcomes: real mechanisms whose divergences and compositions can be listed."""
    side = single_side(world, False, False) if world else None
    if steps != 2 or isinstance(side, Finite) or not isinstance(side, Smooth):
        return []
    epochs = [coarse(side, cells).allocated(steps) for cells in (48, 12)]
    return [((Part(epoch),), (Part(epoch.swapped()),)) for epoch in epochs]


def two_steps(base: Smooth) -> Orders:
    """Both orders by their integrals; a value is computed once for levels that agree to 40 digits."""
    seen: dict[tuple[bool, str], arb] = {}

    def curve(a: arb, adding: bool) -> arb:
        level = near(a)
        if not 1e-300 < level < 1e300:
            return ONE / 2 + arb(0, 0.5)  # a level that doubles do not hold: undecided, not a crash
        key = a.mid().str(40, radius=False)
        if (adding, key) not in seen:
            seen[adding, key] = (epochs.adding if adding else epochs.removing)(base, a)
        # A curve falls by at most one per unit of a: at its end, where it is next to nothing, no relative error covers
        # that of a.
        return within(seen[adding, key], 1e-14, 1e-14 if level < 1 else 1e-38 * level)

    def roughly(a: float, adding: bool) -> float:
        return 1 - a + a * epochs.roughly(base, 1 / a) if adding else epochs.roughly(base, a)

    sides = [
        Searched(
            lambda a, adding=adding: curve(a, adding),
            rough=(lambda a, adding=adding: roughly(a, adding)) if isinstance(base, Gaussian) else None,
        )
        for adding in (False, True)
    ]
    return (Part(sides[0]),), (Part(sides[1]),)


def worst(members: list[Truth]) -> Truth:
    """All the data may be in any one part, so every member is a witness; the ceiling is the worst at every point."""
    variants = [v for truth in members for v in truth.variants]
    tops = [truth.high() for truth in members]
    if any(t is None for t in tops):
        return Truth(variants, None)
    orders = tuple((Part(Largest(tuple(t[i] for t in tops if t))),) for i in (0, 1))
    return Truth(variants, (orders[0], orders[1]))


def selected(truth: Truth, runs: NegativeBinomial | Poisson) -> Truth:
    """The best of K runs, from the definition: Pr[all K runs rank at most here] = phi(share that ranks at most here).

    A score is any order of the outcomes, with ties broken evenly; every order is a real mechanism. No ceiling is known.
    """
    # A score that is the same for all leaves the mechanism as it was, if there is always a run.
    variants: list[Orders] = list(truth.variants) if runs.nothing().is_zero() else []
    for remove, add in truth.variants:
        for world, adding in ((remove, False), (add, True)):
            side = single_side(world, False, adding) if world else Finite(((ONE, ONE),))
            if isinstance(side, Smooth) and not isinstance(side, Finite):
                gone, side = side.infinite(), coarse(side, 30)
                if gone.is_zero() and any(p.is_zero() != q.is_zero() for p, q in side.outcomes):
                    continue  # masses too small for the balls: the coarse pair is not one of this mechanism
            if not isinstance(side, Finite) or len(side.outcomes) > 80:
                continue
            for ranking in rankings(len(side.outcomes)):
                won = Finite(tidy(winners(side.outcomes, ranking, runs)))
                here, there = (Part(won),), (Part(won.swapped()),)
                variants.append((there, here) if adding else (here, there))
    return Truth(variants or [((), ())], None, truth.replace)


def rankings(size: int) -> list[list[list[int]]]:
    """Orders of outcomes (listed by falling ratio) from the best score down, in groups that tie.

    Monotone orders would acquit a wrong bound: the worst put some of the most foreign-looking outcomes on top, the most
    own-looking next and the rest below.
    """
    every = list(range(size))
    found = [[[i] for i in every], [[i] for i in every[::-1]], [every]]
    for top in sorted({1, size // 4, size // 2}):
        if 0 < top < size:
            foreign, own = every[size - top :][::-1], every[: size - top]
            found.append([[i] for i in foreign + own])
            found.append([foreign, *([i] for i in own)])
    return found


def winners(
    outcomes: tuple[tuple[arb, arb], ...], ranking: list[list[int]], runs: NegativeBinomial | Poisson
) -> list[tuple[arb, arb]]:
    """The law of the winner under both data sets; one more outcome where there may be no run at all."""
    below = [ZERO, ZERO]
    result = [(runs.nothing(), runs.nothing())]
    for group in ranking[::-1]:
        mass = [sum((outcomes[i][side] for i in group), ZERO) for side in (0, 1)]
        factor = [ZERO if mass[s].is_zero() else runs.gain(below[s], mass[s]) / mass[s] for s in (0, 1)]
        result += [(factor[0] * outcomes[i][0], factor[1] * outcomes[i][1]) for i in group]
        below = [below[s] + mass[s] for s in (0, 1)]
    return result


@dataclass(frozen=True)
class NegativeBinomial:
    """phi of the truncated negative binomial law, from Pr[K = k] prop. (1 - gamma)^k (eta)_k / k!, k >= 1."""

    eta: float
    gamma: float

    def nothing(self) -> arb:
        return ZERO

    def gain(self, share: arb, mass: arb) -> arb:
        """phi(share + mass) - phi(share), without the difference of two numbers near one."""
        shape, rest = ball(self.eta), 1 - ball(self.gamma)
        start = 1 - rest * share
        fall = (-rest * mass / start).log1p()
        if self.eta == 0:
            return fall / ball(self.gamma).log()
        return start ** (-shape) * (-shape * fall).expm1() / (ball(self.gamma) ** (-shape) - 1)


@dataclass(frozen=True)
class Poisson:
    """phi of the Poisson law."""

    mean: float

    def nothing(self) -> arb:
        return (-ball(self.mean)).exp()

    def gain(self, share: arb, mass: arb) -> arb:
        return (ball(self.mean) * (share - 1)).exp() * (ball(self.mean) * mass).expm1()
