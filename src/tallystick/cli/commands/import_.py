"""``tallystick import``: compute the epsilon of what another library recorded, and compare it with its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, deliver, working
from tallystick.digits import down, typed, up
from tallystick.regular_file import read_bytes

if TYPE_CHECKING:
    from rich.console import Console


def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="dp-accounting or opacus.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Its record as JSON; pickles are refused.")],
    delta: Annotated[float, typer.Option("--delta", help="The delta at which epsilon is read.")] = 1e-5,
    claimed: Annotated[float | None, typer.Option("--claimed", help="The epsilon the other library printed.")] = None,
    adjacency: Annotated[
        str, typer.Option("--adjacency", help="Who is protected: add_remove, replace or replace_special.")
    ] = "add_remove",
    as_json: Json = False,
) -> None:
    """Compute the epsilon of another library's record; exit 5 if its claim is certainly too small."""
    from tallystick.accounting import check
    from tallystick.accounting.foreign import read_record
    from tallystick.audit.recomputed import telling_digits, worth
    from tallystick.errors import ClaimFalsified
    from tallystick.place import unreadable

    level = check.probability("delta", delta)
    promise = None if claimed is None else check.nonnegative("claimed", claimed)
    try:
        content = read_bytes(file)
    except OSError as problem:
        raise unreadable("file", file, problem) from None
    source = source.replace("_", "-")  # the package is called dp-accounting, its module dp_accounting
    loss = read_record(source, file.name, content, adjacency=adjacency)
    with working("asking the accountant"):
        bounds = loss.epsilon_bounds(delta=level)
    digits = 6 if promise is None else telling_digits(promise, bounds)
    verdict = None if promise is None else worth(promise, bounds)
    facts: dict[str, Any] = {
        "loss": str(loss),
        "adjacency": loss.adjacency.value,
        "epsilon": bounds.upper,
        "lower": bounds.lower,
        "upper": bounds.upper,
        "claimed": promise,
        "difference": None if promise is None else promise - bounds.upper,
        "verdict": verdict,
    }

    def say(out: Console) -> None:
        out.print(str(loss), markup=False, soft_wrap=True)
        out.print(f"epsilon [bold]{up(bounds.upper, digits)}[/bold] at delta {typed(level)}", soft_wrap=True)
        out.print(f"certified between {down(bounds.lower, digits)} and {up(bounds.upper, digits)}")
        if promise is not None:
            out.print(f"claimed {typed(promise)}: {verdict}", markup=False, soft_wrap=True)
        if source == "opacus":
            out.print("Read as Poisson sampling, as Opacus does; a loader that shuffles is not that.", soft_wrap=True)
            out.print("Read as steps fixed beforehand; a run that stopped by what it saw is not that.", soft_wrap=True)

    asked = {"source": source, "file": file.name, "delta": level, "claimed": promise, "adjacency": adjacency}
    deliver(Answer("import", asked, facts, say), as_json=as_json)
    if promise is not None and promise < bounds.lower:
        raise typer.Exit(ClaimFalsified.exit_code)
