"""A line on the screen while a model trains: steps of how many, and what has been paid; nothing of the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from tallystick.learn.torch.batches import Batch
    from tallystick.ledger.training import Run


def shown(batches: Iterable[Batch], run: Run | None, steps: int, console: Console | None = None) -> Iterator[Batch]:
    """Yield the batches and count each one after its step. Print first what the run costs, whole and in blocks."""
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[paid]}", markup=False), console=console) as line:
        if run is not None:
            line.console.print(str(run.costs()), markup=False, highlight=False)
        task, receipts = line.add_task("training", total=steps, paid=paid(run)), 0
        for batch in batches:
            if run is not None and len(run.receipts) != receipts:
                receipts = len(run.receipts)
                line.update(task, paid=paid(run))
            yield batch
            line.advance(task)


def paid(run: Run | None) -> str:
    """What the account of the run has paid, this run and others."""
    return (
        "recorded nowhere" if run is None else f"{run.account.name} has paid {run.account.used} of {run.account.limit}"
    )
