"""``tallystick theorem``: a statement of the lecture notes, its erratum if it has one, and a number computed now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, deliver

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.theorems.statement import Statement


def theorem(
    number: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help='The number in the notes, such as 13.5 or "lemma 6"; all if left out.'),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a theorem: statement, source, erratum, a live number and its page; without ID, list them all."""
    from tallystick.theorems.registry import all_statements, lookup, namesakes

    if number is None:
        listed = [{"number": entry.number, "title": entry.title, "page": entry.page} for entry in all_statements()]
        deliver(
            Answer("theorem", {"number": None}, {"statements": listed}, lambda out: _list(out, listed)), as_json=as_json
        )
        return
    facts = _facts(lookup(number)) | {"namesakes": list(namesakes(number))}
    deliver(Answer("theorem", {"number": number}, facts, lambda out: _say(out, facts)), as_json=as_json)


def _facts(entry: Statement) -> dict[str, Any]:
    return {
        "number": entry.number,
        "title": entry.title,
        "statement": entry.statement,
        "source": entry.source,
        "erratum": entry.erratum,
        "live": entry.live(),
        # those about mechanisms are named in full, the others are names of ts.theorems
        "functions": [f"tallystick.{name}" if "." in name else f"ts.theorems.{name}" for name in entry.functions],
        "pictures": [f"tallystick.{name}" for name in entry.pictures],
        "page": f"docs/{entry.page}",
        "test": entry.test,
    }


def _list(out: Console, listed: list[dict[str, str]]) -> None:
    for entry in listed:
        out.print(f"{entry['number']:<20} {entry['title']}", markup=False, soft_wrap=True)


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(f"{facts['number']}: {facts['title']}", style="bold", markup=False, soft_wrap=True)
    out.print(facts["statement"], markup=False, soft_wrap=True)
    shown = {
        "source": facts["source"],
        "erratum": facts["erratum"],
        "now": facts["live"] and f"{facts['live']}  (to the nearest digit shown; the code rounds bounds outward)",
        "code": ", ".join(facts["functions"]),
        "picture": ", ".join(facts["pictures"]),
        "page": facts["page"],
        "test": facts["test"],
        "see also": ", ".join(facts["namesakes"]),
    }
    for label, text in shown.items():
        if text:
            out.print(f"{label:<9} {text}", markup=False, soft_wrap=True)
