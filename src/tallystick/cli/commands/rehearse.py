"""``tallystick publish rehearse``: what noise, caps and bounds would do, on rows that are public or made up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Details, Json, Place, Quiet, Screen, deliver, working
from tallystick.cli.question import listed
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console


CAUSES = [
    "noise: half of the 95 % interval. limits: rows over the limits count less or are not counted.",
    "bounds: values outside count as the bound.",
    "all: the noise, plus how far limits and bounds together move the value. These two may cancel.",
]
"""What each column of the table is."""


def rehearse(
    plan: Annotated[Path, typer.Argument(help="A plan that 'publish plan --out' wrote.")],
    rows: Annotated[
        Path | None, typer.Option("--rows", help="A CSV file of public or made-up rows with the same columns.")
    ] = None,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Make rows up from what the plan says.")] = False,
    units: Annotated[int, typer.Option("--units", help="With --synthetic: number of people.")] = 2_000,
    rows_per_unit: Annotated[
        float, typer.Option("--rows-per-unit", help="With --synthetic: rows of a person, about; a few have many more.")
    ] = 5.0,
    groups_per_unit: Annotated[
        float, typer.Option("--groups-per-unit", help="With --synthetic: groups of a person, about.")
    ] = 2.0,
    caps: Annotated[
        list[str] | None, typer.Option("--caps", metavar="GROUPSxROWS,...", help="Limits to try, such as 1x1,2x5.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The rows are public: they may be over 1 MB, or in a Parquet file.")
    ] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the errors to this .svg or .png file.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="Which column to draw (default: the first).")] = None,
    details: Details = False,
    quiet: Quiet = False,
    place: Place = None,
    as_json: Json = False,
) -> None:
    """Compare errors from noise, limits and bounds. The rows are public or made up, and nothing is charged."""
    from tallystick.publish import rehearse as room
    from tallystick.publish.export import read_plan
    from tallystick.tables.sources import unpaid_file

    asked, tried = read_plan(plan), _caps(caps)
    if (rows is None) != synthetic:
        raise InvalidInput("rows", rows and str(rows), "either --rows FILE or --synthetic")
    with working("rehearsing"):
        shape = {"units": units, "rows_per_unit": rows_per_unit, "groups_per_unit": groups_per_unit}
        used: Any = room.made_up_rows(asked, **shape) if rows is None else unpaid_file(rows, "rows", place=place)  # type: ignore[arg-type]
        found = room.rehearse(asked, used, caps=tried, public=public)
    facts = {**found.to_data(), "charged": False, "plot": None if plot is None else str(plot)}
    if plot is not None:
        from tallystick import plots

        drawn = column or found.columns[0]
        plots.save(plots.rehearsed(found.bars(drawn), column=drawn), plot)

    def say(_: Console) -> None:
        screen = Screen(quiet)
        if quiet and plot is not None:
            screen.result([str(plot)])
            return
        screen.result(str(found).splitlines())
        whose = str(rows) if rows is not None else f"made-up rows of {units:,} people"
        screen.note(["", f"Measured on {whose}. No registered data was read and nothing was charged."])
        screen.note(CAUSES if details else [])
        screen.note([f"Wrote    {plot}"] if plot is not None else [])

    about = {"plan": str(plan), "rows": rows and str(rows), "synthetic": synthetic, "caps": listed(caps)}
    deliver(Answer("publish.rehearse", about, facts, say), as_json=as_json)


def _caps(given: list[str] | None) -> list[tuple[int, int]] | None:
    """``1x1,2x5`` as pairs of groups and rows."""
    if not given:
        return None
    try:
        pairs = [(int(groups), int(rows)) for groups, rows in (piece.split("x") for piece in listed(given))]
    except ValueError:
        pairs = []
    if not pairs:
        raise InvalidInput("caps", ",".join(given), "GROUPSxROWS with commas, such as 1x1,2x5")
    return pairs
