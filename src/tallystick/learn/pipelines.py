"""Preprocessing in front of a private fit: steps that learn nothing from rows are allowed, all others are refused.

A scikit-learn pipeline fits its other steps before it calls ``fit`` of our estimator. A scaler, a selector or a
principal component analysis that was fitted on private rows is a release without noise. ``fit`` therefore looks at the
pipelines that call it and refuses such steps before the charge.

    allowed by exact class     a subclass may compute something else
    FunctionTransformer        tried on made-up rows, together and one at a time; the caller answers for it, and the
                               card says so
    preprocessing="public"     the caller answers for all steps; the card says so

A step that raises or warns because of one row tells about that row without a charge. Such settings are refused,
whatever the rows are: unknown categories must be ignored, no output may be sparse or dense by what is in it, and steps
that raise on missing or infinite numbers need a function in front of them that leaves none.

Preprocessing that happens before the pipeline is called cannot be seen here.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from types import FrameType
from typing import Any

import numpy as np

from tallystick.errors import InvalidInput, Refused, Remedy, Unavailable
from tallystick.learn import made_up_rows
from tallystick.learn.function_identity import function_identity

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
    from sklearn.utils import _safe_indexing as columns_of
except ImportError:
    remedies = [Remedy("install", packages="'.[learn]'")]
    raise Unavailable("estimators need scikit-learn", remedies=remedies) from None

PUBLIC = "public"
STATELESS = (Normalizer, Binarizer, PolynomialFeatures)
"""Steps that treat every row alone, whatever rows they were fitted on, and raise on numbers that are not finite."""
ENCODERS = (OneHotEncoder, OrdinalEncoder)
"""Steps that treat every row alone if their categories are declared."""
UNKNOWN = ("ignore", "infrequent_if_exist", "use_encoded_value")
"""Settings of encoders that give an unknown category a place."""
PLACEHOLDERS = ("passthrough", "drop", None)
FITS = ("fit", "fit_transform", "fit_predict")
MIXES = "mixes rows: its function gives a row another result among other rows"
UNTRIED = (
    "cannot be tried: its function raises on made-up rows of these types (numbers with missing, infinite and large "
    "ones; short words, digits or dates as text), so whether it reads one row at a time is not known"
)
RAISES = (
    "raises or warns on a row with a missing, infinite or huge number: put "
    "FunctionTransformer(lambda X: np.nan_to_num(X).clip(-1000, 1000)) in front of it, with public bounds of your own"
)
LARGEST = 1e30
"""Numbers up to this size have powers that are finite."""
Tables = dict[str, list[Any]]
"""Made-up tables by family of text (``made_up_rows.tables``)."""


def checked(frame: FrameType | None, said: str | None) -> str:
    """Names of the steps in front of a fit that is called from ``frame``; refuses steps that may learn from rows.

    The result is empty without a pipeline. It begins with "public" if the caller said so. It ends with a short hash of
    the settings of the steps, so that the same key does not serve other preprocessing.
    """
    if said not in (None, PUBLIC):
        raise InvalidInput("preprocessing", said, 'None, or "public" if no step learned from private rows')
    groups = [(_steps(caller), rows) for caller, rows in _callers(frame)]
    steps = [step for group, _ in groups for step in group]
    names = _named(steps)
    if said == PUBLIC:
        return f"{PUBLIC}: {names}" if names else PUBLIC
    for group, rows in reversed(groups):  # the outermost pipeline comes first, because its steps do
        _refuse(group, made_up_rows.tables(rows))
    return names


def _refuse(steps: list[Any], tables: Tables) -> None:
    """Raise ``Refused`` for the first step of a pipeline that may learn from rows, or raise because of one."""
    is_finite = False
    for step in steps:
        if (reason := problem(step, is_finite, tables)) is not None:
            raise Refused(
                f"{type(step).__name__} in front of this fit {reason}. That would be a release without noise. "
                "Use FunctionTransformer with public numbers, such as lambda X: X / 100. If no step learned from "
                'private rows, say so: fit(..., preprocessing="public"). The card then prints it as your word'
            )
        is_finite = _is_finite_after(step, is_finite)
        tables = _after(step, tables)


def _after(step: Any, tables: Tables) -> Tables:
    """Made-up tables behind a fitted step, without the families on which it raises."""
    if _is_placeholder(step):
        return tables
    behind = {}
    for family, made in tables.items():
        try:
            with _quiet():
                behind[family] = [step.transform(table) for table in made]
        except Exception:  # other rules say whether a step may raise
            continue
    return behind


def _named(steps: list[Any]) -> str:
    """Names of steps, and a short hash of their settings."""
    if not steps:
        return ""
    names = ", ".join(_name(step) for step in steps)
    settings = repr([_settings(step) for step in steps])
    return f"{names}; settings {hashlib.sha256(settings.encode()).hexdigest()[:16]}"


def _callers(frame: FrameType | None) -> Iterator[tuple[Any, Any]]:
    """Pipelines, and similar objects, whose ``fit`` is running, with the rows they got; the innermost comes first."""
    while frame is not None:
        if frame.f_code.co_name in FITS:
            caller = frame.f_locals.get("self")
            if isinstance(caller, (Pipeline, TransformedTargetRegressor)):
                yield caller, frame.f_locals.get("X")
        frame = frame.f_back


def _steps(caller: Any) -> list[Any]:
    """Steps that a caller fits before the last one; the caller itself if its class is not a plain pipeline."""
    if type(caller) is not Pipeline:
        return [caller]
    return [step for _, step in caller.steps[:-1] if not _is_placeholder(step)]


def _name(step: Any) -> str:
    """Class of a step, with the classes of its parts."""
    parts = [_name(part) for part in _declared_parts(step) if not _is_placeholder(part)]
    inside = f"({', '.join(parts)})" if parts else ""
    return type(step).__name__ + inside


def _declared_parts(step: Any) -> list[Any]:
    """Steps inside a step, as they were given."""
    if isinstance(step, ColumnTransformer):
        return [*(part for _, part, _ in step.transformers), step.remainder]
    if isinstance(step, (Pipeline, FeatureUnion)):
        listed = step.steps if isinstance(step, Pipeline) else step.transformer_list
        return [part for _, part in listed]
    return []


def _parts(step: Any) -> list[Any]:
    """Steps inside a step, as they were fitted."""
    if isinstance(step, ColumnTransformer) and hasattr(step, "transformers_"):
        return [part for _, part, _ in step.transformers_]
    return _declared_parts(step)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings about made-up rows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _is_placeholder(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in PLACEHOLDERS)


def problem(step: Any, is_finite: bool = False, tables: Tables | None = None) -> str | None:
    """Reason why a step may learn from rows or raise because of one, or None if neither is so.

    ``is_finite`` says that all numbers are finite, and none of them huge, where the step begins. ``tables`` are
    made-up rows of the types that the step gets: functions are tried on them.

    >>> problem(Normalizer(), is_finite=True) is None, problem(OneHotEncoder()) is None
    (True, False)
    """
    kind = type(step)
    if _is_placeholder(step):
        return None
    if kind is FunctionTransformer:
        return _problem_of_function(step, is_finite, tables or {})
    if kind in STATELESS:
        return None if is_finite else RAISES
    if kind in ENCODERS:
        return _problem_of_encoder(step, is_finite)
    if kind is ColumnTransformer:
        return _problem_of_columns(step) or _problem_of_parts(step, is_finite, tables or {})
    if kind in (Pipeline, FeatureUnion):
        return _problem_of_parts(step, is_finite, tables or {})
    return "may learn from the rows that it is fitted on"


def _problem_of_function(step: Any, is_finite: bool, tables: Tables) -> str | None:
    if step.validate and not is_finite:
        return RAISES
    if (reason := _problem_on(step, tables)) is not None:
        return reason
    if step.check_inverse and step.func is not None and step.inverse_func is not None:
        return "warns because of some rows: say check_inverse=False"
    return None


def _problem_of_encoder(step: Any, is_finite: bool) -> str | None:
    if isinstance(step.categories, str):
        return "learns its categories from the rows: declare them, as in categories=[['a', 'b']]"
    if step.min_frequency is not None or step.max_categories is not None:
        return "counts categories in the rows: leave out min_frequency and max_categories"
    if step.handle_unknown not in UNKNOWN:
        is_one_hot = isinstance(step, OneHotEncoder)
        works = '"ignore"' if is_one_hot else '"use_encoded_value", unknown_value=-1'
        return f"tells of a row with an undeclared category: say handle_unknown={works}"
    if getattr(step, "drop", None) is not None:
        return "warns of a row with an undeclared category: leave out drop"
    numbers = [known for known in getattr(step, "categories_", []) if known.dtype.kind == "f"]
    if numbers and not is_finite:
        return RAISES
    return None


def _problem_of_columns(step: Any) -> str | None:
    chosen = [columns for _, _, columns in step.transformers]
    if any(callable(columns) and type(columns) is not make_column_selector for columns in chosen):
        return "chooses columns by a function of the rows: name the columns"
    if step.sparse_threshold != 0 and any(_is_sparse(part) for part in _parts(step)):
        return "is sparse or dense by what the rows hold: say OneHotEncoder(sparse_output=False), or sparse_threshold=0"
    return None


def _is_sparse(step: Any) -> bool:
    """True if a step, or a part of it, has a sparse output."""
    if isinstance(step, OneHotEncoder):
        return bool(step.sparse_output)
    return any(_is_sparse(part) for part in _parts(step))


def _problem_of_parts(step: Any, is_finite: bool, tables: Tables) -> str | None:
    for part, seen in _parts_with_tables(step, tables):
        if (reason := problem(part, is_finite, seen)) is not None:
            return f"has a part, {type(part).__name__}, that {reason}"
        if isinstance(step, Pipeline):
            is_finite = _is_finite_after(part, is_finite)
    return None


def _parts_with_tables(step: Any, tables: Tables) -> Iterator[tuple[Any, Tables]]:
    """Parts of a step, each with the made-up tables that it gets."""
    if isinstance(step, ColumnTransformer) and hasattr(step, "transformers_"):
        for _, part, columns in step.transformers_:
            yield part, {family: _narrowed(made, columns) for family, made in tables.items()}
        return
    for part in _parts(step):
        yield part, tables
        if isinstance(step, Pipeline):
            tables = _after(part, tables)


def _narrowed(made: list[Any], columns: Any) -> list[Any]:
    """Columns of made-up tables, taken as scikit-learn takes them."""
    rows = [np.array(table, dtype=object) if isinstance(table, list) else table for table in made]
    return [columns_of(table, columns, axis=1) for table in rows]


def _is_finite_after(step: Any, is_finite: bool) -> bool:
    """True if a step makes finite numbers of what it gets, none of them huge."""
    kind = type(step)
    if _is_placeholder(step):
        return is_finite
    if kind is FunctionTransformer:
        return _makes_finite(step) if step.func is not None else is_finite
    if kind is OrdinalEncoder:
        return not np.isnan([step.unknown_value, step.encoded_missing_value]).any()
    if kind is Pipeline:
        for part in _parts(step):
            is_finite = _is_finite_after(part, is_finite)
        return is_finite
    if kind in (FeatureUnion, ColumnTransformer):
        return all(_is_finite_after(part, is_finite) for part in _parts(step))
    return kind in (Normalizer, Binarizer, OneHotEncoder)


def _makes_finite(step: Any) -> bool:
    """True if a function makes finite numbers of made-up rows with missing, infinite and huge ones."""
    width = getattr(step, "n_features_in_", None)
    if width is None:
        return False
    try:
        with _quiet():
            made = np.asarray(step.transform(_framed(made_up_rows.extremes(width), step)), dtype=np.float64)
    except Exception:  # it needs other rows than these
        return False
    return bool((np.abs(made) <= LARGEST).all())


def _settings(step: Any) -> Any:
    """Class of a step with the settings that are not the usual ones, as plain values."""
    if _is_placeholder(step) or not hasattr(step, "get_params"):
        return _plain(step)
    usual = signature(type(step).__init__).parameters
    chosen = {}
    for name, value in sorted(step.get_params(deep=False).items()):
        plain = _plain(value)
        if name not in usual or plain != _plain(usual[name].default):
            chosen[name] = plain
    return [type(step).__name__, chosen, _tried(step)]


def _plain(value: Any) -> Any:
    """Value as text and lists that are the same in every process."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return [[_plain(name), _plain(part)] for name, part in value.items()]
    if hasattr(value, "get_params"):
        return _settings(value)
    if value is None or isinstance(value, (str, bytes, bool, int, float, np.generic, slice)):
        return repr(value)
    return function_identity(value)


def _tried(step: Any) -> Any:
    """Digits of what functions make of made-up numbers: another function with the same code is another setting."""
    if not isinstance(step, FunctionTransformer):
        return [_tried(part) for part in _parts(step)]
    width = getattr(step, "n_features_in_", None)
    if step.func is None or width is None:
        return ""
    try:
        with _quiet():
            made = [step.transform(_framed(table, step)) for table in made_up_rows.numbers(width)]
        return [[f"{number:.6g}" for number in np.asarray(each, dtype=np.float64).ravel()] for each in made]
    except Exception:  # it needs other rows than these; its code is a part of the settings
        return ""


def _problem_on(step: Any, tables: Tables) -> str | None:
    """Reason why a function may mix rows: it does on a made-up table, or it runs on no family of them."""
    if step.func is None or isinstance(step.func, np.ufunc):
        return None
    verdicts = [_mixes(step, made) for made in tables.values()]
    if True in verdicts:
        return MIXES
    return None if False in verdicts else UNTRIED


def _mixes(step: Any, made: list[Any]) -> bool | None:
    """True if a function gives rows of a table other results together than one at a time; None if it raises."""
    try:
        with _quiet():
            return any(_mixes_rows_of(step, table) for table in made)
    except Exception:  # it needs other rows than these
        return None


def _mixes_rows_of(step: Any, table: Any) -> bool:
    alone = [step.transform(table[row : row + 1]) for row in range(made_up_rows.COUNT)]
    return made_up_rows.differ(step.transform(table), alone)


def _framed(rows: Any, step: Any) -> Any:
    """Made-up rows, as a data frame if the columns of a fitted step have names."""
    names = getattr(step, "feature_names_in_", None)
    if names is None:
        return rows
    import pandas

    return pandas.DataFrame(rows, columns=list(names))
