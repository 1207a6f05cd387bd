"""Where noise is added: the value, whom it protects and how far neighbours are apart; everything but the noise law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.lattice import Lattice, default_lattice, lattice_of
from tallystick.mechanisms.noise.additive import AdditiveNoise, Move, enlarged_norm
from tallystick.mechanisms.noise.law import NoiseLaw
from tallystick.mechanisms.noise.sensitivity import Sensitivity

_LONGEST = 10**9


@dataclass(frozen=True, slots=True)
class Site:
    """Everything but the noise law."""

    move: Move
    dimension: int | None
    protects: Protects

    def lattice(self, granularity: float | None, order: int, noise: float) -> Lattice:
        """The lattice asked for, or one whose rounding adds about a millionth to the norm."""
        if granularity is not None:
            return lattice_of(granularity)
        return default_lattice(sensitivity=self.move.norm / self.move.changed ** (1 / order), noise=noise)

    def norm(self, lattice: Lattice | None, law: NoiseLaw) -> Fraction:
        """What the law's norm can be after rounding, to the power of its order."""
        if self.move.changed == 1:
            return Fraction((lattice or Lattice(0)).steps(self.move.norm)) ** law.order
        return enlarged_norm(law, lattice, self.move)

    def with_law(self, lattice: Lattice | None, law: NoiseLaw) -> AdditiveNoise:
        """The mechanism."""
        return AdditiveNoise(law, lattice, self.move, self.dimension, self.protects)


def site_of(
    sensitivity: float | Sensitivity,
    order: int,
    dimension: int | None,
    changed: int | None,
    adjacency: Adjacency | str | None,
    unit: str | None,
    *,
    whole: bool = False,
) -> Site:
    """The checked arguments of a verb; ``order`` is that of the law's norm, ``whole`` data are integers."""
    size = None if dimension is None else check.count("dimension", dimension, least=1, most=_LONGEST)
    wanted = None if adjacency is None else check.adjacency(adjacency)
    if isinstance(sensitivity, Sensitivity):
        if wanted not in (None, sensitivity.adjacency):
            raise InvalidInput("adjacency", wanted, f"{sensitivity.adjacency}, which the sensitivity is for")
        wanted, each = sensitivity.adjacency, sensitivity.each
        norm, affected = (sensitivity.l1 if order == 1 else sensitivity.l2), sensitivity.changed
    else:
        norm, each, affected = check.positive("sensitivity", sensitivity), None, size or 1
    least = min(affected, size or 1) if isinstance(sensitivity, Sensitivity) else 1
    if changed is not None:
        affected = check.count("changed", changed, least=1, most=_LONGEST)
        if affected < least:
            raise InvalidInput("changed", changed, f"at least {least}: in so many coordinates this sensitivity appears")
    affected = min(affected, size or 1)
    if whole and affected == 1 and norm != int(norm):
        raise InvalidInput("sensitivity", norm, "a whole number >= 1 for integer data")
    if affected == 1:
        norm = norm if each is None else each
    return Site(Move(norm, affected, each), size, Protects(wanted or Adjacency.ADD_REMOVE, unit))


def only_one(default: str, **numbers: float | None) -> str:
    """The name of the one number that was given."""
    given = [name for name, value in numbers.items() if value is not None]
    if len(given) != 1:
        raise InvalidInput(default, " and ".join(given) or None, "exactly one of " + ", ".join(numbers))
    return given[0]


def in_units(lattice: Lattice | None, argument: str, size: float) -> float:
    """A noise size in lattice units; exact, because the lattice is a power of two."""
    return float(drawable(argument, size, Fraction(size) / (Fraction(2) ** lattice.exponent if lattice else 1)))


def drawable(argument: str, given: float, steps: Fraction, *, order: int = 1) -> Fraction:
    """A noise size in lattice units (or its square), if the exact samplers can make it."""
    if not Fraction(2) ** -1000 <= steps <= Fraction(2) ** (50 * order):
        allowed = "a value that needs noise between 2^-1000 and 2^50 lattice steps, or another granularity"
        raise InvalidInput(argument, given, allowed)
    return steps


def least_float(enough: Callable[[Fraction], bool], rough: Fraction) -> float:
    """The least double near ``rough`` that is exactly enough."""
    size = float(rough)
    for _ in range(4):
        size = math.nextafter(size, 0.0)
    while not enough(Fraction(size)):
        size = math.nextafter(size, math.inf)
    return size
