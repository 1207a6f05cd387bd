"""A retired dataset is closed through every door of the shell and of Python, and its paid answers stay."""

from __future__ import annotations

import os

import pytest

import tallystick as ts
from crash.stores import config, place, postgres, tmp_path  # noqa: F401
from tallystick.errors import Retired
from tallystick.ledger import Ledger

PATIENTS = [(f"p{i}", "ns"[i % 2], i, i % 9, ("no", "yes")[i % 2]) for i in range(60)]
VISITS = "patient,ward,age,days,ill\n" + "".join(f"{a},{b},{c},{d},{e}\n" for a, b, c, d, e in PATIENTS)
STAYS = "patient,nights\n" + "".join(f"{who},{days}\n" for who, _, _, days, _ in PATIENTS)
LIMITS = "--population patients --unit patient --max-groups 1 --max-rows-per-group 2".split()
DOORS = {
    "sql": ["sql", "SELECT COUNT(*) AS n FROM visits", "--rho", "0.01"],
    "join": [
        "sql",
        "SELECT COUNT(*) AS n FROM stays JOIN visits ON stays.patient = visits.patient WHERE age > 3",
        "--rho",
        "0.01",
    ],
    "query": "query visits --measures count --rho 0.01".split(),
    "publish run": ["publish", "run", "count.plan.json"],
    "fit linear": "fit linear visits --target days --features age --rho 0.01".split(),
    "fit logistic": "fit logistic visits --target ill --features age --labels no,yes --epsilon 0.1 --pure".split(),
    "dataset suggest": "dataset suggest visits --range age=0:120 --rho 0.01".split(),
}


@pytest.fixture
def clinic(run, place, tmp_path, monkeypatch):  # noqa: F811
    """Two registered files, and a plan from before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TALLYSTICK_LEDGER", place)
    (tmp_path / "visits.csv").write_text(VISITS)
    (tmp_path / "stays.csv").write_text(STAYS)
    bounds = "--bounds age=0:110 --bounds days=0:9 --limit rho=9,delta=1e-6".split()
    added = run("dataset", "add", "visits.csv", *LIMITS, *bounds)
    assert added.code == 0, added.errors
    assert run("dataset", "add", "stays.csv", *LIMITS, "--bounds", "nights=0:9").code == 0
    run(*"publish plan visits --measures count --rho 0.01 --out count.plan.json".split())
    return tmp_path


@pytest.fixture
def retire(run):
    def now():
        done = run("dataset", "retire", "visits", "--why", "replaced by visits-2027")
        assert done.code == 0, done.errors
        return done

    return now


def newest_entry():
    with Ledger(os.environ["TALLYSTICK_LEDGER"]) as book:
        return book.head().seq


@pytest.mark.parametrize("door", DOORS)
def test_every_command_refuses_a_new_query_and_repeats_a_paid_one(run, clinic, retire, door):
    words = [*DOORS[door], "--why", "report"]
    paid = run(*words, "--key", "first")
    assert paid.code == 0, paid.errors
    retire()
    before = newest_entry()
    again = run(*words, "--key", "first")
    assert again.code == 0, again.errors
    for more in ([], ["--dry-run"]):
        refused = run(*words, "--key", "second", *more)
        assert refused.code == 4, refused.out + refused.errors
        assert "'visits' is retired" in refused.errors
    assert newest_entry() == before


def test_the_other_table_of_the_join_stays_open(run, clinic, retire):
    retire()
    assert run(*"query stays --measures count --rho 0.01 --why x".split()).code == 0


def test_a_price_is_shown_with_the_refusal(run, clinic, retire):
    retire()
    planned = run(*"publish plan visits --measures count --rho 0.01 --json".split()).document["found"]
    assert planned["plan"]["refused"]["code"] == "dataset_retired"


def plan_of(account, path="visits.csv"):
    table = ts.Private(path, account=account).table(unit="patient").per_unit(max_groups=1, max_rows_per_group=2)
    return table.agg(n=ts.count()).plan(rho=0.01, caps_share=0)


@pytest.mark.parametrize("alias", ["same path", "hard link", "symbolic link"])
def test_python_tables_are_refused_under_every_path(clinic, retire, alias):
    path = "visits.csv"
    if alias != "same path":
        path = "alias.csv"
        (os.link if alias == "hard link" else os.symlink)("visits.csv", path)
    with Ledger(os.environ["TALLYSTICK_LEDGER"]) as book:
        plan = plan_of(book.open("patients"), path)
        first = plan.release(why="report", key="first")
        retire()
        assert plan.release(why="report", key="first").to_data() == first.to_data()
        with pytest.raises(Retired, match="'visits'"):
            plan.release(why="report", key="second")


def test_python_joins_are_refused_whichever_table_is_retired(clinic, retire):
    with Ledger(os.environ["TALLYSTICK_LEDGER"]) as book:
        account = book.open("patients")
        visits, stays = (
            ts.Private(f"{name}.csv", account=account).table(unit="patient") for name in ("visits", "stays")
        )
        joined = [visits.join_on_unit(stays, max_rows=2), stays.join_on_unit(visits, max_rows=2)]
        plans = [
            table.per_unit(max_groups=1, max_rows_per_group=2).agg(n=ts.count()).plan(rho=0.01, caps_share=0)
            for table in joined
        ]
        for number, plan in enumerate(plans):
            plan.release(why="report", key=f"join {number}")
        retire()
        for number, plan in enumerate(plans):
            plan.release(why="report", key=f"join {number}")
            with pytest.raises(Retired):
                plan.release(why="report", key=f"another {number}")


def test_a_join_that_was_checked_before_is_refused_by_its_charge(clinic, retire, monkeypatch):
    """The dataset is retired after the check of the plan and before its charge."""
    from tallystick.tables import run as tables_run

    with Ledger(os.environ["TALLYSTICK_LEDGER"]) as book:
        account = book.open("patients")
        visits, stays = (
            ts.Private(f"{name}.csv", account=account).table(unit="patient") for name in ("visits", "stays")
        )
        table = stays.join_on_unit(visits, max_rows=2).per_unit(max_groups=1, max_rows_per_group=2)
        plan = table.agg(n=ts.count()).plan(rho=0.01, caps_share=0)
        check = tables_run.preflight

        def retire_after(*arguments):
            check(*arguments)
            retire()

        monkeypatch.setattr(tables_run, "preflight", retire_after)
        used = account.used
        with pytest.raises(Retired):
            plan.release(why="report", key="late")
        assert account.used == used


def test_a_view_that_may_read_retired_rows_is_refused(run, clinic):
    import duckdb

    with duckdb.connect("clinic.duckdb") as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM 'stays.csv'")
        connection.execute("CREATE VIEW shown AS SELECT * FROM visits")
    for table in ("visits", "shown"):
        added = run("dataset", "add", "clinic.duckdb", "--table", table, "--name", f"{table}-2", *LIMITS)
        assert added.code == 0, added.errors
    assert run(*"query shown-2 --measures count --rho 0.01 --why x --key a".split()).code == 0
    assert run(*"dataset retire visits-2 --why replaced".split()).code == 0
    refused = run(*"query shown-2 --measures count --rho 0.01 --why x --key b".split())
    assert refused.code == 4, refused.errors
    assert "'visits-2' is retired" in refused.errors


def test_list_and_show_say_it(run, clinic, retire):
    done = retire()
    assert "Retired visits" in done.out + done.errors
    assert [line.endswith("  retired") for line in run("dataset", "list").out.splitlines()] == [False, True]
    assert "retired  no new queries: replaced by visits-2027" in run("dataset", "show", "visits").out
    found = run("dataset", "show", "visits", "--json").document["found"]
    assert found["retired"] == "replaced by visits-2027"
    assert "retired" not in run("dataset", "show", "stays").out


@pytest.mark.parametrize(
    "words",
    [
        "dataset add visits.csv --population patients --unit patient",
        "dataset add visits.csv --population patients --unit patient --name again",
        "dataset add visits.csv --population patients --unit ward --name again",
        "dataset add visits.csv --population others --unit patient --name again --limit rho=1",
        "dataset update visits --max-groups 2",
    ],
)
def test_retired_data_are_not_registered_again(run, clinic, retire, words):
    retire()
    before = newest_entry()
    assert run(*words.split()).code == 4
    assert run(*words.split(), "--dry-run").code == 4
    assert newest_entry() == before  # no account was opened on the way


def test_a_wrong_registration_is_removed(run, clinic):
    (clinic / "wrong.csv").write_text(VISITS)
    add = "dataset add wrong.csv --population patients --unit ward".split()
    assert run(*add).code == 0
    assert "Would remove" in run("dataset", "remove", "wrong", "--dry-run").out
    assert run("dataset", "remove", "wrong").code == 0
    assert "wrong" not in run("dataset", "list").out
    right = "dataset add wrong.csv --population patients --unit patient --name right".split()
    before = newest_entry()
    refused = run(*right)
    assert refused.code == 4
    assert "to another place" in refused.errors
    assert newest_entry() == before
    (clinic / "wrong.csv").rename(clinic / "right.csv")
    assert run(*"dataset add right.csv --population patients --unit patient".split()).code == 0
    with Ledger(os.environ["TALLYSTICK_LEDGER"]) as book:
        assert book.verify().problems == ()


def test_a_registration_with_a_charge_stays(run, clinic):
    run(*"query visits --measures count --rho 0.01 --why x".split())
    for more in ([], ["--dry-run"]):
        refused = run("dataset", "remove", "visits", *more)
        assert refused.code == 4
        assert "tallystick dataset retire visits --why REASON" in refused.errors
