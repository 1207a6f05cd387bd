"""Failures say what is wrong, with its value, and what works; the exit code says which kind it was."""

from __future__ import annotations

import re
import sys

import pytest

from tallystick import errors
from tallystick.cli import app, failure
from tallystick.cli.wording import Command, in_shell, way_in_shell

BAD_INPUT = {
    "no expression": ("epsilon",),
    "no delta": ("epsilon", "gdp(mu=1)"),
    "unknown command": ("epsilonn", "gdp(mu=1)"),
    "unknown option": ("epsilon", "gdp(mu=1)", "--dleta", "1e-5"),
    "delta is not a number": ("epsilon", "gdp(mu=1)", "--delta", "small"),
    "delta is NaN": ("epsilon", "gdp(mu=1)", "--delta", "nan"),
    "delta is infinite": ("epsilon", "gdp(mu=1)", "--delta", "inf"),
    "delta is negative": ("epsilon", "gdp(mu=1)", "--delta", "-0.1"),
    "delta is above one": ("epsilon", "gdp(mu=1)", "--delta", "1.5"),
    "bounds at a bad delta": ("epsilon", "gdp(mu=1)", "--delta", "2", "--bounds"),
    "epsilon is no number": ("delta", "gdp(mu=1)", "--epsilon", "nan"),
    "epsilon is NaN": ("delta", "gdp(mu=1)", "--epsilon", "nan"),
    "empty expression": ("epsilon", "", "--delta", "1e-5"),
    "unknown name": ("epsilon", "gauss(sigma=1)", "--delta", "1e-5"),
    "code": ("epsilon", "__import__('os')", "--delta", "1e-5"),
    "huge text": ("epsilon", "1+" * 100_000, "--delta", "1e-5"),
    "deep nesting": ("epsilon", "(" * 190 + "gdp(mu=1)" + ")" * 190 + "*" * 3, "--delta", "1e-5"),
    "sigma is zero": ("epsilon", "gaussian(sigma=0)", "--delta", "1e-5"),
    "scale is negative": ("epsilon", "laplace(scale=-2)", "--delta", "1e-5"),
    "rate is above one": ("epsilon", "gaussian(sigma=1).sampled(rate=1.01)", "--delta", "1e-5"),
    "count is fractional": ("epsilon", "2.5 * gdp(mu=1)", "--delta", "1e-5"),
    "count is negative": ("epsilon", "-1 * gdp(mu=1)", "--delta", "1e-5"),
    "count is above a thousand million": ("epsilon", "10**9 * 2 * gdp(mu=1)", "--delta", "1e-5"),
    "probabilities do not sum to one": ("epsilon", "discrete_pair([0.5, 0.6], [0.5, 0.5])", "--delta", "1e-5"),
    "mixed adjacency": ("epsilon", 'gdp(mu=1) + gdp(mu=1, adjacency="replace")', "--delta", "1e-5"),
    "compare at a bad delta": ("compare", "gdp(mu=1)", "--delta", "2"),
    "explain at a bad delta": ("explain", "gdp(mu=1)", "--delta", "nan"),
    "nothing to calibrate": ("calibrate", "gdp(mu=1)", "--epsilon", "1", "--delta", "1e-5"),
    "calibrate to a negative goal": ("calibrate", "gdp(mu=X)", "--epsilon", "-1", "--delta", "1e-5"),
    "calibrate to a bad delta": ("calibrate", "gdp(mu=X)", "--epsilon", "1", "--delta", "7"),
    "dpsgd without a batch": ("calibrate", "dpsgd", "--epsilon", "1", "--delta", "1e-5", "--examples", "10"),
    "dpsgd options without dpsgd": ("calibrate", "gdp(mu=X)", "--epsilon", "1", "--delta", "1e-5", "--batch", "3"),
    "dpsgd with a batch above the data": tuple(
        "calibrate dpsgd --epsilon 1 --delta 1e-5 --examples 10 --batch 11 --epochs 1".split()
    ),
    "dpsgd with NaN epochs": tuple(
        "calibrate dpsgd --epsilon 1 --delta 1e-5 --examples 10 --batch 1 --epochs nan".split()
    ),
    "plot without a file": ("plot", "gdp(mu=1)"),
    "plot to an unknown format": ("plot", "gdp(mu=1)", "--out", "picture.docx"),
    "plot into a missing folder": ("plot", "gdp(mu=1)", "--out", "no/such/folder/picture.svg"),
    "plot of an unknown kind": ("plot", "gdp(mu=1)", "--kind", "pie", "--out", "picture.svg"),
    "plot at a bad delta": ("plot", "gdp(mu=1)", "--kind", "profile", "--delta", "3", "--out", "picture.svg"),
    "unknown theorem": ("theorem", "99.99"),
}


@pytest.mark.parametrize("arguments", BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_ends_with_exit_two_and_a_way_out(run, arguments, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.errors.startswith("Error: ")
    assert re.search(r"Give |Did you mean|See tallystick|Use |cannot read", outcome.errors)
    assert "Traceback" not in outcome.errors
    assert len(outcome.errors) < 2000


def assert_common(error) -> None:
    """Every error object has the same first fields."""
    assert {"code", "argument", "value", "remedies"} <= error.keys()
    assert isinstance(error["code"], str)
    assert isinstance(error["remedies"], list)


@pytest.mark.parametrize("problem", [ZeroDivisionError(), KeyboardInterrupt(), errors.Refused("no")])
def test_every_failure_with_json_has_the_same_first_fields(run, monkeypatch, problem) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("tallystick.accounting.expression.read_loss", fail)
    error = run("epsilon", "gdp(mu=1)", "--delta", "1e-5", "--json").document["error"]
    assert_common(error)
    assert error["code"] != "failed"


def test_a_usage_error_with_json_names_the_argument_and_its_value(run) -> None:
    error = run("epsilon", "gdp(mu=1)", "--delta", "small", "--json").document["error"]
    assert (error["code"], error["argument"], error["value"]) == ("usage", "--delta", "small")


@pytest.mark.parametrize("arguments", BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_with_json_prints_one_error_object(run, arguments, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(*arguments, "--json")
    assert outcome.code == 2
    document = outcome.document
    assert document["schema"] == "tallystick/error"
    assert document["error"]["exit_code"] == 2
    assert document["error"]["message"]
    assert_common(document["error"])


SMALLER = errors.Remedy("change_delta", delta=1e-7, cost="rho 0.01")
FEWER = errors.Remedy("keep_measures", measures=["n"], dropped=1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BudgetExceeded("budget of clinic", asked=0.0125, left=0.01, limit=0.5), 3),
        (errors.Refused("no bound on contributions"), 4),
        (errors.ClaimFalsified("event A, 3 of 10"), 5),
        (errors.LedgerIntegrity("entry 7"), 6),
        (errors.NotAuthorised("token"), 7),
        (errors.IdempotencyConflict("key"), 8),
        (errors.AlreadyCommitted("key"), 8),
        (errors.Unavailable("busy"), 9),
        (errors.TallystickError("other"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_every_kind_of_failure_has_its_exit_code_and_no_traceback(run, monkeypatch, error, code) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("tallystick.accounting.expression.read_loss", fail)
    outcome = run("epsilon", "gdp(mu=1)", "--delta", "1e-5", "--json")
    assert outcome.code == code
    assert "exit" not in outcome.errors
    assert "Traceback" not in outcome.errors
    assert outcome.document["error"]["exit_code"] == code


def test_a_denied_budget_shows_the_amounts_and_what_would_fit(run, monkeypatch) -> None:
    def fail(_: str) -> None:
        raise errors.BudgetExceeded("clinic", asked=0.0125, left=0.01, limit=0.5, remedies=[SMALLER, FEWER])

    monkeypatch.setattr("tallystick.accounting.expression.read_loss", fail)
    outcome = run("epsilon", "gdp(mu=1)", "--delta", "1e-5", "--json")
    text, error = outcome.errors, outcome.document["error"]
    assert "  needed   0.0125\n  left     0.01\n  limit    0.5\n" in text
    assert "Any one of these works:\n  another delta    --delta 1e-7   costs rho 0.01\n" in text
    assert "  fewer measures   n alone        drops 1 of 2 measures, error no larger\n" in text
    assert "Nothing was charged and no data was read." in text
    assert error["code"] == "budget_exceeded"
    assert error["remedies"] == [SMALLER.to_data(), FEWER.to_data()]
    assert len(error["fits"]) == 2


def test_a_mistake_of_ours_is_called_one(run, monkeypatch) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("tallystick.accounting.expression.read_loss", fail)
    outcome = run("epsilon", "gdp(mu=1)", "--delta", "1e-5", "--json")
    assert outcome.code == 1
    assert "a mistake in tallystick" in outcome.errors
    assert outcome.document["error"]["kind"] == "Bug"


def test_a_picture_without_matplotlib_says_what_to_install(run, monkeypatch, tmp_path) -> None:
    for name in [module for module in sys.modules if module.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = run("plot", "gdp(mu=1)", "--out", str(tmp_path / "picture.svg"))
    assert outcome.code == 9
    assert "pip install '.[plots]'" in outcome.errors


def test_a_reader_that_leaves_early_is_not_an_error(monkeypatch) -> None:
    def leave(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("tallystick.accounting.expression.read_loss", leave)
    monkeypatch.setattr(app, "silence_stdout", lambda: None)
    assert app.run(["epsilon", "gdp(mu=1)", "--delta", "1e-5"]) == 0


def test_a_headline_follows_from_the_kind_of_a_refusal_and_not_from_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "MAX (line 1, column 8) cannot be answered"
    remedy = errors.Remedy("rewrite", to="AVG")
    for error in (errors.NotAnswered(words, remedies=[remedy]), errors.Refused(words, remedies=[remedy])):
        assert failure.from_error(error).report(as_json=False) == 4
        assert capsys.readouterr().err == f"Refused: {words}.\nTry:     AVG\n"


def test_a_denial_offers_lists_of_groups_as_the_command_takes_them() -> None:
    listed = errors.Remedy("list_keys")
    assert "--keys FILE (a public list of the groups" in in_shell(listed, Command(("query",)))
    assert "WHERE column IN" in in_shell(listed, Command(("sql",)))


def test_an_argument_is_called_by_the_option_it_came_from() -> None:
    given = ["dataset", "add", "visits.csv", "--population", "p", "--unit", "u", "--max-groups", "0"]
    command = Command.of(app._parser(), given)
    assert command.option("max_groups", 0) == "--max-groups"
    assert command.option("types['age']") == "--type"
    assert command.option("source", "visits.csv") == "SOURCE"
    assert command.option("sigma") is None
    assert Command.of(app._parser(), ["query", "visits", "--by", "ward"]).option("group_by") == "--by"


def test_an_argument_inside_an_expression_is_not_called_by_an_option_of_the_same_name(run) -> None:
    outcome = run("epsilon", "approx_dp(epsilon=1, delta=7)", "--delta", "1e-5")
    assert outcome.errors.startswith("Error: delta is 7. ")
    assert run("epsilon", "gdp(mu=1)", "--delta", "7").errors.startswith("Error: --delta is 7. ")
    assert run("epsilon", "gdp(mu=1)", "--delta", "nan").errors.startswith("Error: --delta is nan. ")


def test_a_remedy_keeps_the_password_of_a_ledger_to_itself(run, monkeypatch) -> None:
    def fail(_: str) -> None:
        raise errors.Refused("no", remedies=[errors.Remedy("verify_ledger")])

    monkeypatch.setattr("tallystick.accounting.expression.read_loss", fail)
    place = "postgresql://ana:hunter2secret@db.example/ledger"
    outcome = run("charge", "add", "gdp(mu=1)", "--why", "x", "--ledger", place, "--json")
    assert "hunter2secret" not in outcome.errors + outcome.out


@pytest.mark.filterwarnings("ignore::tallystick.errors.PasswordInPlace")
@pytest.mark.parametrize(
    ("ledger", "shown"),
    [
        ("postgresql://ana:s3cret@db.example/x", "postgresql://ana@db.example/x"),
        ("host=db.example user=ana password=s3cret dbname=x", "postgresql://ana@db.example/x"),
        ("postgresql://ana:s3cret@db.example@x", "postgresql://..."),
        ("a b.db", "'a b.db'"),
    ],
)
def test_a_remedy_names_the_ledger_without_its_password(ledger: str, shown: str) -> None:
    """Commands also print remedies when they succeed, as an import on a new host does."""
    command = Command(("ledger", "import"), {}, {"ledger": ledger})
    for kind in ("accept_head", "accept_older", "verify_ledger"):
        way = way_in_shell(errors.Remedy(kind), command)
        assert way is not None
        assert way.action.endswith(f" --ledger {shown}")
