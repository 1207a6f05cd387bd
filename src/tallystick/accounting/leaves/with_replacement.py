"""Batches drawn with replacement: every draw is any of the units, and one unit may be drawn several times.

Under replace-one neighbours the changed unit is drawn K ~ Binomial(draws, 1/population) times. With eta = P(K > 0) the
step's profile at 1 + eta (a - 1), a >= 1, is at most the sum over k >= 1 of P(K = k) times the base's profile at a for
groups of k (Balle, Barthe, Gaboardi 2018; docs/theory/subset-sampling.md): sampling, at rate eta, of a release for a
group whose size is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import Leaf, check_inside
from tallystick.accounting.leaves.gaussian import Gdp
from tallystick.accounting.leaves.pure import two_point_law
from tallystick.accounting.pair import DominatingPair, joined_at_zero, mixed, swapped, told
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

MOST_PASSES = 100
"""Draws per unit of the population, at most: beyond, sampling hides nothing."""

SELDOM = 1e-40
"""Rarer counts of one unit are charged as if every draw were this unit."""

SLACK = 1e-12
"""Relative rounding of the probabilities of counts; the rate makes up for it."""


@dataclass(frozen=True, slots=True)
class WithReplacement(Leaf):
    """``draws`` independent draws from ``population`` units, replace-one neighbours."""

    kind: ClassVar[str] = "with_replacement"
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE,)
    base: Leaf
    draws: int
    population: int

    def __post_init__(self) -> None:
        whole = check.count("population", self.population, least=2)
        most = min(MOST_PASSES * whole, check.MAX_COUNT)
        check.keep(self, draws=check.count("draws", self.draws, least=1, most=most), population=whole)
        check_inside(self.base, Adjacency.REPLACE)
        if _grouped(self.base, 1) is None:
            raise InvalidInput(
                "base", str(self.base), "a loss with a closed form for groups: Gaussian, pure, approximate or discrete"
            )

    def pair(self, direction: Direction) -> DominatingPair:
        counts = counted(self.draws, self.population)
        rate = min(1.0, -math.expm1(self.draws * math.log1p(-1.0 / self.population)) * (1.0 + SLACK))
        whole = math.fsum(counts.values())
        parts = []
        for size, chance in counts.items():
            group = _grouped(self.base, size)
            law = two_point_law(0.0, 1.0) if group is None else group.pair(Direction.REMOVE).upper
            parts.append((law, math.log(chance / whole)))
        step = told(parts)
        if rate < 1.0:
            step = mixed(step, rate)
        # From below nothing is claimed: the base may treat several copies of a unit as one.
        return DominatingPair(joined_at_zero(step, swapped(step)), two_point_law(0.0))

    @property
    def enclosed(self) -> bool:
        return True

    def ball_law(self, ask: Ask) -> BallLaw:
        if not ask.upper:
            return ask.nothing()
        counts = list(counted(self.draws, self.population))
        sizes = counts[:-1] if counts[-1] == self.draws else counts
        return ask.drawn(
            self.draws, self.population, self.base, [(n, _grouped(self.base, n)) for n in [*sizes, self.draws]]
        )

    @property
    def depth(self) -> int:
        return 1 + self.base.depth

    def text(self, protects: Protects) -> str:
        inner = f"batch={self.draws}, population={self.population}, replacement=True"
        return f"{self.base.text(protects)}.subset({inner})"


def _grouped(base: Leaf, size: int) -> Leaf | None:
    """The base for groups of this many units; for one unit itself, where larger groups have a closed form."""
    if base.gaussian_mu is not None:
        return Gdp(base.gaussian_mu).grouped(size)
    group = base.grouped(max(size, 2))
    return base if size == 1 and group is not None else group


@lru_cache(maxsize=256)
def counted(draws: int, population: int) -> dict[int, float]:
    """How likely one unit is drawn 1, 2, ... times; the rarest counts together as every draw.

    >>> {k: round(p, 6) for k, p in counted(2, 4).items()}
    {1: 0.375, 2: 0.0625}
    """
    chance, found, k = math.exp(draws * math.log1p(-1.0 / population)), {}, 0
    while k < draws:
        ratio = (draws - k) / (k + 1.0) / (population - 1.0)
        chance, k = chance * ratio, k + 1
        if ratio < 0.5 and chance < SELDOM:
            found[draws] = max(2.0 * chance, 1e-300)
            break
        found[k] = chance
    return found
