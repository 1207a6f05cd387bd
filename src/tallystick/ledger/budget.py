"""A budget: which filter a loss names, and its limit in integers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.errors import InvalidInput
from tallystick.ledger.amounts import UNITS_0, Number, as_written, first_limit, limit_units, second_limit
from tallystick.ledger.filters import Filter

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

ALLOWED: Final = (
    "one of zcdp(rho=, delta=), approx_dp(epsilon=, delta=), pure_dp(epsilon=), gdp(mu=), renyi_dp({order: epsilon})"
)


class Budget(NamedTuple):
    """A filter and a limit, rounded down.

    >>> Budget.zcdp(0.5, 1e-6).limit0
    500000000000
    """

    filter: Filter
    limit0: int
    limit1: int
    adjacency: str = "add_remove"
    unit: str | None = None

    @classmethod
    def zcdp(cls, rho: Number, delta: Number = 0) -> Budget:
        """A limit on the sum of rho and of delta."""
        return cls(Filter("zcdp"), first_limit("rho", rho), second_limit("delta", delta))

    @classmethod
    def approx(cls, epsilon: Number, delta: Number = 0) -> Budget:
        """A limit on the sum of epsilon and of delta."""
        return cls(Filter("approx"), first_limit("epsilon", epsilon), second_limit("delta", delta))

    @classmethod
    def gdp(cls, mu: Number) -> Budget:
        """A limit on the sum of mu squared."""
        written = as_written("mu", mu)
        if written <= 0:
            raise InvalidInput("mu", mu, "a finite number > 0")
        limit = limit_units("mu", written**2, UNITS_0)
        if limit == 0:
            raise InvalidInput("mu", mu, "a limit of at least 1e-6")
        return cls(Filter("gdp"), limit, 0)

    @classmethod
    def rdp(cls, order: Number, epsilon: Number) -> Budget:
        """A limit on the sum of Renyi divergences at one order."""
        at = as_written("order", order)
        if at <= 1 or at > 10**6 or at.denominator > 10**6:
            raise InvalidInput("order", order, "a number above 1 and at most 1000000")
        return cls(Filter("rdp", Fraction(at)), first_limit("epsilon", epsilon), 0)

    @classmethod
    def of(cls, loss: PrivacyLoss) -> Budget:
        """The budget a loss names by its type; a composition names none."""
        terms: tuple[Any, ...] = getattr(loss, "terms", ())
        maker = _MAKERS.get(terms[0][0].kind) if len(terms) == 1 and terms[0][1] == 1 else None
        if maker is None:
            raise InvalidInput("budget", str(loss), ALLOWED)
        return maker(terms[0][0])._replace(adjacency=str(loss.adjacency), unit=loss.unit)


def _of_renyi(leaf: Any) -> Budget:
    if len(leaf.orders) != 1:
        raise InvalidInput(
            "budget",
            f"renyi_dp at {len(leaf.orders)} orders",
            "one order: 'some order is under budget' is not a filter",
        )
    return Budget.rdp(leaf.orders[0], leaf.epsilons[0])


_MAKERS: Final[dict[str, Callable[[Any], Budget]]] = {
    "zcdp": lambda leaf: Budget.zcdp(leaf.rho, leaf.delta),
    "approx_dp": lambda leaf: Budget.approx(leaf.epsilon, leaf.delta),
    "pure_dp": lambda leaf: Budget.approx(leaf.epsilon),
    "gdp": lambda leaf: Budget.gdp(leaf.mu),
    "renyi_dp": _of_renyi,
}
