"""Preprocessing in front of a private fit: steps that learn nothing from rows are allowed, all others are refused.

A scikit-learn pipeline fits its other steps before it calls ``fit`` of our estimator. A scaler, a selector or a
principal component analysis that was fitted on private rows is a release without noise. ``fit`` therefore looks at the
pipelines that call it and refuses such steps before the charge.

    allowed by exact class     a subclass may compute something else
    FunctionTransformer        the caller answers for a function that reads one row at a time; the card says so
    preprocessing="public"     the caller answers for all steps; the card says so

Preprocessing that happens before the pipeline is called cannot be seen here.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np

from tallystick.errors import InvalidInput, Refused, Unavailable

try:
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import (
        Binarizer,
        FunctionTransformer,
        Normalizer,
        OneHotEncoder,
        OrdinalEncoder,
        PolynomialFeatures,
    )
except ImportError:
    raise Unavailable("estimators need scikit-learn; works: pip install '.[learn]'") from None

PUBLIC = "public"
STATELESS = (FunctionTransformer, Normalizer, Binarizer, PolynomialFeatures)
"""Steps that treat every row alone, whatever rows they were fitted on."""
ENCODERS = (OneHotEncoder, OrdinalEncoder)
"""Steps that treat every row alone if their categories are declared."""
PLACEHOLDERS = ("passthrough", "drop", None)
FITS = ("fit", "fit_transform", "fit_predict")
MIXES = "mixes rows: its function gives a row another result among other rows"
MADE_UP = 8
"""Rows on which a function is tried: together, and one at a time."""


def checked(frame: FrameType | None, said: str | None) -> str:
    """Names of the steps in front of a fit that is called from ``frame``; refuses steps that may learn from rows.

    The result is empty without a pipeline. It begins with "public" if the caller said so.
    """
    if said not in (None, PUBLIC):
        raise InvalidInput("preprocessing", said, 'None, or "public" if no step learned from private rows')
    steps = [step for caller in _callers(frame) for step in _steps(caller)]
    names = ", ".join(_name(step) for step in steps)
    if said == PUBLIC:
        return f"{PUBLIC}: {names}" if names else PUBLIC
    for step in steps:
        if (reason := problem(step)) is not None:
            raise Refused(
                f"{type(step).__name__} in front of this fit {reason}. That would be a release without noise. "
                "Use FunctionTransformer with public numbers, such as lambda X: X / 100. If no step learned from "
                'private rows, say so: fit(..., preprocessing="public"). The card then prints it as your word'
            )
    return names


def _callers(frame: FrameType | None) -> Iterator[Any]:
    """Pipelines, and similar objects, whose ``fit`` is running; the innermost comes first."""
    while frame is not None:
        if frame.f_code.co_name in FITS:
            caller = frame.f_locals.get("self")
            if isinstance(caller, (Pipeline, TransformedTargetRegressor)):
                yield caller
        frame = frame.f_back


def _steps(caller: Any) -> list[Any]:
    """Steps that a caller fits before the last one; the caller itself if its class is not a plain pipeline."""
    if type(caller) is not Pipeline:
        return [caller]
    return [step for _, step in caller.steps[:-1] if not _is_placeholder(step)]


def _name(step: Any) -> str:
    """Class of a step, with the classes of its parts."""
    parts = [_name(part) for part in _parts(step) if not _is_placeholder(part)]
    inside = f"({', '.join(parts)})" if parts else ""
    return type(step).__name__ + inside


def _parts(step: Any) -> list[Any]:
    """Steps inside a step."""
    if isinstance(step, ColumnTransformer):
        return [*(part for _, part, _ in step.transformers), step.remainder]
    if isinstance(step, (Pipeline, FeatureUnion)):
        listed = step.steps if isinstance(step, Pipeline) else step.transformer_list
        return [part for _, part in listed]
    return []


def _is_placeholder(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in PLACEHOLDERS)


def problem(step: Any) -> str | None:
    """Reason why a step may learn from rows, or None if it learns nothing.

    >>> problem(Normalizer()) is None, problem(OneHotEncoder()) is None
    (True, False)
    """
    kind = type(step)
    if _is_placeholder(step):
        return None
    if kind is FunctionTransformer:
        return MIXES if _mixes(step) else None
    if kind in STATELESS:
        return None
    if kind in ENCODERS:
        return _problem_of_encoder(step)
    if kind in (Pipeline, FeatureUnion, ColumnTransformer):
        return _problem_of_parts(step)
    return "may learn from the rows that it is fitted on"


def _problem_of_encoder(step: Any) -> str | None:
    if isinstance(step.categories, str):
        return "learns its categories from the rows: declare them, as in categories=[['a', 'b']]"
    if step.min_frequency is not None or step.max_categories is not None:
        return "counts categories in the rows: leave out min_frequency and max_categories"
    return None


def _problem_of_parts(step: Any) -> str | None:
    if type(step) is ColumnTransformer:
        chosen = [columns for _, _, columns in step.transformers]
        if any(callable(columns) and type(columns) is not make_column_selector for columns in chosen):
            return "chooses columns by a function of the rows: name the columns"
        fitted = [part for _, part, _ in getattr(step, "transformers_", [])]
        if any(type(part) is FunctionTransformer and _mixes(part) for part in fitted):
            return f"has a part, FunctionTransformer, that {MIXES}"
    for part in _parts(step):
        if (reason := problem(part)) is not None:
            return f"has a part, {type(part).__name__}, that {reason}"
    return None


def _mixes(step: Any) -> bool:
    """True if a function gives made-up rows other results together than one at a time.

    A function that cannot be tried on made-up numbers counts as one that does not mix rows: the caller answers for it.
    """
    width = getattr(step, "n_features_in_", None)
    if step.func is None or isinstance(step.func, np.ufunc) or width is None:
        return False
    try:
        rows = _made_up(width, getattr(step, "feature_names_in_", None))
        together = np.asarray(step.transform(rows), dtype=np.float64)
        alone = [np.asarray(step.transform(rows[i : i + 1]), dtype=np.float64) for i in range(MADE_UP)]
        one_by_one = np.concatenate(alone)
    except Exception:  # it needs other rows than these
        return False
    if together.shape != one_by_one.shape:
        return True
    return not np.allclose(together, one_by_one, rtol=1e-6, atol=1e-9, equal_nan=True)


def _made_up(width: int, names: Any) -> Any:
    """Made-up rows of that many columns, as a data frame if the columns have names."""
    rows = np.random.default_rng(0).normal(size=(MADE_UP, width))
    if names is None:
        return rows
    import pandas

    return pandas.DataFrame(rows, columns=list(names))
