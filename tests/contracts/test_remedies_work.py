"""Every remedy that an error offers is tried here: the error is provoked, its remedy is applied, and that succeeds.

A case is a function of a small world (one data set, one ledger) for a kind of remedy and an interface. In Python a case
applies the facts of the remedy; in the shell it types what the command printed; in SQL it puts the printed words into
the statement. The last tests say that no kind is without a case or without words.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import tallystick as ts
from contracts.other_users import acting_as
from tallystick import remedies
from tallystick.accounting.expression import read_loss
from tallystick.cli.app import run
from tallystick.cli.wording import Command, in_shell
from tallystick.errors import (
    AdjacencyMismatch,
    BudgetExceeded,
    ChargedAgain,
    EpsilonWithoutDelta,
    InvalidInput,
    LedgerIntegrity,
    NotAuthorised,
    NotDelivered,
    Quarantined,
    Refused,
    Remedy,
    TallystickError,
)
from tallystick.publish.datasets import find
from tallystick.publish.export import Files
from tallystick.publish.kinds.question import Question
from tallystick.publish.request import Request, answer
from tallystick.remedies import KINDS
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.wording import IN_PYTHON, in_python, in_sql, interfaces, raised_limits

ROOMS = ("cli", "web")
"""Rooms of interfaces. Each registers its words when its file ``wording.py`` is imported.

The web has no such file: it sends remedies as data, and its client words them as Python does.
"""
for room in ROOMS:
    if find_spec(f"tallystick.{room}.wording") is not None:
        import_module(f"tallystick.{room}.wording")
INTERFACES = interfaces()
SGD = "1000 * gaussian(sigma=1).sampled(rate=0.01)"
WARDS = ["a", "b", "c", "d"]
COUNTED = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
QUERY = ("query", "visits", "--by", "ward", "--keys", "wards.csv", "--measures", "count,mean(age)", "--why", "report")


class World:
    """A data set ``visits`` of a population ``clinic`` with rho 0.5, its files, and a ledger in the working folder."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self.monkeypatch = monkeypatch
        lines = [f"{unit},{WARDS[unit % 4]},{20 + unit % 7}" for unit in range(200)]
        Path("visits.csv").write_text("patient,ward,age\n" + "\n".join(lines) + "\n")
        Path("wards.csv").write_text("ward\n" + "\n".join(WARDS) + "\n")
        Path("floors.csv").write_text("ward,floor\na,1\nb,2\nc,1\nd,2\n")

    def registered(self, *more: str, limit: str = "rho=0.5,delta=1e-6") -> World:
        self.succeed(
            "dataset", "add", "visits.csv", "--population", "clinic", "--unit", "patient", "--limit", limit, *more
        )
        return self

    def capped(self, limit: str = "rho=0.5,delta=1e-6") -> World:
        caps = ("--max-groups", "4", "--max-rows-per-group", "1", "--bounds", "age=0:100")
        return self.registered(*caps, limit=limit)

    def type(self, *words: str) -> tuple[int, str]:
        code = run(list(words))
        captured = self._capsys.readouterr()
        return code, captured.out + captured.err

    def succeed(self, *words: str) -> str:
        code, text = self.type(*words)
        assert code == 0, (words, text)
        return text

    def offers(self, *words: str) -> list[str]:
        """The ways out that a command prints when it fails, each in one line."""
        code, text = self.type(*words)
        assert code != 0, (words, text)
        return ways(text)

    def offer(self, containing: str, *words: str) -> str:
        lines = [line for line in self.offers(*words) if containing in line]
        assert lines, (words, containing, self.offers(*words))
        return lines[0]

    def book(self) -> ts.Ledger:
        return ts.Ledger("tallystick.db", create=False)


def ways(text: str) -> list[str]:
    """The ways that a failure lists after "Any one of these works:" or "Try:", each with its second line."""
    parts = re.split(r"^(Try:|Any one of these works:\n)", text, flags=re.MULTILINE)
    if len(parts) == 1:
        return []
    lines = [line for line in parts[2].splitlines() if line.strip()]
    is_try = parts[1] == "Try:"
    found: list[str] = []
    for line in lines:
        is_second = re.match(r" {4,}(then|weakens|if|for|HASH|count|age|n|registers|keeps|cells|its|finds|a) ", line)
        if found and is_second and (not is_try or "tallystick " in found[-1]):
            found[-1] += f"   {line.strip()}"
        else:
            found.append(line.strip())
    return found


def typed(line: str) -> list[str]:
    """The command in a line, without its first word, and with a reason."""
    [command] = [piece for piece in re.split(r" {3,}", line) if piece.startswith("tallystick ")]
    return ["agreed" if word == "..." else word for word in shlex.split(command)[1:]]


def option(line: str, name: str) -> tuple[str, str]:
    """An option that a line names, with its value."""
    value = re.search(rf'{name} ("[^"]*"|[^\s,):;]+)', line)[1]
    return name, value.strip('"') if value.startswith('"') else value.rstrip(".")


def changed(words: tuple[str, ...], name: str, value: str) -> list[str]:
    """A command line with another value of one option."""
    kept = list(words)
    if name in kept:
        kept[kept.index(name) + 1] = value
        return kept
    return [*kept, name, value]


def remedy_of(problem: TallystickError, kind: str) -> Remedy:
    """The remedy of that kind, as it comes out of a socket."""
    again = TallystickError.from_data(json.loads(json.dumps(problem.to_data())))
    assert type(again) is type(problem)
    assert again.code == problem.code
    return next(remedy for remedy in again.remedies if remedy.kind == kind)


def provoked(kind: str, call: Callable[[], Any], error: type[TallystickError] = TallystickError) -> Remedy:
    with pytest.raises(error) as caught:
        call()
    return remedy_of(caught.value, kind)


def opened_table(account: Any, **caps: int) -> Any:
    caps = caps or {"max_groups": 4, "max_rows_per_group": 1}
    rows = ts.Private("visits.csv", account=account).table(unit="patient", types={"age": "number"})
    return rows.per_unit(**caps).bounds(age=(0, 100))


def asked(account: Any, names: tuple[str, ...] = ("n", "age"), **caps: int) -> Any:
    measures = {"n": ts.count(), "age": ts.mean("age")}
    chosen = {name: measures[name] for name in names}
    return opened_table(account, **caps).group_by("ward", keys=WARDS).agg(**chosen)


Case = Callable[[World], None]
CASES: dict[tuple[str, str], list[Case]] = {}


def case(kind: str, interface: str) -> Callable[[Case], Case]:
    """Say of which remedy, in which interface, a function is a case."""

    def kept(function: Case) -> Case:
        CASES.setdefault((kind, interface), []).append(function)
        return function

    return kept


# ---- denials


@case("lower_price", "python")
def a_lower_rho(world: World) -> None:
    with world.capped().book() as book:
        account = book.open("clinic")
        remedy = provoked("lower_price", lambda: asked(account).plan(rho=0.9).release(why="x"), BudgetExceeded)
        asked(account).plan(**{remedy["argument"]: remedy["value"]}).release(why="x")


@case("lower_price", "python")
def a_lower_epsilon_is_not_the_rho_that_is_left(world: World) -> None:
    with world.capped("rho=0.0227,delta=1e-6").book() as book:
        account = book.open("clinic")
        plan = asked(account).plan(epsilon=3, delta=1e-6)
        remedy = provoked("lower_price", lambda: plan.release(why="x"), BudgetExceeded)
        assert remedy["argument"] == "epsilon"
        assert remedy["value"] > 0.5
        asked(account).plan(epsilon=remedy["value"], delta=1e-6).release(why="x")


@case("lower_price", "python")
def a_lower_epsilon_where_epsilon_is_counted(world: World) -> None:
    with world.capped("epsilon=0.5,delta=1e-6").book() as book:
        account = book.open("clinic")
        remedy = provoked("lower_price", lambda: asked(account).plan(epsilon=0.9).release(why="x"), BudgetExceeded)
        assert remedy["value"] == 0.5
        asked(account).plan(epsilon=remedy["value"]).release(why="x")


@case("lower_price", "python")
def a_lower_epsilon_of_a_fit(world: World) -> None:
    from tallystick.learn import LogisticRegression

    rows, labels = [[0.1], [0.9], [0.2], [0.8]] * 50, [0, 1, 0, 1] * 50
    with ts.Ledger("fits.db") as book:
        account = book.open("clinic", budget=ts.pure_dp(epsilon=0.5), unit="person")

        def fit(epsilon: float) -> None:
            model = LogisticRegression(epsilon, row_norm=1.5, classes=[0, 1])
            model.fit(rows, labels, account=account, why="x")

        remedy = provoked("lower_price", lambda: fit(3.0), BudgetExceeded)
        assert in_python(remedy) == "a lower cost: LogisticRegression(epsilon=0.5, ...)"
        fit(remedy["value"])


@case("lower_price", "python")
@case("raise_limit", "python")
def a_lower_epsilon_of_a_score(world: World) -> None:
    from tallystick.learn import LogisticRegression

    rows, labels = [[0.1], [0.9], [0.2], [0.8]] * 50, [0, 1, 0, 1] * 50
    with ts.Ledger("scores.db") as book:
        account = book.open("clinic", budget=ts.pure_dp(epsilon=1.5000001), unit="person")
        model = LogisticRegression(0.5, row_norm=1.5, classes=[0, 1]).fit(rows, labels, account=account, why="x")

        def score(epsilon: float) -> None:
            model.score(rows, labels, account=account, why="x", epsilon=epsilon)

        with pytest.raises(BudgetExceeded) as caught:
            score(2.0)
        remedy, higher = remedy_of(caught.value, "lower_price"), remedy_of(caught.value, "raise_limit")
        assert in_python(remedy) == "epsilon=1"
        assert remedy["value"] <= float(account.remaining.first)
        score(remedy["value"])
        assert "weakens the guarantee: account.ledger.open('clinic').raise_limit(" in in_python(higher)
        account.ledger.open("clinic").raise_limit(read_loss("pure_dp(epsilon=4)"), why="agreed")
        score(2.0)


def trained(account: Any, plan: Any, **options: Any) -> Any:
    """A small run of torch."""
    torch = pytest.importorskip("torch")
    model, x = torch.nn.Linear(2, 2), torch.randn(40, 2)
    trainer = ts.learn.torch.Trainer(
        model, torch.nn.CrossEntropyLoss(reduction="none"), torch.optim.SGD(model.parameters(), lr=0.1), plan=plan,
        clip=1.0, classes=2, account=account, why="x", **options,
    )  # fmt: skip
    return trainer.fit((x, (x[:, 0] > 0).long()))


@case("lower_price", "python")
@case("raise_limit", "python")
@pytest.mark.filterwarnings("ignore::tallystick.ledger.training.EndedEarly")
def a_smaller_plan_of_a_training_run(world: World) -> None:
    about = {"delta": 1e-5, "rate": 0.5, "expected_batch": 20, "steps": 10}
    large = ts.learn.sgd_plan(epsilon=2, **about)
    with ts.Ledger("runs.db") as book:
        for name, pay in (("one", "whole"), ("two", "blocks")):
            account = book.open(name, budget=ts.approx_dp(epsilon=0.7, delta=1e-4), unit="person")
            with pytest.raises(BudgetExceeded) as caught:
                trained(account, large, pay=pay)
            remedy, higher = remedy_of(caught.value, "lower_price"), remedy_of(caught.value, "raise_limit")
            assert caught.value.remedies[0] == remedy
            words = re.fullmatch(r"a lower cost: ts\.learn\.sgd_plan\(epsilon=([\d.]+), \.\.\.\)", in_python(remedy))
            assert float(words[1]) == remedy["value"]
            smaller = ts.learn.sgd_plan(epsilon=remedy["value"], **about)
            assert trained(account, smaller, pay=pay).taken == 10
            again = book.open(f"{name} again", budget=ts.approx_dp(epsilon=0.7, delta=1e-4), unit="person")
            again.raise_limit(read_loss(higher["budget"]), why="agreed")
            assert trained(again, large, pay=pay).taken == 10


@case("lower_price", "python")
def a_smaller_delta_of_a_training_run(world: World) -> None:
    about = {"rate": 0.5, "expected_batch": 20, "steps": 10}
    with ts.Ledger("deltas.db") as book:
        account = book.open("clinic", budget=ts.approx_dp(epsilon=3, delta=2e-6), unit="person")
        plan = ts.learn.sgd_plan(epsilon=2, delta=1e-5, **about)
        remedy = provoked("lower_price", lambda: trained(account, plan), BudgetExceeded)
        assert in_python(remedy).endswith("delta=2e-6, ...)")
        smaller = ts.learn.sgd_plan(epsilon=remedy["value"], delta=remedy["more"]["delta"], **about)
        assert trained(account, smaller).taken == 10


@case("lower_price", "shell")
def a_lower_price_on_the_command_line(world: World) -> None:
    words = (*QUERY, "--rho", "0.9")
    line = world.capped().offer("--rho", *words)
    world.succeed(*changed(words, *option(line, "--rho")))


@case("lower_price", "shell")
def a_lower_epsilon_on_the_command_line(world: World) -> None:
    words = (*QUERY, "--epsilon", "5", "--delta", "1e-6")
    line = world.capped("rho=0.0227,delta=1e-6").offer("--epsilon", *words)
    world.succeed(*changed(words, *option(line, "--epsilon")))


STATEMENT = "SELECT WITH DIFFERENTIAL_PRIVACY {} ward, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY ward"


def in_a_statement(world: World, kind: str, **price: float) -> str:
    """The options that the denial of a statement offers, as its text has them."""
    world.succeed("dataset", "update", "visits", "--keys", "ward=wards.csv")
    options = ", ".join(f"{name}={value}" for name, value in price.items())
    with pytest.raises(BudgetExceeded) as caught:
        ts.sql(STATEMENT.format(f"OPTIONS({options})"), ledger="tallystick.db", why="x")
    return in_sql(remedy_of(caught.value, kind))


@case("lower_price", "sql")
def a_lower_price_in_the_statement(world: World) -> None:
    text = in_a_statement(world.capped(), "lower_price", rho=0.9)
    options = re.match(r"OPTIONS\([^)]*\)", text)[0]
    ts.sql(STATEMENT.format(options), ledger="tallystick.db", why="x")


@case("keep_measures", "python")
def fewer_measures(world: World) -> None:
    with world.capped().book() as book:
        account = book.open("clinic")
        remedy = provoked("keep_measures", lambda: asked(account).plan(rho=0.9).release(why="x"))
        asked(account, tuple(remedy["measures"])).plan(rho=remedy["value"]).release(why="x")


@case("keep_measures", "shell")
def fewer_measures_on_the_command_line(world: World) -> None:
    words = (*QUERY, "--rho", "0.9")
    line = world.capped().offer("drops 1 of 2", *words)
    fewer = changed(tuple(changed(words, *option(line, "--rho"))), "--measures", "count")
    world.succeed(*fewer)


@case("keep_measures", "sql")
def fewer_measures_in_the_statement(world: World) -> None:
    text = in_a_statement(world.capped(), "keep_measures", rho=0.9)
    options = re.search(r"OPTIONS\([^)]*\)", text)[0]
    ts.sql(STATEMENT.format(options).replace(", AVG(age) AS age", ""), ledger="tallystick.db", why="x")


@case("lower_max_groups", "python")
def fewer_groups(world: World) -> None:
    with world.capped().book() as book:
        account = book.open("clinic")
        remedy = provoked("lower_max_groups", lambda: asked(account).plan(rho=0.9).release(why="x"))
        caps = {"max_groups": remedy["max_groups"], "max_rows_per_group": 1}
        asked(account, **caps).plan(rho=remedy["value"]).release(why="x")


@case("lower_max_groups", "shell")
def fewer_groups_by_a_command_that_can_be_pasted(world: World) -> None:
    words = (*QUERY, "--rho", "0.9")
    line = world.capped().offer("dataset update", *words)
    assert "tallystick dataset update visits --max-groups" in line
    world.succeed(*typed(line))
    world.succeed(*changed(words, *option(line, "--rho")))


@case("lower_max_groups", "sql")
def fewer_groups_in_the_statement(world: World) -> None:
    text = in_a_statement(world.capped(), "lower_max_groups", rho=0.9)
    options = re.match(r"OPTIONS\([^)]*\)", text)[0]
    ts.sql(STATEMENT.format(options), ledger="tallystick.db", why="x")


def an_account(budget: str) -> ts.Ledger:
    book = ts.Ledger("tallystick.db")
    book.open("study", budget=read_loss(budget), unit="person")
    return book


@case("change_delta", "python")
def the_same_loss_with_a_delta(world: World) -> None:
    with an_account("zcdp(rho=0.5, delta=1e-6)") as book:
        account = book.open("study")
        remedy = provoked("change_delta", lambda: account.reserve(read_loss(SGD), why="x"), BudgetExceeded)
        account.reserve(read_loss(SGD), why="x", delta=remedy["delta"])


@case("change_delta", "python")
def the_same_loss_with_less_delta(world: World) -> None:
    with an_account("zcdp(rho=0.5, delta=1e-7)") as book:
        account = book.open("study")
        remedy = provoked("change_delta", lambda: account.reserve(read_loss(SGD), why="x", delta=1e-6))
        account.reserve(read_loss(SGD), why="x", delta=remedy["delta"])


@case("change_delta", "shell")
def the_same_charge_with_a_delta(world: World) -> None:
    an_account("zcdp(rho=0.5, delta=1e-6)").close()
    words = ("charge", "add", SGD, "--why", "x")
    line = world.offer("another delta", *words)
    world.succeed(*changed(words, *option(line, "--delta")))


@case("add_noise", "python")
def more_noise(world: World) -> None:
    with an_account("zcdp(rho=0.01)") as book:
        account = book.open("study")
        remedy = provoked("add_noise", lambda: account.reserve(ts.gaussian(sigma=1), why="x"))
        mechanism = getattr(ts, remedy["mechanism"])
        account.reserve(mechanism(**{remedy["parameter"]: remedy["value"]}), why="x")


@case("add_noise", "shell")
def more_noise_on_the_command_line(world: World) -> None:
    an_account("pure_dp(epsilon=0.1)").close()
    line = world.offer("sensitivity", "charge", "add", "laplace(scale=1)", "--why", "x")
    world.succeed("charge", "add", re.search(r"\w+\([^)]*\)", line)[0], "--why", "x")


@case("add_noise", "python")
@case("add_noise", "shell")
def more_noise_keeps_the_promise_to_groups(world: World) -> None:
    with an_account("zcdp(rho=0.01)") as book:
        account = book.open("study")
        for loss in ("gaussian(sigma=1).for_groups(3)", "laplace(scale=1).for_groups(4)"):
            with pytest.raises(BudgetExceeded) as caught:
                account.pay(read_loss(loss), why="x")
            for remedy in caught.value.remedies:
                if remedy.kind == "add_noise":
                    assert f".for_groups({remedy['group']})" in in_python(remedy)
                    assert remedy["group"] == read_loss(loss).group
    line = world.offer("more noise", "charge", "add", "gaussian(sigma=1).for_groups(3)", "--why", "x")
    loss = re.search(r'"([^"]*)"', line)[1]
    assert read_loss(loss).group == 3
    world.succeed("charge", "add", loss, "--why", "x")


@case("lower_loss", "python")
def a_guarantee_with_the_delta_that_is_left(world: World) -> None:
    with an_account("approx_dp(epsilon=0.5, delta=1e-7)") as book:
        account = book.open("study")
        remedy = provoked("lower_loss", lambda: account.pay(ts.approx_dp(epsilon=1, delta=1e-5), why="x"))
        account.pay(read_loss(remedy["loss"]), why="x")


@case("lower_loss", "python")
def all_that_is_left(world: World) -> None:
    with an_account("zcdp(rho=1/24)") as book:
        account = book.open("study")
        account.pay(ts.zcdp(rho=0.00000000001), why="x")
        loss = provoked("lower_loss", lambda: account.pay(ts.zcdp(rho=1 / 24), why="x"))["loss"]
        assert loss == "zcdp(rho=0.041666666656)"
        account.pay(read_loss(loss), why="x")
        assert account.remaining.a0 == 0


@case("lower_loss", "shell")
def all_that_is_left_on_the_command_line(world: World) -> None:
    with an_account("pure_dp(epsilon=1)") as book:
        book.open("study").pay(ts.pure_dp(epsilon=0.7), why="x")
    line = world.offer("smaller loss", "charge", "add", "pure_dp(epsilon=0.5)", "--why", "x")
    world.succeed("charge", "add", re.search(r'"([^"]*)"', line)[1], "--why", "x")
    with world.book() as book:
        assert book.open("study").remaining.a0 == 0


@pytest.mark.parametrize("budget", ["zcdp(rho=0.1, delta=1e-6)", "zcdp(rho=0.1, adjacency='replace')", "gdp(mu=0.5)"])
@pytest.mark.parametrize("asked", ["zcdp(rho=5)", "pure_dp(epsilon=5)", "zcdp(rho=5, delta=1e-7)"])
def test_a_smaller_guarantee_fits_whatever_the_account_counts(world: World, budget: str, asked: str) -> None:
    near = ", adjacency='replace')" if "replace" in budget else ")"
    with an_account(budget) as book:
        account = book.open("study")
        with pytest.raises(TallystickError) as caught:
            account.pay(read_loss(asked.replace(")", near)), why="x")
        for remedy in caught.value.remedies:
            if remedy.kind == "lower_loss":
                account.pay(read_loss(remedy["loss"]), why="x")


def test_noise_of_one_release_is_not_offered_to_a_run_of_many_steps(world: World) -> None:
    with an_account("pure_dp(epsilon=1)") as book:
        steps = book.open("study").training(ts.pure_dp(epsilon=0.1), steps=100, why="x", whole=True)
        with pytest.raises(BudgetExceeded) as caught, steps as running:
            running.step()
    assert [remedy.kind for remedy in caught.value.remedies] == ["raise_limit"]


@case("raise_limit", "python")
def a_higher_limit(world: World) -> None:
    with an_account("zcdp(rho=0.01)") as book:
        account = book.open("study")
        remedy = provoked("raise_limit", lambda: account.reserve(ts.gaussian(sigma=1), why="x"))
        book.open(remedy["account"]).raise_limit(read_loss(remedy["budget"]), why="agreed")
        account.reserve(ts.gaussian(sigma=1), why="x")


@case("raise_limit", "python")
def higher_limits_of_a_block_and_of_its_population(world: World) -> None:
    with an_account("zcdp(rho=0.05)") as book:
        block = book.open("block", budget=ts.zcdp(rho=0.01), unit="person", parent="study")
        remedy = provoked("raise_limit", lambda: block.reserve(ts.gaussian(sigma=1), why="x"), BudgetExceeded)
        limits = raised_limits(remedy)
        assert [name for name, _ in limits] == ["block", "study"]
        for name, budget in limits:
            book.open(name).raise_limit(read_loss(budget), why="agreed")
        block.reserve(ts.gaussian(sigma=1), why="x")


@case("raise_limit", "shell")
def higher_limits_of_a_block_by_commands_that_can_be_pasted(world: World) -> None:
    with an_account("zcdp(rho=0.05)") as book:
        book.open("block", budget=ts.zcdp(rho=0.01), unit="person", parent="study")
    words = ("charge", "add", "gaussian(sigma=1)", "--account", "block", "--why", "x")
    line = world.offer("account raise", *words)
    pasted = re.split(r" {3,}", line)[1].split(" && ")
    assert len(pasted) == 2
    for command in pasted:
        world.succeed(*typed(command))
    world.succeed(*words)


@case("raise_limit", "shell")
def a_higher_limit_by_a_command_that_can_be_pasted(world: World) -> None:
    with ts.Ledger("a ledger.db") as book:
        book.open("ana's study", budget=ts.zcdp(rho=0.01), unit="person")
    words = ("charge", "add", "gaussian(sigma=1)", "--why", "x", "--ledger", "a ledger.db")
    world.succeed(*typed(world.offer("account raise", *words)))
    world.succeed(*words)


@case("raise_limit", "shell")
def a_higher_limit_and_a_delta(world: World) -> None:
    an_account("zcdp(rho=0.01)").close()
    words = ("charge", "add", SGD, "--why", "x")
    line = world.offer("account raise", *words)
    world.succeed(*typed(line))
    world.succeed(*changed(words, *option(line, "--delta")))


BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
LIMITS = ("rho=0.01", "rho=0.01,delta=1e-7", "epsilon=0.2,delta=1e-7", "epsilon=0.2", "mu=0.1", "rho=5,delta=1e-5")
PRICES = (
    ("--rho", "0.05"),
    ("--rho", "0.005"),
    ("--epsilon", "1"),
    ("--epsilon", "1", "--delta", "1e-6"),
    ("--error", "1"),
    (),
)
COMMANDS = (
    ("query", "visits", "--by", "ward", "--keys", "wards.csv", "--measures", "count", "--why", "x"),
    ("query", "visits", "--by", "ward", "--private-keys", "1e-6", "--measures", "count", "--why", "x"),
    ("query", "visits", "--by", "ward", "--measures", "count", "--why", "x"),
    ("sql", "SELECT COUNT(*) AS n FROM visits", "--why", "x"),
    ("sql", BY_WARD, "--why", "x"),
    ("fit", "linear", "visits", "--target", "age", "--features", "age", "--why", "x"),
)
PRICE_OPTIONS = ("--rho", "--epsilon", "--error", "--delta")


def applied(words: tuple[str, ...], way: str) -> list[str] | None:
    """The command line with what a way says to type; None if the way is another command or words in brackets."""
    pieces = [each for each in re.split(r" {3,}", way) if "--" in each]
    if not pieces or "tallystick " in way:
        return None
    action = pieces[0].removeprefix("add ").replace("FILE", "wards.csv")
    action, _, instead = action.partition(" instead of ")
    given = list(words)
    for name in re.findall(r"--[a-z-]+", instead):
        at = given.index(name)
        del given[at : at + 2]
    typed_words = shlex.split(action)
    while typed_words:
        name = typed_words.pop(0)
        value = [typed_words.pop(0)] if typed_words and not typed_words[0].startswith("--") else []
        if name in given and value:
            given[given.index(name) + 1] = value[0]
        else:
            given += [name, *value]
    return given


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("limit", LIMITS)
def test_every_option_that_a_failure_offers_is_answered(world: World, limit: str) -> None:
    world.registered("--max-groups", "4", "--max-rows-per-group", "1", "--bounds", "age=0:100", limit=limit)
    tried = 0
    for command in COMMANDS:
        for price in PRICES:
            if command[0] == "fit" and price[:1] == ("--error",):
                continue
            words = (*command, *price, "--dry-run")
            code, text = world.type(*words)
            if code == 0:
                continue
            for way in ways(text):
                line = applied(words, way)
                if line is None:
                    continue
                tried += 1
                again, said = world.type(*line)
                is_priced = any(option in way for option in ("--rho", "--epsilon", "--delta"))
                is_next = not is_priced and said.splitlines()[0] != text.splitlines()[0]
                assert again == 0 or is_next, (limit, words, way, said)
    assert tried > 3


def test_a_denial_of_private_keys_offers_keys_and_prices_that_fit(world: World) -> None:
    world.capped("rho=0.01,delta=1e-7")
    words = ("query", "visits", "--by", "ward", "--private-keys", "1e-6", "--measures", "count", "--why", "x")
    offers = world.offers(*words, "--rho", "0.05")
    assert any("--private-keys 1e-7 --rho 0.01" in each for each in offers)
    assert any("--keys FILE --rho 0.01 instead of --private-keys" in each for each in offers)
    world.succeed(*applied((*words, "--rho", "0.05", "--dry-run"), offers[1]))
    world.succeed(*applied((*words, "--rho", "0.05"), offers[0]))


def test_an_epsilon_whose_costs_do_not_fit_is_answered_with_one_that_does(world: World) -> None:
    world.capped("rho=0.01")
    words = (*QUERY, "--epsilon", "1")
    line = world.offer("--epsilon", *words)
    assert "--delta 1e-6" in line
    world.succeed(*applied(words, line))


def test_costs_below_the_least_are_not_called_more_than_what_is_left(world: World) -> None:
    world.registered(
        "--max-groups",
        "4",
        "--max-rows-per-group",
        "1",
        "--bounds",
        "age=0:100",
        "--least-price",
        "rho=0.01",
        limit="rho=0.02",
    )
    code, text = world.type(*QUERY, "--epsilon", "0.1")
    assert code == 2
    assert "more than what is left" not in text
    assert text.count("less than the least cost of the dataset") == 2
    world.succeed(
        *applied((*QUERY, "--epsilon", "0.1", "--dry-run"), world.offer("--epsilon", *QUERY, "--epsilon", "0.1"))
    )
    [line] = world.offers(*QUERY, "--rho", "0.001")
    assert line == "--rho 0.01"
    world.succeed(*changed((*QUERY, "--rho", "0.001"), "--rho", "0.01"))


COUNTED_AT = "SELECT WITH DIFFERENTIAL_PRIVACY {} COUNT(*) AS n FROM visits"
OWN_PRICES = {
    "OPTIONS(rho=0.001)": "rho=0.02,delta=1e-5",
    "OPTIONS(rho=0.9)": "rho=0.02,delta=1e-5",
    "OPTIONS(epsilon=0.001, delta=1e-6)": "rho=0.02,delta=1e-5",
    "OPTIONS(epsilon=9, delta=1e-6)": "rho=0.02,delta=1e-5",
    "OPTIONS(epsilon=9, pure=TRUE)": "rho=0.02,delta=1e-5",
    "OPTIONS(epsilon=0.001)": "rho=0.02,delta=1e-5",
    "OPTIONS(epsilon=5)": "rho=0.02,delta=1e-5",
    "OPTIONS(rho=0.006)": "epsilon=0.2",
}
"""Prices that a statement names and cannot have, each with the limit of the population."""


@case("set_argument", "shell")
def another_price_in_the_statement(world: World) -> None:
    world.registered("--max-groups", "4", "--max-rows-per-group", "1", "--least-price", "rho=0.005", limit="rho=0.02")
    [line] = world.offers("sql", COUNTED_AT.format("OPTIONS(rho=0.001)"), "--why", "x")
    assert line == "OPTIONS(rho=0.005)"
    world.succeed("sql", COUNTED_AT.format(line), "--why", "x")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("own", OWN_PRICES)
@pytest.mark.parametrize("interface", ["shell", "python", "explain"])
def test_a_price_in_a_statement_is_answered_with_another_one_there(world: World, own: str, interface: str) -> None:
    limit = OWN_PRICES[own]
    least = ["--least-price", "rho=0.005"] if limit.startswith("rho") else []
    world.registered("--max-groups", "4", "--max-rows-per-group", "1", *least, limit=limit)
    statement = COUNTED_AT.format(own)
    if interface == "python":
        with pytest.raises(TallystickError) as caught:
            ts.sql(statement, ledger="tallystick.db", why="x")
        text = str(caught.value)
    else:
        before = ["--dry-run"] if interface == "explain" else []
        _, text = world.type("sql", statement, "--why", "x", *before)
    offers = [each for each in re.findall(r"OPTIONS\([^)]*\)", text) if "epsilon=" in each or "rho=" in each]
    assert offers, text
    assert not re.search(r"--(rho|epsilon) |(?<![\w(])(rho|epsilon)=0", text.replace(offers[0], ""))
    world.succeed("sql", COUNTED_AT.format(offers[0]), "--why", "x")


@case("find_keys", "shell")
def groups_from_the_data_at_the_delta_of_the_price(world: World) -> None:
    world.capped("rho=0.5,delta=1e-6")
    words = ("query", "visits", "--by", "ward", "--measures", "count", "--epsilon", "0.3", "--why", "x")
    for delta in ("1e-8", "1e-6"):
        line = world.offer("--private-keys", *words, "--delta", delta)
        world.succeed(*words, "--delta", delta, *option(line, "--private-keys"), "--dry-run")


def test_groups_from_the_data_are_not_offered_at_a_price_that_cannot_pay_them(world: World) -> None:
    world.capped("rho=0.5,delta=1e-6")
    words = ("query", "visits", "--by", "ward", "--measures", "count", "--why", "x", "--rho", "9")
    assert not any("--private-keys" in line for line in world.offers(*words))


def test_fewer_groups_come_last_and_say_what_they_leave_out(world: World) -> None:
    offers = world.capped().offers(*QUERY, "--rho", "0.9")
    assert "rows in other groups are left out" in offers[-1]
    assert "--max-groups" in offers[-1]


def test_a_text_column_without_bounds_is_offered_a_type_if_it_holds_numbers(world: World) -> None:
    world.registered("--max-groups", "1", "--max-rows-per-group", "1")
    code, text = world.type("query", "visits", "--measures", "mean(ward)", "--rho", "0.1", "--why", "x")
    assert code == 2
    assert text.startswith("Error: ward is text. A mean needs a number.\n")
    assert "if it holds numbers, with bounds that you choose; cells that are not numbers then count as missing" in text


def test_a_misspelt_account_gets_the_nearest_name_and_no_new_account(world: World) -> None:
    world.capped()
    for words in (("budget", "clinc"), (*QUERY, "--rho", "0.1", "--account", "clinc"), ("account", "show", "clinc")):
        code, text = world.type(*words)
        assert (code, text) == (2, "Error: there is no account clinc. Did you mean clinic?\n")


def test_a_bare_epsilon_above_the_most_of_a_statement_gets_both_costs(world: World) -> None:
    world.registered(
        "--max-groups", "1", "--max-rows-per-group", "1", "--per-query", "rho=0.02", "--most-per-query", "rho=0.2"
    )
    words = ("sql", "SELECT COUNT(*) AS n FROM visits", "--why", "x", "--epsilon", "1")
    code, text = world.type(*words)
    assert code == 2
    assert "more than the owner allows in a statement" in text
    [line] = ways(text)
    world.succeed(*applied(words, line))


@pytest.mark.parametrize("column", ["body mass", "class", "it's"])
def test_bounds_of_any_column_can_be_pasted(column: str) -> None:
    text = in_python(Remedy("declare_bounds", column=column, lower=0, upper=100))
    frame = pyarrow.table({"patient": [1], column: [2.0]})
    table = ts.Private(frame).table(unit="patient")
    assert eval(f"table{text}", {"table": table}).declared == ((column, 0, 100),)


# ---- arguments


@case("set_argument", "python")
def a_delta_for_a_plan_without_a_price(world: World) -> None:
    with an_account("approx_dp(epsilon=20, delta=1e-5)") as book:
        account = book.open("study")
        remedy = provoked("set_argument", lambda: account.reserve(ts.gaussian(sigma=1), why="x"), Refused)
        account.reserve(ts.gaussian(sigma=1), why="x", **{remedy["argument"]: remedy["value"]})


@case("set_argument", "shell")
def a_reason(world: World) -> None:
    world.capped().succeed("dataset", "update", "visits", "--keys", "ward=wards.csv")
    words = ("sql", COUNTED, "--rho", "0.01")
    name, dots = option(world.offer("--why", *words), "--why")
    assert "in words of your own" in world.type(*changed(words, name, dots))[1]
    world.succeed(*changed(words, name, "weekly report"))


@case("set_argument", "sql")
def a_price(world: World) -> None:
    world.capped().succeed("dataset", "update", "visits", "--keys", "ward=wards.csv")
    with pytest.raises(InvalidInput, match=r"OPTIONS\(rho=0\.01\), or OPTIONS\(epsilon=0\.5, delta=1e-6\)") as caught:
        ts.sql(COUNTED, ledger="tallystick.db", why="x")
    assert len(caught.value.remedies) == 2
    for remedy in caught.value.remedies:
        ts.sql(STATEMENT.format(in_sql(remedy)), ledger="tallystick.db", why="x")


@case("set_argument", "shell")
def a_price_on_the_command_line(world: World) -> None:
    world.capped().succeed("dataset", "update", "visits", "--keys", "ward=wards.csv")
    words = ("sql", COUNTED, "--why", "x")
    for first in ("--rho", "--epsilon"):
        line = world.offer(first, *words)
        world.succeed(*words, *shlex.split(line[line.index(first) :]))


@case("set_argument", "python")
def a_price_of_a_statement(world: World) -> None:
    world.capped().succeed("dataset", "update", "visits", "--keys", "ward=wards.csv")
    with pytest.raises(InvalidInput) as caught:
        ts.sql(COUNTED, ledger="tallystick.db", why="x")
    for remedy in caught.value.remedies:
        arguments = {remedy["argument"]: remedy["value"], **remedy.get("more", {})}
        ts.sql(COUNTED, ledger="tallystick.db", why="x", **arguments)


@case("mean_pure", "python")
@case("give_delta", "python")
def the_two_meanings_of_epsilon(world: World) -> None:
    with world.capped().book() as book:
        account = book.open("clinic")
        with pytest.raises(EpsilonWithoutDelta) as caught:
            asked(account).plan(epsilon=0.5).release(why="x")
        remedy_of(caught.value, "mean_pure")
        asked(account).plan(epsilon=0.5, pure=True).release(why="x")
        delta = remedy_of(caught.value, "give_delta")["delta"]
        asked(account).plan(epsilon=0.5, delta=delta).release(why="x")


@case("mean_pure", "shell")
@case("give_delta", "shell")
def the_two_meanings_of_epsilon_on_the_command_line(world: World) -> None:
    words = (*QUERY, "--epsilon", "0.5")
    assert "add --pure" in world.capped().offer("--pure", *words)
    line = world.offer("--delta", *words)
    world.succeed(*words, "--pure")
    world.succeed(*words, *option(line, "--delta"), "--key", "other")


@case("mean_pure", "sql")
@case("give_delta", "sql")
def the_two_meanings_of_epsilon_in_a_statement(world: World) -> None:
    world.capped().succeed("dataset", "update", "visits", "--keys", "ward=wards.csv")
    with pytest.raises(EpsilonWithoutDelta) as caught:
        ts.sql(COUNTED, ledger="tallystick.db", why="x", epsilon=0.5)
    for kind in ("mean_pure", "give_delta"):
        more = re.search(r"OPTIONS\(([^)]*)\)", in_sql(remedy_of(caught.value, kind)))[1]
        ts.sql(STATEMENT.format(f"OPTIONS(epsilon=0.5, {more})"), ledger="tallystick.db", why="x", key=kind)


@case("round_up", "python")
def a_whole_count(world: World) -> None:
    remedy = provoked("round_up", lambda: 2.5 * ts.gdp(mu=1), InvalidInput)
    assert (remedy["value"] * ts.gdp(mu=1)).epsilon(delta=1e-5) > (2 * ts.gdp(mu=1)).epsilon(delta=1e-5)


@case("round_up", "shell")
def a_whole_count_on_the_command_line(world: World) -> None:
    line = world.offer("round it up", "epsilon", "2.5 * gdp(mu=1)", "--delta", "1e-5")
    count = re.search(r"to (\d+)", line)[1]
    world.succeed("epsilon", f"{count} * gdp(mu=1)", "--delta", "1e-5")


# ---- what is public about a table


@case("list_keys", "python")
@case("find_keys", "python")
def groups(world: World) -> None:
    with world.capped().book() as book:
        table = opened_table(book.open("clinic"))
        with pytest.raises(Refused) as caught:
            table.group_by("ward")
        remedy_of(caught.value, "list_keys")
        table.group_by("ward", keys=WARDS).agg(n=ts.count()).plan(rho=0.1).release(why="x")
        found = ts.private_keys(delta=remedy_of(caught.value, "find_keys")["delta"])
        table.group_by("ward", keys=found).agg(n=ts.count()).plan(rho=0.1).release(why="x")


@case("find_keys", "python")
@case("list_keys", "python")
def groups_with_less_delta(world: World) -> None:
    with world.capped().book() as book:
        table = opened_table(book.open("clinic"))
        found = table.group_by("ward", keys=ts.private_keys(delta=1e-5)).agg(n=ts.count()).plan(rho=0.1)
        with pytest.raises(BudgetExceeded) as caught:
            found.release(why="x")
        delta = remedy_of(caught.value, "find_keys")["delta"]
        table.group_by("ward", keys=ts.private_keys(delta=delta)).agg(n=ts.count()).plan(rho=0.1).release(why="x")
        remedy_of(caught.value, "list_keys")
        table.group_by("ward", keys=WARDS).agg(n=ts.count()).plan(rho=0.1).release(why="x")


@case("list_keys", "shell")
@case("find_keys", "shell")
def groups_on_the_command_line(world: World) -> None:
    words = ("query", "visits", "--by", "ward", "--measures", "count", "--rho", "0.1", "--why", "x")
    assert "--keys FILE" in world.capped().offer("--keys", *words)
    line = world.offer("--private-keys", *words)
    world.succeed(*words, "--keys", "wards.csv")
    world.succeed(*words, *option(line, "--private-keys"))


@case("list_keys", "sql")
@case("find_keys", "sql")
def groups_in_a_statement(world: World) -> None:
    world.capped()
    with pytest.raises(Refused, match="WHERE column IN") as caught:
        ts.sql(COUNTED, ledger="tallystick.db", why="x", rho=0.1)
    where = listed_groups(in_sql(remedy_of(caught.value, "list_keys")))
    ts.sql(COUNTED.replace("GROUP BY", f"{where} GROUP BY"), ledger="tallystick.db", why="x", rho=0.1)
    delta = re.search(r"delta=([^)]*)", in_sql(remedy_of(caught.value, "find_keys")))[1]
    options = f"OPTIONS(rho=0.1, delta={delta})"
    ts.sql(STATEMENT.format(options).replace(", AVG(age) AS age", ""), ledger="tallystick.db", why="x")


def listed_groups(offer: str) -> str:
    """The condition that an offer writes, with the column of the question."""
    return offer.partition(", with")[0].replace("column", "ward")


def strategy_offers(world: World, *options: str) -> str:
    """What a count by ward is offered, with one way to groups named; nothing else is."""
    statement = STATEMENT.format(f"OPTIONS({', '.join(options)})").replace(", AVG(age) AS age", "")
    with pytest.raises(Refused) as caught:
        ts.sql(statement, ledger="tallystick.db", why="x")
    [remedy] = caught.value.remedies
    return in_sql(remedy)


@case("list_keys", "sql")
def groups_in_a_statement_that_wants_a_public_list(world: World) -> None:
    world.capped()
    options = ("rho=0.1", "group_selection_strategy='PUBLIC_GROUPS'")
    for more in ((), ("delta=1e-6",)):
        where = listed_groups(strategy_offers(world, *options, *more))
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({', '.join(options)}) ward, COUNT(*) AS n"
    ts.sql(f"{head} FROM visits {where} GROUP BY ward", ledger="tallystick.db", why="x")


@case("find_keys", "sql")
def groups_in_a_statement_that_finds_them(world: World) -> None:
    world.capped()
    options = ("rho=0.1", "group_selection_strategy='LAPLACE_THRESHOLD'")
    more = re.search(r"OPTIONS\(([^)]*)\)", strategy_offers(world, *options))[1]
    statement = STATEMENT.format(f"OPTIONS({', '.join((*options, more))})").replace(", AVG(age) AS age", "")
    ts.sql(statement, ledger="tallystick.db", why="x")


@case("declare_caps", "python")
def caps(world: World) -> None:
    rows = ts.Private(pyarrow.table({"patient": [1, 2], "ward": ["a", "b"]})).table(unit="patient")
    remedy = provoked("declare_caps", lambda: rows.group_by("ward", keys=WARDS).agg(n=ts.count()))
    capped = rows.per_unit(**dict.fromkeys(remedy["caps"], 1))
    capped.group_by("ward", keys=WARDS).agg(n=ts.count()).plan(rho=0.1)


@case("declare_caps", "shell")
def caps_by_a_command_that_can_be_pasted(world: World) -> None:
    words = (*QUERY[:6], "--measures", "count", "--rho", "0.1", "--why", "x")
    world.succeed(*typed(world.registered().offer("dataset update", *words)))
    world.succeed(*words)


@case("declare_caps", "shell")
def caps_that_a_statement_needs(world: World) -> None:
    words = ("sql", COUNTED, "--rho", "0.1", "--why", "x")
    world.registered("--keys", "ward=wards.csv")
    world.succeed(*typed(world.offer("dataset update", *words)))
    world.succeed(*words)


@case("declare_bounds", "python")
def bounds(world: World) -> None:
    rows = ts.Private(pyarrow.table({"patient": [1, 2], "age": [30.0, 40.0]})).table(unit="patient")
    capped = rows.per_unit(max_groups=1, max_rows_per_group=1)
    remedy = provoked("declare_bounds", lambda: capped.agg(age=ts.mean("age")), InvalidInput)
    bounded = capped.bounds(**{remedy["column"]: (remedy["lower"], remedy["upper"])})
    bounded.agg(age=ts.mean("age")).plan(rho=0.1)


@case("declare_bounds", "shell")
def bounds_by_a_command_that_can_be_pasted(world: World) -> None:
    words = ("query", "visits", "--measures", "mean(age)", "--rho", "0.1", "--why", "x")
    world.registered("--max-groups", "1", "--max-rows-per-group", "1", "--type", "age=number")
    world.succeed(*typed(world.offer("--bounds", *words)))
    world.succeed(*words)


@case("declare_type", "python")
def types(world: World) -> None:
    source = ts.Private("visits.csv")
    rows = source.table(unit="patient").per_unit(max_groups=1, max_rows_per_group=1)
    remedy = provoked("declare_type", lambda: rows.agg(age=ts.mean("age", lower=0, upper=9)), InvalidInput)
    typed_rows = source.table(unit="patient", types={remedy["column"]: remedy["type"]})
    typed_rows.per_unit(max_groups=1, max_rows_per_group=1).agg(age=ts.mean("age", lower=0, upper=9)).plan(rho=0.1)


@case("declare_type", "shell")
def types_by_a_command_that_can_be_pasted(world: World) -> None:
    words = ("query", "visits", "--measures", "mean(age,0,100)", "--rho", "0.1", "--why", "x")
    world.registered("--max-groups", "1", "--max-rows-per-group", "1")
    world.succeed(*typed(world.offer("--type", *words)))
    world.succeed(*words)


@case("declare_type", "shell")
def types_of_groups_by_a_command_that_can_be_pasted(world: World) -> None:
    words = ("query", "visits", "--by", "age", "--private-keys", "1e-6", "--measures", "count", "--rho", "0.1")
    world.registered("--max-groups", "1", "--max-rows-per-group", "1", "--type", "age=number")
    world.succeed(*typed(world.offer("--type", *words, "--why", "x")))
    world.succeed(*words, "--why", "x")


@case("declare_type", "shell")
def types_of_groups_in_sql(world: World) -> None:
    asked = "SELECT age, COUNT(*) AS n FROM visits WHERE age IN (40, 41) GROUP BY age"
    words = ("sql", asked, "--rho", "0.1")
    world.registered("--max-groups", "1", "--max-rows-per-group", "1", "--type", "age=number")
    world.succeed(*typed(world.offer("--type", *words, "--why", "x")))
    world.succeed(*words, "--why", "x")


def test_a_type_is_not_declared_where_the_source_has_its_own(world: World) -> None:
    parquet.write_table(pyarrow.table({"patient": [1, 2], "age": ["x", "y"]}), "ages.parquet")
    rows = ts.Private("ages.parquet").table(unit="patient")
    with pytest.raises(InvalidInput) as caught:
        rows.per_unit(max_groups=1, max_rows_per_group=1).agg(age=ts.mean("age", lower=0, upper=9))
    assert caught.value.remedies == ()


FLOORS = (
    "SELECT f.floor, COUNT(*) AS n FROM visits AS v JOIN floors AS f ON v.ward = f.ward "
    "WHERE v.ward = 'a' GROUP BY f.floor"
)


@case("name_public_table", "python")
def a_public_table(world: World) -> None:
    world.capped()
    words = {"ledger": "tallystick.db", "why": "x", "epsilon": 0.3, "delta": 1e-6}
    provoked("name_public_table", lambda: ts.sql(FLOORS, **words), InvalidInput)
    ts.sql(FLOORS, **words, public={"floors": "floors.csv"})


@case("name_public_table", "shell")
def a_public_table_on_the_command_line(world: World) -> None:
    words = ("sql", FLOORS, "--epsilon", "0.3", "--delta", "1e-6", "--why", "x")
    assert "--public NAME=FILE" in world.capped().offer("--public", *words)
    world.succeed(*words, "--public", "floors=floors.csv")


@case("pass_frame", "python")
def a_data_frame(world: World) -> None:
    provoked("pass_frame", lambda: ts.Private(3), InvalidInput)
    ts.Private(pyarrow.table({"patient": [1]})).table(unit="patient")


@case("join_on_unit", "python")
def a_private_table_beside_another(world: World) -> None:
    with world.capped().book() as book:
        table = opened_table(book.open("clinic"))
        provoked("join_on_unit", lambda: table.join("visits.csv", on="patient"), Refused)
        table.join_on_unit(opened_table(book.open("clinic")), max_rows=1, other_rows=1, prefix="other_")


@case("join_on_unit", "shell")
def a_private_table_beside_another_in_a_statement(world: World) -> None:
    words = (*QUERY, "--rho", "0.1", "--join", "visits.csv")
    assert world.capped().offer("join", *words).startswith("tallystick sql")
    both = "SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b ON a.patient = b.patient"
    world.succeed("sql", both, "--rho", "0.1", "--why", "x")


@case("update_table", "python")
def a_table_that_is_registered_again(world: World) -> None:
    with world.capped().book() as book:
        book.open("clinic").register("other", source="table other")
        book.open("clinic").register("other", source="table other", note="now", update=True)


@case("update_table", "shell")
def a_table_that_is_registered_again_by_a_command(world: World) -> None:
    line = in_shell(Remedy("update_table", dataset="visits"), Command())
    world.capped().succeed(*typed(line))


@case("move_source", "shell")
def a_file_that_moved(world: World) -> None:
    world.capped()
    Path("visits.csv").rename("moved here.csv")
    words = (*QUERY, "--rho", "0.1")
    line = world.offer("dataset update", *words)
    world.succeed(*typed(line.replace("NEW_PLACE", "'moved here.csv'")))
    world.succeed(*words)


@case("add_dataset", "shell")
def a_first_data_set(world: World) -> None:
    world.succeed("ledger", "init", "tallystick.db")
    line = world.offer("dataset add", *QUERY, "--rho", "0.1")
    for stands_for, meant in (("FILE", "visits.csv"), ("WHOSE", "clinic"), ("COLUMN", "patient")):
        line = line.replace(stands_for, meant)
    world.succeed(*typed(line), "--max-groups", "4", "--max-rows-per-group", "1", "--bounds", "age=0:100")
    world.succeed(*QUERY, "--rho", "0.1")


@case("show_datasets", "python")
@case("show_datasets", "shell")
def the_data_sets(world: World) -> None:
    world.capped()
    provoked("show_datasets", lambda: ts.sql("SHOW TABLES", ledger="tallystick.db"), Refused)
    with world.book() as book:
        assert "visits" in book.datasets()
    assert "visits" in world.succeed(*typed(world.offer("dataset list", "sql", "SHOW TABLES")))


@case("state_decisions", "python")
@case("state_decisions", "shell")
def decisions_on_a_card(world: World) -> None:
    from tallystick.cards import read_card
    from tallystick.cards.registry import registry_record

    world.capped()
    words = (*QUERY, "--rho", "0.1", "--key", "k", "--card")
    world.succeed(*words, "first.html")
    remedy = provoked("state_decisions", lambda: registry_record(read_card("first.html")[0].facts), InvalidInput)
    assert set(remedy["answers"]) == {"curators", "region", "product_type"}
    line = world.offer("--about", "card", "export", "first.html", "--out", "record.yaml")
    world.succeed(*typed(line))
    world.succeed(*words, "second.html")
    world.succeed("card", "export", "second.html", "--out", "record.yaml")


# ---- words of a statement, and programs


@case("rewrite", "python")
@case("rewrite", "shell")
def other_words_in_a_statement(world: World) -> None:
    statement = "SELECT SUM(age) FILTER (WHERE ward = 'a') AS n FROM visits TABLESAMPLE (10 PERCENT)"
    largest = "SELECT MAX(age) AS age FROM visits"
    words = ("--rho", "0.1", "--why", "x")
    remedy = provoked("rewrite", lambda: world.capped() and ts.sql(largest, ledger="tallystick.db", why="x", rho=0.1))
    assert world.offers("sql", largest, *words) == [remedy["to"]]
    other = remedy["to"].replace("ORDER BY ...", "ORDER BY age")
    world.succeed("sql", f"SELECT {other} AS age FROM visits", *words)
    assert world.offers("sql", statement, *words) == ["the whole table: a sample does not cost less here"]


@case("install", "python")
@case("install", "shell")
def a_program_that_is_missing(world: World) -> None:
    import sys

    for name in [module for module in sys.modules if module.split(".")[0] == "matplotlib"]:
        world.monkeypatch.delitem(sys.modules, name)
    world.monkeypatch.setitem(sys.modules, "matplotlib", None)
    [line] = world.offers("plot", "gdp(mu=1)", "--out", "picture.svg")
    assert line == "pip install '.[plots]'"
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert "\nplots = [" in pyproject


# ---- accounts, answers and the ledger


@case("open_account", "python")
def an_account_that_is_not_there(world: World) -> None:
    with ts.Ledger("tallystick.db") as book:
        remedy = provoked("open_account", lambda: book.open("study"), InvalidInput)
        book.open(remedy["account"], budget=read_loss(remedy["budget"]))


@case("open_account", "shell")
def an_account_that_is_not_there_by_a_command_that_can_be_pasted(world: World) -> None:
    with ts.Ledger("other ledger.db"):
        pass
    words = ("budget", "ana's study", "--ledger", "other ledger.db")
    world.succeed(*typed(world.offer("account open", *words)))
    world.succeed(*words)


@case("reopen_account", "python")
@case("raise_limit", "python")
def an_account_with_another_limit(world: World) -> None:
    with an_account("zcdp(rho=0.5)") as book:
        with pytest.raises(Refused) as caught:
            book.open("study", budget=ts.zcdp(rho=0.9))
        book.open(remedy_of(caught.value, "reopen_account")["account"])
        higher = remedy_of(caught.value, "raise_limit")
        book.open("study").raise_limit(read_loss(higher["budget"]), why="agreed")
        assert float(book.open("study").limit.first) == 0.9


@case("reopen_account", "shell")
def a_second_table_of_a_population(world: World) -> None:
    world.capped()
    words = ["dataset", "add", "floors.csv", "--population", "clinic", "--unit", "ward", "--limit", "rho=0.9"]
    assert "leave --limit out" in world.offer("leave", *words)
    world.succeed(*words[:-2])


def broken(world: World) -> None:
    """A release that fails after its charge, which closes the data."""

    def fail(self: object, table: object) -> object:
        raise ValueError

    with world.monkeypatch.context() as patched:
        patched.setattr(DuckEngine, "stored_rows", fail)
        assert world.type(*QUERY, "--rho", "0.1")[0] == 9


@case("clear_failure", "python")
def data_that_are_closed(world: World) -> None:
    broken(world.capped())
    with world.book() as book:
        account = book.open("clinic")
        provoked("clear_failure", lambda: asked(account).plan(rho=0.1).release(why="x"), Quarantined)
        account.clear(why="looked at the log")
        asked(account).plan(rho=0.1).release(why="x")


@case("clear_failure", "shell")
def data_that_are_closed_by_a_command_that_can_be_pasted(world: World) -> None:
    broken(world.capped())
    words = (*QUERY, "--rho", "0.1", "--key", "again")
    world.succeed(*typed(world.offer("dataset clear", *words)))
    world.succeed(*words)


@case("retire_dataset", "python")
def a_registration_that_a_charge_has_used(world: World) -> None:
    world.capped()
    with world.book() as book:
        account = book.open("clinic")
        asked(account).plan(rho=0.1).release(why="x")
        problem = provoked("retire_dataset", lambda: account.remove("visits"), Refused)
        account.retire(problem["dataset"], why="wrong file")
        assert book.datasets()["visits"].retired == "wrong file"


@case("retire_dataset", "shell")
def a_registration_that_a_charge_has_used_is_closed_by_a_command(world: World) -> None:
    world.capped().succeed(*QUERY, "--rho", "0.1")
    world.succeed(*typed(world.offer("dataset retire", "dataset", "remove", "visits")))


def of_a_team(world: World) -> World:
    """A ledger with roles, in which nothing is changed without an approval."""
    world.capped()
    world.succeed("ledger", "govern", "--why", "team")
    world.succeed("ledger", "begin-roles", "--why", "team")
    for name in ("bob", "cat"):
        world.succeed("ledger", "grant", name, "approver", "--population", "clinic", "--why", "team")
    return world


RAISE = ("account", "raise", "clinic", "--budget", "zcdp(rho=2, delta=1e-6)", "--why", "more")


@case("make_request", "python")
def a_change_that_needs_an_approval(world: World) -> None:
    of_a_team(world)
    with world.book() as book:
        change = lambda book: book.open("clinic").raise_limit(ts.zcdp(rho=2, delta=1e-6), why="more")  # noqa: E731
        provoked("make_request", lambda: change(book), NotAuthorised)
        number = book.team.request(change, why="more")
        assert [each.state for each in book.team.requests() if each.number == number] == ["OPEN"]


@case("make_request", "shell")
def a_change_that_needs_an_approval_is_requested_by_an_option(world: World) -> None:
    assert "--request" in of_a_team(world).offer("--request", *RAISE)
    assert "bob, cat" in world.succeed(*RAISE, "--request")


@case("give_role", "python")
def a_user_without_a_role(world: World) -> None:
    of_a_team(world)
    with acting_as("dan"), world.book() as book:
        open_block = lambda: book.open("dans", budget=ts.zcdp(rho=0.1), parent="clinic")  # noqa: E731
        remedy = provoked("give_role", open_block, NotAuthorised)
    with world.book() as book:
        book.team.grant(remedy["name"], "analyst", "clinic", why="x")
        assert ("dan", (("analyst", "clinic"),)) in [(each.name, each.roles) for each in book.team.members()]


@case("give_role", "shell")
def a_user_without_a_role_gets_one_by_a_command(world: World) -> None:
    of_a_team(world)
    with acting_as("dan"):
        line = world.offer("ledger grant dan analyst", *RAISE)
    world.succeed(*["clinic" if word == "NAME" else word for word in typed(line)])
    assert "dan  analyst on clinic" in world.succeed("ledger", "members")


@case("show_members", "python")
def an_action_of_another_role(world: World) -> None:
    of_a_team(world)
    with acting_as("bob"), world.book() as book:
        provoked("show_members", lambda: book.team.grant("eve", "analyst", "clinic", why="x"), NotAuthorised)
        assert "bob" in [each.name for each in book.team.members()]


@case("show_members", "shell")
def an_action_of_another_role_by_a_command(world: World) -> None:
    of_a_team(world)
    with acting_as("bob"):
        words = ("ledger", "grant", "eve", "analyst", "--population", "clinic", "--why", "x")
        assert "bob  approver on clinic" in world.succeed(*typed(world.offer("ledger members", *words)))


def write_and_fail(world: World, *words: str) -> tuple[int, str]:
    """Type a command whose files cannot be written."""
    with world.monkeypatch.context() as full:
        full.setattr("tallystick.publish.export.write_result", _no_space)
        return world.type(*words)


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


@case("write_again", "shell")
def _(world: World) -> None:
    query = (*QUERY, "--rho", "0.05")
    code, text = write_and_fail(world.capped(), *query, "--out", "full.csv")
    assert code == 10
    left = world.book().open("clinic").remaining
    key = re.search(r"--key (\S+) and another --out", text)[1]
    world.succeed(*query, "--key", key, "--out", "other.csv")
    assert world.book().open("clinic").remaining == left


@case("write_again", "python")
def _(world: World) -> None:
    book = world.capped().book()
    table = find("visits", book).opened(book.open("clinic"))
    plan = table.group_by("ward", keys=WARDS).agg(n=ts.count()).plan(rho=0.05)
    request = Request(Question.of("visits", plan, is_new=True), why="report")
    made = answer(request, book)
    remedy = provoked("write_again", lambda: Files(Path("missing/full.csv")).write(made), NotDelivered)
    left = book.open("clinic").remaining
    again = answer(replace(request, key=remedy["key"]), book)
    Files(Path("other.csv")).write(again)
    assert again.outcome.table == made.outcome.table
    assert book.open("clinic").remaining == left


@case("reuse_key", "python")
@case("reuse_key", "sql")
def an_answer_that_is_paid_for(world: World) -> None:
    with world.capped().book() as book:
        account = book.open("clinic")
        asked(account).plan(rho=0.1).release(why="x", key="first")
        with pytest.warns(ChargedAgain) as caught:
            asked(account).plan(rho=0.1).release(why="x")
        remedy = caught[0].message.remedies[0]
        assert not asked(account).plan(rho=0.1).release(why="x", key=remedy["key"]).fresh
    assert in_sql(remedy) == "OPTIONS(key='first') reuses that answer without a new charge"


@case("reuse_key", "shell")
def an_answer_that_is_paid_for_on_the_command_line(world: World) -> None:
    words = ("publish", "run", "plan.json", "--why", "x")
    world.capped().succeed("publish", "plan", *QUERY[1:8], "--rho", "0.1", "--out", "plan.json")
    world.succeed(*words, "--key", "first key")
    line = in_shell(Remedy("reuse_key", key="first key"), Command())
    assert "charged" in world.succeed(*words, *shlex.split(line)[:2])


@case("verify_ledger", "python")
@case("verify_ledger", "shell")
def a_ledger_that_may_be_altered(world: World) -> None:
    from tallystick.ledger import journal

    with world.capped().book() as book:
        with book.store.read() as transaction:
            provoked("verify_ledger", lambda: journal.entry_body(transaction, 10**6), LedgerIntegrity)
        assert book.verify().intact
    line = in_shell(Remedy("verify_ledger"), Command(values={"ledger": "tallystick.db"}))
    world.succeed(*typed(line))


@case("create_ledger", "python")
def a_ledger_that_is_not_there(world: World) -> None:
    remedy = provoked("create_ledger", lambda: ts.Ledger("new one.db", create=False), InvalidInput)
    ts.Ledger(remedy["place"]).close()


@case("create_ledger", "shell")
def a_ledger_that_is_not_there_by_a_command_that_can_be_pasted(world: World) -> None:
    words = ("ledger", "show", "--ledger", "new one.db")
    world.succeed(*typed(world.offer("ledger init", *words)))
    world.succeed(*words)


def a_ledger_that_is_gone() -> None:
    an_account("zcdp(rho=0.5)").close()
    with ts.Ledger("tallystick.db") as book:
        book.open("study").reserve(ts.gaussian(sigma=5), why="x")
    for path in Path().glob("tallystick.db*"):
        path.unlink()


@case("start_again", "python")
def a_ledger_that_was_deleted(world: World) -> None:
    a_ledger_that_is_gone()
    remedy = provoked("start_again", lambda: ts.Ledger("tallystick.db"), LedgerIntegrity)
    ts.Ledger(remedy["place"], first_use="the reason").close()
    ts.Ledger("tallystick.db").close()


@case("start_again", "shell")
def a_ledger_that_was_deleted_by_a_command_that_can_be_pasted(world: World) -> None:
    a_ledger_that_is_gone()
    words = ("account", "open", "study", "--budget", "zcdp(rho=0.5)")
    world.succeed(*typed(world.offer("ledger init", *words)))
    world.succeed(*words)


def on_another_host(world: World) -> str:
    """Copy a ledger to a host that has not seen it; its head."""
    an_account("zcdp(rho=0.5)").close()
    with ts.Ledger("tallystick.db") as book:
        head = book.head().hash
    shutil.copy("tallystick.db", "copy of it.db")
    Path("tallystick.db").unlink()
    world.monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(Path("other host").absolute()))
    return head


@case("accept_head", "python")
@case("accept_first_use", "python")
def a_ledger_of_another_host(world: World) -> None:
    head = on_another_host(world)
    with ts.Ledger("copy of it.db") as book, pytest.raises(Refused) as caught:
        book.open("study").reserve(ts.gaussian(sigma=5), why="x")
    remedy_of(caught.value, "accept_first_use")
    remedy_of(caught.value, "accept_head")
    with ts.Ledger("copy of it.db", expect_head=head) as book:
        book.open("study").reserve(ts.gaussian(sigma=5), why="x")


@pytest.mark.parametrize("way", ["--expect-head", "--first-use"])
def test_a_ledger_of_another_host_is_accepted_by_a_command_that_can_be_pasted(world: World, way: str) -> None:
    head = on_another_host(world)
    words = ("charge", "add", "gaussian(sigma=5)", "--why", "x", "--ledger", "copy of it.db")
    line = world.offer(way, *words)
    pasted = typed(line)
    world.succeed(*[head if word == "HASH" else word for word in pasted])
    world.succeed(*words)


def after_a_loss() -> None:
    """Restore an older copy of a ledger; the newest one is lost."""
    an_account("zcdp(rho=0.5)").close()
    shutil.copy("tallystick.db", "backup.db")
    with ts.Ledger("tallystick.db") as book:
        Path("export.jsonl").write_text("".join(f"{line}\n" for line in book.export()))
        book.open("study").reserve(ts.gaussian(sigma=5), why="x")
    for path in Path().glob("tallystick.db*"):
        path.unlink()


@case("accept_older", "python")
def an_older_copy(world: World) -> None:
    after_a_loss()
    shutil.copy("backup.db", "tallystick.db")
    provoked("accept_older", lambda: ts.Ledger("tallystick.db"), LedgerIntegrity)
    ts.Ledger("tallystick.db", older="the reason").close()
    ts.Ledger("tallystick.db").close()


@case("accept_older", "shell")
def an_older_copy_by_a_command_that_can_be_pasted(world: World) -> None:
    after_a_loss()
    shutil.copy("backup.db", "tallystick.db")
    world.succeed(*typed(world.offer("--older", "ledger", "show")))
    world.succeed("ledger", "show")


@case("import_older", "python")
def an_older_export(world: World) -> None:
    from tallystick.ledger import import_ledger

    after_a_loss()
    lines = Path("export.jsonl").read_text().splitlines()
    provoked("import_older", lambda: import_ledger(lines, "tallystick.db"), LedgerIntegrity)
    import_ledger(lines, "tallystick.db", older="the reason").close()
    ts.Ledger("tallystick.db").close()


@case("import_older", "shell")
def an_older_export_by_a_command_that_can_be_pasted(world: World) -> None:
    after_a_loss()
    world.succeed(*typed(world.offer("--older", "ledger", "import", "export.jsonl", "--ledger", "new one.db")))
    world.succeed("ledger", "show", "--ledger", "new one.db")


ELSEWHERE = {("accept_head", "shell"), ("accept_first_use", "shell")}
"""Tried by the test above."""
NOT_OFFERED = {("pass_frame", "shell"), ("move_source", "python"), ("add_dataset", "python")}
"""A command line cannot pass a data frame; a program opens its own files."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    return World(capsys, monkeypatch)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "function", [each for cases in CASES.values() for each in cases], ids=lambda function: function.__name__
)
def test_a_remedy_works(world: World, function: Case) -> None:
    function(world)


def untold(interfaces: Mapping[str, Mapping[str, Any]], kind: str) -> list[str]:
    """The interfaces without words for a kind."""
    return [name for name, words in interfaces.items() if kind not in words]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_words_in_each_interface(kind: str) -> None:
    assert untold(INTERFACES, kind) == []
    assert untold({**INTERFACES, "page": {}}, kind) == ["page"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_fact_of_a_kind_has_a_type(kind: str) -> None:
    of_any_type = {"value"}  # its words take any value of the argument
    assert set(KINDS[kind]) - remedies.TEXTS - remedies.NUMBERS - remedies.LISTS - remedies.OBJECTS <= of_any_type


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_case_in_each_interface(kind: str, interface: str) -> None:
    is_borrowed = interface != "python" and INTERFACES[interface][kind] is IN_PYTHON[kind]
    if not is_borrowed:
        assert (kind, interface) in {*CASES, *ELSEWHERE, *NOT_OFFERED}


def test_an_interface_registers_its_words_without_another_interface() -> None:
    code = (
        "import sys; from tallystick.remedies import KINDS; from tallystick.wording import interfaces, register\n"
        "register('page', {kind: lambda remedy, url: url for kind in KINDS})\n"
        "assert set(interfaces()) == {'python', 'sql', 'page'}, set(interfaces())\n"
        "assert not any(name.startswith('tallystick.cli') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "shell" in INTERFACES


def test_what_is_not_offered_has_no_words() -> None:
    assert in_shell(Remedy("pass_frame"), Command()) is None
    assert in_python(Remedy("move_source", dataset="visits")) is None
    assert in_python(Remedy("add_dataset")) is None


@pytest.mark.parametrize(
    "problem",
    [
        InvalidInput("sigma", -1, "a number > 0", code="outside_domain", remedies=[Remedy("round_up", value=3)]),
        InvalidInput("loss", ts.gdp(mu=1), "a number"),
        AdjacencyMismatch("add_remove", "replace"),
        BudgetExceeded("clinic", asked=0.5, left=0.1, account="clinic", unit="patient"),
        Refused("no", remedies=[Remedy("list_keys")]),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_an_error_comes_out_of_a_socket_as_it_went_in(problem: TallystickError) -> None:
    data = json.loads(json.dumps(problem.to_data()))
    again = TallystickError.from_data(data)
    assert type(again) is type(problem)
    assert str(again) == str(problem)
    assert again.to_data() == data
