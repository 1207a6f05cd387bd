"""What a leaf of a loss expression must say about itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

from tallystick.accounting.adjacency import Direction
from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Array


class Leaf(ABC):
    """One mechanism, as far as privacy goes. Frozen and hashable; subclasses are final dataclasses.

    Only ``pair`` must be written; the other members are closed forms that are used when present.
    """

    __slots__ = ()
    kind: ClassVar[str]
    """Name of the constructor, and of the leaf in JSON; its meaning never changes."""

    @abstractmethod
    def pair(self, direction: Direction) -> DominatingPair:
        """The dominating pair in one direction: with the unit against without it (REMOVE), or reversed."""

    @property
    def gaussian_mu(self) -> float | None:
        """mu if the pair is exactly N(0,1) against N(mu,1); such leaves merge by adding mu squared."""
        return None

    @property
    def gaussian_above(self) -> float | None:
        """A mu whose Gaussian pair dominates this leaf, where one is known; good for long compositions."""
        return self.gaussian_mu

    @property
    def symmetric(self) -> bool:
        """True if both directions have the same pair, so that one needs to be read only."""
        return True

    @property
    def only_renyi(self) -> bool:
        """True if nothing but a Renyi curve is known, so that ``pair`` loses something."""
        return False

    @property
    def exact_alone(self) -> bool:
        """True if ``pair(...).upper`` is attained by a single release although not by compositions."""
        return False

    def ceiling(self, direction: Direction) -> float:
        """A loss that is never exceeded, where one is known beyond what the pair's law says; else infinity."""
        return math.inf

    def sampled_replaced(self, rate: float) -> Leaf | None:
        """Poisson-sampled, then add/remove -> replace: the tight pair, or None where only the general rule is known."""
        return None

    def log_mgf_bound(self, theta: Array) -> Array | None:
        """Upper bound on log E_P[e^{theta L}] (both directions) that beats the pair's own, or None."""
        return None

    def replaced(self) -> Leaf | None:
        """The closed form of this leaf after add/remove -> replace, or None where the general rule is used."""
        return None

    def __str__(self) -> str:
        inner = ", ".join(f"{f.name}={shown(getattr(self, f.name))}" for f in fields(self))  # type: ignore[arg-type]
        return f"{self.kind}({inner})"


def shown(value: Any) -> str:
    """A number or nested value the way a person would type it.

    >>> shown(2.0), shown(0.01)
    ('2', '0.01')
    """
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if isinstance(value, (int, float)) else str(value)
