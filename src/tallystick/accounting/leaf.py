"""What a leaf of a loss expression says about itself: everything that the accountant asks.

A leaf checks its parameters where it is built, registers its kind by being defined, writes and reads its own JSON,
writes itself as a person would type it, and knows its closed forms. Adding one is a new file and its name in
``accounting/losses.py`` and ``tallystick/__init__.py``; ``tests/contracts/test_adding_a_leaf.py`` does it.

One file names leaves all the same, because what it writes is not the accountant's language: ``dp_events_written.py``
(events of another project). What it does not know it refuses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction, Protects
from tallystick.accounting.bounds import WIDTH, Bounds
from tallystick.accounting.pair import DominatingPair
from tallystick.errors import InvalidInput, NotComputable
from tallystick.numerics.law import DUST, Array
from tallystick.rounding import as_written, double_above

if TYPE_CHECKING:
    from tallystick.accounting.ask import Ask
    from tallystick.numerics.rigorous.laws import BallLaw

Read = Callable[[str, float], Fraction]
LossLattice = tuple[float, float, bool]
"""Origin and step of a lattice of losses, and whether there are no other losses."""

KINDS: dict[str, type[Leaf]] = {}
"""Every leaf that was defined, by its kind; ``accounting.losses`` defines them all."""

DEEPEST = 20
"""Leaves inside one another."""


class Limit(NamedTuple):
    """The budget a leaf names: a currency of the ledger, an amount of it, a delta and, for Renyi, the order."""

    currency: str
    amount: float
    delta: float = 0.0
    order: float | None = None


class End(NamedTuple):
    """Where a law of losses ends: at most this mass gives everything away, and no other loss is larger than this."""

    mass: Fraction
    loss: float


class Leaf(ABC):
    """One mechanism, as far as privacy goes. Frozen and hashable; subclasses are final dataclasses.

    Only ``kind`` and ``pair`` must be written, and ``__post_init__`` that refuses what no constructor allows; the
    other members are facts and closed forms that are used when present.
    """

    __slots__ = ()
    kind: ClassVar[str]
    """Name of the constructor, and of the leaf in JSON; its meaning never changes."""
    relations: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
    """The neighbours it may speak about; the first is what its constructor means if none is named."""
    alone: ClassVar[bool] = True
    """False for a leaf that is only ever inside another one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in vars(cls):
            return  # a helper inside a computation, which no text can name
        # A dataclass with slots is defined twice, under one name.
        known = KINDS.setdefault(cls.kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"two leaves of kind {cls.kind}: {known.__qualname__} and {cls.__qualname__}")
        KINDS[cls.kind] = cls

    @abstractmethod
    def pair(self, direction: Direction) -> DominatingPair:
        """The dominating pair in one direction: with the unit against without it (REMOVE), or reversed."""

    # ---- who is protected ----

    def covers_adjacency(self, adjacency: Adjacency) -> bool:
        """Whether its pair is about these neighbours."""
        return adjacency in self.relations

    @property
    def symmetric(self) -> bool:
        """True if both directions have the same pair, so that only one needs to be read."""
        return True

    # ---- closed forms ----

    @property
    def gaussian_mu(self) -> float | None:
        """mu if the pair is exactly N(0,1) against N(mu,1); such leaves merge by adding mu squared."""
        return None

    @property
    def gaussian_below(self) -> float | None:
        """Return mu rounded down, if it was computed and rounded up: lower bounds use this one."""
        return self.gaussian_mu

    @property
    def gaussian_above(self) -> float | None:
        """A mu whose Gaussian pair dominates this leaf, where one is known; good for long compositions."""
        return self.gaussian_mu

    @property
    def only_renyi(self) -> bool:
        """True if nothing but a Renyi curve is known, so that ``pair`` loses something."""
        return False

    @property
    def only_the_last(self) -> bool:
        """True if it holds only where nothing leaves before the end: no loss of a step whose iterate is seen."""
        return False

    @property
    def attained(self) -> bool:
        """False if the pair is only proved to be enough: then no read-out from below is about the mechanism itself."""
        return True

    @property
    def known_orders(self) -> tuple[float, ...]:
        """Orders at which a Renyi curve is given, and between which it is not."""
        return ()

    @property
    def rounded_up(self) -> bool:
        """True if parameters may come rounded up from the constructor, so that a proof from below takes that off."""
        return False

    @property
    def enclosed(self) -> bool:
        """True if ``ball_law`` is one pair from above and another one from below."""
        return False

    @property
    def exact_alone(self) -> bool:
        """True if ``pair(...).upper`` is attained by a single release although not by compositions."""
        return False

    def ceiling(self, direction: Direction) -> float:
        """A loss that is never exceeded, where one is known beyond what the pair's law says; else infinity."""
        return math.inf

    def end(self, direction: Direction) -> End:
        """The mass at infinity and the largest other loss: those of the pair's law, where nothing better is known."""
        if self.only_renyi:
            return End(Fraction(0), math.inf)
        law = self.pair(direction).upper
        if 0.0 < law.infinity <= DUST:
            return End(Fraction(0), math.inf)  # what was left out numerically is at losses that are numbers
        return End(Fraction(law.infinity), law.highest_above)

    def moments(self) -> tuple[float, float] | None:
        """Mean and variance of the loss in both directions, where they are known better than the pair's law says."""
        return None

    def delta_inside(self, direction: Direction, epsilon: float) -> Bounds | None:
        """delta of one release of this leaf from what is inside of it, where that is better than the pair's law."""
        return None

    def epsilon_inside(self, direction: Direction, delta: float, width: float = WIDTH) -> Bounds | None:
        """epsilon of one release of this leaf in the same way, no narrower than ``width`` where less is enough."""
        return None

    def log_mgf_bound(self, theta: Array) -> Array | None:
        """Upper bound on log E_P[e^{theta L}] (both directions) that beats the pair's own, or None."""
        return None

    def renyi_above(self, direction: Direction, order: float) -> float:
        """An upper bound on the Renyi divergence of any order > 1, where one is known in closed form; else infinity.

        Used at orders for which the pair's law is not good (``Law.orders``), or beyond what is integrated.
        """
        return math.inf if self.gaussian_above is None else 0.5 * order * self.gaussian_above**2

    def replaced(self) -> Leaf | None:
        """The closed form of this leaf after add/remove -> replace, or None where the general rule is used."""
        return None

    def grouped(self, size: int) -> Leaf | None:
        """The closed form of this leaf for groups of ``size`` units, or None where only the chain is known."""
        return None

    def sampled_replaced(self, rate: float, rounded: bool) -> Leaf | None:
        """Poisson-sampled, then add/remove -> replace: the tight pair, or None where only the general rule is known."""
        return None

    @property
    def unamplified(self) -> Leaf:
        """A leaf that is at least as revealing in every sense, without the sampling: taking part always."""
        return self

    @property
    def point(self) -> tuple[float, float] | None:
        """(epsilon, delta) if this is exactly the worst of all (epsilon, delta)-DP mechanisms."""
        return None

    def squared_mu(self, read: Read = as_written) -> Fraction | None:
        """mu squared of a Gaussian pair, from the parameters as they were written, or as ``read`` takes them."""
        return None

    def concentrated_goal(self) -> tuple[Fraction, Fraction] | None:
        """(rho, delta) of a zCDP claim that is enough for this one, where it is a goal: from below, not from above."""
        return self.concentrated()

    def concentrated(self) -> tuple[Fraction, Fraction] | None:
        """(rho, delta) for which a theorem gives delta-approximate rho-zCDP in closed form, or None."""
        squared = self.squared_mu()
        return None if squared is None else (squared / 2, Fraction(0))

    def conditions(self) -> str:
        """What must hold for its numbers beyond what its name says, in words; ``explain_computation`` repeats it."""
        return ""

    def limit(self) -> Limit | None:
        """The budget it names when it is given as one, or None."""
        return None

    def ball_law(self, ask: Ask) -> BallLaw:
        """Its law in ball arithmetic, which is imported only here."""
        covered = sorted(kind for kind, leaf in KINDS.items() if leaf.ball_law is not Leaf.ball_law)
        raise NotComputable(f"no rigorous value of {self.kind}; covered are {', '.join(covered)}")

    def loss_lattice(self, direction: Direction) -> LossLattice | None:
        """Where its outcomes of positive mass are, if they are on one lattice: a plan for certificates, no bound."""
        return None

    # ---- text ----

    def text(self, protects: Protects) -> str:
        """The expression that means this leaf about these neighbours (``accounting.expression`` reads it)."""
        return written_call(self, protects, *(f"{name}={shown(getattr(self, name))}" for name in _written(type(self))))

    def __str__(self) -> str:
        return self.text(Protects(next(relation for relation in self.relations if self.covers_adjacency(relation))))

    # ---- JSON ----

    @property
    def depth(self) -> int:
        """How many leaves are inside one another here."""
        return 1

    def to_record(self) -> dict[str, Any]:
        """The kind and the parameters, as JSON has them."""
        return {"kind": self.kind, **{name: _plain(getattr(self, name)) for name in _written(type(self))}}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Leaf:
        """The leaf of a record of this kind; its own checks refuse what no constructor allows."""
        names = _written(cls)
        if set(record) - {"kind"} != set(names):
            raise InvalidInput(cls.kind, sorted(set(record) - {"kind"}), "the fields " + ", ".join(names))
        return cls(**{name: _rich(record[name]) for name in names})


def rounded_by_constructor() -> Any:
    """A field that says whether the constructor had to round a parameter, which a proof from below takes off.

    It is no part of the leaf: neither compared nor written, because what is written is meant as it stands.
    """
    return field(default=False, compare=False, repr=False)


def _written(leaf: type[Leaf]) -> list[str]:
    return [f.name for f in fields(leaf) if f.compare]  # type: ignore[arg-type]


class Wrapper(Leaf):
    """A leaf around another one, its ``base``."""

    __slots__ = ()
    base: Leaf

    @property
    def depth(self) -> int:
        return 1 + self.base.depth


Terms = tuple[tuple[Leaf, int], ...]


def all_inside(value: Any) -> Iterator[Leaf]:
    """Every leaf of a sum, and every leaf inside another one."""
    if isinstance(value, tuple):
        for part in value:
            yield from all_inside(part)
    elif isinstance(value, Leaf):
        yield value
        for part in fields(value):  # type: ignore[arg-type]
            yield from all_inside(getattr(value, part.name))


def ends_of(terms: Terms, direction: Direction) -> tuple[tuple[End, int], ...]:
    """Where each leaf of a sum ends, with its count."""
    return tuple((leaf.end(direction), count) for leaf, count in terms)


def largest_together(ends: Iterable[tuple[End, int]]) -> float:
    """The largest loss of a sum that does not give everything away, rounded up."""
    if any(math.isinf(one.loss) for one, _ in ends):
        return math.inf
    return double_above(sum((count * Fraction(one.loss) for one, count in ends), Fraction(0)))


def read_leaf(record: Any) -> Leaf:
    """The leaf that a JSON record means.

    >>> import tallystick.accounting.losses
    >>> print(read_leaf({"kind": "gaussian", "sigma": 2}))
    gaussian(sigma=2)
    """
    kind = record.get("kind") if isinstance(record, dict) else record
    if not isinstance(record, dict) or not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput("kind", kind, "one of " + ", ".join(sorted(KINDS)))
    return KINDS[kind].from_record(record)


def _plain(value: Any) -> Any:
    if isinstance(value, Leaf):
        return value.to_record()
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _rich(value: Any) -> Any:
    if isinstance(value, dict):
        return read_leaf(value)
    return tuple(_rich(entry) for entry in value) if isinstance(value, list) else value


def merged(terms: Iterable[tuple[Leaf, int]]) -> Terms:
    """Equal leaves merge by adding counts; the order is canonical, so equal sums are equal objects.

    Of two that are equal but for rounding by their constructors the rounded one stays.
    """
    counts: dict[Leaf, int] = {}
    for leaf, count in terms:
        before = counts.pop(leaf, 0) if leaf.rounded_up else counts.get(leaf, 0)
        counts[leaf] = check.count("count", before + count)
    return tuple(sorted(((leaf, c) for leaf, c in counts.items() if c), key=lambda term: str(term[0])))


def check_terms(terms: Any, adjacency: Adjacency | None) -> None:
    """Refuse what is not a sum of leaves (about these neighbours)."""
    allowed = "a tuple of (leaf, count)"
    if not isinstance(terms, tuple):
        raise InvalidInput("terms", terms, allowed)
    for term in terms:
        if not isinstance(term, tuple) or len(term) != 2 or not isinstance(term[0], Leaf) or not term[0].alone:
            raise InvalidInput("terms", term, allowed)
        if type(term[1]) is not int:
            raise InvalidInput("count", term[1], "a whole number")
        check.count("count", term[1], least=1)
        if adjacency is not None:
            check_relation(term[0], adjacency)


def check_inside(leaf: Any, adjacency: Adjacency) -> None:
    """Refuse what cannot be the inside of another leaf."""
    if not isinstance(leaf, Leaf) or leaf.depth >= DEEPEST:
        raise InvalidInput("base", leaf, f"a leaf, at most {DEEPEST} inside one another")
    check_relation(leaf, adjacency)


def check_relation(leaf: Leaf, adjacency: Adjacency) -> None:
    """Refuse a leaf whose pair is about other neighbours."""
    if not leaf.covers_adjacency(adjacency):
        raise InvalidInput("adjacency", adjacency.value, f"the neighbours that {leaf} is about")


def written_call(leaf: Leaf, protects: Protects, *arguments: str) -> str:
    """``kind(arguments)``, with the neighbours and the unit where the constructor would mean others."""
    return f"{leaf.kind}({', '.join((*arguments, *protects.arguments(leaf.relations[0])))})"


def written_sum(terms: Terms, protects: Protects) -> str:
    """The terms with their counts, as a person would type them."""
    texts = [(leaf.text(protects), count) for leaf, count in terms]
    return " + ".join(f"{count} * {text}" if count != 1 else text for text, count in texts)


def shown(value: Any) -> str:
    """A number or nested value the way a person would type it.

    >>> shown(2.0), shown(0.01)
    ('2', '0.01')
    """
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if isinstance(value, (int, float)) else str(value)
