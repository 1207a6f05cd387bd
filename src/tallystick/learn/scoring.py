"""Accuracy of a classifier: free on public data, a paid release on private data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.learn.records import Array, Given, given, labelled
from tallystick.ledger.pay import LEASE, pay
from tallystick.mechanisms.noise import add_discrete_laplace

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.mechanisms.noise.additive import AdditiveNoise

PRIVATE = (
    "a score of private data is a release, and nobody pays for it. Works: score(X, y, account=..., why=..., "
    "epsilon=...), which answers a noisy share; or score(X, y, public=True) where the rows are public"
)
OPTIONS = ("account", "why", "key", "epsilon", "units")


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """How many rows are classified rightly and how many wrongly: a histogram with Laplace noise."""

    model: Any
    data: Given
    noise: AdditiveNoise
    rows_per_unit: int
    source: str = ""

    @property
    def privacy(self) -> PrivacyLoss:
        """A unit's rows fall into the two cells, so they move the histogram by their number."""
        return self.noise.privacy

    @property
    def request(self) -> str:
        """The model as it was released, and the noise."""
        theta = [self.model.coef_.tolist(), self.model.intercept_.tolist()]
        return f"accuracy of {theta} with {self.noise!r}, {self.rows_per_unit} rows per unit"

    def preflight(self) -> None:
        """What is public was checked when the data were given."""

    def draw(self) -> float:
        """The noisy share of right answers, between 0 and 1."""
        usable = self.data.usable(self.rows_per_unit)
        assert usable.targets is not None
        places = labelled(usable.targets, self.model.classes_.tolist())
        known = places >= 0
        right = int(np.count_nonzero(_predicted(self.model, usable.rows[known]) == places[known]))
        counts = np.array([right, int(known.sum()) - right])
        noisy = np.maximum(np.asarray(self.noise.release(counts), dtype=np.float64), 0.0)
        return float(noisy[0] / max(1.0, noisy.sum()))

    @staticmethod
    def of(model: Any, X: Any, y: Any, *, rows_per_unit: int, public: bool, options: dict[str, Any]) -> float:
        """The accuracy, free or paid."""
        if unknown := sorted(set(options) - set(OPTIONS)):
            raise InvalidInput("score", unknown[0], "public=True, or account=, why=, epsilon=, key= and units=")
        if public:
            data = given(X, y)
            if data.targets is None:
                raise InvalidInput("y", None, "the true label of each row")
            return float(np.mean(np.asarray(model.predict(data.rows)) == data.targets))
        account, why, epsilon = (options.get(name) for name in ("account", "why", "epsilon"))
        if account is None:
            raise Refused(PRIVATE)
        if why is None or epsilon is None:
            raise InvalidInput("why" if why is None else "epsilon", None, "a reason and the price of the score")
        data = given(X, y, options.get("units"))
        if data.targets is None:
            raise InvalidInput("y", None, "one label per row")
        rows = check.count("rows_per_unit", rows_per_unit, least=1)
        noise = add_discrete_laplace(epsilon=epsilon, sensitivity=rows, dimension=2, changed=2)
        release = Scored(model, data, noise, rows)
        return float(pay(release, account, why=why, key=options.get("key"), lease=LEASE).answer)


def _predicted(model: Any, rows: Array) -> np.ndarray[Any, Any]:
    """The place of the likeliest class."""
    scores = model.decision_function(rows)
    return np.asarray(scores > 0.0, dtype=int) if scores.ndim == 1 else np.asarray(scores.argmax(axis=1))
