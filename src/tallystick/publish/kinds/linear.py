"""Linear regression of a registered table, from noisy sums of products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.publish.fits import Fit, check_cost
from tallystick.publish.models import LinearModel, linear_regression
from tallystick.publish.outcome import Answer
from tallystick.publish.work import Work, plan_key
from tallystick.tables.denial import for_model
from tallystick.tables.progress import Progress

if TYPE_CHECKING:
    from tallystick.errors import BudgetExceeded
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.filters import Amount
    from tallystick.publish.models import Regression
    from tallystick.publish.request import Request


@dataclass(frozen=True, slots=True)
class LinearFit(Fit):
    """Least squares of the target on its features."""

    def work(self, request: Request, book: Ledger) -> LinearWork:
        """Return the sums with their cost."""
        dataset, account, table = self.registered(book)
        regression = linear_regression(table, target=self.target, features=self.features, bounds=self.bounds)

        def price(words: Mapping[str, Any]) -> Amount:
            return regression.plan(**words).plan.price(account)

        check_cost(request.cost, account, price, "rho", "epsilon")
        plan = regression.plan(**request.cost.words).plan
        key = request.key_or(plan_key(plan, dataset))
        return LinearWork(account, dataset, request.why or "", key, plan, regression)


@dataclass(frozen=True, slots=True, eq=False)
class LinearWork(Work):
    """The plan of the sums, from which the model is read."""

    regression: Regression

    def noise(self) -> str:
        """Return nothing: the sums are not the answer."""
        return ""

    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with costs that fit; no sum of a model can be left out."""
        return for_model(Work.denial(self, problem))

    def answer(self, progress: Progress) -> Answer:
        """Return the model and the sums."""
        made = self.release(progress)
        model = LinearModel(self.regression, made)
        return Answer(self.tabled(made, model=model.to_data()), model, lambda: self.card(made))


KIND = LinearFit
