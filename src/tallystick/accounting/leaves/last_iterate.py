"""Noisy contractive iterations that release their last iterate only: mu-GDP by the shift walk.

docs/theory/last-iterate.md has the proofs; ``accounting.iteration`` computes mu, rounded up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from tallystick.accounting import check, iteration
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.leaf import Leaf, Read, shown, written_call
from tallystick.accounting.leaves.gaussian import LARGEST_MU, Gdp, gaussian_pair
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair
from tallystick.errors import InvalidInput
from tallystick.rounding import as_written

if TYPE_CHECKING:
    from tallystick.accounting.rigorous import Ask
    from tallystick.numerics.rigorous.laws import BallLaw


@dataclass(frozen=True, slots=True)
class Cyclic:
    """``batches`` batches in a fixed order, pass after pass; ``position`` is the record's batch, None the worst."""

    batches: int
    position: int | None = None

    def __post_init__(self) -> None:
        check.keep(self, batches=check.count("batches", self.batches, least=1))
        if self.position is not None:
            check.keep(self, position=check.count("position", self.position, least=1, most=self.batches))

    def __str__(self) -> str:
        return f"cyclic(batches={self.batches}{'' if self.position is None else f', position={self.position}'})"


@dataclass(frozen=True, slots=True)
class Shuffled:
    """``batches`` batches, in an order that is drawn without looking at the data, once or for every pass."""

    batches: int

    def __post_init__(self) -> None:
        check.keep(self, batches=check.count("batches", self.batches, least=1))

    def __str__(self) -> str:
        return f"shuffled(batches={self.batches})"


ORDERS: dict[str, type[Cyclic] | type[Shuffled]] = {"cyclic": Cyclic, "shuffled": Shuffled}


@constructor
def cyclic(*, batches: int, position: int | None = None) -> Cyclic:
    """Fixed batches in a fixed order: for ``last_iterate``. The record is in the worst batch, or at ``position``.

    Slots belong to records: the slot of a removed one stays empty, and the batch size is public.

    >>> print(cyclic(batches=10))
    cyclic(batches=10)
    """
    return Cyclic(batches, position)


@constructor
def shuffled(*, batches: int) -> Shuffled:
    """Batches of a random order, drawn once or for every pass without looking at the data: for ``last_iterate``.

    >>> print(shuffled(batches=10))
    shuffled(batches=10)
    """
    return Shuffled(batches)


@dataclass(frozen=True, slots=True)
class LastIterate(Leaf):
    """``sigma`` (noise of a step) and ``diameter`` (of the domain) in units of one record's displacement."""

    kind: ClassVar[str] = "last_iterate"
    steps: int
    contraction: float
    sigma: float
    diameter: float | None = None
    batches: Cyclic | Shuffled | None = None

    def __post_init__(self) -> None:
        check.keep(self, steps=check.count("steps", self.steps, least=1))
        check.keep(self, contraction=check.between("contraction", self.contraction, 0.0, 1.0))
        check.keep(self, sigma=check.scale("sigma", self.sigma))
        if self.diameter is not None:
            check.keep(self, diameter=check.scale("diameter", self.diameter))
        if self.batches is not None and not isinstance(self.batches, Cyclic | Shuffled):
            raise InvalidInput("batches", self.batches, "cyclic(...), shuffled(...), or None for full batches")
        if self.steps % self.every:
            raise InvalidInput("steps", self.steps, f"whole passes over {self.every} batches")
        if self.mu > LARGEST_MU:
            raise InvalidInput("sigma", self.sigma, f"noise that makes the iteration {LARGEST_MU:g}-GDP at least")

    @property
    def every(self) -> int:
        """One record is used once in so many steps."""
        return 1 if self.batches is None else self.batches.batches

    @property
    def mu(self) -> float:
        """What the shift walk proves, rounded up."""
        return _mu(self)

    def pair(self, direction: Direction) -> DominatingPair:
        return gaussian_pair(self.mu)

    @property
    def gaussian_mu(self) -> float:
        return self.mu

    def replaced(self) -> Leaf | None:
        return Gdp(self.mu).replaced() if 2.0 * self.mu <= LARGEST_MU else None

    def grouped(self, size: int) -> Leaf | None:
        return Gdp(self.mu).grouped(size)

    def squared_mu(self, read: Read = as_written) -> Fraction:
        # Plain composition of the uses always holds, and is not rounded.
        return min(Fraction(self.mu) ** 2, self.steps // self.every / read("sigma", self.sigma) ** 2)

    def conditions(self) -> str:
        case = "strongly convex" if self.contraction < 1.0 else "convex"
        place = "unbounded" if self.diameter is None else f"domain of {shown(self.diameter)} displacements"
        batches = "full batches" if self.batches is None else str(self.batches)
        needs = [
            f"without the record a step is Lipschitz with constant {shown(self.contraction)}",
            "the record moves it by at most one displacement",
            "every step has fresh Gaussian noise, inside the projection if there is one",
            "nothing but the last iterate is released",
        ]
        if self.batches is not None:
            needs.append("a removed record leaves its slot empty, and the order does not look at the data")
        return f"last iterate ({case}, {place}, {batches}): {self.mu:.6g}-GDP by the shift walk, if " + "; ".join(needs)

    def ball_law(self, ask: Ask) -> BallLaw:
        from tallystick.numerics.rigorous.continuous import gaussian_law

        return gaussian_law(ask.ball(self.mu), ask.rate, ask.removing)

    def text(self, protects: Protects) -> str:
        given = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return written_call(self, protects, *(f"{name}={shown(value)}" for name, value in given if value is not None))

    def to_record(self) -> dict[str, Any]:
        names = ("steps", "contraction", "sigma", "diameter")
        order = None
        if self.batches is not None:
            order = {"order": type(self.batches).__name__.lower(), **dataclasses.asdict(self.batches)}
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}, "batches": order}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Leaf:
        names = [f.name for f in dataclasses.fields(cls)]
        if set(record) - {"kind"} != set(names):
            raise InvalidInput(cls.kind, sorted(set(record) - {"kind"}), "the fields " + ", ".join(names))
        given = {name: record[name] for name in names}
        return cls(**{**given, "batches": _order_of(given["batches"])})


def _order_of(record: Any) -> Cyclic | Shuffled | None:
    if record is None:
        return None
    name = record.get("order") if isinstance(record, dict) else None
    if not isinstance(name, str) or name not in ORDERS:
        raise InvalidInput("batches", record, "null, or an object whose order is one of " + ", ".join(ORDERS))
    kind = ORDERS[name]
    names = {f.name for f in dataclasses.fields(kind)}
    if set(record) != names | {"order"}:
        raise InvalidInput("batches", sorted(record), "the fields " + ", ".join(sorted(names)))
    return kind(**{field: record[field] for field in names})


@lru_cache(maxsize=256)
def _mu(leaf: LastIterate) -> float:
    position = leaf.batches.position if isinstance(leaf.batches, Cyclic) else None
    return iteration.recurring(
        uses=leaf.steps // leaf.every,
        every=leaf.every,
        after=0 if position is None else leaf.every - position,
        contraction=leaf.contraction,
        sigma=leaf.sigma,
        diameter=leaf.diameter,
    )


@constructor
def last_iterate(
    *,
    steps: int,
    contraction: float,
    sigma: float,
    diameter: float | None = None,
    batches: Any = None,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """Noisy contractive steps of which only the last iterate is released: privacy amplification by iteration.

    ``contraction`` is the Lipschitz constant of a step, at most 1; ``sigma`` (the noise of a step) and ``diameter``
    (of the domain that every step projects to) are in units of the displacement that one record causes.
    ``batches`` is None for full batches, or ``cyclic(...)`` or ``shuffled(...)``. Never above plain composition.

    >>> from tallystick.accounting.leaves.gaussian import gaussian
    >>> loss = last_iterate(steps=1000, contraction=0.99, sigma=50)
    >>> round(loss.gdp_bound(), 4), loss <= 1000 * gaussian(sigma=50)
    (0.2821, True)
    """
    return loss_of(LastIterate(steps, contraction, sigma, diameter, batches), adjacency, unit)
