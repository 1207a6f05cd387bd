"""Data that are refreshed: a declared version makes a new default key, and an older answer says that it is one."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import DataChanged
from tallystick.ledger.chain import digest
from tallystick.publish.datasets import find
from tallystick.publish.kinds.caps import Caps
from tallystick.publish.kinds.linear import LinearFit
from tallystick.publish.kinds.logistic import LogisticFit
from tallystick.publish.kinds.question import Question
from tallystick.publish.request import Cost, Request, rehearse, run
from tallystick.publish.work import plan_key
from tallystick.tables.plan import Plan

ADD = (
    "dataset add visits.csv --population patients --unit who --max-groups 2 --max-rows-per-group 3 "
    "--bounds age=0:110 --bounds cost=0:500 --limit rho=2,delta=1e-6"
).split()
KINDS = ["question", "linear", "logistic", "caps"]


def write_rows(count: int) -> None:
    rows = (f"p{i % 400},{'ne'[i % 2]},{20 + i % 60},{i % 400}\n" for i in range(count))
    Path("visits.csv").write_text("who,ward,age,cost\n" + "".join(rows))


@pytest.fixture
def shell(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line in a folder with visits of 400 people."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    write_rows(1000)
    return run


def opened() -> ts.Ledger:
    return ts.Ledger("tallystick.db", create=False)


def counts(book: Any) -> Plan:
    table = find("visits", book).opened(book.open("patients"))
    return table.group_by("ward", keys=["n", "e"]).agg(n=ts.count()).plan(rho=0.01)


def asked(book: Any, kind: str) -> Request:
    if kind == "question":
        return Request(Question.of("visits", counts(book)), why="report")
    if kind == "linear":
        return Request(LinearFit("visits", "cost", ("age",)), Cost(rho=0.1), why="report")
    if kind == "logistic":
        what = LogisticFit("visits", "ward", ("age",), {"age": (0, 110)}, labels=("n", "e"))
        return Request(what, Cost(epsilon=0.2, delta=1e-8), why="report")
    return Request(Caps("visits", ("ward",), {"age": (0, 150)}), Cost(rho=0.01), why="report")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [["--version", "2026"], []])
@pytest.mark.filterwarnings("ignore::tallystick.errors.ChargedAgain")
def test_another_version_is_another_release(shell: Any, kind: str, first: list[str]) -> None:
    assert shell(*ADD, *first).code == 0
    with opened() as book:
        before = run(asked(book, kind), book)
        assert run(asked(book, kind), book).paid.again
    write_rows(1200)
    assert shell("dataset", "update", "visits", "--version", "2027").code == 0
    with opened() as book:
        second = run(asked(book, kind), book)
        assert not second.paid.again
        assert second.key != before.key
        assert run(asked(book, kind), book).paid.again


@pytest.mark.parametrize("first", [["--version", "2026"], []])
def test_of_the_first_version_the_key_is_what_it_always_was(shell: Any, first: list[str]) -> None:
    assert shell(*ADD, *first).code == 0
    with opened() as book:
        plan = counts(book)
        assert plan_key(plan, find("visits", book)) == f"plan-{digest(f'{plan.hash} visits')[:24]}"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_from_before_an_update_says_so(shell: Any, kind: str) -> None:
    assert shell(*ADD).code == 0
    with opened() as book, warnings.catch_warnings():
        warnings.simplefilter("error", DataChanged)
        charge = run(asked(book, kind), book).paid.charge
        run(asked(book, kind), book)
    assert shell("dataset", "update", "visits", "--about", "title=of 2027").code == 0
    with opened() as book:
        for ask in (run, rehearse):
            with pytest.warns(
                DataChanged, match=f"the answer of ledger entry {charge} from .*registration of visits was up"
            ):
                ask(asked(book, kind), book)


def test_an_answer_from_before_the_file_was_written_says_so(shell: Any) -> None:
    assert shell(*ADD).code == 0
    with opened() as book:
        run(asked(book, "question"), book)
        later = time.time() + 5
        os.utime("visits.csv", (later, later))
        with pytest.warns(DataChanged, match="the file of visits was written since"):
            run(asked(book, "question"), book)


def test_whoever_names_a_key_knows_which_answer_it_has(shell: Any) -> None:
    assert shell(*ADD).code == 0
    plan = ["publish", "plan", "visits", "--measures", "count", "--rho", "0.01", "--out", "p.json"]
    assert shell(*plan).code == 0
    for key in ([], ["--key", "june"]):
        assert shell("publish", "run", "p.json", "--why", "x", *key).code == 0
    assert shell("dataset", "update", "visits", "--about", "title=new").code == 0
    said = shell("publish", "run", "p.json", "--why", "x").errors
    assert 'For a new release: --key "NEW"' in said
    assert "registration" not in shell("publish", "run", "p.json", "--why", "x", "--key", "june").errors


def test_an_update_says_what_it_changed(shell: Any) -> None:
    assert shell(*ADD, "--version", "2026").code == 0
    options = ["--version", "2027", "--bounds", "age=0:100", "--max-groups", "1", "--about", "title=Visits"]
    for more in (["--dry-run"], []):
        said = shell("dataset", "update", "visits", *options, *more).out
        for line in ("version: 2026 -> 2027", "bounds of age: 0 to 110 -> 0 to 100", "max_groups: 2 -> 1"):
            assert f"  changed  {line}\n" in said
        assert "  changed  title: not set -> Visits\n" in said
        assert said.count("changed") == 4
    assert "changed  nothing" in shell("dataset", "update", "visits").out
