"""Random allocation in balls: the mean B of V_1..V_t, V = dP/dQ of one step, from a lattice of *ratios*.

The chords of the step's H at the knots 0, h, 2h, ... are a pair above it whose V is on that lattice, so the sum of t of
them is too. As E_Q[B] is known, H(a) = 1 - a + E_Q[(a - B)_+], and adding is a E_Q[(1/a - B)_+]: both ask only for sums
below a level, which a transform tilted by e^{-s n} tells from all others (docs/theory/rigorous.md).
"""

from __future__ import annotations

import math
from itertools import accumulate

from flint import acb, arb, ctx

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.laws import Ball, point_work, work
from tallystick.numerics.rigorous.polygon import masses_above
from tallystick.numerics.rigorous.sketch import Height

LEAST, MOST = 2**10, 2**14
"""Knots up to the level that is asked for."""
SPACING = 0.02
"""Of the ratios of one step, where so many knots are enough for it."""
LOUD = 5
"""Levels beyond two to this power are seldom asked for, and get a quarter of the knots."""

FAINTEST = 2.0**-1000
"""Levels beyond this, or its inverse, are no doubles to choose a lattice with."""


def finer(bits: int) -> int:
    """Bits for a step and for the transform, so that undoing its damping leaves enough."""
    return 2 * bits + 128


class Sums:
    """E_Q[(a - B)_+] at levels a up to ``top``, from above."""

    def __init__(self, height: Height, steps: int, top: float, size: int) -> None:
        self.size, self.top = size, top
        self.width = arb(top) / size  # of the lattice of B; that of V is ``steps`` times as wide
        with ctx.workprec(finer(int(ctx.prec))):
            ratios = [self.width * steps * j for j in range(1, size)]
            heights = [height(a.log()) for a in ratios]
            # What is damped is undone afterwards, with the radii of what went in.
            radius = max(float(one.rad()) for one in heights)
            damp = min(0.35 * ctx.prec, -0.5 * math.log(radius + 1e-300)) / size
            masses, _ = masses_above(heights, ratios, arb(1))
            chances = [mass / a for mass, a in zip(masses, ratios, strict=True)]
            chances.insert(0, 1 - sum(chances, arb(0)))
            # The last knot stands for all beyond it, and a sum with one of those is above every level asked for.
            chances[-1] = arb(0)
            found = acb.dft([acb(chance * (-arb(damp) * n).exp()) for n, chance in enumerate(chances)])
            half = [value**steps for value in found[: size // 2 + 1]]
            both = [*half, *(value.conjugate() for value in half[-2:0:-1])]
            back = [value.real for value in acb.dft(both, inverse=True)]
            # Modulo the size a mass also has those of larger sums, damped: never too little.
            sums = [(value * (arb(damp) * n).exp()).max(arb(0)) for n, value in enumerate(back)]
        self.chances = list(accumulate(sums, initial=arb(0)))
        self.means = list(accumulate((n * mass for n, mass in enumerate(sums)), initial=arb(0)))

    def below(self, a: Ball) -> Ball:
        """E_Q[(a - B)_+] for a at or below the last knot."""
        if not a <= self.width * (self.size - 1):
            raise NotComputable("a level beyond the knots of random allocation")
        place = min(self.size, max(0, math.ceil(float(a / self.width)) + 1))
        while place > 0 and not self.width * (place - 1) <= a:
            place -= 1  # not surely at or below the level
        # A knot inside the ball of the level may be left out, or lie above it: by twice its radius at most.
        return a * self.chances[place] - self.width * self.means[place] + arb(0).union(2 * arb(a.rad()))


def allocated(remove: Height, add: Height, steps: int) -> tuple[Height, Height]:
    """H of an epoch in both orders, from those of a step; never above a step's own (joint convexity)."""
    tables: dict[int, Sums] = {}

    def below(a: Ball) -> Ball:
        if not FAINTEST < float(a) < 1.0 / FAINTEST:
            return a  # B is not negative; there a step's own H is what is left to say
        octave = math.ceil(math.log2(float(a)) + 0.01)  # so that a is below the last knot, of 1024 or more
        if octave not in tables:
            wanted = 2 ** math.ceil(math.log2(steps / SPACING) + octave)
            size = min(max(wanted, LEAST), MOST if octave <= LOUD else MOST // 4)
            work(6.0 * size * point_work())
            tables[octave] = Sums(remove, steps, 2.0**octave, size)
        return tables[octave].below(a)

    def removing(x: Ball) -> Ball:
        return (-x.expm1() + below(x.exp())).min(remove(x)).max(arb(0))

    def adding(x: Ball) -> Ball:
        return (x.exp() * below((-x).exp())).min(add(x)).max(arb(0))

    return removing, adding
