"""What a denied caller is told: asked, left, limit, and what would fit instead."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from tallystick.errors import BudgetExceeded, Refused, TallystickError
from tallystick.ledger.filters import LARGEST, UNITS_0, UNITS_1, USUAL_DELTA, Amount, Filter
from tallystick.printing import amount, down, given

if TYPE_CHECKING:
    from tallystick.ledger.journal import AccountRow

NORMAL_95, LAPLACE_95 = 1.959964, math.log(20)
"""Two-sided 95 % error of a release with standard deviation, or scale, 1."""
ERRORS = (3, 12, 50)


def denied(account: AccountRow, a0: int, a1: int) -> TallystickError:
    """The error for a charge an account did not admit: closed, or too little left."""
    if account.state != "open":
        return Refused(f"account {account.name!r} is closed; nothing was charged and no data was read")
    currency = Filter.named(account.filter)
    price = Amount(currency, a0, a1)
    left = Amount(currency, account.limit0 - account.used0, account.limit1 - account.used1)
    limit = Amount(currency, account.limit0, account.limit1)
    fits = (*suggestions(left, price, account.unit, account.adjacency), *higher_limit(account, a0, a1))
    message = (
        f"asked {price}   left {_like(left, price, upward=False)}   limit {_like(limit, price)}   "
        f"({account.kind} {account.name}, {currency.title})\n"
        "nothing was charged and no data was read\n"
        f"fits: {', or '.join(fits)}"
    )
    return BudgetExceeded(message, asked=price, left=left, limit=limit, fits=fits)


def retold(problem: BudgetExceeded, offers: Sequence[str]) -> BudgetExceeded:
    """The same denial, with these offers before the advice to raise the limit."""
    return _with_fits(problem, (*offers, *(line for line in problem.fits if "higher limit" in line)))


@contextmanager
def offering_epsilon(epsilon: float, price: Callable[[float], Amount]) -> Iterator[None]:
    """Tell who is denied what has one epsilon, such as a fit, which epsilon would fit; ``price`` is that of another."""
    try:
        yield
    except BudgetExceeded as problem:
        offers = [line for line in problem.fits if line.startswith("a plan with")]
        if (smaller := _smaller(epsilon, price, problem)) is not None:
            offers.append(f"epsilon {smaller:g}")
        raise retold(problem, offers) from None


def _smaller(epsilon: float, price: Callable[[float], Amount], problem: BudgetExceeded) -> float | None:
    """Three digits of an epsilon that fits, not much less than the largest."""
    left, asked = problem.left, problem.asked
    if left is None or asked is None or left.a0 <= 0 or asked.a0 <= left.a0:
        return None
    power = 1.0 if left.filter.kind == "approx" else 0.5  # the others grow like its square, or slower
    tried, cost = epsilon, asked
    try:
        for _ in range(8):
            tried = down_to_three(tried * min(0.99, (left.a0 / cost.a0) ** power))
            if (cost := price(tried)).fits(left):
                return tried
    except TallystickError:  # so small an epsilon is none of this fit
        return None
    return None


def down_to_three(value: float) -> float:
    """Three significant digits, rounded down.

    >>> down_to_three(0.123987)
    0.123
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.floor(value / step) * step:.3g}")


def _like(held: Amount, price: Amount, *, upward: bool = True) -> str:
    text = amount(held.first, upward=upward)
    return f"{text}, delta {amount(held.delta, upward=upward)}" if price.a1 else text


def suggestions(left: Amount, price: Amount, unit: str, adjacency: str = "add_remove") -> tuple[str, ...]:
    """In words, what the rest of the budget would pay for; noise is per unit of sensitivity.

    >>> suggestions(Amount(Filter("zcdp"), 10**10), Amount(Filter("zcdp"), 125 * 10**8), "patient")[0]
    'gaussian(sigma=7.08), 95% error +-13.9 patients at sensitivity 1'
    """
    proposals = []
    if left.a1 < price.a1:
        proposals.append(f"a plan with delta at most {down(left.delta, 3)}" if left.a1 else "a plan without delta")
    noise = noise_that_fits(left, adjacency)
    if noise:
        proposals.append(noise.format(unit=plural(unit)))
    if left.a1 >= price.a1 and 0 < 100 * left.a0 // price.a0 < 100:
        proposals.append(f"{100 * left.a0 // price.a0}% of what was asked")
    return tuple(proposals)


def with_delta(problem: BudgetExceeded, account: AccountRow, price: Callable[[float], Amount]) -> BudgetExceeded:
    """The same denial of a loss that was priced at delta 0, and what it costs where a little delta may be used.

    Sampled and composed Gaussians cost a fraction of their sum in zCDP once a delta is spent; ``price`` is the loss's
    at a delta.
    """
    asked, left = problem.asked, problem.left
    if asked is None or left is None or asked.filter.kind != "zcdp" or asked.a1:
        return problem
    delta = float(left.delta) if left.a1 else USUAL_DELTA
    try:
        less = price(delta)
    except TallystickError:
        return problem
    if 2 * less.a0 > asked.a0:
        return problem
    offers = [line for line in problem.fits if "higher limit" not in line]
    if less.fits(left):
        offers.insert(0, f"the same with delta {given(delta)} (delta= or --delta), for {less}")
    higher = (*higher_limit(account, less.a0, less.a1, f", and the same with delta {given(delta)}"),)
    return _with_fits(problem, (*offers, *higher))


def _with_fits(problem: BudgetExceeded, fits: tuple[str, ...]) -> BudgetExceeded:
    message = "\nfits: ".join([str(problem).split("\nfits:")[0], *([", or ".join(fits)] if fits else [])])
    return BudgetExceeded(message, asked=problem.asked, left=problem.left, limit=problem.limit, fits=fits)


def higher_limit(account: AccountRow, a0: int, a1: int, then: str = "") -> tuple[str, ...]:
    """The command that raises this account's limit just enough, when there is such a limit."""
    first = max(account.limit0, account.used0 + a0)
    second = max(account.limit1, account.used1 + a1)
    if _round_up(first) > LARGEST or _round_up(second) >= UNITS_1:
        return ()
    budget = written(Filter.named(account.filter), first, second, account.adjacency)
    command = f'tallystick account raise {shlex.quote(account.name)} --budget "{budget}" --why "..."'
    return (f"a higher limit: {command}{then}",)


def written(currency: Filter, first: int, second: int, adjacency: str = "add_remove") -> str:
    """A budget of at least these units in a few digits, as the command line reads it.

    >>> written(Filter("zcdp"), 512_345_678_901, 10**12), written(Filter.named("rdp@16"), 4 * 10**11, 0, "replace")
    ('zcdp(rho=0.5124, delta=1e-06)', "renyi_dp({16: 0.4}, adjacency='replace')")
    """
    value, delta = float(Fraction(_round_up(first), UNITS_0)), float(Fraction(_round_up(second), UNITS_1))
    words = [f"delta={delta!r}"] if second else []
    words += [] if adjacency == "add_remove" else [f"adjacency='{adjacency}'"]
    if currency.kind == "gdp":
        name = f"gdp(mu={float(f'{_up(math.sqrt(value)):.3g}')!r}"
    elif currency.kind == "rdp":
        name = f"renyi_dp({{{given(float(currency.order or 0))}: {value!r}}}"
    else:
        kind = {"zcdp": "zcdp(rho", "approx": "approx_dp(epsilon" if second else "pure_dp(epsilon"}[currency.kind]
        name = f"{kind}={value!r}"
    return ", ".join([name, *words]) + ")"


def _round_up(amount: int) -> int:
    """Four digits, rounded up."""
    step: int = 10 ** max(0, len(str(amount)) - 4)
    return -(-amount // step) * step


def noise_that_fits(left: Amount, adjacency: str = "add_remove") -> str | None:
    """The least noise one release on ``left`` needs, and its error, as a template for the unit's name."""
    if left.a0 <= 0:
        return None
    value = float(left.first)
    near = "" if adjacency == "add_remove" else f", adjacency='{adjacency}'"
    if left.filter.kind == "approx":
        scale = _up(1 / value)
        return f"laplace(scale={scale:.4g}{near}), 95% error +-{LAPLACE_95 * scale:.3g} {{unit}} at sensitivity 1"
    squared_mu = {"zcdp": 2 * value, "gdp": value}.get(left.filter.kind)
    if squared_mu is None:
        squared_mu = 2 * value / float(left.filter.order or 1)
    sigma = _up(1 / math.sqrt(squared_mu))
    return f"gaussian(sigma={sigma:.4g}{near}), 95% error +-{NORMAL_95 * sigma:.3g} {{unit}} at sensitivity 1"


def counts_that_fit(left: Amount) -> list[tuple[int, int]]:
    """How many counts of sensitivity 1 fit for each 95 % error.

    >>> counts_that_fit(Amount(Filter("zcdp"), 5 * 10**11))
    [(2, 3), (37, 12), (650, 50)]
    """
    value = float(left.first)
    order = float(left.filter.order or 1)
    fitting = []
    for error in ERRORS:
        variance = (error / NORMAL_95) ** 2
        cost = {
            "zcdp": 1 / (2 * variance),
            "gdp": 1 / variance,
            "rdp": order / (2 * variance),
            "approx": LAPLACE_95 / error,
        }[left.filter.kind]
        fitting.append((int(value / cost), error))
    return fitting


def _up(value: float) -> float:
    """Three significant digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / step) * step


def plural(unit: str) -> str:
    """The unit's name for several of them.

    >>> plural("person"), plural("patient"), plural("aircraft"), plural("company")
    ('people', 'patients', 'aircraft', 'companies')
    """
    odd = {"person": "people", "child": "children", "aircraft": "aircraft"}
    usual = f"{unit[:-1]}ies" if unit.endswith("y") and unit[-2:-1] not in "aeiou" else f"{unit}s"
    return odd.get(unit, unit if unit.endswith("s") else usual)
