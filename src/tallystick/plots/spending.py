"""A bar for each person who spent from a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.digits import amount_up
from tallystick.drawing import BLUE, QUIET
from tallystick.plots.canvas import DASHES, sheet
from tallystick.plots.labels import finish
from tallystick.printing import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.ledger.account import Account


def spending(account: Account) -> Figure:
    """Draw a bar for each person: what they spent from an account, and from the allowances and blocks below it.

    >>> import tempfile, tallystick as ts
    >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
    ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=0.5))
    ...     _ = clinic.pay(ts.zcdp(rho=0.1), why="annual report")
    ...     spending(clinic).axes[0].get_xlabel()
    'rho spent'
    """
    people = account.spent_by()
    symbol = account.currency.rule.symbol
    limit = amount_up(account.limit.first)
    if people:
        first = people[0]
        title = f"{escaped(account.name)}: {escaped(first.name)} spent most, {symbol} {amount_up(first.amount.first)}"
    else:
        title = f"{escaped(account.name)}: nothing is spent of {symbol} {limit}"
    figure, axes = sheet(title=title, across=f"{symbol} spent", up="person")
    figure.set_figheight(1.8 + 0.4 * max(2, len(people)))
    places = range(len(people))
    axes.barh(places, [float(each.amount.first) for each in people], color=BLUE, alpha=0.6)
    axes.set_yticks(places, [each.name.replace("$", r"\$") for each in people])
    axes.axvline(float(account.limit.first), color=QUIET, linestyle=DASHES, label=f"limit {symbol} {limit}")
    axes.set_xlim(0, 1.05 * float(account.limit.first))
    axes.invert_yaxis()
    finish(axes)
    return figure
