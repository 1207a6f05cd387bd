"""``tallystick theorem``: a statement of the lecture notes, its erratum if it has one, and a number computed now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, deliver

if TYPE_CHECKING:
    from rich.console import Console


def theorem(
    number: Annotated[str, typer.Argument(metavar="ID", help='The number in the notes, such as "13.5".')],
    as_json: Json = False,
) -> None:
    """Show a theorem: statement, source, erratum, a live number and its page."""
    from tallystick.accounting.theorems.registry import lookup

    entry = lookup(number)
    found: dict[str, Any] = {
        "number": entry.number,
        "title": entry.title,
        "statement": entry.statement,
        "source": entry.source,
        "erratum": entry.erratum,
        "live": entry.live(),
        "page": entry.page,
    }
    deliver(Answer("theorem", {"number": number}, found, lambda out: _say(out, found)), as_json=as_json)


def _say(out: Console, found: dict[str, Any]) -> None:
    out.print(f"{found['number']}  {found['title']}", style="bold", markup=False, soft_wrap=True)
    out.print(found["statement"], markup=False, soft_wrap=True)
    for label in ("source", "erratum", "live", "page"):
        if found[label]:
            out.print(f"{label:<9} {found[label]}", markup=False, soft_wrap=True)
