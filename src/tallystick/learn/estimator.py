"""What every estimator is: hyper-parameters that know their price, and one way to be fitted.

    estimator.privacy                    what one fit loses, before any data is seen
    estimator.fit(X, y, account=...)     check what is public, charge, fit, store; the same key gives the same model

A subclass writes ``_recipe`` (a frozen value with ``privacy`` of one row and ``train``) and ``_keep`` (what was
released becomes attributes). Nothing but ``train`` sees data, and everything it returns is the release.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, NoCovariance, Refused
from tallystick.learn import pipelines
from tallystick.learn.callers import SEARCH, refuse_others
from tallystick.learn.records import Array, Given, column_names, given, matrix
from tallystick.learn.scikit import BaseEstimator, DataConversionWarning, check_is_fitted, clone
from tallystick.ledger.account import check_account
from tallystick.ledger.denial import offering_epsilon
from tallystick.ledger.epsilon_alone import counts_epsilon, two_costs
from tallystick.ledger.pay import LEASE, pay, stored_answer
from tallystick.mechanisms.base import UnrecordedRelease, unrecorded
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.ledger.pay import Receipt

Answer = dict[str, Any]
"""What a fit releases: numbers, text, lists and arrays, as the ledger stores them."""

COLUMNS = "columns"
"""What a stored model calls the names of its columns."""


@dataclass(frozen=True, slots=True)
class NoisePart:
    """Where noise is added and of which kind, as a card shows it; lengths are in units of the longest row."""

    part: str
    noise: str
    scale: float
    norm: str = "L2"
    sensitivity: float = 1.0
    step: float = 1
    share: float = 1.0


OBJECTIVE: Final = "the objective that is minimised"
"""Name of the noise in an objective."""
MINIMISER: Final = "the coefficients, to hide errors of the computation"
"""Name of the small noise on a minimiser. Without it rounding errors could depend on single rows."""


class Recipe(Protocol):
    """Recipe of one model: public facts only, written out by ``repr`` so that different requests differ.

    That of an estimator which is public in ``ts.learn`` also has ``noise_parts(columns)``: what its card says.
    """

    @property
    def privacy(self) -> PrivacyLoss:
        """What one fit loses to one row."""

    def train(self, data: Given, source: Source) -> Answer:
        """The private model of usable rows. Called once, after the charge; no failure depends on the data."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One fit as the ledger's payer sees it (``ledger.pay.Payable``)."""

    recipe: Recipe
    data: Given
    privacy: PrivacyLoss
    rows_per_unit: int
    source: str = ""
    preprocessing: str = ""

    @property
    def request(self) -> str:
        """The recipe, the number of columns, whether rows had units, and the preprocessing: what a card prints."""
        named = ", units given" if self.data.units is not None else ""
        before = f", preprocessing {self.preprocessing}" if self.preprocessing else ""
        return f"fit {self.recipe!r} on {self.data.width} columns, {self.rows_per_unit} rows per unit{named}{before}"

    def preflight(self) -> None:
        """What is public was checked when the data were given."""

    def draw(self) -> Answer:
        """The model, with the names of its columns, so that the same key does not serve columns in another order."""
        model = self.recipe.train(self.data.usable(self.rows_per_unit), SYSTEM)
        return model if self.data.names is None else {**model, COLUMNS: list(self.data.names)}


class Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the private estimators; hyper-parameters are the constructor's arguments, as scikit-learn has it."""

    rows_per_unit: int
    privacy_: PrivacyLoss
    receipt_: Receipt | None
    n_features_in_: int

    def _recipe(self) -> Recipe:
        """Check the hyper-parameters and say how the model is made; sees no data."""
        raise NotImplementedError

    def _keep(self, answer: Mapping[str, Any]) -> None:
        """Turn what was released into attributes."""
        raise NotImplementedError

    @property
    def privacy(self) -> PrivacyLoss:
        """What one fit loses to one unit, an upper bound known before any data is seen."""
        return self._loss(self._recipe())

    def _loss(self, recipe: Recipe) -> PrivacyLoss:
        rows = check.count("rows_per_unit", self.rows_per_unit, least=1)
        return recipe.privacy if rows == 1 else recipe.privacy.for_groups(rows)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        account: Account | None = None,
        why: str | None = None,
        key: str | None = None,
        delta: float | None = None,
        units: Sequence[Any] | None = None,
        pure: bool = False,
        preprocessing: str | None = None,
    ) -> Self:
        """Fit once, charged to ``account`` before the data are used; a failure after that keeps the charge.

        ``units`` names the person (household, device) of each row: every one keeps ``rows_per_unit`` rows and is
        protected as a whole. Without it each row is protected by itself: it is not checked that a person has one row.

        ``why``, ``key`` and ``delta`` (by default the estimator's own, where the account has one) are those of
        ``account.release``: the same key gives the same model and charges nothing, and for other hyper-parameters it is
        refused. Rows are not compared, which would read them unpaid: other rows under an old key give the old model.

        An account in rho or mu refuses an estimator with an epsilon and no delta, because its cost is many times that
        with a delta. Give the estimator a delta, as in ``LogisticRegression(..., delta=1e-6)``, or say ``pure=True``:
        pure epsilon is meant.

        In a scikit-learn pipeline, steps that may learn from rows are refused before the charge.
        ``preprocessing="public"`` allows them: you say that no step learned from private rows, and the card prints it.
        """
        refuse_others(sys._getframe(1), Estimator)
        before = pipelines.checked(sys._getframe(1), preprocessing)
        recipe = self._recipe()
        data = given(X, y, units)
        self._check(data)
        if len(getattr(y, "shape", ())) == 2:
            told = "A column-vector y was passed when a 1d array was expected; y.ravel() is meant"
            warnings.warn(told, DataConversionWarning, stacklevel=2)
        fit = Fit(recipe, data, self._loss(recipe), self.rows_per_unit, preprocessing=before)
        if account is None:
            self._unpaid(why=why, key=key, delta=delta)
            answer, receipt = fit.draw(), None
        else:
            check_account(account)
            if why is None:
                raise InvalidInput("why", why, "a short reason, which the ledger keeps")
            if delta is None and account.filter == "approx":
                delta = getattr(self, "delta", None) or None
            with self._offering(account, delta):
                paid = stored_answer(fit, account, why=why, key=key, delta=delta)
                if paid is None:
                    self.require_stated(account, self._privacy_at, pure=pure)
                    paid = pay(fit, account, why=why, key=key, delta=delta, lease=LEASE)
            answer, receipt = paid.answer, paid.receipt
        if COLUMNS in answer and data.names is not None:
            _same_columns(data.names, tuple(answer[COLUMNS]))  # of an earlier fit under this key
        self.n_features_in_, self.privacy_, self.receipt_ = data.width, fit.privacy, receipt
        self.units_given_ = data.units is not None
        self.preprocessing_ = before
        self._name(data.names)
        self._keep(answer)
        return self

    def require_stated(
        self, account: Account, privacy_at: Callable[[float], PrivacyLoss], *, pure: bool = False
    ) -> None:
        """Raise ``EpsilonWithoutDelta`` if a new fit has an epsilon alone and the account counts rho or mu.

        ``privacy_at`` is the loss of the same fit at a delta. ``pure``, or a method or solver that the caller named,
        says which epsilon is meant.
        """
        if pure and getattr(self, "delta", None):
            raise InvalidInput("pure", True, "an epsilon, and no delta", problem="pure means that the delta is 0")
        if pure or counts_epsilon(account) or not self._has_epsilon_alone:
            return
        cost = account.price(self.privacy)
        delta = account.quoted_delta()

        def price_at(epsilon: float, at: float) -> Amount:
            if epsilon == self._stated_epsilon:
                return account.price(privacy_at(at))
            return account.price(clone(self).set_params(epsilon=epsilon, delta=at).privacy)

        stated = float(self._stated_epsilon)
        raise two_costs(account, stated, delta, cost, price_at, estimator=type(self).__name__)

    @property
    def _has_epsilon_alone(self) -> bool:
        """True if the fit has no delta, and no parameter says that it must not."""
        named = [getattr(self, name, None) for name in ("method", "solver")]
        return getattr(self, "delta", None) is None and named == [None, None]

    @property
    def _stated_epsilon(self) -> float:
        """The epsilon that the caller gave."""
        return self.epsilon  # type: ignore[no-any-return]

    def _privacy_at(self, delta: float) -> PrivacyLoss:
        """The loss of the same fit at a delta; raises ``InvalidInput`` if the fit exists with pure epsilon alone."""
        if not hasattr(self, "delta"):
            raise InvalidInput("delta", delta, "nothing: this fit has pure epsilon alone")
        return clone(self).set_params(delta=delta).privacy  # type: ignore[no-any-return]

    def _offering(self, account: Account, delta: float | None) -> AbstractContextManager[None]:
        """A denial in the words of a fit."""
        if (epsilon := getattr(self, "epsilon", None)) is None:
            return nullcontext()

        def price(other: float) -> Amount:
            return account.price(clone(self).set_params(epsilon=other).privacy, delta=delta)

        return offering_epsilon(account, float(epsilon), price, estimator=type(self).__name__)

    def _name(self, names: Sequence[str] | None) -> None:
        """Keep the names of the columns as scikit-learn does, or none."""
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check(self, data: Given) -> None:
        """Refuse what is public and wrong, before the charge; a subclass adds its own."""
        if data.targets is None:
            # The words are scikit-learn's own, which its checks look for.
            told = "this estimator requires y to be passed, but the target y is None"
            raise InvalidInput("y", None, f"one target per row: {told}")
        self._check_kind(data)

    def _check_kind(self, data: Given) -> None:
        """Text is no number: every row would be left out without a word, and the type of a column is public."""
        wanted = self._target_kind()
        if wanted is not None and data.kind not in (wanted, None):
            allowed = "numbers" if wanted == "numbers" else "text"
            declared = ", as the declared classes are" if getattr(self, "classes", None) is not None else ""
            raise InvalidInput("y", f"a column of {data.kind}", allowed + declared)

    def _target_kind(self) -> str | None:
        """What targets are: "numbers", "text", or None for either."""
        return "numbers"

    def _unpaid(self, **options: Any) -> None:
        for name, value in options.items():
            if value is not None:
                raise InvalidInput(name, value, "", problem=f"{name}= needs account=")
        if unrecorded.first():
            warnings.warn(
                "this fit is recorded nowhere, so fits can add up unnoticed; use fit(X, y, account=..., why=...) to "
                "charge it (said once per process)",
                UnrecordedRelease,
                stacklevel=3,
            )

    def _like_fitted(self, X: Any) -> Array:
        """Rows as wide as those of the fit."""
        check_is_fitted(self, "coef_")
        rows, names = matrix("X", X), column_names(X)
        if names is not None and hasattr(self, "feature_names_in_"):
            _same_columns(names, tuple(self.feature_names_in_))
        if rows.shape[1] != self.n_features_in_:
            # The words are scikit-learn's own, which its checks look for.
            told = (
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features"
            )
            raise InvalidInput("X", f"shape {rows.shape}", f"as many columns as the fit had: {told} as input")
        return rows

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))  # scikit-learn reads every attribute, and `privacy` may be refused or slow

    def __sklearn_clone__(self) -> Self:
        refuse_others(sys._getframe(1), Estimator)  # here, too: an error of a fit is caught there, and buried
        return super().__sklearn_clone__()  # type: ignore[no-any-return]

    @property
    def covariance_(self) -> Any:
        """Covariance of the coefficients, where what was released tells it; elsewhere refused with the way out."""
        raise NoCovariance(
            "no covariance: it needs the curvature of the loss at these coefficients, a function of the rows that was "
            "not released. Try: LinearRegression(method='gram'), which buys it; LogisticRegression's "
            "noise_covariance(curvature) with a public one; erm_covariance and kng_covariance for planning"
        )

    def score(self, X: Any, y: Any, **options: Any) -> Any:
        """Refused: a score of private data is a release, and this estimator has none."""
        raise Refused(SEARCH)


def _same_columns(given: tuple[str, ...], fitted: tuple[str, ...]) -> None:
    if given != fitted:
        # The words are scikit-learn's own, which its checks look for.
        told = "The feature names should match those that were passed during fit, in their order"
        raise InvalidInput("X", f"columns {', '.join(given)}", f"{', '.join(fitted)}. {told}")
