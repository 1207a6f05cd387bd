"""What ``publish`` and ``query`` share: facts of a plan, one release with its files, and how both are said."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import nearest, percent_up, round_up
from tallystick.cli.place import amount_facts
from tallystick.errors import BudgetExceeded, InvalidInput, Refused

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.cli.datasets import Dataset
    from tallystick.ledger import Account, Amount
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release


@dataclass(frozen=True, slots=True)
class Job:
    """A release to make and where its files go."""

    plan: Plan
    account: Account
    dataset: Dataset
    why: str
    key: str | None
    out: Path | None
    card: Path | None

    @property
    def name(self) -> str:
        """The key: given, or that of the plan, so that running a plan twice by mistake charges once."""
        return self.key or f"plan-{self.plan.hash[:24]}"


def price_of(plan: Plan, account: Account) -> Amount:
    """What the account would charge."""
    delta = plan.delta if account.currency.kind == "approx" else None
    return account.price(plan.privacy, delta=delta)


def plan_facts(plan: Plan, account: Account) -> dict[str, Any]:
    """Price, error and whether it fits, as plain data."""
    price, left = price_of(plan, account), account.remaining
    return {
        "hash": plan.hash,
        "population": account.name,
        "price": str(price),
        "price_amount": amount_facts(price),
        "left": str(left),
        "left_amount": amount_facts(left),
        "fits": price.a0 <= left.a0 and price.a1 <= left.a1,
        "error": plan.error(),
        "confidence": 0.95,
        "groups": plan.facts()["keys"],
    }


def plan_lines(facts: dict[str, Any], plan: Plan) -> list[str]:
    """A plan for people: price and error first, how it is made after that. No data was opened."""
    sized = ("count", "count_units", "sum", "histogram")
    holds = {
        each["name"]: "" if each["kind"] in sized else ", for a group of 1,000 rows"
        for each in plan.facts()["measures"]
    }
    lines = [
        f"price    {facts['price']}   (left {facts['left']}, population {facts['population']})",
        *(
            f"error    {name} +-{round_up(half, 4)} in 95 of 100 cases{holds[name]}"
            for name, half in facts["error"].items()
        ),
        "no data was opened",
    ]
    if not facts["fits"]:
        lines.insert(1, "         does not fit: ask for a larger error, or try --suggest")
    return [*lines, "", *plan.explain().splitlines()]


def suggestion_lines(facts: list[dict[str, Any]]) -> list[str]:
    """Three plans as a small table."""
    names = list(facts[0]["error"])
    wide = [max(12, len(name) + 2) for name in names]
    lines = [
        f"{'':<13}{'price':<28}{'of what is left':<18}" + "".join(f"{n:<{w}}" for n, w in zip(names, wide, strict=True))
    ]
    for word, each in zip(("cheaper", "as asked", "more exact"), facts, strict=True):
        left = each["left_amount"]["a0"]
        share = percent_up(each["price_amount"]["a0"] / left) if left > 0 else "-"
        cells = (f"+-{round_up(each['error'][name], 4)}" for name in names)
        row = "".join(f"{cell:<{w}}" for cell, w in zip(cells, wide, strict=True))
        lines.append(f"{word:<13}{each['price']:<28}{share if each['fits'] else 'does not fit':<18}{row}".rstrip())
    return [*lines, "errors hold in 95 of 100 cases; no data was opened"]


def plan_of(text: str, dataset: Dataset, account: Account, source: str | None) -> Plan:
    """A saved plan, priced again, for the dataset it was made for and whom that protects."""
    from tallystick.tables.plan import Plan

    plan = Plan.from_json(text, account=account)
    known, asked = dataset.opened(), plan.query.table
    same = (known.unit, known.adjacency, known.name, known.base, known.source) == (
        asked.unit,
        asked.adjacency,
        asked.name,
        asked.base,
        asked.source,
    )
    if not same:
        raise Refused(
            f"this plan is about another table or unit than dataset {dataset.name!r} as it is registered; "
            "make the plan again: tallystick publish plan ..."
        )
    return plan if source is None else plan.on(source if "://" in source else str(Path(source).absolute()))


def check_targets(out: Path | None, card: Path | None) -> None:
    """Files that cannot be written are found before anything is charged."""
    for option, path, endings in (("--out", out, (".csv", ".json")), ("--card", card, (".html", ".htm", ".json"))):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise InvalidInput(option, str(path), f"a file name that ends in {' or '.join(endings)}")
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise InvalidInput(option, str(path), "a file in a folder that exists")
        if path.exists() and not _writable(path):
            raise InvalidInput(option, str(path), "a file that may be written")
    if (
        out is not None
        and card is not None
        and out.absolute() in (card.absolute(), card.with_suffix(".json").absolute())
    ):
        raise InvalidInput("--out", str(out), "another name than the card's files")


def _writable(path: Path) -> bool:
    import os

    return os.access(path, os.W_OK)


def dry(job: Job) -> dict[str, Any]:
    """What would happen: the price, and a denial where there would be one. Opens no data, charges nothing."""
    facts = plan_facts(job.plan, job.account)
    if not facts["fits"]:
        from tallystick.ledger.denial import denied
        from tallystick.tables.denial import with_plans

        price = price_of(job.plan, job.account)
        problem = denied(job.account.ledger.account_row(job.account.name), price.a0, price.a1)
        raise with_plans(job.plan, problem) if isinstance(problem, BudgetExceeded) else problem
    return {"dry_run": True, "key": job.name, "plan": facts}


def release(job: Job, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Release the plan, write its files, and say what it did; ``progress`` is told each stage as it begins."""
    from tallystick.cards import card

    try:
        made = job.plan.release(why=job.why, key=job.name, progress=progress)
    except KeyboardInterrupt as stopped:
        # The argument parser keeps the exit code of Ctrl-C but drops its words, and these say whether it was paid for.
        print(str(stopped) or "interrupted before the charge had started; nothing was charged", file=sys.stderr)
        raise
    assert made.receipt is not None
    written = {}
    if job.out is not None:
        text = made.to_json() + "\n" if job.out.suffix.lower() == ".json" else made.to_csv()
        written["out"] = str(write(job.out, text))
    if job.card is not None:
        drawn = card(made, dataset=job.dataset.name, about=job.dataset.about)
        written["card"] = str(drawn.save(job.card)[0])
    price = price_of(job.plan, job.account)
    return {
        "dry_run": False,
        "key": job.name,
        "plan_hash": job.plan.hash,
        "charge": made.receipt.charge,
        "again": not made.fresh,
        "price": str(price),
        "left": str(job.account.remaining),
        "population": job.account.name,
        "head": made.receipt.head,
        "columns": list(made.columns),
        "rows": table_rows(made),
        **written,
    }


def table_rows(made: Release) -> list[list[Any]]:
    """The table's cells, dates as text."""
    return [[v.isoformat() if isinstance(v, datetime.date) else v for v in row.values()] for row in made.rows]


def write(path: Path, text: str) -> Path:
    """Write a text file as it is, newline for newline."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidInput("--out", str(path), f"a file that can be written ({error.strerror})") from None
    return path


def say(console: Console, found: dict[str, Any]) -> None:
    """A release for people: the table when it went into no file, then what was paid, then plain paths."""
    if found["dry_run"]:
        facts = found["plan"]
        console.print(f"would charge {facts['price']} to {facts['population']} (left {facts['left']})", markup=False)
        console.print("nothing was charged and no data was read")
        return
    if "out" not in found:
        console.print(table(found["columns"], found["rows"]))
    if found["again"]:
        console.print(f"same key, same bytes: charge {found['charge']} was made before; nothing was charged now")
    else:
        paid = f"charged {found['price']} to {found['population']} (charge {found['charge']}); left {found['left']}"
        console.print(paid, soft_wrap=True, markup=False)
    for name in ("out", "card"):
        if name in found:
            console.print(found[name], soft_wrap=True, markup=False)


def table(columns: list[str], rows: list[list[Any]], *, most: int = 40) -> Any:
    """A table of the release with value and interval in one cell."""
    from rich.table import Table

    shown = [name for name in columns if not (name.endswith(("_lower", "_upper")) and name[:-6] in columns)]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        grid.add_column(name, justify="right" if f"{name}_lower" in columns else "left")
    place = {name: i for i, name in enumerate(columns)}
    for row in rows[:most]:
        cells = []
        for name in shown:
            value = _cell(row[place[name]])
            if f"{name}_lower" in place:
                low, high = _cell(row[place[f"{name}_lower"]]), _cell(row[place[f"{name}_upper"]])
                value = f"{value}  [{low}, {high}]"
            cells.append(value.replace("[", r"\["))
        grid.add_row(*cells)
    if len(rows) > most:
        grid.add_row(f"... and {len(rows) - most} more")
    return grid


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return nearest(value, 5) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
