"""Budget left of an account, charge by charge."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tallystick.digits import amount_down, amount_up
from tallystick.drawing import BLUE, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet
from tallystick.plots.labels import finish
from tallystick.printing import escaped
from tallystick.tables.reporting.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.ledger.account import Account


def burndown(account: Account) -> Figure:
    """Draw a falling staircase from the account's limit to what is left; charges that burned are marked.

    A reservation that was refunded is not a step. A population with blocks is refused, because the
    charges of its blocks are not in its history.

    >>> import tempfile, tallystick as ts
    >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
    ...     burndown(ledger.open("people", budget=ts.zcdp(rho=0.5))).axes[0].get_ylabel()
    'rho left'
    """
    if account.children:
        raise InvalidInput("account", account.name, "one without blocks; draw its blocks one by one")
    limit = float(account.limit.first)
    symbol = account.currency.rule.symbol
    charges = [event for event in account.history() if event.paid]
    rest, whole = amount_down(account.remaining.first), amount_up(account.limit.first)
    spent = counted(len(charges), "charge")
    title = f"{escaped(account.name)}: {symbol} {rest} of {whole} left after {spent}"
    figure, axes = sheet(title=title, across="time (UTC)", up=f"{symbol} left", width=8.4)
    times, left = [_moment(event.at) for event in charges[:1]], [limit]
    for event in charges:
        times.append(_moment(event.at))
        left.append(left[-1] - float(event.amount.first))
    if not charges:
        axes.axhline(limit, color=BLUE)
    else:
        axes.step(times, left, where="post", color=BLUE)  # type: ignore[arg-type]
        axes.fill_between(times, left, step="post", color=BLUE, alpha=0.12)  # type: ignore[arg-type]
        figure.autofmt_xdate()
    marks = [(times[k], left[k]) for k, event in enumerate(charges, 1) if event.state == "BURNED"]
    if marks:
        across, up = zip(*marks, strict=True)
        label = "spent by a request that failed"
        axes.plot(across, up, "x", color=VERMILLION, markersize=9, label=label)
    axes.set_ylim(0, 1.05 * limit)
    finish(axes)
    return figure


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
