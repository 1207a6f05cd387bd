"""What a denied plan is told: which smaller plans would fit what is left."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import BudgetExceeded, TallystickError
from tallystick.ledger.denial import down_to_three, retold
from tallystick.printing import down
from tallystick.tables.budget import cost_of, cost_of_part

SIZES: Final = (100, 1_000)
"""The sizes of a group for which a larger error is told, where it depends on that."""

if TYPE_CHECKING:
    from tallystick.ledger.filters import Amount
    from tallystick.tables.table import Plan


def with_plans(plan: Plan, problem: BudgetExceeded) -> BudgetExceeded:
    """The same denial, with plans that fit before the general advice."""
    left, asked = problem.left, problem.asked
    if left is not None and asked is not None and left.a1 < asked.a1:
        return retold(problem, _other_keys(plan, left))
    first = getattr(left, "first", Fraction(0))
    fits = tuple(
        offer for offer in (_larger_error(plan, first), _fewer(plan, first), _fewer_groups(plan, first)) if offer
    )
    return retold(problem, fits) if fits else problem


def _other_keys(plan: Plan, left: Amount) -> list[str]:
    """Where too little delta is left: what spends less of it."""
    offers = ["public keys (keys=[...], --keys FILE), which need no delta"] if plan.threshold is not None else []
    return [*([f"a plan with delta at most {down(left.delta, 3)}"] if left.a1 else []), *offers]


def of_a_model(problem: BudgetExceeded) -> BudgetExceeded:
    """The sums of a model are its own business: none can be dropped, and their errors are not those of the model."""
    return retold(problem, [line.split(" (")[0] for line in problem.fits if line.startswith(("rho=", "epsilon="))])


def _word(plan: Plan) -> str | None:
    return next((word for word in ("rho", "epsilon") if word in plan.budget), None)


def _larger_error(plan: Plan, left: Fraction) -> str | None:
    """The same table on what is left."""
    word = _word(plan)
    if word is None or left <= 0 or word != plan.noises[0].law.currency:
        return None
    amount = down_to_three(float(left))
    try:
        smaller = plan.reprice({word: amount})
    except TallystickError:
        return None
    name, measure = plan.query.measures[0]
    if not measure.error_needs_size:
        return f"{word}={amount:g} ({name} {_instead(smaller.error()[name], plan.error()[name])} at 95%)"
    less, now = (each.error_by_size(SIZES)[name] for each in (smaller, plan))
    said = ", of ".join(f"{size:,} rows {_instead(less[size], now[size])}" for size in SIZES)
    return f"{word}={amount:g} ({name} in a group of {said} at 95%)"


def _instead(larger: float, error: float) -> str:
    return f"+-{larger:.4g} instead of +-{error:.4g}"


def _fewer(plan: Plan, left: Fraction) -> str | None:
    """The first measures whose parts cost no more than is left, at the same error."""
    if plan.noises[0].law.currency != "rho":
        return None
    costs = {noise.part: cost_of_part(plan.query, noise) for noise in plan.noises}
    paid: set[Any] = {noise.part for noise in plan.noises} - {
        part for _, measure in plan.query.measures for part in measure.parts()
    }
    kept: list[str] = []
    for name, measure in plan.query.measures:
        wanted = paid | set(measure.parts())
        if sum((costs[part] for part in wanted), Fraction(0)) > left:
            break
        paid, kept = wanted, [*kept, name]
    if not kept or len(kept) == len(plan.measures):
        return None
    dropped = len(plan.measures) - len(kept)
    rho = sum((costs[part] for part in paid), Fraction(0))
    price = f"rho={_up(float(rho)):g}, same error"
    return f"drop {dropped} of {len(plan.measures)} measures ({', '.join(kept)} alone: {price})"


def _fewer_groups(plan: Plan, left: Fraction) -> str | None:
    """A smaller cap on groups per unit, at the same noise."""
    caps = plan.query.caps
    if plan.noises[0].law.currency != "rho" or caps.max_groups < 2 or left <= 0:
        return None
    groups = math.floor(caps.max_groups * left / cost_of(plan.query, plan.noises))
    if not 1 <= groups < caps.max_groups:
        return None
    smaller = replace(caps, max_groups=groups)
    return f"max_groups={smaller.max_groups} (fewer groups per unit, same noise)"


def _up(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step) * step:.3g}")
