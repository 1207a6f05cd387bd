"""``tallystick ledger``: make, show, verify, accept, export and import the record; print the script of its roles."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.commands import ledger_team, ledger_upkeep
from tallystick.cli.output import Answer, DryRun, Json, Place, deliver, working
from tallystick.cli.wording import in_shell, running_command
from tallystick.digits import people
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.chain import check_reason
from tallystick.ledger.first_write import HOW, check_arguments
from tallystick.place import unreadable
from tallystick.regular_file import read_text, regular, written_whole

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger.first_write import Missing
    from tallystick.ledger.verify import Report

app = typer.Typer(
    help="Make, show, verify, accept, export and import the record.", no_args_is_help=True, rich_markup_mode=None
)

Where = Annotated[str | None, typer.Argument(metavar="[PATH|URL]", help="Where; the same as --ledger.")]

ExpectHead = Annotated[
    str | None,
    typer.Option("--expect-head", metavar="HASH", help="A head of this ledger: of another host, a receipt or a card."),
]
FirstUse = Annotated[bool, typer.Option("--first-use", help="No head is known: go on without one. Needs --why.")]
Older = Annotated[bool, typer.Option("--older", help="The newest copy is lost: go on with this one. Needs --why.")]
FirstWhy = Annotated[
    str | None, typer.Option("--why", help="The reason for --first-use or --older; it is kept in the record.")
]


def _reasons(first_use: bool, why: str | None, older: bool = False) -> tuple[str | None, str | None]:
    """Return the reasons of a first use and of an older copy; raise if an option lacks its reason."""
    if first_use and older:
        raise InvalidInput("older", "--first-use --older", "one of the two")
    chosen = "--older" if older else "--first-use"
    if (first_use or older) and why is None:
        raise InvalidInput(chosen.strip("-"), "no --why", f"{chosen} --why TEXT: the reason is kept in the record")
    if why is not None and not (first_use or older):
        raise InvalidInput("why", why, "--why beside --first-use or --older; --expect-head needs no reason")
    reason = None if why is None else check_reason(why)
    return (None, reason) if older else (reason, None)


@app.command()
def init(
    where: Where = None,
    ledger: Place = None,
    first_use: Annotated[
        bool, typer.Option("--first-use", help="Start again where another ledger was. Needs --why.")
    ] = False,
    why: FirstWhy = None,
    as_json: Json = False,
) -> None:
    """Make a ledger: an SQLite file, or tables in PostgreSQL. Doing it twice changes nothing."""
    reason, _ = _reasons(first_use, why)
    with opened(where or ledger, create=True, first_use=reason) as book:
        head = book.head()
        facts = {"ledger": book.id, "entries": head.seq, "head": head.hash}
        deliver(
            Answer(
                "ledger.init",
                {"ledger": place_of(where or ledger)},
                facts,
                lambda out: out.print(f"ledger {book.id} with {head.seq} entries"),
            ),
            as_json=as_json,
        )


@app.command()
def show(ledger: Place = None, as_json: Json = False) -> None:
    """The accounts of a ledger: limit, used, left."""
    with opened(ledger) as book:
        head, accounts = book.head(), book.accounts()
        facts = [account.to_dict() for account in accounts]
        result = {"ledger": book.id, "entries": head.seq, "head": head.hash, "accounts": facts}

        def say(out: Console) -> None:
            out.print(f"ledger {book.id}   {head.seq} entries   head {head.hash[:16]}")
            for account in accounts:
                state = "closed" if account.closed else "open"
                out.print(
                    f"  {account.name}  {account.kind_in_words} of {account.unit}, {account.currency.title}, {state}: "
                    f"used {account.used} of {account.limit}",
                    soft_wrap=True,
                    markup=False,
                )

        deliver(Answer("ledger.show", {"ledger": place_of(ledger)}, result, say), as_json=as_json)


@app.command()
def head(ledger: Place = None, as_json: Json = False) -> None:
    """Print the hash of the newest entry.

    Another host gives it as --expect-head.
    """
    with opened(ledger) as book:
        newest = book.head()
        facts = {"ledger": book.id, "entries": newest.seq, "head": newest.hash, "seen": book.is_seen}
    deliver(
        Answer("ledger.head", {"ledger": place_of(ledger)}, facts, lambda out: out.print(newest.hash, soft_wrap=True)),
        as_json=as_json,
    )


@app.command()
def accept(
    ledger: Place = None,
    expect_head: ExpectHead = None,
    first_use: FirstUse = False,
    older: Older = False,
    why: FirstWhy = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let this host write to a ledger that is new to it.

    The ledger may also be an older copy, after the newest one was lost.
    """
    first, after_loss = _reasons(first_use, why, older)
    if expect_head is None and first is None and after_loss is None:
        allowed = "--expect-head HASH, --first-use --why TEXT if no head is known, or --older --why TEXT after a loss"
        raise InvalidInput("expect_head", None, allowed)
    check_arguments(expect_head, first, after_loss)
    head_now, first_now, older_now = (None, None, None) if dry_run else (expect_head, first, after_loss)
    with opened(ledger, expect_head=head_now, first_use=first_now, older=older_now, inspect=dry_run) as book:
        if dry_run and expect_head is not None:
            book.require_entry(expect_head)
        missing = book.missing() if dry_run and older else book.lost
        newest = book.head()
        facts = {"ledger": book.id, "entries": newest.seq, "head": newest.hash, "seen": book.is_seen}
    facts |= {} if missing is None else {"missing": missing.to_data()}
    may = "Nothing was changed. This host could" if dry_run else "This host may"

    def say(out: Console) -> None:
        out.print(f"{may} write to ledger {facts['ledger']}: {newest.seq} entries, head {newest.hash}", soft_wrap=True)
        _say_missing(out, missing)

    deliver(Answer("ledger.accept", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def _say_missing(out: Console, missing: Missing | None) -> None:
    """Say which entries are lost, and what the owner does about their charges."""
    if missing is None:
        return
    out.print(f"{missing.sentence}. Their charges are in no total.", soft_wrap=True)
    out.print("Find them in receipts, cards and notes, and charge each one again before other use:", soft_wrap=True)
    again = f'tallystick charge add LOSS --account NAME --why "..."{running_command().ledger}'
    out.print(again, soft_wrap=True, markup=False)


@app.command()
def verify(
    ledger: Place = None,
    receipt: Annotated[list[Path] | None, typer.Option("--receipt", help="Also check this receipt.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Check from the first entry, not from a checkpoint.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Check this export instead of a ledger.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="The export must be signed by this public key.")] = None,
    as_json: Json = False,
) -> None:
    """Recompute the chain and every total, row and cost.

    The exit code is 6 if anything was altered.
    """
    from tallystick.ledger import Receipt

    receipts = []
    for path in receipt or ():
        try:
            receipts.append(Receipt.from_json(read_text(path)))
        except OSError as error:
            raise unreadable("receipt", path, error) from None
        except UnicodeDecodeError:
            raise InvalidInput("receipt", str(path), "a receipt, which is a text file") from None
    if export is not None:
        report, underpriced = _verified_export(export, by, is_alone=not receipts and ledger is None), []
    else:
        with opened(ledger, inspect=True) as book, working("verifying"):
            report = book.verify(receipts=receipts, full=full or bool(receipts)).require()
            underpriced = book.underpriced()
    facts = {
        "ledger": report.ledger,
        "intact": report.intact,
        "entries": report.entries,
        "head": report.head,
        "accounts": report.accounts,
        "charges": report.charges,
        "receipts": len(receipts),
        "underpriced": underpriced,
        "not_checked": list(report.not_checked),
        "losses": list(report.losses),
        "sealed": report.sealed,
        "ask_again": list(report.distrusted),
        "checkpoint": report.checkpoint,
    }

    def say(out: Console) -> None:
        free = f" and {report.free} that cost nothing" if report.free else ""
        paid = report.charges - report.free
        out.print(
            f"intact: {report.entries} entr{'y' if report.entries == 1 else 'ies'}, "
            f"{people(report.accounts, 'account')}, {people(paid, 'charge')}{free}"
        )
        out.print(f"head {report.head}", soft_wrap=True)
        if receipts:
            agree = "agrees" if len(receipts) == 1 else "agree"
            out.print(f"{people(len(receipts), 'receipt')} {agree} with the record")
        if report.sealed:
            out.print("every entry since its governance began is sealed")
        if report.distrusted:
            listed = ", ".join(map(str, report.distrusted))
            out.print(f"signed by a stolen key, ask again: ledger entries {listed}", soft_wrap=True)
        for line in report.losses:
            out.print(f"lost: {line}", soft_wrap=True, markup=False)
        for part in report.not_checked:
            out.print(f"not checked: {part}", soft_wrap=True, markup=False)
        for line in underpriced:
            out.print(f"charged less than today's accountant requires: {line}", soft_wrap=True, markup=False)

    deliver(Answer("ledger.verify", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def _verified_export(path: Path, by: str | None, *, is_alone: bool) -> Report:
    """Check an export without a ledger."""
    from tallystick.ledger.offline import verify_export

    if not is_alone:
        raise InvalidInput("export", str(path), "the export alone: --ledger and --receipt need a ledger")
    try:
        with open(path, encoding="ascii", errors="replace", opener=regular) as lines, working("verifying"):
            return verify_export(lines, by=by).require()
    except OSError as error:
        raise unreadable("export", path, error) from None


Level = Annotated[
    str,
    typer.Option(
        "--level", help="chain (no texts, no answers), record (with texts) or answers (all; can be imported)."
    ),
]


@app.command()
def export(
    ledger: Place = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of stdout.")] = None,
    level: Level = "answers",
    withheld: Annotated[
        bool, typer.Option("--withheld", help="For owners: also while data are closed; it tells what failed.")
    ] = False,
) -> None:
    """Write the record as JSON lines.

    The last line is a checkpoint, signed with your Ed25519 key.
    """
    with opened(ledger) as book, working("exporting"):
        lines = book.export(level=level, withheld=withheld)
        if out is None:
            for line in lines:
                sys.stdout.write(line + "\n")
            return
        from tallystick.publish.export import check_unused  # it loads tables

        check_unused("out", out, book)
        try:
            with written_whole(out) as new, open(new, "w", encoding="ascii", opener=_private) as file:
                for line in lines:
                    file.write(line + "\n")
        except OSError as error:
            raise InvalidInput("out", str(out), f"a file that can be written ({error.strerror})") from None


def _private(path: str, flags: int) -> int:
    """The record holds answers and spending: for its owner only."""
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():  # not a device: all users need /dev/null
        os.fchmod(descriptor, 0o600)  # the file may have been there before
    return descriptor


@app.command()
def roles(
    schema: Annotated[str, typer.Option("--schema", metavar="NAME", help="The schema that holds the ledger.")],
    database: Annotated[str, typer.Option("--database", metavar="NAME", help="The database of that schema.")],
    as_json: Json = False,
) -> None:
    """Print the SQL script for the roles of PostgreSQL."""
    from tallystick.ledger.roles import ROLES, script

    text = script(schema, database)
    deliver(
        Answer(
            "ledger.roles",
            {"schema": schema, "database": database},
            {"roles": list(ROLES), "script": text},
            lambda out: out.print(text, end="", soft_wrap=True, markup=False),
        ),
        as_json=as_json,
    )


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="An export of a ledger.")],
    ledger: Place = None,
    by: Annotated[str | None, typer.Option("--by", help="Accept only this public key's checkpoint.")] = None,
    expect_head: ExpectHead = None,
    first_use: FirstUse = False,
    older: Older = False,
    why: FirstWhy = None,
    as_json: Json = False,
) -> None:
    """Replay an export into an empty place.

    Every rule is checked again, and the head hash is the same.
    """
    from tallystick.ledger import import_ledger

    first, after_loss = _reasons(first_use, why, older)
    try:
        # a byte that is not ASCII is not part of a JSON line of ours
        lines = open(file, encoding="ascii", errors="replace", opener=regular)  # noqa: SIM115
    except OSError as error:
        raise unreadable("file", file, error) from None
    place = place_of(ledger)
    with lines, working("importing"):
        book = import_ledger(lines, place, by=by, expect_head=expect_head, first_use=first, older=after_loss)
    with book:
        newest = book.head()
        missing, is_copy = book.lost, book.is_exchanged
        facts = {"ledger": book.id, "entries": newest.seq, "head": newest.hash, "seen": book.is_seen}
    facts |= {} if missing is None else {"missing": missing.to_data()}

    def say(out: Console) -> None:
        out.print(f"ledger {facts['ledger']}: {newest.seq} entries, head {newest.hash}", soft_wrap=True)
        _say_missing(out, missing)
        if is_copy:
            out.print("This host uses another ledger or copy here: this one is not used yet.", soft_wrap=True)
        elif not facts["seen"]:
            out.print("This host has not seen this ledger before: you can read it.", soft_wrap=True)
        if is_copy or not facts["seen"]:
            out.print("Before the first write:", soft_wrap=True)
            for remedy in HOW:
                out.print(in_shell(remedy, running_command()), soft_wrap=True, markup=False)

    deliver(Answer("ledger.import", {"file": str(file), "ledger": place}, facts, say), as_json=as_json)


ledger_upkeep.register(app)
ledger_team.register(app)
