"""``tallystick charge``: what was charged, when, why, and in which state it is; and charges for work done elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.commands.budget import DONE
from tallystick.cli.output import Answer, DryRun, Expression, Json, Place, Why, deliver
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.pay import ELSEWHERE, pay_elsewhere

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from tallystick.ledger import Account

app = typer.Typer(help="What was charged, when and why.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(
    account: Annotated[str | None, typer.Argument(help="Only this account.")] = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """List charges, oldest first. Each has the number of its ledger entry."""
    from tallystick.digits import moment

    with opened(ledger) as book:
        accounts = [book.open(account)] if account else book.accounts()
        by_name = {each.name: each for each in accounts}
        events = sorted(
            ((each.name, event) for each in accounts for event in each.history()), key=lambda one: one[1].charge
        )
        facts = {"charges": [{"account": name, **event.to_dict()} for name, event in events]}
        paid = [one for one in events if one[1].amount.a0 or one[1].amount.a1 or one[1].state != DONE]

        has_several = len({event.principal for _, event in events}) > 1

        def say(out: Console) -> None:
            for name, event in paid:
                shown = by_name[name].release_epsilon(event.amount, event.loss)
                price = f"{event.amount} ({shown})" if shown else f"{event.amount}"
                by = f"  {event.by or '(not recorded)'}" if has_several else ""
                out.print(
                    f"{event.charge:>6}  {moment(event.at)}  {event.state:<9}  {name}{by}  {price}  {event.why}",
                    soft_wrap=True,
                    markup=False,
                )
            if len(paid) < len(events):
                out.print(
                    f"{len(events) - len(paid):,} steps of runs that were paid as a whole are left out; see --json"
                )
            if not events:
                out.print("no charges yet")

        deliver(Answer("charge.list", {"ledger": place_of(ledger), "account": account}, facts, say), as_json=as_json)


@app.command()
def add(
    expression: Expression,
    why: Why,
    account: Annotated[str | None, typer.Option("--account", help="Who pays (default: the only account).")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="What it may use of the account's delta.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="The same key again charges nothing.")] = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Charge for a release before you make it elsewhere. It can be made by a script or another library."""
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    with opened(ledger) as book:
        known = book.accounts() if account is None else [book.open(account)]
        if len(known) != 1:
            names = ", ".join(each.name for each in known) or "none yet; tallystick account open NAME --budget EXPR"
            raise InvalidInput("account", account, f"one of: {names}")
        payer = known[0]
        charge = payer.charge(loss, why=why, key=key, delta=delta, request=ELSEWHERE)
        stored = charge.stored()
        if dry_run and stored is None:
            charge.rehearse()
            number, amount, fresh = None, payer.price(loss, delta=delta), True
        else:
            paid = pay_elsewhere(payer, loss, why=why, key=key, delta=delta)
            number, amount, fresh = paid.receipt.charge, payer.paid(paid.receipt), paid.fresh
        facts = {
            "account": payer.name,
            "charge": number,
            "amount": amount.to_dict(),
            "fresh": fresh,
            "left": payer.remaining.to_dict(),
            "dry_run": dry_run,
        }
        asked = {"ledger": place_of(ledger), "expression": expression, "why": why, "key": key, "delta": delta}
        done = f"Charged {amount} to {payer.name} as ledger entry {number}. Left:"
        done = f"Asked before: this is ledger entry {number}. Nothing was charged. Left:" if not fresh else done
        done = f"Would charge {amount} to {payer.name}. Nothing was charged. Left now:" if number is None else done
        line = f"{done} {payer.remaining.of_limit(payer.limit)}."
        deliver(
            Answer("charge.add", asked, facts, lambda out: out.print(line, soft_wrap=True, markup=False)),
            as_json=as_json,
        )


@app.command()
def show(
    number: Annotated[int, typer.Argument(help="The number of its ledger entry.")],
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """One charge: its plan, its lines, its state, its receipt. The answer itself is not printed."""
    with opened(ledger) as book:
        row, entry = book.charge_row(number)
        facts: dict[str, Any] = {
            "charge": row.id,
            "state": row.state,
            "principal": entry["act"][0] if "act" in entry else "",
            "key": row.key,
            "fence": row.fence,
            "lease_until": row.lease_until,
            "why": entry["why"],
            "plan": entry["plan"],
            "plan_hash": entry["plan_hash"],
            "request": entry["request"],
            "lines": [{"account": book.account_by_id(i).name, "a0": a0, "a1": a1} for i, a0, a1 in entry["lines"]],
        }
        if row.state == "COMMITTED":
            receipt = book.stored_answer(row)[1]
            facts["receipt"] = {"seq": receipt.seq, "head": receipt.head, "answer_hash": receipt.answer_hash}

        lines = _charge_lines(facts, [(book.account_by_id(i), a0, a1) for i, a0, a1 in entry["lines"]])

        def say(out: Console) -> None:
            for line in lines:
                out.print(line, soft_wrap=True, markup=False)

        deliver(Answer("charge.show", {"ledger": place_of(ledger), "charge": number}, facts, say), as_json=as_json)


def _charge_lines(facts: Mapping[str, Any], paid: Sequence[tuple[Account, int, int]]) -> list[str]:
    """A charge for people: who paid what for what, in words; a script reads the rest with --json."""
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.digits import moment
    from tallystick.ledger import Amount

    unfinished = facts["state"] in ("RESERVED", "EXECUTING")
    receipt = facts.get("receipt", {})
    return [
        f"entry        {facts['charge']}, {facts['state']}, key {facts['key']}",
        *(f"paid         {Amount(each.currency, a0, a1)} by {each.name}" for each, a0, a1 in paid),
        f"why          {facts['why']}",
        *([f"loss         {PrivacyLoss.from_json(facts['plan'])}"] if facts["plan"] else []),
        *([f"held until   {moment(facts['lease_until'])} UTC"] if unfinished else []),
        *([f"receipt      entry {receipt['seq']}, head {receipt['head']}"] if receipt else []),
        *([f"answer hash  {receipt['answer_hash']}"] if receipt else []),
    ]
