"""Epsilon of one release: one function for every screen.

A cost is rounded up, and in another currency than the release it can promise much less than the release does: pure
epsilon 0.2 costs rho 0.02, and rho 0.02 alone promises epsilon 0.9 at delta 1e-6. So epsilon is read from the loss of
the release. The ledger stores the loss with its charge.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from tallystick.accounting.adjacency import Protects
from tallystick.accounting.loss import PrivacyLoss
from tallystick.digits import typed, up
from tallystick.errors import NotComputable, TallystickError
from tallystick.rounding import as_written

if TYPE_CHECKING:
    from tallystick.ledger.filters import Amount

_CACHED = 4096
"""Releases whose epsilon is kept: a list of charges often has the same loss many times."""


def stored_loss(plan: str) -> PrivacyLoss | None:
    """Return the loss that a charge stores; None if it stores none that can be read.

    >>> stored_loss("") is None
    True
    """
    try:
        return PrivacyLoss.from_json(plan)
    except TallystickError:
        return None


@lru_cache(maxsize=_CACHED)
def release_epsilon(loss: PrivacyLoss | None, price: Amount, delta: float) -> str:
    """Return the epsilon of one release in words; empty if its cost is an epsilon.

    ``delta`` is that at which the account's epsilon is shown. Without a loss the cost is converted, and the text says
    so.

    >>> from tallystick.accounting.losses import pure_dp, zcdp
    >>> from tallystick.ledger import Amount, Filter
    >>> price = Amount(Filter("zcdp"), 5_000_000_000)
    >>> release_epsilon(pure_dp(epsilon=0.1), price, 1e-6)
    'epsilon 0.1'
    >>> release_epsilon(zcdp(rho=0.005), price, 1e-6)
    'epsilon 0.43 at delta 1e-6'
    >>> release_epsilon(None, price, 1e-6)
    'epsilon 0.43 at delta 1e-6, converted from its cost'
    """
    if price.filter.kind == "approx" or price.a0 <= 0:
        return ""
    charged = price.filter.guarantee(price.a0, price.a1, Protects()).epsilon(delta=delta)
    converted = f"epsilon {up(charged)} at delta {typed(delta)}, converted from its cost"
    if loss is None:
        return converted
    try:
        pure, own = loss.epsilon(delta=0.0), loss.epsilon(delta=delta)
    except NotComputable:
        return converted
    if pure < math.inf:
        return f"epsilon {up(as_written('epsilon', pure), 3)}"
    return f"epsilon {up(min(own, charged))} at delta {typed(delta)}"
