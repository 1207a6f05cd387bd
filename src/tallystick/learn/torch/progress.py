"""A line on the screen while a model trains: steps of how many, and what has been paid; nothing of the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tallystick.digits import percent_up
from tallystick.printing import visible

if TYPE_CHECKING:
    from tallystick.learn.torch.batches import Batch
    from tallystick.ledger.training import Run


NAME = 16
"""Characters of the name of an account in the line: at 80 columns steps and time must stay visible."""
BAR = 20


def shown(batches: Iterable[Batch], run: Run | None, steps: int, console: Console | None = None) -> Iterator[Batch]:
    """Yield the batches and count each one after its step. Print first what the run costs, whole and in blocks."""
    columns = (TextColumn("training"), BarColumn(BAR), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[paid]}", markup=False), console=console) as line:
        if run is not None:
            line.console.print(str(run.costs()), markup=False, highlight=False)
        task, receipts = line.add_task("training", total=steps, paid=used(run)), 0
        for batch in batches:
            if run is not None and len(run.receipts) != receipts:
                receipts = len(run.receipts)
                line.update(task, paid=used(run))
            yield batch
            line.advance(task)
        if run is not None:
            line.console.print(paid(run), markup=False, highlight=False)


def used(run: Run | None) -> str:
    """How much of the limit of its account is used, in a few characters."""
    if run is None:
        return "recorded nowhere"
    account = run.account
    name = visible(account.name)
    short = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
    return f"{short} {percent_up(account.used.first / account.limit.first, 2)} used"


def paid(run: Run) -> str:
    """What the account of the run has paid, this run and others."""
    return f"{run.account.name} has paid {run.account.used} of {run.account.limit}."
