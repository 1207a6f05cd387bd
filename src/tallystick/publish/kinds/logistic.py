"""Logistic regression of a registered table, whose rows are read after the charge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.publish.fits import Fit, check_cost
from tallystick.publish.rows import RowsWork, logistic_regression

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.filters import Amount
    from tallystick.publish.request import Request


@dataclass(frozen=True, slots=True)
class LogisticFit(Fit):
    """Scores of declared labels."""

    labels: tuple[Any, ...] = ()
    solver: str | None = None

    def work(self, request: Request, book: Ledger) -> RowsWork:
        """Return the fit with its cost."""
        dataset, account, table = self.registered(book)

        def fit(words: Mapping[str, Any]) -> Any:
            return logistic_regression(
                table,
                target=self.target,
                features=self.features,
                labels=self.labels,
                epsilon=words["epsilon"],
                delta=words.get("delta"),
                bounds=self.bounds,
                solver=self.solver,
            )

        def price(words: Mapping[str, Any]) -> Amount:
            return account.price(fit(words).model().privacy)

        check_cost(request.cost, account, price, "epsilon")
        asked = fit({**request.cost.words, "delta": request.cost.delta})
        return RowsWork.of(asked, dataset, account, request)


KIND = LogisticFit
