"""``tallystick card``: read a privacy card in the terminal, and check it against the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Json, Place, deliver, working
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy
from tallystick.ledger.book import opened, place_of
from tallystick.regular_file import regular, write_whole
from tallystick.tables.reporting.line import CELLS

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.cards.check import Finding

app = typer.Typer(help="Read and check privacy cards.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(help="The card: its HTML or its JSON file.")]
Table = Annotated[Path | None, typer.Option("--table", help="The CSV file that was published with the card.")]


DataOnly = Annotated[
    bool, typer.Option("--data-only", help="Check the data of the card, and not the text of its page.")
]
Details = Annotated[bool, typer.Option("--details", help="Show noise, rules, statements and evidence too.")]


@app.command()
def show(file: File, details: Details = False, as_json: Json = False) -> None:
    """Show a card in the terminal."""
    from tallystick.cards import read_card
    from tallystick.cards.summary import detail_lines, summary_lines
    from tallystick.cards.training import training_lines

    training = training_lines(file)
    if training is not None:
        facts, lines = training
    else:
        facts = read_card(file)[0].facts
        try:
            lines = summary_lines(facts, str(file))
            if details:
                lines += detail_lines(facts)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            raise InvalidInput("card", str(file), "a privacy card with all its parts") from None

    def say(out: Console) -> None:
        for line in lines:
            out.print(line, soft_wrap=True, markup=False)

    deliver(Answer("card.show", {"file": str(file)}, facts, say), as_json=as_json)


@app.command()
def export(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="Write the record to this .yaml file.")],
    to: Annotated[str, typer.Option("--to", help="For whom: registry (of DP deployments).")] = "registry",
    as_json: Json = False,
) -> None:
    """Write a card as a record for the public registry. It is the registry of deployments."""
    from tallystick.cards import read_card
    from tallystick.cards.registry import SCHEMA, registry_record, registry_text

    if to != "registry":
        raise InvalidInput("to", to, "registry")
    if out.suffix.lower() not in (".yaml", ".yml"):
        raise InvalidInput("out", str(out), "a file name that ends in .yaml")
    if out.exists():
        raise InvalidInput("out", str(out), "a new file: this one is there already")
    facts = read_card(file)[0].facts
    try:
        text, record = registry_text(facts), registry_record(facts)
    except (LookupError, TypeError, AttributeError):
        raise InvalidInput("card", str(file), "a privacy card with all its parts, made by this version") from None
    try:
        write_whole(out, text)
    except OSError as error:
        raise InvalidInput("out", str(out), f"a file that can be written ({error.strerror})") from None

    def say(console: Console) -> None:
        console.print(str(out), soft_wrap=True, markup=False)
        console.print(f"for {SCHEMA}; look through it, then offer it to the registry", soft_wrap=True, markup=False)

    found = {"file": str(out), "schema": SCHEMA, "record": record}
    deliver(Answer("card.export", {"file": str(file), "to": to}, found, say), as_json=as_json)


@app.command()
def verify(
    file: File, ledger: Place = None, table: Table = None, data_only: DataOnly = False, as_json: Json = False
) -> None:
    """Compare a card with the ledger, part by part. It says what was not checked. The exit code is 6 if they differ.

    Exit 4 when everything else agrees, and the limit was raised since, or a page or a table could not be checked.
    """
    from tallystick.cards import check_card, read_card
    from tallystick.cards.card import is_page
    from tallystick.cards.check import OTHER_TABLE

    card, text = read_card(file)
    if not data_only and not is_page(text) and file.suffix.lower() in _PAGES:
        raise Refused(f"{file} is not a page. It holds the data of a card alone.", remedies=_DATA_ONLY, code=_NO_PAGE)
    page = text if is_page(text) and not data_only else None
    rows = None if table is None else _text_of(table)
    with opened(ledger) as book, working("checking"):
        findings = check_card(card, book, page=page, table=rows)
    wrong = [finding for finding in findings if finding.problem]
    outdated = [finding for finding in findings if finding.outdated]
    if wrong:
        if all(finding.problem == OTHER_TABLE for finding in wrong) and not outdated:
            raise LedgerIntegrity(_OTHER_TABLE)
        raise LedgerIntegrity(
            "\n".join(["the card does not say what the ledger says:", *(str(each) for each in wrong)])
        )
    if outdated:
        raise Refused("\n".join([_OUTDATED, *(str(each) for each in outdated)]), code="limit_raised")
    unverified = [finding for finding in findings if finding.is_unverified]
    if data_only:  # the card alone may have unverified words; a table that was given is not a part of it
        unverified = [finding for finding in unverified if finding.is_of_table]
    if unverified:
        raise _not_verified(unverified)
    checked = [finding for finding in findings if finding.is_checked]
    others = [finding for finding in findings if not finding.is_checked]
    facts = {
        "agrees": True,
        "data_only": page is None,
        "checked": [str(each) for each in checked],
        "not_checked": [str(each) for each in others],
    }

    def say(out: Console) -> None:
        for finding in checked:
            out.print(f"ok           {finding.what}: agrees with {finding.against}", markup=False, soft_wrap=True)
        for finding in others:
            out.print(f"not checked  {finding}", markup=False, soft_wrap=True)
        out.print(_AGREES if not data_only else _DATA_AGREES)

    deliver(Answer("card.verify", {"ledger": place_of(ledger), "file": str(file)}, facts, say), as_json=as_json)


def _not_verified(parts: list[Finding]) -> Refused:
    """Return the refusal of a card of which some parts could not be compared. The rest of its data can be."""
    from tallystick.cards.check import PAGE

    is_page_open = any(each.what == PAGE for each in parts)
    first, code = (_UNVERIFIED, _NO_PAGE) if is_page_open else (_UNVERIFIED_PARTS, _NO_PARTS)
    of_table = [each for each in parts if each.is_of_table]
    without_table = [_NO_TABLE] if of_table else []
    remedies = [*without_table, *([] if len(of_table) == len(parts) else _DATA_ONLY)]
    return Refused("\n".join([first, *map(str, parts)]), remedies=remedies, code=code)


_OTHER_TABLE = "the table file differs from what was published. Card and ledger agree"
_PAGES = (".html", ".htm")
_NO_PAGE = "page_not_verified"
_DATA_ONLY = (Remedy("set_argument", argument="data_only", value=True),)
_NO_TABLE = Remedy("rewrite", to="leave --table out: then the card alone is checked")
_AGREES = "The card agrees with the ledger in every part that was checked."
_DATA_AGREES = "The data of the card agree with the ledger in every part that was checked. The page was not checked."
_UNVERIFIED = "the text of the page could not be verified. The data of the card agree with the ledger:"
_NO_PARTS = "parts_not_verified"
_UNVERIFIED_PARTS = "some parts could not be verified. What was checked agrees with the ledger:"
_OUTDATED = (
    "the card shows an earlier limit, and everything else agrees with the ledger. Publish again with the same key, "
    "which charges nothing: the new card shows the limit that holds now"
)


def _text_of(table: Path) -> str:
    wanted = "the .csv file of the table that was published with the card"
    if table.suffix.lower() in (".json", ".parquet", ".arrow"):
        raise InvalidInput("table", str(table), f"{wanted}: other forms of it are not compared")
    try:
        with open(table, encoding="utf-8", newline="", opener=regular) as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("table", str(table), wanted) from None
    if text.startswith(",".join(CELLS)):
        raise InvalidInput("table", str(table), f"{wanted}: this one is about its columns")
    return text
