"""Denials of charges, and the remedies that fit what is left.

Every remedy is tried before it is offered: its cost is computed and the account is asked whether it could pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.digits import decimal_down, decimal_up, typed
from tallystick.errors import BelowLeastPrice, BudgetExceeded, Refused, Remedy, TallystickError
from tallystick.ledger.actions import ANALYST
from tallystick.ledger.filters import LARGEST, MOST_DELTA, UNITS_0, UNITS_1, USUAL_DELTA, Amount, Filter, as_written
from tallystick.wording import noise_text

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.journal import AccountRow

NORMAL_95, LAPLACE_95 = 1.959964, math.log(20)
"""Two-sided 95 % error of a release with standard deviation, or scale, 1."""
ERRORS = (3, 12, 50)
TRIALS = 8
"""Costs that a search for a lower one computes at most; with fewer, a remedy is missing, never wrong."""


def denied(account: AccountRow, a0: int, a1: int) -> TallystickError:
    """The error for a charge an account did not admit: closed, or too little left."""
    if account.state != "open":
        closed = f"account {account.name!r} is closed. Nothing was charged and no data was read"
        return Refused(closed, code="account_closed")
    currency = Filter.named(account.filter)
    price = Amount(currency, a0, a1)
    left = Amount(currency, account.limit0 - account.used0, account.limit1 - account.used1)
    limit = Amount(currency, account.limit0, account.limit1)
    needed, held = needed_and_left(price, left, limit)
    message = (
        f"the budget of {account.name} is too small: it needs {needed}, and {held} is left.\n"
        "Nothing was charged and no data was read."
    )
    return BudgetExceeded(
        message,
        asked=price,
        left=left,
        limit=limit,
        account=account.name,
        unit=account.unit,
        remedies=higher_limit(account, a0, a1) if account.parent_id is None else (),
    )


def with_offers(problem: BudgetExceeded, account: Account, offers: Iterable[Remedy]) -> BudgetExceeded:
    """Return the denial with these offers, and after them the limit at which the charge itself fits."""
    offers = tuple(offers)
    honest = [each for each in offers if each.kind != "lower_max_groups"]
    leaving_out = [each for each in offers if each.kind == "lower_max_groups"]
    limits: tuple[Remedy, ...] = ()
    if isinstance(problem.asked, Amount) and problem.account is not None:
        limits = higher_limits(account, problem.asked)
    return problem.with_remedies((*honest, *limits, *leaving_out))


def can_pay(account: Account, price: Amount) -> bool:
    """True if the account, and those above it, could pay this cost now; every offer of a cost asks this.

    It also asks for the least cost of the population's data.
    """
    return why_not(account, price) is None


def why_not(account: Account, price: Amount) -> str | None:
    """Return why an account cannot pay a cost now: ``too_much``, ``too_little`` or ``refused``; None if it can."""
    try:
        account.rehearse(price)
    except BudgetExceeded:
        return "too_much"
    except BelowLeastPrice:
        return "too_little"
    except TallystickError:
        return "refused"
    return None


def payable_delta(account: Account | None, wanted: float = USUAL_DELTA) -> float | None:
    """Return the delta to offer as an example: the wanted one, or all that is left if that is less.

    None if the account, or one above it, has no delta left or does not spend delta.
    """
    if account is None:
        return wanted
    if not account.currency.rule.spends_delta:
        return None
    written = as_written("delta", wanted)
    left = written
    above: Account | None = account
    while above is not None:
        left = min(left, above.remaining.delta)
        above = above.parent
    if left <= 0:
        return None
    return wanted if left == written else float(decimal_down(left))


def with_payable_delta(problem: Refused, account: Account, price_at: Callable[[float], Amount]) -> Refused:
    """The refusal of a request that needs a delta, with one that fits; without a remedy if none was found."""
    left = float(decimal_down(account.remaining.delta)) if account.remaining.a1 > 0 else 0.0
    for delta in (USUAL_DELTA, left):
        try:
            if delta > 0 and can_pay(account, price_at(delta)):
                return problem.with_remedies([Remedy("set_argument", argument="delta", value=delta)])
        except TallystickError:  # there is no such price
            continue
    return problem.with_remedies([])


@contextmanager
def offering_epsilon(
    account: Account, epsilon: float, price: Callable[[float], Amount], *, estimator: str | None = None
) -> Iterator[None]:
    """Offer a lower epsilon in the denial of a release with one epsilon; ``price`` is that of another epsilon."""
    try:
        yield
    except BudgetExceeded as problem:
        raise with_epsilon(problem, account, epsilon, price, estimator=estimator) from None


def with_epsilon(
    problem: BudgetExceeded,
    account: Account,
    epsilon: float,
    price: Callable[[float], Amount],
    *,
    estimator: str | None = None,
) -> BudgetExceeded:
    """Return the denial with a lower epsilon that fits; ``estimator`` names what takes the epsilon, if another call."""
    lower = lower_value("epsilon", epsilon, price, problem, account)
    named = {} if estimator is None else {"estimator": estimator}
    offers = [] if lower is None else [Remedy("lower_price", argument="epsilon", value=lower, **named)]
    return with_offers(problem, account, offers)


class Denial(NamedTuple):
    """A cost and what is left, for a search of a lower cost."""

    asked: Amount
    left: Amount


def higher_value(value: float, price: Callable[[float], Amount], account: Account) -> float | None:
    """Three digits of a larger rho or epsilon that reaches the least cost and fits; None if none was found."""
    low, high = value, math.inf
    found: float | None = None
    try:
        for _ in range(2 * TRIALS):
            middle = HIGHER * low if high == math.inf else math.sqrt(low * high)
            tried = float(decimal_up(middle))
            reason = why_not(account, price(tried))
            if reason == "too_little":
                low = tried
            elif reason == "too_much" or reason is None:
                high = tried
                found = tried if reason is None else found
            else:
                return None
    except TallystickError:  # the release has no such price
        return None
    return found


HIGHER = 4.0
"""Factor between trials of a larger cost."""


def lower_value(
    argument: str, value: float, price: Callable[[float], Amount], problem: BudgetExceeded | Denial, account: Account
) -> float | None:
    """Three digits of a rho or epsilon that fits, not much below the largest; None if no such value was found."""
    left, cost = problem.left, problem.asked
    if left is None or cost is None or left.a0 <= 0 or cost.a0 <= left.a0:
        return None
    power = _power(argument, left.filter)
    tried = value
    try:
        for _ in range(TRIALS):
            guess = tried * min(0.99, (left.a0 / cost.a0) ** power)
            for tried in (float(f"{guess:.3g}"), float(decimal_down(guess))):
                cost = price(tried)
                if can_pay(account, cost):
                    return tried
            cost = Amount(cost.filter, max(cost.a0, left.a0 + 1), cost.a1)  # an account above may have less
    except TallystickError:  # the release has no such price
        return None
    return None


def _power(argument: str, currency: Filter) -> float:
    """The power of the amount to which rho or epsilon is about proportional: rho grows like epsilon squared."""
    counts_epsilon = currency.kind == "approx"
    if argument == "rho":
        return 2.0 if counts_epsilon else 1.0
    return 1.0 if counts_epsilon else 0.5


def needed_and_left(asked: Amount, left: Amount, limit: Amount) -> tuple[str, str]:
    """Return what a charge needs, and what is left of the limit, as people read them.

    >>> account = Filter("zcdp")
    >>> needed_and_left(Amount(account, 6 * 10**10), Amount(account, 4 * 10**10), Amount(account, 10**11))
    ('rho 0.06', 'rho 0.04 of 0.1')
    """
    return asked.text(), left.of_limit(limit, with_delta=asked.a1 > 0)


def for_loss(problem: BudgetExceeded, account: Account, loss: PrivacyLoss) -> BudgetExceeded:
    """The denial of a charge for one loss, with what fits: another delta, more noise, or a smaller guarantee."""
    offers = [*_other_delta(problem, account, loss), *_more_noise(problem, account, loss)]
    offers += _smaller_guarantee(problem, account, loss)
    with_delta = [each for each in offers if each.kind == "raise_limit"]
    limits = () if with_delta else higher_limits(account, problem.asked)
    fitting = [each for each in offers if each.kind != "raise_limit"]
    return problem.with_remedies((*fitting, *with_delta, *limits))


def _other_delta(problem: BudgetExceeded, account: Account, loss: PrivacyLoss) -> list[Remedy]:
    """Return the loss at another delta: less if too little is left, or some if that costs at most half of the rho.

    Sampled and composed Gaussians cost a fraction of their sum in zCDP once a delta is spent.
    """
    asked, left = problem.asked, problem.left
    lacks_delta = left.a1 < asked.a1
    if not lacks_delta and (asked.filter.kind != "zcdp" or asked.a1):
        return []
    delta = float(decimal_down(left.delta)) if left.a1 or lacks_delta else USUAL_DELTA
    try:
        less = account.price(loss, delta=delta)
    except TallystickError:
        return []
    if not lacks_delta and 2 * less.a0 > asked.a0:
        return []
    offers = []
    if can_pay(account, less):
        offers.append(Remedy("change_delta", delta=delta, cost=str(less)))
    if not lacks_delta and account.parent is None:
        row = account.ledger.account_row(account.name)
        offers += higher_limit(row, less.a0, less.a1, delta=delta)
    return offers


def _more_noise(problem: BudgetExceeded, account: Account, loss: PrivacyLoss) -> list[Remedy]:
    """More noise, if the loss is that of one release with Gaussian or Laplace noise and nothing else."""
    from tallystick.accounting.leaves.gaussian import Gaussian
    from tallystick.accounting.leaves.laplace import Laplace

    lone = [leaf for leaf, count in loss.terms if count == 1]
    is_one_release = len(loss.terms) == len(lone) == 1 and isinstance(lone[0], Gaussian | Laplace)
    if not is_one_release or problem.left.a1 < problem.asked.a1:
        return []
    for factor in (1.0, 1.01):  # a price is rounded up, so the least noise may not fit
        noise = noise_that_fits(problem.left, account.adjacency, account.unit, factor * loss.group)
        if noise is None:
            continue
        if loss.group > 1:
            noise = Remedy("add_noise", **noise.facts, group=loss.group)
        if _can_pay_noise(account, noise):
            return [noise]
    return []


class _Guarantee(NamedTuple):
    """A guarantee that stands for a whole release: how it is written, and which accounts count its number."""

    name: str
    number: str
    counted_by: str


def _guarantee_of(loss: PrivacyLoss) -> tuple[_Guarantee, Any] | None:
    """Return how the loss is written and its leaf, if it is one guarantee and nothing else."""
    from tallystick.accounting.leaves.pure import ApproxDp, PureDp
    from tallystick.accounting.leaves.renyi import Zcdp

    written = {
        Zcdp: _Guarantee("zcdp", "rho", "zcdp"),
        PureDp: _Guarantee("pure_dp", "epsilon", "approx"),
        ApproxDp: _Guarantee("approx_dp", "epsilon", "approx"),
    }
    if len(loss.terms) != 1 or loss.group != 1:
        return None
    [(lone, count)] = loss.terms
    guarantee = written.get(type(lone))
    return None if guarantee is None or count != 1 else (guarantee, lone)


def _smaller_guarantee(problem: BudgetExceeded, account: Account, loss: PrivacyLoss) -> list[Remedy]:
    """Return the guarantee with the largest number that fits, if the loss is one guarantee and nothing else."""
    found = _guarantee_of(loss)
    if found is None or problem.left.a0 <= 0:
        return []
    guarantee, lone = found
    delta = float(getattr(lone, "delta", 0.0))
    if problem.left.a1 < problem.asked.a1:
        delta = float(decimal_down(problem.left.delta))
    words = [f"delta={typed(delta)}"] if delta else []
    words += [] if account.adjacency == "add_remove" else [f"adjacency='{account.adjacency}'"]

    def text(value: float) -> str:
        return f"{guarantee.name}({', '.join([f'{guarantee.number}={value!r}', *words])})"

    def price(value: float) -> Amount:
        from tallystick.accounting.expression import read_loss

        return account.price(read_loss(text(value)))

    asked = float(getattr(lone, guarantee.number))
    if problem.asked.a0 <= problem.left.a0:  # only its delta does not fit
        value = asked if _can_pay_loss(account, text(asked)) else None
    elif account.currency.kind == guarantee.counted_by:
        value = _largest(problem.left, price, account)
    else:
        value = lower_value(guarantee.number, asked, price, problem, account)
    return [] if value is None else [Remedy("lower_loss", loss=text(value))]


def _largest(left: Amount, price: Callable[[float], Amount], account: Account) -> float | None:
    """All that is left as a number; a little less if it is rounded up when it is charged."""
    for units in (left.a0, left.a0 - 1):
        value = float(Fraction(units, UNITS_0))
        try:
            if value > 0 and can_pay(account, price(value)):
                return value
        except TallystickError:  # there is no such loss
            continue
    return None


def _can_pay_noise(account: Account, noise: Remedy) -> bool:
    """True if the account can pay for one release with this noise."""
    return _can_pay_loss(account, noise_text(noise))


def _can_pay_loss(account: Account, text: str) -> bool:
    """True if there is a loss of this text and the account can pay for it."""
    from tallystick.accounting.expression import read_loss

    try:
        return can_pay(account, account.price(read_loss(text)))
    except TallystickError:
        return False


def higher_limits(account: Account, price: Amount) -> tuple[Remedy, ...]:
    """The limits at which a charge fits: of this account and of those above it that it exceeds, all together."""
    raised: list[tuple[str, str]] = []
    allowances: list[str] = []
    for row, a0, a1 in account.short_accounts(price):
        limit = higher_limit(row, a0, a1)
        if row.state != "open" or not limit:
            return ()
        raised.append((limit[0]["account"], limit[0]["budget"]))
        allowances += limit[0].get("allowances", [])
    if not raised:
        return ()
    (name, budget), *others = raised
    facts: dict[str, Any] = {"others": [list(each) for each in others]} if others else {}
    if allowances:
        facts["allowances"] = allowances
    return (Remedy("raise_limit", account=name, budget=budget, **facts),)


def higher_limit(account: AccountRow, a0: int, a1: int, delta: float | None = None) -> tuple[Remedy, ...]:
    """A limit of this account alone that is just enough, if there is one; ``delta`` is what the charge then needs."""
    first = max(account.limit0, account.used0 + a0)
    second = max(account.limit1, account.used1 + a1)
    if _round_up(first) > LARGEST:
        return ()
    raises_delta = _round_up(second) > account.limit1
    if raises_delta and Fraction(_round_up(second), UNITS_1) > MOST_DELTA:
        return ()
    budget = written(Filter.named(account.filter), first, second, account.adjacency)
    facts: dict[str, Any] = {} if delta is None else {"delta": delta}
    if account.kind == ANALYST:
        facts["allowances"] = [account.name]
    return (Remedy("raise_limit", account=account.name, budget=budget, **facts),)


def written(currency: Filter, first: int, second: int, adjacency: str = "add_remove") -> str:
    """A budget of at least these units in a few digits, as the command line reads it.

    >>> written(Filter("zcdp"), 512_345_678_901, 10**12), written(Filter.named("rdp@16"), 4 * 10**11, 0, "replace")
    ('zcdp(rho=0.5124, delta=1e-6)', "renyi_dp({16: 0.4}, adjacency='replace')")
    """
    value, delta = float(Fraction(_round_up(first), UNITS_0)), float(Fraction(_round_up(second), UNITS_1))
    words = [f"delta={typed(delta)}"] if second else []
    words += [] if adjacency == "add_remove" else [f"adjacency='{adjacency}'"]
    if currency.kind == "gdp":
        name = f"gdp(mu={float(decimal_up(math.sqrt(value)))!r}"
    elif currency.kind == "rdp":
        name = f"renyi_dp({{{typed(float(currency.order or 0))}: {value!r}}}"
    else:
        kind = {"zcdp": "zcdp(rho", "approx": "approx_dp(epsilon" if second else "pure_dp(epsilon"}[currency.kind]
        name = f"{kind}={value!r}"
    return ", ".join([name, *words]) + ")"


def _round_up(amount: int) -> int:
    """Four digits, rounded up."""
    step: int = 10 ** max(0, len(str(amount)) - 4)
    return -(-amount // step) * step


def noise_that_fits(
    left: Amount, adjacency: str = "add_remove", unit: str = "unit", factor: float = 1.0
) -> Remedy | None:
    """The least noise that one release on ``left`` needs, times a factor, and its error at sensitivity 1.

    >>> noise_that_fits(Amount(Filter("zcdp"), 10**10))["value"]
    7.08
    """
    if left.a0 <= 0:
        return None
    value = float(left.first)
    if left.filter.kind == "approx":
        scale = float(decimal_up(factor / value))
        return _noise("laplace", "scale", scale, LAPLACE_95 * scale, adjacency, unit)
    squared_mu = {"zcdp": 2 * value, "gdp": value}.get(left.filter.kind)
    if squared_mu is None:
        squared_mu = 2 * value / float(left.filter.order or 1)
    sigma = float(decimal_up(factor / math.sqrt(squared_mu)))
    return _noise("gaussian", "sigma", sigma, NORMAL_95 * sigma, adjacency, unit)


def _noise(mechanism: str, parameter: str, value: float, error: float, adjacency: str, unit: str) -> Remedy:
    return Remedy(
        "add_noise",
        mechanism=mechanism,
        parameter=parameter,
        value=value,
        error=error,
        adjacency=adjacency,
        unit=unit,
    )


def counts_that_fit(left: Amount) -> list[tuple[int, int]]:
    """Return the number of counts of sensitivity 1 that fit for each 95 % error.

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
