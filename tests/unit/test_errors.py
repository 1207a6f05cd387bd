"""Errors as data: the class comes back from a socket, and no value of private data is in a message."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tallystick
import tallystick as ts
from tallystick import errors
from tallystick.errors import AlreadyCommitted, InvalidInput, TallystickError

CANARY, NUMBER = "canary77", 7777.77
FRAME = pd.DataFrame({"who": [CANARY, "b"], "x": [NUMBER, 2.0]})
HOLDERS = {
    "a pandas frame": FRAME,
    "a column of it": FRAME["who"],
    "a Polars frame": pl.from_pandas(FRAME),
    "an Arrow table": pl.from_pandas(FRAME).to_arrow(),
    "an array": np.array([NUMBER, 2.0]),
    "a long list": [CANARY, NUMBER, 1, 2, 3, 4],
    "a nested list": [[CANARY]],
    "a dict of columns": {"x": [CANARY, NUMBER]},
    "an object": type("Row", (), {"__repr__": lambda self: CANARY})(),
}
SLIPS: dict[str, Callable[[Any], Any]] = {
    "unit": lambda value: ts.Private(FRAME).table(unit=value),
    "mean": ts.mean,
    "sum": ts.sum,
    "bounds": lambda value: ts.Private(FRAME).table(unit="who").bounds(x=value),
    "sigma": lambda value: ts.gaussian(sigma=value),
}


def through_json(problem: TallystickError) -> TallystickError:
    return TallystickError.from_data(json.loads(json.dumps(problem.to_data())))


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_an_object_in_the_wrong_place_is_shown_by_its_type(slip: str, holder: str) -> None:
    with pytest.raises(TallystickError) as caught:
        SLIPS[slip](HOLDERS[holder])
    problem = caught.value
    texts = [str(problem), repr(problem), json.dumps(problem.to_data())]
    texts.append(str(pickle.dumps(problem)))
    assert not [text for text in texts if CANARY in text or "7777" in text]


def test_a_list_of_names_in_the_place_of_a_column_is_not_shown() -> None:
    with pytest.raises(InvalidInput, match="column = 'list'"):
        ts.mean([CANARY])


@pytest.mark.parametrize(
    "value",
    [
        *(-1, 0.5, True, None, "sex", Fraction(1, 3), np.float64(0.5), np.int64(3)),
        *((0, 1), [1, 2], {"a": 1}, datetime.date(2026, 1, 2), Path("visits.csv"), ts.zcdp(rho=1)),
    ],
)
def test_a_plain_value_is_shown_as_python_writes_it(value: Any) -> None:
    problem = InvalidInput("sigma", value, "another")
    assert problem.message == f"sigma = {value!r} is not allowed"
    assert problem.value == value
    assert str(through_json(problem)) == str(problem)


@pytest.mark.parametrize("public", [{"x": 1.0}, math.nan, 10**400, {"a": [1], "b": [1, 2]}])
def test_what_is_not_a_public_table_is_refused_as_input(public: Any) -> None:
    with pytest.raises(InvalidInput, match="list of dicts"):
        ts.Private(FRAME).table(unit="who").join(public, on="x")


def test_a_number_in_the_place_of_keys_is_refused_as_input() -> None:
    table = ts.Private(FRAME).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    with pytest.raises(InvalidInput, match="a list of keys"):
        table.group_by("who", keys=7.0)


def test_every_error_has_its_class_in_one_module() -> None:
    """A process that reads an error has imported no more than ``errors.py``, and must know its class."""
    for module in pkgutil.walk_packages(tallystick.__path__, "tallystick."):
        if "__main__" not in module.name and "torch" not in module.name:
            importlib.import_module(module.name)
    elsewhere = [kind for kind in errors._all_kinds(TallystickError) if kind.__module__ != errors.__name__]
    ours = [kind.__qualname__ for kind in elsewhere if kind.__module__.startswith("tallystick.")]
    assert ours == []


@pytest.mark.parametrize(("kind", "code"), [("AnswerLost", 8), ("RunEnded", 3), ("NoCovariance", 4)])
def test_a_new_process_reads_an_error_as_the_same_class(kind: str, code: int) -> None:
    data = {"kind": kind, "code": "x", "argument": None, "value": None, "message": "m", "remedies": []}
    facts = dict.fromkeys(("asked", "left", "limit", "account", "unit"))
    read = f"error = TallystickError.from_data({ ({**data, **facts})!r})"
    program = f"from tallystick.errors import TallystickError; {read}; print(type(error).__name__, error.exit_code)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [kind, str(code)]


@pytest.mark.parametrize("answer", [3, [1, 2.5], {"n": 3}, np.array([1.5, 2.5]), np.float64(2.5), math.nan])
def test_a_stored_answer_crosses_a_socket(answer: Any, tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "l.db").open("p", budget=ts.zcdp(rho=1), unit="person")
    receipt = account.pay(ts.zcdp(rho=0.1), why="a test")
    problem = AlreadyCommitted("stored", answer=answer, receipt=receipt)
    again = through_json(problem)
    assert isinstance(again, AlreadyCommitted)
    assert again.receipt["charge"] == receipt.charge
    expected = "nan" if answer is math.nan else np.asarray(answer).tolist()
    assert again.answer == expected
