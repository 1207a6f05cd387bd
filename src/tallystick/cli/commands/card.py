"""``tallystick card``: read a privacy card in the terminal, and check it against the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, Place, deliver, working
from tallystick.digits import percent, percent_up, typed, up
from tallystick.errors import InvalidInput, LedgerIntegrity
from tallystick.ledger.book import opened, place_of
from tallystick.regular_file import regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

app = typer.Typer(help="Read and check privacy cards.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(help="The card: its HTML or its JSON file.")]
Table = Annotated[Path | None, typer.Option("--table", help="The CSV file that was published with the card.")]


@app.command()
def show(file: File, as_json: Json = False) -> None:
    """A card in words: odds, promise, who is and is not protected, error, evidence."""
    from tallystick.cards import read_card

    facts = read_card(file)[0].facts
    try:
        lines = _lines(facts)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise InvalidInput("card", str(file), "a privacy card with all its parts") from None

    def say(out: Console) -> None:
        for line in lines:
            out.print(line, soft_wrap=True, markup=False)

    deliver(Answer("card.show", {"file": str(file)}, facts, say), as_json=as_json)


def _lines(facts: Mapping[str, Any]) -> list[str]:
    from tallystick.tables.reporting.words import TOO_NOISY

    noisy = any(line.get("too_noisy") for line in facts["left_out"])
    words, promise, released = facts["words"]["limit"], facts["promise"], facts["released"]
    by = f" by {', '.join(released['group_by'])}" if released["group_by"] else ""
    them = facts["protected"].get("spoken_of", {}).get("them", "people")
    them += " with the other data" if facts["protected"]["adjacency"] == "replace" else ""
    return [
        f"{released['dataset']}{by}, population {released['population']}: {facts['decisions']['purpose']}",
        "",
        words["sentence"],
        *(
            f"from {percent(float(prior))} sure to at most {percent_up(belief)} sure"
            for prior, belief in words["belief_from_prior"].items()
        ),
        *(
            f"with {percent(float(alarm))} false alarms, at most {percent_up(hit)} of {them} found"
            for alarm, hit in words["hit_rate_at_false_alarm"].items()
        ),
        "",
        f"promise   never more than {promise['limit']} ({facts['accounting']['filter']})",
        f"          epsilon {up(float(promise['epsilon']))} at delta {typed(promise['delta'])}",
        f"price     {promise['price']}, alone epsilon {up(float(promise['table_epsilon']))} at the same delta",
        f"protects  one {facts['protected']['unit']}: the data {facts['protected']['neighbours']}",
        *(f"counts    {said}" for said in [facts["protected"].get("counts")] if said),
        *(f"column    {each['name']}: {each['said']}" for each in released["measures"] if "said" in each),
        *(f"error     {each['column']} ±{up(each['error'])} {each['holds']}" for each in facts["error"]["columns"]),
        f"interval  {facts['error']['intervals']}",
        *(f"left out  {each['said']}" for each in facts["left_out"] if "said" in each),
        *([f"          {TOO_NOISY}"] if noisy else []),
        *(f"          {said}" for said in map(facts["error"].get, ("rows_that_count", "clamping")) if said),
        "",
        "not protected:",
        *(f"  - {sentence}" for sentence in facts["not_protected"]),
        "",
        f"plan      {facts['accounting']['plan_hash']}",
        f"head      {facts['evidence'].get('head', 'none: this is a preview')}",
        f"check     {facts['evidence']['verify']}",
    ]


@app.command()
def export(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="Write the record to this .yaml file.")],
    to: Annotated[str, typer.Option("--to", help="For whom: registry (of DP deployments).")] = "registry",
    as_json: Json = False,
) -> None:
    """Write a card as the record that the public registry of deployments asks for."""
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
        out.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidInput("out", str(out), f"a file that can be written ({error.strerror})") from None

    def say(console: Console) -> None:
        console.print(str(out), soft_wrap=True, markup=False)
        console.print(f"for {SCHEMA}; look through it, then offer it to the registry", soft_wrap=True, markup=False)

    found = {"file": str(out), "schema": SCHEMA, "record": record}
    deliver(Answer("card.export", {"file": str(file), "to": to}, found, say), as_json=as_json)


@app.command()
def verify(file: File, ledger: Place = None, table: Table = None, as_json: Json = False) -> None:
    """Compare a card with the ledger, part by part, and say what was not checked. Exit 6 when they differ."""
    from tallystick.cards import check_card, read_card
    from tallystick.cards.card import is_page

    card, text = read_card(file)
    page = text if is_page(text) else None
    rows = None if table is None else _text_of(table)
    with opened(ledger) as book, working("checking"):
        findings = check_card(card, book, page=page, table=rows)
    wrong = [finding for finding in findings if not finding.holds]
    if wrong:
        raise LedgerIntegrity(
            "\n".join(["the card does not say what the ledger says:", *(str(each) for each in wrong)])
        )
    checked = [finding for finding in findings if finding.is_checked]
    others = [finding for finding in findings if not finding.is_checked]
    facts = {"agrees": True, "checked": [str(each) for each in checked], "not_checked": [str(each) for each in others]}

    def say(out: Console) -> None:
        for finding in checked:
            out.print(f"ok           {finding.what}: agrees with {finding.against}", markup=False, soft_wrap=True)
        for finding in others:
            out.print(f"not checked  {finding}", markup=False, soft_wrap=True)
        out.print("The card agrees with the ledger in every part that was checked.")

    deliver(Answer("card.verify", {"ledger": place_of(ledger), "file": str(file)}, facts, say), as_json=as_json)


def _text_of(table: Path) -> str:
    try:
        with open(table, encoding="utf-8", newline="", opener=regular) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("table", str(table), "the .csv file that was written with the card") from None
