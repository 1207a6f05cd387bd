"""Callers of a private fit: scikit-learn's pipelines may call it, other estimators and searches may not.

An estimator that fits others reads private labels to encode them, chooses rows by what a fit gave, or fits as often as
the rows say. Each of these is a release that no charge pays for, and a new one may appear in any package. Callers are
therefore allowed by name, and all others are refused before the charge:

    Pipeline, TransformedTargetRegressor    allowed; ``pipelines`` looks at their steps
    estimators of this library              allowed: ``tune`` pays for what it does
    other estimators                        refused, of whatever package
    other parts of scikit-learn             refused: in a thread of its own no estimator is on the stack
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from tallystick.errors import Refused
from tallystick.learn.scikit import BaseEstimator

ALLOWED = (Pipeline, TransformedTargetRegressor)
PACKAGE = "sklearn"
PARTS = ("sklearn.base", "sklearn.compose._target", "sklearn.pipeline", "sklearn.utils")
"""Parts of scikit-learn that hand a fit on as it is."""
COPY = "__sklearn_clone__"
"""A copy of an estimator with ours inside fits nothing."""
WAY_OUT = (
    "ts.learn.tune(...), which pays once for the best of many; or fit once with an account and score with "
    "score(X, y, account=..., why=...)"
)
SEARCH = (
    "scikit-learn's searches, cross-validation, elimination, calibration and bagging fit many models on the same "
    "people and look at scores or labels without noise, or draw a row twice: no account pays for such a release. "
    f"Try: {WAY_OUT}"
)


def refuse_others(frame: FrameType | None, ours: type) -> None:
    """Raise ``Refused`` if a fit is called by an estimator, or by a part of scikit-learn, that is not allowed.

    ``frame`` is the caller of the fit. ``ours`` is the base class of the private estimators.
    """
    inside_a_search = False
    while frame is not None:
        caller = _caller(frame)
        if isinstance(caller, BaseEstimator) and not isinstance(caller, (ours, *ALLOWED)):
            raise Refused(
                f"{type(caller).__name__} fits other estimators, and it may read private labels, choose rows or fit "
                "as often as the rows say: no account pays for such a release. A private fit may be called by "
                f"Pipeline or TransformedTargetRegressor only. Try: {WAY_OUT}"
            )
        inside_a_search |= _is_other_part(str(frame.f_globals.get("__name__", "")))
        frame = frame.f_back
    if inside_a_search:
        raise Refused(SEARCH)


def _caller(frame: FrameType) -> Any:
    """Return the object whose method is running, if it does more than to be copied."""
    names = (*frame.f_code.co_varnames, *frame.f_code.co_cellvars, *frame.f_code.co_freevars)
    if "self" not in names or frame.f_code.co_name == COPY:
        return None
    return frame.f_locals.get("self")


def _is_other_part(module: str) -> bool:
    """True if a module is part of scikit-learn and does not hand a fit on as it is.

    >>> _is_other_part("sklearn.ensemble._voting"), _is_other_part("sklearn.pipeline"), _is_other_part("mine")
    (True, False, False)
    """
    return _is_inside(module, PACKAGE) and not any(_is_inside(module, part) for part in PARTS)


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
