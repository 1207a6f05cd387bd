"""``tallystick publish``: price a table without opening any data, then release it, once per key, with its card."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tallystick.cli import question as ask
from tallystick.cli.commands.rehearse import rehearse
from tallystick.cli.output import Answer, DryRun, Json, Place, deliver, working
from tallystick.cli.wording import offers_in_shell, running_command
from tallystick.errors import BudgetExceeded, InvalidInput, TallystickError
from tallystick.ledger.book import opened, place_of
from tallystick.printing import cell, escaped, percent_up, plain_up, visible
from tallystick.publish import datasets, jobs
from tallystick.tables.epsilon_alone import require_stated

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.tables.plan import Plan

Done = TypeVar("Done")

GroupSize = Annotated[
    list[str] | None,
    typer.Option("--group-size", metavar="ROWS,...", help="Rows in a group to say errors for (10 to 10,000)."),
]

app = typer.Typer(help="Price a table, then release it.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def plan(
    dataset: ask.Name,
    measures: ask.Measures,
    by: ask.By = None,
    keys: ask.Keys = None,
    private_keys: ask.PrivateKeys = None,
    where: ask.Where = None,
    derive: ask.Derive = None,
    join: ask.Join = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    error: ask.Error = None,
    caps_share: ask.CapsShare = None,
    caps_seen_to: ask.CapsSeenTo = None,
    group_size: GroupSize = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw error against group size to this .svg or .png.")
    ] = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Show three plans: cheaper, asked, more exact.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan to this .json file.")] = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Price and error of a table, before anything is spent. Opens no data: it works with the data file deleted."""
    budget = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error, "pure": pure or None}
    caps = {"caps_share": caps_share, "caps_seen_to": caps_seen_to}
    question = ask.Question(measures, by, keys, private_keys, where, budget | caps, derive, join)
    sizes = _sizes(group_size)
    jobs.check_plan_file(out)
    with opened(ledger) as book:
        registered = datasets.find(dataset, book)
        account = book.open(registered.population)
        question.check_price()
        query = question.query(registered.opened(account))
        plans = query.suggest(**question.price) if suggest else (query.plan(**question.price),)
        chosen = plans[len(plans) // 2]
        require_stated(chosen, account)
        facts = [jobs.plan_facts(each, account, sizes) for each in plans]
    if out is not None:
        jobs.write(out, jobs.saved(dataset, chosen))
    if plot is not None:
        from tallystick import plots

        plots.save(plots.errors(chosen, sizes), plot)
    result: dict[str, Any] = {"plan": facts[len(plans) // 2], "saved": None if out is None else str(out)}
    if suggest:
        result["suggestions"] = facts

    def say(console: Console) -> None:
        lines = suggestion_lines(facts) if suggest else plan_lines(facts[0], chosen)
        if plot is not None:
            lines += ["", str(plot)]
        if out is not None:
            lines += ["", str(out), f"next: tallystick publish run {out} --key NAME --why TEXT --out table.csv"]
        for line in lines:
            console.print(line, soft_wrap=True, markup=False)

    about = {"ledger": place_of(ledger), "dataset": dataset, **question.to_data()}
    deliver(Answer("publish.plan", about, result, say), as_json=as_json)


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="A plan that 'publish plan --out' wrote.")],
    why: Annotated[str, typer.Option("--why", help="Why; kept in the record and shown on the card.")],
    key: ask.Key = None,
    out: ask.Out = None,
    card: ask.CardFile = None,
    source: ask.Moved = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Charge, compute, add noise, record, hand out. The same key again: the same bytes, and no second charge."""
    dataset, text = jobs.read_saved(plan)
    jobs.check_targets(out, card, plan)
    with opened(ledger) as book, working("publishing") as tell:
        registered = datasets.find(dataset, book)
        account = book.open(registered.population)
        priced = jobs.plan_of(text, registered, account, source)
        job = jobs.Job(priced, account, registered, why, key, out, card)
        facts = done(job, tell, dry_run=dry_run)
    about = {"ledger": place_of(ledger), "plan": str(plan), "why": why, "dry_run": dry_run}
    deliver(Answer("publish.run", about, facts, lambda console: say_release(console, facts)), as_json=as_json)


app.command()(rehearse)


# How ``publish`` and ``query`` say what a plan costs and what a release found.


def done(job: jobs.Job, tell: Callable[[str], None], *, dry_run: bool) -> dict[str, Any]:
    """The job, or with ``dry_run`` what it would do."""
    return interruptible(lambda: jobs.dry(job) if dry_run else jobs.release(job, tell))


def interruptible(work: Callable[[], Done]) -> Done:
    """Work that is paid for; interrupted, it says whether it was."""
    try:
        return work()
    except KeyboardInterrupt as stopped:
        # The argument parser keeps the exit code of Ctrl-C but drops its words, and these say whether it was paid for.
        said = str(stopped) or "interrupted before the charge had started; nothing was charged"
        print(visible(said), file=sys.stderr)
        raise


def plan_lines(facts: dict[str, Any], plan: Plan) -> list[str]:
    """A plan for people: price and error first, how it is made after that. No data was opened."""
    from tallystick.tables.plan import error_words

    sizes = next(iter(facts["error_by_size"].values()), ())
    lines = [
        f"price    {facts['price']}{beside(facts)}   (left {facts['left']}, population {facts['population']})",
        *(f"error    {name} {words} in 95 of 100 cases" for name, words in error_words(plan, sizes).items()),
        *(f"warning  {warning}" for warning in plan.facts()["warnings"]),
        "no data was opened",
    ]
    if facts.get("refused"):
        lines[1:1] = _problem_lines(facts["refused"], "works")
    if facts.get("would_fit"):
        lines[1:1] = _problem_lines(facts["would_fit"], "fits")
    said = plan.facts()["warnings"]  # at the top already
    return [*lines, "", *(line for line in plan.explain().splitlines() if line.removeprefix("  WARNING  ") not in said)]


def _problem_lines(data: dict[str, Any], works: str) -> list[str]:
    """The lines about a plan that would not be released now."""
    problem = TallystickError.from_data(data)
    first = "does not fit" if isinstance(problem, BudgetExceeded) else problem.message
    offers = [f"{works}: {offer}" for offer in offers_in_shell(problem, running_command())]
    return [f"         {line}" for line in (first, *offers)]


def beside(facts: dict[str, Any]) -> str:
    """The price as epsilon, where it is none."""
    return f" ({facts['price_epsilon']})" if facts.get("price_epsilon") else ""


def suggestion_lines(facts: list[dict[str, Any]]) -> list[str]:
    """Three plans as a small table."""
    names = list(facts[0]["error"])
    wide = [max(12, len(name) + 2) for name in names]
    lines = [
        f"{'':<13}{'price':<28}{'of what is left':<18}" + "".join(f"{n:<{w}}" for n, w in zip(names, wide, strict=True))
    ]
    for word, each in zip(("cheaper", "as asked", "more exact"), facts, strict=True):
        left = each["left_amount"]["a0"]
        share = percent_up(Fraction(each["price_amount"]["a0"], left)) if left > 0 else "-"
        cells = (f"+-{plain_up(each['error'][name])}" for name in names)
        row = "".join(f"{cell:<{w}}" for cell, w in zip(cells, wide, strict=True))
        lines.append(f"{word:<13}{each['price']:<28}{share if each['fits'] else 'does not fit':<18}{row}".rstrip())
    sized = ", ".join(facts[0]["error_by_size"])
    assumed = f", of {sized} for a group of {facts[0]['group_size']:,} rows (--group-size)" if sized else ""
    return [*lines, f"errors hold in 95 of 100 cases{assumed}; no data was opened"]


def _sizes(given: list[str] | None) -> list[int]:
    """``50,500`` as numbers of rows."""
    try:
        sizes = [int(piece) for piece in ask.listed(given)]
    except ValueError:
        sizes = [0]
    if given and (not sizes or any(not 1 <= size <= 10**12 for size in sizes)):
        raise InvalidInput("--group-size", ",".join(given), "rows in a group, such as 50,500")
    return sizes


def say_release(console: Console, facts: dict[str, Any]) -> None:
    """A release for people: the table is shown where it went into no file."""

    def say_table() -> None:
        if "out" not in facts:
            console.print(table(facts["columns"], facts["rows"], facts["groups"], facts["counts"]))
        for line in filter(None, (facts["holds"], facts["left_out"], facts["wide"])):
            console.print(line, markup=False)

    say_done(console, facts, say_table, same="same key, same bytes")


def say_done(console: Console, facts: dict[str, Any], say_result: Callable[[], None], *, same: str) -> None:
    """What a job did, for people: its result, then what was paid, then plain paths.

    ``same`` is what is the same as before, and why, where the record had the answer.
    """
    if facts["dry_run"] and facts.get("again"):
        console.print(f"{same}: charge {facts['charge']} has the answer already; nothing would be charged")
        return
    if facts["dry_run"]:
        plan = facts["plan"]
        console.print(
            f"would charge {plan['price']}{beside(plan)} to {plan['population']} (left {plan['left']})", markup=False
        )
        console.print("nothing was charged and no data was read")
        return
    say_result()
    if facts["again"]:
        console.print(f"{same}: charge {facts['charge']} answered it and nothing was charged now")
    else:
        paid = f"charged {facts['price']} to {facts['population']} (charge {facts['charge']}); left {facts['left']}"
        paid += f"; this release alone: {facts['price_epsilon']}" if facts["price_epsilon"] else ""
        console.print(paid, soft_wrap=True, markup=False)
    for name in ("out", "about", "card"):
        if name in facts:
            console.print(facts[name], soft_wrap=True, markup=False)


def table(
    columns: list[str], rows: list[list[Any]], groups: Sequence[str] = (), counts: Sequence[str] = (), *, most: int = 40
) -> Any:
    """A table of the release with value and interval in one cell; ``groups`` are names, though they may be numbers.

    Intervals of ``counts`` are cut at 0.
    """
    from rich.table import Table

    from tallystick.tables.estimates import cut_at_zero

    shown = [name for name in columns if not (name.endswith(("_lower", "_upper")) and name[:-6] in columns)]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        grid.add_column(name, justify="right" if f"{name}_lower" in columns else "left")
    index = {name: i for i, name in enumerate(columns)}
    for row in rows[:most]:
        cells = []
        for name in shown:
            own = row[index[name]]
            value = _cell(str(own) if name in groups and own is not None else own)
            if f"{name}_lower" in index:
                ends = row[index[f"{name}_lower"]], row[index[f"{name}_upper"]]
                if name in counts and None not in (own, *ends):
                    ends = cut_at_zero(own, *ends)
                low, high = map(_cell, ends)
                value = f"{value}  [{low}, {high}]"
            cells.append(value.replace("[", r"\["))
        grid.add_row(*cells)
    if len(rows) > most:
        grid.add_row(f"... and {len(rows) - most} more")
    return grid


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return cell(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else escaped(str(value))
