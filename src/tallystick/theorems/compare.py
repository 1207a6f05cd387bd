"""One composition under every method, side by side: the picture the lecture notes are about.

Bounds are proven; the limit theorem is an approximation and says so; a method that does not apply says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.leaves.last_iterate import Iteration, iteration_of
from tallystick.accounting.loss import PrivacyLoss
from tallystick.digits import ACCOUNTANT, nearest, typed, up
from tallystick.drawing import table
from tallystick.theorems import side_by_side
from tallystick.theorems.side_by_side import Composition, DoesNotApply, MethodAnswer


class Kind(StrEnum):
    """Kind of a row: a bound, an approximation, or refused.

    >>> str(Kind.BOUND)
    'bound'
    """

    BOUND = "bound"
    APPROXIMATION = "approximation"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Row:
    """One method's epsilon (None if refused), its kind, and a note: the best delta0, the order, or the reason."""

    method: str
    epsilon: float | None
    kind: Kind
    note: str

    @property
    def name(self) -> str:
        """Name of the method for people."""
        return NAMES.get(self.method, self.method)

    @property
    def shown(self) -> str:
        """Epsilon for people: a bound is rounded up."""
        if self.epsilon is None:
            return "-"
        return up(self.epsilon, ACCOUNTANT) if self.kind is Kind.BOUND else nearest(self.epsilon, ACCOUNTANT)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an infinite epsilon is written as the text "inf" so that it stays JSON."""
        shown: float | str | None = self.epsilon
        if self.epsilon is not None and math.isinf(self.epsilon):
            shown = "inf"
        return {"method": self.method, "epsilon": shown, "kind": str(self.kind), "note": self.note}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows in the order of history: basic, advanced, optimal, moments, Renyi, concentrated, limit theorem, tight.

    Of an iteration these are rows about every iterate, as ``about`` says, and "last iterate" follows.
    """

    loss: str
    delta: float
    rows: tuple[Row, ...]
    about: str = ""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, method: str) -> Row:
        """The row of one method."""
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(method)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        >>> import tallystick as ts
        >>> compare(ts.gdp(mu=1), delta=1e-5).to_dict()["rows"][-1]["method"]
        'tight'
        """
        rows = [row.to_dict() for row in self.rows]
        return {"loss": self.loss, "delta": self.delta, "rows": rows, **({"about": self.about} if self.about else {})}

    def lines(self) -> list[str]:
        """Return the comparison for people: valid bounds, best first, then what is not a bound, and what is refused."""
        best = self.rows[-1].epsilon
        bounds = sorted((row for row in self if row.kind is Kind.BOUND), key=_size)
        others = [row for row in self if row.kind is Kind.APPROXIMATION]
        refused = [row for row in self if row.kind is Kind.REFUSED]
        lines = [self.about] if self.about else []
        lines += ["", f"{'Valid upper bounds':<26}{'epsilon':>12}   above the true value"]
        lines += [f"  {row.name:<24}{row.shown:>12}   {_distance(row, best, self.rows[-1])}" for row in bounds]
        if others:
            lines += ["", "Not a bound"]
            lines += [f"  {row.name:<24}{row.shown:>12}   {_below(row, best)}".rstrip() for row in others]
        if refused:
            lines += ["", "Does not apply"]
            lines += [f"  {row.name:<24}{row.note}" for row in refused]
        return lines

    def notes(self) -> list[str]:
        """Return how each method found its value."""
        return ["", "How each method found its value", *(f"  {row.name:<24}{row.note}" for row in self if row.note)]

    def __repr__(self) -> str:
        shown = self.loss if len(self.loss) <= _SHOWN else f"{self.loss[: _SHOWN - 3]}..."
        at = f"epsilon {self.rows[-1].shown} at delta {typed(self.delta)}"
        return f"<Comparison of {len(self.rows)} methods: {shown}, {at}>"

    def _repr_html_(self) -> str:
        rows = [(row.name, row.shown, str(row.kind), row.note) for row in self.rows]
        return table(("method", "epsilon", "kind", "note"), rows, (False, True, False, False))

    def __str__(self) -> str:
        shown = self.loss if len(self.loss) <= 200 else self.loss[:197] + "..."
        return "\n".join([f"Epsilon at delta {typed(self.delta)} of {shown}", *self.lines()])


def _size(row: Row) -> tuple[float, bool]:
    """Order of bounds: the smallest first, and of equal ones the certified one."""
    return (math.inf if row.epsilon is None else row.epsilon, row.method != TIGHT)


def _distance(row: Row, best: float | None, tight: Row) -> str:
    """Return how far a bound is above the true value, in words."""
    if row is tight:
        return row.note
    if not row.epsilon or not best or math.isinf(row.epsilon):
        return ""
    ratio = row.epsilon / best
    return f"{nearest(ratio)} times" if ratio >= MANY_TIMES else f"{nearest(100 * (ratio - 1), 2)} %"


def _below(row: Row, best: float | None) -> str:
    """Return on which side of the true value an approximation is, in words."""
    if not row.epsilon or not best or math.isinf(best) or math.isinf(row.epsilon):
        return ""
    share = row.epsilon / best - 1
    side = "below" if share < 0 else "above"
    return f"{nearest(100 * abs(share), 2)} % {side} the true value"


MANY_TIMES = 2.0
"""Ratio from which a bound is called so many times the true value."""
_SHOWN = 50
"""Characters of a loss in the text of a comparison."""
TIGHT = "tight"
NAMES = {
    TIGHT: "exact (tallystick)",
    "basic": "basic composition",
    "advanced": "advanced composition",
    "optimal": "optimal composition",
    "RDP (Mironov)": "Renyi, original",
    "RDP (better)": "Renyi, improved",
    "GDP limit": "Gaussian limit",
}
"""Names of methods for people; other methods are called as in the record."""
LAST = "last iterate"
METHODS: dict[str, tuple[Kind, Callable[[Composition, float], MethodAnswer]]] = {
    "basic": (Kind.BOUND, side_by_side.basic),
    "advanced": (Kind.BOUND, side_by_side.advanced),
    "optimal": (Kind.BOUND, side_by_side.optimal),
    "moments accountant": (Kind.BOUND, side_by_side.moments),
    "RDP (Mironov)": (Kind.BOUND, side_by_side.rdp_printed),
    "RDP (better)": (Kind.BOUND, side_by_side.rdp_better),
    "zCDP": (Kind.BOUND, side_by_side.zcdp),
    "GDP limit": (Kind.APPROXIMATION, side_by_side.limit),
    "tight": (Kind.BOUND, side_by_side.tight),
}


def compare(loss: PrivacyLoss, *, delta: float) -> Comparison:
    """Epsilon of one composition at ``delta`` under every method, marked as bound, approximation or refused.

    Basic, advanced and optimal composition know a step only as (epsilon_0, delta_0): delta_0 is chosen by a search and
    printed in the note. No bound is below the truth; the limit theorem may be.

    >>> import tallystick as ts
    >>> found = compare(100 * ts.gaussian(sigma=10), delta=1e-5)
    >>> round(found["tight"].epsilon, 4), found["GDP limit"].kind
    (4.3772, <Kind.APPROXIMATION: 'approximation'>)
    """
    level = check.probability("delta", delta)
    iteration = iteration_of(loss)
    if iteration is None:
        return Comparison(str(loss), level, _rows(loss, level))
    every = iteration.every(iteration.passes)
    last = _row("tight", Composition(loss, 1), level)
    about = f"All rows but the last are about {every}: every iterate released."
    return Comparison(
        str(loss),
        level,
        (
            *_rows(every, level),
            replace(last, method=LAST, note="by the shift walk, if nothing but the last iterate is released"),
        ),
        about,
    )


def _rows(loss: PrivacyLoss, delta: float) -> tuple[Row, ...]:
    return tuple(_row(name, Composition(loss, 1), delta) for name in METHODS)


@dataclass(frozen=True, slots=True)
class StepCurve:
    """One method's epsilon after each number of steps; None where it does not apply."""

    method: str
    kind: Kind
    steps: tuple[int, ...]
    epsilons: tuple[float | None, ...]


def epsilon_against_steps(
    loss: PrivacyLoss, *, delta: float, steps: Sequence[int], methods: Sequence[str] = tuple(METHODS)
) -> tuple[StepCurve, ...]:
    """Epsilon of ``n * loss`` for each n, one curve per method: the data of the picture.

    >>> import tallystick as ts
    >>> curves = epsilon_against_steps(ts.gaussian(sigma=10), delta=1e-5, steps=[1, 100], methods=["tight"])
    >>> [round(value, 3) for value in curves[0].epsilons]
    [0.341, 4.377]
    """
    level = check.probability("delta", delta)
    numbers = tuple(check.count("steps", n, least=1) for n in steps)
    curves = []
    for name in methods:
        rows = [_row(name, Composition(loss, n), level) for n in numbers]
        curves.append(StepCurve(name, METHODS[name][0], numbers, tuple(row.epsilon for row in rows)))
    return tuple(curves)


def last_iterate_against_steps(iteration: Iteration, *, delta: float, passes: Sequence[int]) -> StepCurve:
    """Epsilon of the last iterate after each number of passes: the curve beside those of composition.

    >>> import tallystick as ts
    >>> found = iteration_of(ts.last_iterate(steps=1000, contraction=0.99, sigma=50))
    >>> curve = last_iterate_against_steps(found, delta=1e-6, passes=[1, 1000])
    >>> [round(value, 2) for value in curve.epsilons]
    [0.07, 1.21]
    """
    numbers = tuple(check.count("passes", n, least=1) for n in passes)
    epsilons = tuple(iteration.last(n, delta=delta).epsilon(delta=delta) for n in numbers)
    return StepCurve(LAST, Kind.BOUND, numbers, epsilons)


@lru_cache(maxsize=4096)
def _row(name: str, whole: Composition, delta: float) -> Row:
    kind, method = METHODS[name]
    try:
        answer = method(whole, delta) if whole.loss.terms else MethodAnswer(0.0, "nothing is released")
    except DoesNotApply as reason:
        return Row(name, None, Kind.REFUSED, str(reason))
    return Row(name, answer.epsilon, kind, answer.note)
