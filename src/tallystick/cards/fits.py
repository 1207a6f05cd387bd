"""A fit as a card knows it: an estimator's public hyper-parameters, from which price, request and noise follow again.

A fit of rows in memory names the estimator and the number of its columns. A fit of a registered table names the plan
whose rows were read, too. Whoever checks the card builds the estimator anew: its request must be the one that was paid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.errors import InvalidInput
from tallystick.ledger.chain import digest
from tallystick.tables.plan import Plan
from tallystick.tables.sources import request

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

FORMAT = "tallystick/fit/1"
ESTIMATORS = ("LinearRegression", "LogisticRegression", "QuantileRegression", "ExponentialERM", "KNormGradient")
RULES = (
    "a row with an entry that is no finite number is left out",
    "a row longer than the declared norm is scaled down to it, or counts less",
    "a label that is not declared, or a target that is no number, leaves its row out",
    "a target beyond its bounds is clamped to them",
    "rows of one unit beyond the declared number are left out",
    "nothing is learned from the data but the coefficients: norm, bounds and labels are declared",
)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """What was asked of the data; ``rows``: the plan whose rows were read and its dataset, if it was registered."""

    estimator: str
    parameters: Mapping[str, Any]
    columns: int
    rows: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, model: Any, *, plan: Plan | None = None, dataset: str | None = None) -> FitPlan:
        """The fit of an estimator, as it is now."""
        if type(model).__name__ not in ESTIMATORS:
            raise InvalidInput("model", type(model).__name__, f"a fit of {' or '.join(ESTIMATORS)}")
        plain = json.loads(json.dumps(model.get_params(), default=_plain))
        rows = None
        if plan is not None:
            told = json.loads(plan.to_json())
            del told["query"]["table"]["source"]  # where the data lies is nobody's business
            rows = {"plan": told, "dataset": dataset}
        return cls(type(model).__name__, plain, int(model.n_features_in_), rows)._settled()

    @classmethod
    def from_data(cls, told: Mapping[str, Any]) -> FitPlan:
        """The fit that ``to_json`` wrote; its parameters are checked as anybody's."""
        names = {"format", "estimator", "parameters", "columns", "rows"}
        if set(told) != names or told["format"] != FORMAT or told["estimator"] not in ESTIMATORS:
            raise InvalidInput("fit", sorted(told), f"a fit of {' or '.join(ESTIMATORS)} ({FORMAT})")
        found = cls(told["estimator"], dict(told["parameters"]), int(told["columns"]), told["rows"])
        if set(found._settled().parameters) != set(found.parameters):
            raise InvalidInput(
                "parameters", sorted(found.parameters), "those that decide what was paid for, and no other"
            )
        return found

    def _settled(self) -> FitPlan:
        """Without the parameters that change nothing that was paid for: nobody could check them."""
        kept = dict(self.parameters)
        for name in sorted(kept):
            fewer = replace(self, parameters={other: value for other, value in kept.items() if other != name})
            try:
                same = repr(fewer._fit.recipe) == repr(self._fit.recipe) and fewer._fit.request == self._fit.request
            except (InvalidInput, TypeError):  # it has no default, or goes with another one
                continue
            if same:
                del kept[name]
        return replace(self, parameters=kept)

    def to_json(self) -> str:
        """As JSON text."""
        told = {"estimator": self.estimator, "parameters": dict(self.parameters), "columns": self.columns}
        return json.dumps({"format": FORMAT, **told, "rows": self.rows}, sort_keys=True)

    @property
    def _fit(self) -> Any:
        from tallystick import learn
        from tallystick.learn.estimator import Fit
        from tallystick.learn.records import Given

        model = getattr(learn, self.estimator)(**self.parameters)
        recipe = model._recipe()
        return Fit(recipe, Given(np.zeros((0, self.columns)), None, None), model._loss(recipe), model.rows_per_unit)

    @property
    def request(self) -> str:
        """The text that was paid for."""
        if self.rows is None:
            made: str = self._fit.request
            return made
        told = json.loads(json.dumps(self.rows["plan"]))
        told["query"]["table"]["source"] = {"kind": "memory", "place": "memory"}
        plan = Plan.from_json(json.dumps(told))
        both = digest(f"{plan.hash} {self._fit.recipe!r}")
        return request(both, plan.query.table.name, f"dataset {self.rows['dataset']}")

    @property
    def hash(self) -> str:
        """Of the request."""
        return digest(self.request)

    @property
    def privacy(self) -> PrivacyLoss:
        """What one unit loses."""
        loss: PrivacyLoss = self._fit.privacy
        return loss

    @property
    def delta(self) -> float | None:
        """The delta that was declared."""
        return self.parameters.get("delta")

    def facts(self) -> dict[str, Any]:
        """What a card says about it; nothing in it comes from data."""
        from tallystick import __version__

        fit = self._fit
        table = None if self.rows is None else self.rows["plan"]["query"]["table"]
        unit = "of the units given to fit" if table is None else table["unit"] or "each row"
        return {
            "version": __version__,
            "unit": unit,
            "row_level": table is not None and table["unit"] is None,
            "adjacency": str(fit.privacy.adjacency),
            "max_groups": 1,
            "max_rows_per_group": fit.rows_per_unit,
            "group_by": [],
            "keys": {"kind": "model", "count": 1},
            "steps": [] if table is None else [step["kind"] for step in table["steps"]],
            "rules": list(RULES),
            "measures": [{"name": name, "kind": str(value)} for name, value in self._declared()],
            "parts": _parts(fit.recipe, self.columns),
            "privacy": str(fit.privacy),
            "split": "the estimator's own rule, from public numbers only",
            "randomness": "operating-system entropy expanded by AES-256-CTR; exact discrete noise",
            "intervals": "a model has those that its estimator computes from what was released",
        }

    def _declared(self) -> list[tuple[str, Any]]:
        told = [("model", self.estimator), ("columns", self.columns)]
        return told + [(name, value) for name, value in sorted(self.parameters.items()) if value is not None]


def _parts(recipe: Any, columns: int) -> list[dict[str, Any]]:
    """The noise, in units of the longest row."""
    if hasattr(recipe, "scale"):  # sums of products
        noise = recipe.noise(columns + recipe.intercept)
        norm, kind, scale = f"L{noise.law.order}", f"discrete {noise.law.name.capitalize()}", noise.law.scale
        told = {
            "part": f"{noise.dimension} sums of products",
            "sensitivity": noise.move.norm,
            "step": noise.granularity,
        }
        return [{**told, "norm": norm, "noise": kind, "scale": scale * noise.granularity, "share": 1.0}]
    if not hasattr(recipe, "sigma"):  # the coefficients themselves are drawn
        told = {"part": "coefficients drawn from a density", "norm": "score", "sensitivity": 1.0, "step": 1}
        return [{**told, "noise": "the density itself, sampled exactly", "scale": 1.0 / recipe.epsilon, "share": 1.0}]
    pure = getattr(recipe, "pure", False)
    steps = getattr(recipe, "steps", None)
    part = "the objective that is minimised" if steps is None else f"each of {steps} gradients"
    kind = "e^{-|b|} (Euclidean norm)" if pure else "Gaussian"
    return [
        {"part": part, "norm": "L2", "sensitivity": 1.0, "noise": kind, "scale": recipe.sigma, "step": 1, "share": 1.0}
    ]


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
