"""``tallystick token``: make, list and end tokens. Programs show one instead of a user name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tallystick.cli.output import Answer, DryRun, Json, Place, Screen, deliver
from tallystick.digits import moment
from tallystick.errors import InvalidInput, Unavailable
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.team import TOKEN_DAYS
from tallystick.place import shown

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger.team import TokenShown

app = typer.Typer(help="Make, list and end tokens.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def create(
    role: Annotated[
        list[str] | None, typer.Option("--role", help="A role that it may use (default analyst); repeatable.")
    ] = None,
    population: Annotated[str | None, typer.Option("--population", help="Only for this population.")] = None,
    days: Annotated[float, typer.Option("--days", help="Days until it ends, at most 365.")] = TOKEN_DAYS,
    ceiling: Annotated[
        str | None, typer.Option("--ceiling", metavar="EXPR", help="With --population: the most that it pays in a day.")
    ] = None,
    whose: Annotated[
        str | None, typer.Option("--for", metavar="machine:NAME", help="A machine of yours (default: you).")
    ] = None,
    door: Annotated[list[str] | None, typer.Option("--door", help="http (default) or wire; repeatable.")] = None,
    name: Annotated[str, typer.Option("--name", help="What to call it in 'token list'.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it to a new file that only you can read.")
    ] = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Make a token. Its secret is shown once, on stdout or in --out."""
    from tallystick.accounting.expression import read_loss

    loss = None if ceiling is None else read_loss(ceiling)
    with opened(ledger) as book, _new_file(None if dry_run else out) as write:
        token = book.team.make_token(
            roles=role or ("analyst",), name=name, population=population, doors=door or ("http",), days=days,
            ceiling=loss, principal=whose, dry_run=dry_run,
        )  # fmt: skip
        write(token.text)
    shown = token.text if out is None and not dry_run else None
    facts = {"number": token.seq, "token": shown, "out": None if out is None else str(out), "dry_run": dry_run}

    def say(console: Console) -> None:
        if shown is not None:
            console.print(shown, soft_wrap=True, markup=False)

    deliver(Answer("token.create", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)
    if not as_json:
        Screen().note(_notes(token.seq, out, dry_run=dry_run))


def _notes(number: int, out: Path | None, *, dry_run: bool) -> list[str]:
    if dry_run:
        return ["Nothing was changed. Without --dry-run this makes a token."]
    where = "It is not shown again." if out is None else f"Its secret is in {out}, and nowhere else."
    return [f"Token {number}. {where} A program that has it acts with its roles: keep it as a password."]


@contextlib.contextmanager
def _new_file(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes a secret to a new file for its owner only; without a path it does nothing.

    The file is made first, so that no token is made for a file that cannot be written. It is removed after a failure.
    """
    if path is None:
        yield lambda text: None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise InvalidInput("out", str(path), f"a new file ({error.strerror})") from None
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            os.fchmod(descriptor, 0o600)
            yield lambda text: _write(text, file, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def _write(text: str, file: TextIO, path: Path) -> None:
    try:
        print(text, file=file, flush=True)
        os.fsync(file.fileno())
    except OSError as error:
        raise Unavailable(
            f"The token was not written to {shown(path)} ({error.strerror}), so it is of no use. 'token list' shows "
            "its number. End it and make another one"
        ) from None


@app.command("list")
def list_(ledger: Place = None, as_json: Json = False) -> None:
    """List tokens: whose, for what, and until when. No secret is shown."""
    with opened(ledger) as book:
        found = book.team.tokens()
    facts = {"tokens": [each._asdict() for each in found]}

    def say(out: Console) -> None:
        for each in found:
            out.print(_line(each), soft_wrap=True, markup=False)
        if not found:
            out.print("No tokens.")

    deliver(Answer("token.list", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def _line(each: TokenShown) -> str:
    named = f" {each.name}" if each.name else ""
    where = each.population or "every population"
    most = f", at most {each.ceiling} a day" if each.ceiling is not None else ""
    doors = " and ".join(each.doors)
    return (
        f"{each.number:6d}{named}  {each.state}  {each.by}: {', '.join(each.roles)} on {where}, over {doors}, "
        f"until {moment(each.until)}{most}"
    )


@app.command()
def revoke(
    number: Annotated[int, typer.Argument(metavar="N", help="Number of a token: see 'token list'.")],
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """End a token: your own, or that of a person to whom you give roles."""
    with opened(ledger) as book:
        entry = book.team.end_token(number, dry_run=dry_run)
    facts = {"number": number, "entry": entry, "dry_run": dry_run}

    def say(out: Console) -> None:
        out.print(f"{'Would end' if dry_run else 'Ended'} token {number}: ledger entry {entry}.")

    deliver(Answer("token.revoke", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)
