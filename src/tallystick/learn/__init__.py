"""Private learning: estimators with scikit-learn's habits, priced before they see data and paid for through an account.

    model = ts.learn.LogisticRegression(epsilon=1, delta=1e-6, row_norm=1, classes=[0, 1])
    model.privacy                                     what one fit loses; no data needed
    model.fit(X, y, account=clinic, why="triage")     charged first, then fitted, then recorded

Names resolve one by one, so that a name that needs neither scikit-learn nor torch works without them.
"""

from __future__ import annotations

from tallystick import lazy

_HOMES: dict[str, str] = {
    "ExponentialERM": "erm",
    "KNormGradient": "kng",
    "LinearRegression": "linear",
    "LogisticRegression": "logistic",
    "QuantileRegression": "quantile",
    "SgdPlan": "training",
    "erm_covariance": "asymptotics",
    "geometric": "tuning",
    "kng_covariance": "asymptotics",
    "logarithmic": "tuning",
    "poisson": "tuning",
    "select_model": "choose",
    "sgd_plan": "training",
    "tune": "tuning",
}
_ROOMS = {name: name for name in ("dp_accounting", "opacus", "torch")}

__all__ = sorted([*_HOMES, *_ROOMS])
__getattr__, __dir__ = lazy.names(__name__, _HOMES, _ROOMS)
