"""What the shell says: in its own words, with the nearest name, and a dry run that says what the run would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tallystick.cli.app import run

PYTHON = re.compile(r"\bts\.|\.\w+\(|\w=\[|=\{|\blimit[01]\b|\{'|\d{13}")
ADD = ["dataset", "add", "flights.csv", "--population", "planes", "--unit", "tail", "--bounds", "delay=-30:120"]
CAPS = ["--max-groups", "2", "--max-rows-per-group", "3"]
COUNT = ["query", "flights", "--by", "origin", "--keys", "origins.csv", "--measures", "count", "--rho", "0.1"]


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("flights.csv").write_text("tail,origin,delay,miles,day\nN1,EWR,3,100,2013-01-01\nN2,JFK,9,90,2013-01-02\n")
    Path("origins.csv").write_text("origin\nEWR\nJFK\n")

    def call(*words, code=0):
        found = run([*words])
        said = capsys.readouterr()
        assert found == code, said.err
        return said.out + said.err

    call(*ADD, *CAPS, "--limit", "rho=0.5")
    return call


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (["--by", "orign", "--keys", "origins.csv", "--measures", "count", "--rho", "1"], "origin (did you mean", 2),
        (["--by", "origin", "--measures", "count", "--rho", "1"], "--keys FILE", 4),
        (["--measures", "cuont", "--rho", "1"], "Did you mean count?", 2),
        (["--measures", "mean(miles)", "--rho", "1"], "miles is text. A mean needs a number.", 2),
        (["--measures", "mean(miles,0,9)", "--rho", "1"], "--type miles=number", 2),
        (["--measures", "count", "--rho", "1", "--epsilon", "1"], "--rho and --epsilon are two costs", 2),
        (["--measures", "count"], "--rho 0.01", 2),
        (["--by", "origin", "--private-keys", "1e-8", "--measures", "count", "--rho", "0.1"], "account raise", 0),
    ],
)
def test_a_question_that_cannot_be_asked_is_answered_in_the_words_of_the_shell(shell, words, says, code):
    said = shell("publish", "plan", "flights", *words, code=code)
    assert says in said
    assert not PYTHON.search(said), said


def test_names_are_mended_and_limits_are_told_in_words(shell):
    for words, says in (
        (["publish", "plan", "flight", "--measures", "count", "--rho", "1"], "flights (did you mean this?)"),
        (["account", "show", "plane"], "Did you mean planes?"),
    ):
        said = shell(*words, code=2)
        assert says in said
        assert not PYTHON.search(said)
    said = shell("account", "open", "planes", "--budget", "zcdp(rho=2)", "--unit", "tail", code=4)
    assert "another limit: zcdp(rho=0.5), not zcdp(rho=2.0)" in said
    assert not PYTHON.search(said)


def test_a_dry_run_says_what_the_run_would(shell):
    shell(*COUNT, "--why", "report", "--key", "a")
    dry = shell(*COUNT, "--why", "x", "--key", "a", "--dry-run")
    assert "Already published as a (ledger entry 4). Nothing would be charged." in dry
    other = [*COUNT[:-1], "0.2", "--why", "x", "--key", "a"]
    assert shell(*other, "--dry-run", code=8) == shell(*other, code=8)
    Path("flights.csv").rename("moved.csv")
    gone = [*COUNT, "--why", "x"]
    assert shell(*gone, "--dry-run", code=2) == shell(*gone, code=2)
    assert "Would charge rho 0.1" in shell(*gone, "--source", "moved.csv", "--dry-run")
    assert "Charged  rho 0.1 " in shell(*gone, "--source", "moved.csv")


def test_a_raise_is_rehearsed(shell):
    words = ["account", "raise", "planes", "--budget", "zcdp(rho=0.1)", "--why", "less"]
    assert shell(*words, "--dry-run", code=4) == shell(*words, code=4)


def test_another_reason_under_the_same_key_is_said(shell):
    shell(*COUNT, "--why", "report", "--key", "a")
    assert "note:" not in shell(*COUNT, "--why", "report", "--key", "a")
    again = shell(*COUNT, "--why", "something else", "--key", "a")
    assert "note: ledger entry 4 was made with the reason 'report'; the record keeps that one" in again


def test_a_block_pays_for_a_question_about_its_rows_and_nobody_else_does(shell):
    block = ["account", "open", "east", "--budget", "zcdp(rho=0.2)", "--unit", "tail", "--parent", "planes"]
    shell(*block, "--partition", "coast", "--by", "public attribute", "--one-block-per-unit", "--where", "origin=EWR")
    assert "Left: rho 0.1 of 0.2." in shell(*COUNT, "--why", "x", "--account", "east")
    shell("account", "open", "others", "--budget", "zcdp(rho=1)", "--unit", "tail")
    assert "would not be paid for" in shell(*COUNT, "--why", "x", "--account", "others", code=4)


def test_a_card_of_a_question_that_a_block_paid_for_is_verified(shell):
    block = ["account", "open", "east", "--budget", "zcdp(rho=0.2)", "--unit", "tail", "--parent", "planes"]
    shell(*block, "--partition", "coast", "--by", "public attribute", "--one-block-per-unit", "--where", "origin=EWR")
    shell(*COUNT, "--why", "x", "--account", "east", "--out", "east.csv", "--card", "east.html")
    assert "The card agrees with the ledger" in shell("card", "verify", "east.html", "--table", "east.csv")


def test_charges_are_listed_in_order_and_shown_in_words(shell):
    shell("account", "open", "later", "--budget", "zcdp(rho=1)", "--unit", "tail")
    shell(*COUNT, "--why", "first")
    shell("charge", "add", "gaussian(sigma=9)", "--account", "later", "--why", "second")
    shell(*COUNT, "--why", "third")
    listed = shell("charge", "list")
    assert [listed.index(word) for word in ("first", "second", "third")] == sorted(
        listed.index(word) for word in ("first", "second", "third")
    )
    number = listed.split()[0]
    said = shell("charge", "show", number)
    assert "paid         rho 0.1 by planes" in said
    assert not PYTHON.search(said.split("receipt")[0])


def test_a_plan_is_short_and_its_thousands_are_set_apart(shell):
    said = shell("publish", "plan", "flights", "--measures", "sum(delay)", "--rho", "0.00001", "--caps-share", "0")
    assert re.search(r"Error    sum_delay  ±\d{2,3},\d{3} \(95 times", said)
    assert "rule " not in said
    assert "e+0" not in said


GROUPS = [
    *("account", "audit", "card", "certificate", "charge", "dataset", "fit", "ledger", "publish", "token"),
    *("train",),
]


@pytest.mark.parametrize("group", GROUPS)
def test_no_summary_in_a_list_of_commands_is_cut(run, group: str, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(group, "--help").out.split("Commands:")[1]
    assert not [line for line in listed.splitlines() if line.endswith("...")]
