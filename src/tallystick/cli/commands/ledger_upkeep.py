"""``tallystick ledger``: govern a ledger, manage its keys, erase texts, and make checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.cli.proposing import AsRequest, Form, request
from tallystick.cli.wording import running_command
from tallystick.digits import ledger_entries
from tallystick.ledger.book import opened, place_of

if TYPE_CHECKING:
    from rich.console import Console

Public = Annotated[str, typer.Argument(metavar="KEY", help="A public key: 64 digits of 0-9 and a-f.")]


def govern(why: Why, ledger: Place = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Let only holders of a key write.

    Every later entry is sealed, and every answer is signed.
    """
    with opened(ledger) as book, working("verifying"):
        number = book.govern(why=why, dry_run=dry_run)
        public = book.signer().public
        facts = {"ledger": book.id, "entry": number, "key": public, "dry_run": dry_run}

    def say(out: Console) -> None:
        _say_dry_run(out, dry_run)
        out.print(f"Ledger entry {number} begins the governance of this ledger.")
        out.print(f"Its first key is yours: {public}", soft_wrap=True)
        out.print("Without a key, users can only read it, if its file or database lets them.")
        out.print("Let a second person or host write: tallystick ledger add-key KEY --why REASON")

    deliver(Answer("ledger.govern", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def key(ledger: Place = None, as_json: Json = False) -> None:
    """Print your own public key. The owner of a governed ledger adds it."""
    with opened(ledger) as book:
        public = book.signer().public
    say = lambda out: out.print(public, soft_wrap=True)  # noqa: E731
    deliver(Answer("ledger.key", {"ledger": place_of(ledger)}, {"key": public}, say), as_json=as_json)


def keys(ledger: Place = None, as_json: Json = False) -> None:
    """List the keys of a governed ledger. It says when and why each was added, and when retired."""
    with opened(ledger) as book:
        known = book.keys()
        reasons = {each.added: book.reason_of(each.added) for each in known}
    facts = {"keys": [{**each._asdict(), "why": reasons[each.added]} for each in known]}

    def say(out: Console) -> None:
        for each in known:
            state = "may write" if each.retired is None else f"retired in entry {each.retired}"
            line = f"{each.public}  added in entry {each.added}, {state}: {reasons[each.added]}"
            out.print(line, soft_wrap=True, markup=False)
        if not known:
            out.print("This ledger is not governed: every user who can open it can write.")

    deliver(Answer("ledger.keys", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def add_key(
    public: Public,
    why: Why,
    is_request: AsRequest = False,
    ledger: Place = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let the holder of another key write, too."""
    if is_request:
        form = Form("ledger.add-key", ledger, as_json, dry_run)
        request(form, lambda book: book.add_key(public, why=why), why=why)
        return
    with opened(ledger) as book:
        number = book.add_key(public, why=why, dry_run=dry_run)
    facts = {"key": public, "entry": number, "dry_run": dry_run}

    def say(out: Console) -> None:
        _say_dry_run(out, dry_run)
        out.print(f"Added in ledger entry {number}.")

    deliver(Answer("ledger.add-key", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def retire_key(
    public: Public,
    why: Why,
    ledger: Place = None,
    distrusted_from: Annotated[
        int | None,
        typer.Option("--distrusted-from", metavar="ENTRY", help="Stolen: the first entry that may not be its owner's."),
    ] = None,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Stop accepting a key. Its earlier seals and signatures stay valid."""
    if is_request:
        form = Form("ledger.retire-key", ledger, as_json, dry_run)
        retire = lambda book: book.retire_key(public, why=why, distrusted_from=distrusted_from)  # noqa: E731
        request(form, retire, why=why)
        return
    with opened(ledger) as book:
        number = book.retire_key(public, why=why, distrusted_from=distrusted_from, dry_run=dry_run)
        distrusted = list(book.verify().distrusted)
    facts = {"key": public, "entry": number, "ask_again": distrusted, "dry_run": dry_run}

    def say(out: Console) -> None:
        _say_dry_run(out, dry_run)
        out.print(f"Retired in ledger entry {number}.")
        if distrusted:
            listed = ", ".join(map(str, distrusted))
            out.print(f"The key signed these answers since it was stolen. Ask again: ledger entries {listed}.")

    deliver(Answer("ledger.retire-key", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def erase(
    entries: Annotated[list[int], typer.Argument(metavar="ENTRY...", help="Numbers of ledger entries.")],
    why: Why,
    ledger: Place = None,
    answers: Annotated[bool, typer.Option("--answers", help="Also erase the answers of these charges.")] = False,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Erase reasons, keys and questions of entries.

    What was paid stays, and the chain verifies as before.
    """
    if is_request:
        form = Form("ledger.erase", ledger, as_json, dry_run)
        request(form, lambda book: book.erase(*entries, why=why, answers=answers), why=why)
        return
    with opened(ledger) as book:
        erased = book.erase(*entries, why=why, answers=answers, dry_run=dry_run)
    facts = {
        "entry": erased.seq,
        "texts_of": list(erased.entries),
        "answers_of": list(erased.answers),
        "dry_run": dry_run,
    }

    def say(out: Console) -> None:
        _say_dry_run(out, dry_run)
        if erased.entries:
            texts = ledger_entries(erased.entries)
            out.print(f"Erased the texts of {texts}. The same question costs again.", soft_wrap=True)
        if erased.answers:
            out.print(f"Erased the answers of {ledger_entries(erased.answers)}.", soft_wrap=True)
        out.print(f"Ledger entry {erased.seq} records it.")
        out.print(purge_next(), soft_wrap=True, markup=False)

    deliver(Answer("ledger.erase", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def purge_next() -> str:
    """Return the command that removes erased texts from the files, too."""
    return f"The files still hold them until you run: tallystick ledger purge{running_command().ledger}"


def purge(ledger: Place = None, as_json: Json = False) -> None:
    """Remove erased texts from the files, too."""
    with opened(ledger) as book, working("rewriting"):
        book.purge()

    def say(out: Console) -> None:
        out.print("Rewritten. Erased texts are gone from the files of this ledger.")
        out.print("Not reached: backups, archived logs of the database, exports, cards and receipts.")

    deliver(Answer("ledger.purge", {"ledger": place_of(ledger)}, {"purged": True}, say), as_json=as_json)


def checkpoint(ledger: Place = None, as_json: Json = False) -> None:
    """Sign the state, so that verify reads only what is new.

    Everything is verified first.
    """
    with opened(ledger) as book, working("verifying"):
        report = book.make_checkpoint()
    facts = {"ledger": report.ledger, "entries": report.entries, "head": report.head}
    say = lambda out: out.print(f"Intact up to entry {report.entries}. 'ledger verify' now begins there.")  # noqa: E731
    deliver(Answer("ledger.checkpoint", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def _say_dry_run(out: Console, dry_run: bool) -> None:
    """Say first that nothing was changed, if the command was only tried."""
    if dry_run:
        out.print("Nothing was changed. Without --dry-run:")


def register(app: typer.Typer) -> None:
    """Add these commands to those of ``tallystick ledger``."""
    for command in (govern, key, keys, add_key, retire_key, checkpoint, erase, purge):
        app.command()(command)
