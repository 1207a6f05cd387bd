"""A fit as a card knows it: an estimator's public hyper-parameters, from which cost, request and noise follow again.

A fit of rows in memory names the estimator and the number of its columns. A fit of a registered table names the plan
whose rows were read, too. A check of the card builds the estimator anew: its request must be the one that was paid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.errors import InvalidInput
from tallystick.ledger.chain import digest
from tallystick.tables.plan import Plan
from tallystick.tables.sources import request

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

FORMAT = "tallystick/fit/1"
PUBLIC = f"a fit of an estimator that is public in ts.learn ({FORMAT})"
RANDOMNESS = "operating-system entropy expanded by AES-256-CTR"
CAPPED = "rows of one unit beyond the declared number are left out"
WORD_PUBLIC = "the caller says that preprocessing learned nothing from private rows; this was not checked"
WORD_ROWWISE = "the caller says that every function in the preprocessing reads one row at a time"
RULES = (
    "a row with an entry that is not a finite number is left out",
    "a row longer than the declared norm is scaled down to it, or counts less",
    "a label that is not declared, or a target that is not a number, leaves its row out",
    "a target beyond its bounds is clamped to them",
    CAPPED,
    "nothing is learned from the data but the coefficients: norm, bounds and labels are declared",
)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Plan of a fit; ``rows`` is the plan whose rows were read and its dataset, if it was registered."""

    estimator: str
    parameters: Mapping[str, Any]
    columns: int
    rows: Mapping[str, Any] | None = None
    units: bool = False
    """True if the caller of ``fit`` named the owners of rows; of a registered table the plan does."""
    preprocessing: str = ""
    """Steps of the pipeline in front of the fit; begins with "public" if the caller answers for them."""

    @classmethod
    def of(cls, model: Any, *, plan: Plan | None = None, dataset: str | None = None) -> FitPlan:
        """The fit of an estimator, as it is now."""
        if not isinstance(model, _estimator(type(model).__name__) or ()):
            raise InvalidInput("model", type(model).__name__, PUBLIC)
        plain = json.loads(json.dumps(model.get_params(), default=_plain))
        rows = None
        if plan is not None:
            written = json.loads(plan.to_json())
            del written["query"]["table"]["source"]  # a card does not say where the data are
            rows = {"plan": written, "dataset": dataset}
        named = rows is None and bool(getattr(model, "units_given_", False))
        before = str(getattr(model, "preprocessing_", "")) if rows is None else ""
        return cls(type(model).__name__, plain, int(model.n_features_in_), rows, named, before)._settled()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> FitPlan:
        """The fit that ``to_json`` wrote; its parameters are checked like any others."""
        names = {"format", "estimator", "parameters", "columns", "rows", "units"}
        if set(data) - {"preprocessing"} != names or data["format"] != FORMAT or _estimator(data["estimator"]) is None:
            raise InvalidInput("fit", sorted(data), PUBLIC)
        before = str(data.get("preprocessing", ""))
        units = bool(data["units"])
        plan = cls(data["estimator"], dict(data["parameters"]), int(data["columns"]), data["rows"], units, before)
        if plan.rows is not None and plan.columns != len(plan.rows["plan"]["query"]["measures"]) - 1:  # and the target
            raise InvalidInput("columns", plan.columns, "the columns of the plan whose rows were read")
        if set(plan._settled().parameters) != set(plan.parameters):
            raise InvalidInput(
                "parameters", sorted(plan.parameters), "those that decide what was paid for, and no other"
            )
        return plan

    def _settled(self) -> FitPlan:
        """Return the plan without parameters that change nothing that was paid for: a reader could not check them."""
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
        fit = {"estimator": self.estimator, "parameters": dict(self.parameters), "columns": self.columns}
        before = {"preprocessing": self.preprocessing} if self.preprocessing else {}
        return json.dumps({"format": FORMAT, **fit, "rows": self.rows, "units": self.units, **before}, sort_keys=True)

    @property
    def _fit(self) -> Any:
        from tallystick.learn.estimator import Fit
        from tallystick.learn.records import Given

        model = _estimator(self.estimator)(**self.parameters)
        recipe = model._recipe()
        nobody = Given(np.zeros((0, self.columns)), None, [] if self.units else None)
        return Fit(recipe, nobody, model._loss(recipe), model.rows_per_unit, preprocessing=self.preprocessing)

    @property
    def request(self) -> str:
        """The text that was paid for."""
        if self.rows is None:
            made: str = self._fit.request
            return made
        written = json.loads(json.dumps(self.rows["plan"]))
        written["query"]["table"]["source"] = {"kind": "memory", "place": "memory"}
        plan = Plan.from_json(json.dumps(written))
        both = digest(f"{plan.hash} {self._fit.recipe!r}")
        return request(both, plan.query.table.name, f"dataset {self.rows['dataset']}")

    @property
    def hash(self) -> str:
        """The hash of the request."""
        return digest(self.request)

    @property
    def privacy(self) -> PrivacyLoss:
        """The privacy loss of one unit."""
        loss: PrivacyLoss = self._fit.privacy
        return loss

    @property
    def delta(self) -> float | None:
        """The delta that was declared."""
        return self.parameters.get("delta")

    def facts(self) -> dict[str, Any]:
        """Return the facts for a card; nothing in them comes from data."""
        from tallystick import __version__

        fit = self._fit
        parts = fit.recipe.noise_parts(self.columns)
        is_discrete = all(part.noise.startswith("discrete ") for part in parts)
        table = None if self.rows is None else self.rows["plan"]["query"]["table"]
        unit = table["unit"] if table is not None else "of the units given to fit" if self.units else None
        return {
            "version": __version__,
            "unit": unit or "each row",
            "row_level": unit is None,
            "adjacency": str(fit.privacy.adjacency),
            "max_groups": 1,
            "max_rows_per_group": fit.rows_per_unit,
            "group_by": [],
            "keys": {"kind": "model", "count": 1},
            "steps": [] if table is None else [step["kind"] for step in table["steps"]],
            "rules": [*(rule for rule in RULES if unit is not None or rule != CAPPED), *self._words()],
            "measures": [{"name": name, "kind": str(value)} for name, value in self._declared()],
            "parts": [asdict(part) for part in parts],
            "privacy": str(fit.privacy),
            "split": "the estimator's own rule, from public numbers only",
            "randomness": f"{RANDOMNESS}; exact discrete noise" if is_discrete else RANDOMNESS,
            "intervals": "a model has those that its estimator computes from what was released",
        }

    def _words(self) -> list[str]:
        """Return the statements of the caller about preprocessing, which the card cannot check."""
        if self.preprocessing.startswith("public"):
            return [WORD_PUBLIC]
        return [WORD_ROWWISE] if "FunctionTransformer" in self.preprocessing else []

    def _declared(self) -> list[tuple[str, Any]]:
        parameters = [(name, value) for name, value in sorted(self.parameters.items()) if value is not None]
        before = [("preprocessing", self.preprocessing)] if self.preprocessing else []
        return [("model", self.estimator), ("columns", self.columns), *before, *parameters]


def _estimator(name: str) -> Any:
    """The public estimator of that name, if there is one."""
    from tallystick import learn
    from tallystick.learn.estimator import Estimator

    kind = getattr(learn, name) if name in learn.__all__ else None
    return kind if isinstance(kind, type) and issubclass(kind, Estimator) and kind.__name__ == name else None


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
