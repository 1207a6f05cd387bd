"""Ledger objects in a notebook: plain inline HTML, no pictures library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.digits import moment
from tallystick.drawing import bar, table
from tallystick.printing import html_text as escape

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.filters import Amount
    from tallystick.ledger.pay import Charge


def account_html(account: Account) -> str:
    """An account: promise, used, blocks, the last charges."""
    used, limit, left = account.used, account.limit, account.remaining
    promise = escape(f"{limit}{_beside(account, limit)}")
    rows = [[moment(e.at), e.why, str(e.amount), e.state] for e in account.history()[-8:]]
    blocks = [[child.name, str(child.used), str(child.limit)] for child in account.children]
    parent = account.parent
    lifetime = (
        f"<div>lifetime ({escape(parent.name)}): used {escape(str(parent.used))} of {escape(str(parent.limit))}</div>"
        if parent
        else ""
    )
    return (
        f"<div><b>{escape(account.name)}</b> ({account.kind}, per {escape(account.unit)}, "
        f"{escape(account.currency.title)})"
        f"{bar(used.a0 / limit.a0)}"
        f"<div>promise: never more than {promise}; used {escape(str(used))}; "
        f"left {escape(left.of_limit(limit))}</div>"
        + lifetime
        + (table(["block", "used", "limit"], blocks) if blocks else "")
        + (table(["when", "why", "amount", "state"], rows) if rows else "<div>no charges yet</div>")
        + "</div>"
    )


def _beside(account: Account, amount: Amount) -> str:
    shown = account.in_epsilon(amount)
    return f" ({shown})" if shown else ""


def ledger_html(ledger: Ledger) -> str:
    """A ledger: its accounts and its head."""
    rows = [[a.name, a.kind, a.unit, a.currency.title, str(a.used), str(a.limit)] for a in ledger.accounts()]
    head = ledger.head()
    return (
        f"<div><b>Ledger</b> {escape(ledger.id[:8])}, {head.seq} entries, head <code>{head.hash[:16]}</code>"
        + table(["account", "kind", "unit", "filter", "used", "limit"], rows)
        + "</div>"
    )


def charge_html(charge: Charge) -> str:
    """A charge: its state and what each account pays."""
    rows = [[name, str(amount)] for name, amount in charge.amounts.items()]
    if charge.state == "NEW":
        return f"<div>{escape(repr(charge))}</div>"
    return f"<div><b>Charge</b> {escape(charge.state)}{table(['account', 'pays'], rows)}</div>"
