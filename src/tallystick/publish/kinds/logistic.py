"""Logistic regression of a registered table, whose rows are read after the charge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.publish.fits import Fit, check_cost
from tallystick.publish.rows import RowsWork, logistic_regression

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.publish.request import Request


@dataclass(frozen=True, slots=True)
class LogisticFit(Fit):
    """Scores of declared labels."""

    labels: tuple[Any, ...] = ()
    solver: str | None = None

    def work(self, request: Request, book: Ledger) -> RowsWork:
        """Return the fit with its price."""
        check_cost(request.cost, "epsilon")
        dataset, account, table = self.registered(book)
        asked = logistic_regression(
            table,
            target=self.target,
            features=self.features,
            labels=self.labels,
            epsilon=request.cost.words["epsilon"],
            delta=request.cost.delta,
            bounds=self.bounds,
            solver=self.solver,
        )
        return RowsWork.of(asked, dataset, account, request)


KIND = LogisticFit
