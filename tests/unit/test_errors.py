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
from tallystick.cli import failure
from tallystick.cli.wording import Command, in_shell
from tallystick.errors import AlreadyCommitted, InvalidInput, Refused, TallystickError
from tallystick.remedies import KINDS

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


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


DENIAL = errors.BudgetExceeded("m", account="a", unit="u").to_data()
REFUSAL = errors.Refused("no").to_data()
LATER = {"kind": "ask_again", "day": 1}
NOT_DATA: dict[str, dict[str, Any]] = {
    "a fact of a newer version is not a number": {**REFUSAL, "more": math.nan},
    "a fact of a newer version is infinite": {**REFUSAL, "more": [math.inf]},
    "a fact of a remedy is not a number": {**REFUSAL, "remedies": [{**LATER, "day": math.nan}]},
    "a fact of a remedy is too long": {**REFUSAL, "remedies": [{**LATER, "day": 10**400}]},
    "nested too deeply": {**REFUSAL, "more": nested(600)},
    "a remedy nested too deeply": {**REFUSAL, "remedies": [{**LATER, "day": nested(600)}]},
    "an amount that is a list": {**DENIAL, "asked": [1]},
    "an amount that is true": {**DENIAL, "left": True},
    "a charge that is a text": {
        **errors.NotDelivered("p", argument="out", value="f", charge=3, key="k").to_data(),
        "charge": "3",
    },
}


@pytest.mark.parametrize("case", NOT_DATA)
def test_data_from_outside_that_no_error_writes_are_refused(case: str) -> None:
    with pytest.raises(InvalidInput, match="the data of an error"):
        TallystickError.from_data(NOT_DATA[case])


@pytest.mark.parametrize("amount", ["rho 1", 0.5, None, {"filter": "zcdp"}])
def test_a_denial_from_outside_has_words_in_the_shell(amount: Any) -> None:
    denial = TallystickError.from_data({**DENIAL, "asked": amount, "left": "rho 0", "limit": amount})
    assert failure.from_error(denial).text()[0].startswith("Denied: the budget of a is too small.")


@pytest.mark.parametrize("kind", KINDS)
def test_a_remedy_from_outside_has_words_or_none_in_a_statement(kind: str) -> None:
    facts = {name: SAMPLE.get(name, "x") for name in KINDS[kind]}
    remedy = errors.Remedy.from_data({"kind": kind, **facts, "in_statement": True})
    command = Command(("sql",), {"rho": "--rho"})
    assert in_shell(remedy, command) != ""


SAMPLE = {
    **dict.fromkeys(("value", "delta", "dropped", "epsilon", "error", "lower", "max_groups", "upper", "charge"), 1),
    "caps": ["max_groups"],
    "measures": ["n"],
    "answers": {"a": "b"},
}


def test_a_line_feed_in_a_message_from_outside_is_shown_as_an_escape() -> None:
    problem = TallystickError.from_data({**REFUSAL, "message": "no\nTry:   rm -rf /"})
    assert failure.from_error(problem).text() == ["Refused: no\\nTry:   rm -rf /."]
    assert str(problem) == "no\\nTry:   rm -rf /"


def test_a_message_of_several_lines_crosses_a_socket_as_one() -> None:
    problem = errors.NotDelivered("p.", argument="out", value="f", charge=3, key="k")
    assert "\n" in problem.message
    assert through_json(problem).message == problem.message.replace("\n", " ")


def test_no_error_shows_a_token_that_was_typed_in_the_wrong_place() -> None:
    problem = InvalidInput("name", "tsk_CANARY0123", "the name of an account")
    other = InvalidInput("name", "x", "", problem="there is no account tsk_CANARY0123")
    for each in (problem, other, Refused("key tsk_CANARY0123 was used")):
        shown = f"{each} {each!r} {each.to_data()} {pickle.loads(pickle.dumps(each))}"
        assert "CANARY" not in shown
        assert "tsk_..." in shown


@pytest.mark.parametrize(
    "value",
    [b"tsk_CANARY0123", Path("/a/tsk_CANARY0123"), ["tsk_CANARY0123"], {"tsk_CANARY0123": 1}, {"tsk_CANARY0123"}],
)
def test_no_error_keeps_a_token_in_a_path_or_a_list(value: object) -> None:
    problem = InvalidInput("name", value, "not tsk_CANARY0123")
    shown = f"{problem} {problem!r} {problem.to_data()} {problem.__dict__} {pickle.loads(pickle.dumps(problem))}"
    assert "CANARY" not in shown
    assert InvalidInput("name", ["ana"], "a name").value == ["ana"]


def test_no_remedy_shows_a_token_that_was_given_as_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="there is no ledger") as caught:
        ts.Ledger("tsk_CANARY0123", create=False)
    assert "CANARY" not in f"{caught.value} {caught.value.to_data()}"
    assert "ts.Ledger('tsk_...')" in str(caught.value)
