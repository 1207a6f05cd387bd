"""``tallystick publish``: plan a table without opening any data, then release it, once per key, with its card."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.commands.rehearse import rehearse
from tallystick.cli.outcomes import perform, plan_lines, say_release, schedule_of, suggestion_lines, suggestion_notes
from tallystick.cli.output import Answer, Details, DryRun, Json, Place, Quiet, Screen, deliver, working
from tallystick.cli.wording import running_command
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.publish import datasets
from tallystick.publish.request import Request, price

if TYPE_CHECKING:
    from rich.console import Console

GroupSize = Annotated[
    list[str] | None,
    typer.Option("--group-size", metavar="ROWS,...", help="Rows in a group to say errors for (10 to 10,000)."),
]

app = typer.Typer(help="Plan a table, then publish it.", no_args_is_help=True, rich_markup_mode=None)


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
    other: ask.Other = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    error: ask.Error = None,
    account: ask.Payer = None,
    caps_share: ask.CapsShare = None,
    caps_seen_to: ask.CapsSeenTo = None,
    group_size: GroupSize = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw error against group size to this .svg or .png.")
    ] = None,
    times: Annotated[
        int | None, typer.Option("--times", help="Plan this many equal releases; the cost is that of all together.")
    ] = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Show three plans: cheaper, asked, more exact.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan to this .json file.")] = None,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Show cost and error of a table before anything is spent. No data is read."""
    from tallystick.publish import export
    from tallystick.publish.kinds.question import Question

    budget = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error, "pure": pure or None}
    budget = ask.shared_out(budget, times)
    caps = {"caps_share": caps_share, "caps_seen_to": caps_seen_to}
    question = ask.TableOptions(measures, by, keys, private_keys, where, budget | caps, derive, join, other)
    sizes = _sizes(group_size)
    export.check_plan_file(out)
    with opened(ledger) as book:
        registered = datasets.find(dataset, book)
        payer = datasets.payer(registered, book, account)
        plans = question.plans(registered.opened(payer), registered, suggest=suggest)
        requests = [Request(Question.of(dataset, each, account=account)) for each in plans]
        facts = [price(each, book, group_sizes=sizes).to_data() for each in requests]
        together = None if times is None else plans[len(plans) // 2].price(payer).times(times)
        has_roles = book.has_roles
        schedule = None if together is None else schedule_of(together, payer.remaining, times)
    chosen = plans[len(plans) // 2]
    if out is not None:
        export.write_text(out, export.saved(dataset, chosen))
    if plot is not None:
        from tallystick import plots

        plots.save(plots.errors(chosen, sizes), plot)
    chosen_facts = facts[len(plans) // 2]
    result: dict[str, Any] = {"plan": chosen_facts, "saved": None if out is None else str(out)}
    if suggest:
        result["suggestions"] = facts
    if schedule is not None:
        result["schedule"] = schedule

    def say(_: Console) -> None:
        screen = Screen(quiet)
        files = [str(path) for path in (out, plot) if path is not None]
        if quiet and files:
            screen.result(files)
            return
        screen.result(suggestion_lines(facts) if suggest else plan_lines(facts[0]))
        screen.note(suggestion_notes(facts) if suggest else [])
        screen.note(["", *chosen_facts["details"]] if details else [])
        screen.note(["", schedule["said"]] if schedule is not None else [])
        screen.note(_saved(out, plot, account, has_roles=has_roles))

    about = {"ledger": place_of(ledger), "dataset": dataset, **question.to_data()}
    deliver(Answer("publish.plan", about, result, say), as_json=as_json)


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="A plan that 'publish plan --out' wrote.")],
    why: Annotated[str, typer.Option("--why", help="Why; kept in the record and shown on the card.")],
    key: ask.Key = None,
    account: ask.Payer = None,
    out: ask.Out = None,
    card: ask.CardFile = None,
    source: ask.Moved = None,
    together: ask.Together = False,
    dry_run: DryRun = False,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Publish the table of a plan: charge, compute, add noise, record. The same key again charges nothing."""
    from tallystick.publish import export
    from tallystick.publish.kinds.question import Question

    dataset, saved = export.read_saved(plan)
    files = export.Files(out, card)
    files.check(plan)
    question = Question(dataset, saved, account=account, source=source, all_groups=together)
    request = Request(question, key=key, why=why)
    about = {"ledger": place_of(ledger), "plan": str(plan), "why": why, "dry_run": dry_run}
    with opened(ledger) as book:
        with working("publishing") as tell:
            files.check_in(book, source)
            done = perform(request, book, files, tell, dry_run=dry_run)
        screen = Screen(quiet)
        made = Answer("publish.run", about, done.facts, lambda _: say_release(done.facts, screen, details=details))
        deliver(made, as_json=as_json, done=done, screen=screen)


app.command()(rehearse)


def _saved(out: Path | None, plot: Path | None, account: str | None, *, has_roles: bool) -> list[str]:
    """Return which files were written, and the next command.

    In a ledger with roles it has no key: colleagues find the answer of a plan under its own key alone.
    """
    nothing = "No data was read and nothing was charged."
    files = " and ".join(str(path) for path in (out, plot) if path is not None)
    lines = ["", f"Saved {files}. {nothing}" if files else nothing]
    if out is not None:
        key = "" if has_roles else " --key NAME"
        run = f"tallystick publish run {shlex.quote(str(out))}{key} --why REASON --out table.csv --card card.html"
        pays = "" if account is None else f" --account {shlex.quote(account)}"
        lines.append(f"Next: {run}{pays}{running_command().ledger}")
    return lines


def _sizes(given: list[str] | None) -> list[int]:
    """``50,500`` as numbers of rows."""
    try:
        sizes = [int(piece) for piece in ask.listed(given)]
    except ValueError:
        sizes = [0]
    if given and (not sizes or any(not 1 <= size <= 10**12 for size in sizes)):
        raise InvalidInput("group_size", ",".join(given), "rows in a group, such as 50,500")
    return sizes
