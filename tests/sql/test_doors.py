"""``ts.sql``, ``Private.sql`` and ``tallystick sql``: one question is paid for once, and refusals cost nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest

import tallystick as ts
from tallystick.cli.app import run
from tallystick.errors import BudgetExceeded, IdempotencyConflict, InvalidInput, Refused, TallystickError, Unavailable
from tallystick.tables import run as running

GROUPED = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def shell(*arguments: str) -> int:
    return run(list(arguments))


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = [f"{unit},{'ab'[unit % 2]},{unit % 7},{2025 + unit % 2}" for unit in range(400)]
    Path("visits.csv").write_text("patient,ward,age,year\n" + "\n".join(lines) + "\n")
    Path("wards.csv").write_text("ward\na\nb\n")
    Path("floors.csv").write_text("ward,floor\na,1\nb,2\n")
    added = shell(
        "dataset", "add", "visits.csv", "--population", "clinic", "--unit", "patient", "--type", "patient=integer",
        "--type", "year=integer", "--bounds", "age=0:10", "--max-groups", "1", "--max-rows-per-group", "1", "--limit",
        "rho=1,delta=1e-6", "--keys", "ward=wards.csv", "--per-query", "rho=0.02", "--most-per-query", "rho=0.5",
        "--key-delta", "1e-8", "--version", "november", "--ledger", "budget.db",
    )  # fmt: skip
    assert added == 0
    return "budget.db"


def used(ledger: str) -> float:
    with ts.Ledger(ledger, create=False) as book:
        return float(book.open("clinic").used.a0)


def test_the_same_question_is_charged_once_whatever_is_done_with_its_answer(ledger: str) -> None:
    first = ts.sql(GROUPED, ledger=ledger, why="one")
    paid = used(ledger)
    again = ts.sql(f"{GROUPED} HAVING COUNT(*) > -1000 ORDER BY n DESC LIMIT 1", ledger=ledger, why="another")
    assert first.fresh
    assert not again.fresh
    assert used(ledger) == paid
    assert again.rows == sorted(first.rows, key=lambda row: -row["n"])[:1]
    assert "Nothing was charged." in str(again)
    other = ts.sql(GROUPED, ledger=ledger, why="two", key="fresh")
    assert other.fresh
    assert used(ledger) > paid


def test_a_new_version_of_the_data_is_another_question(ledger: str) -> None:
    ts.sql(GROUPED, ledger=ledger, why="one")
    assert shell(
        "dataset", "add", "visits.csv", "--population", "clinic", "--unit", "patient", "--type", "patient=integer",
        "--type", "year=integer", "--version", "december", "--update", "--ledger", ledger,
    ) == 0  # fmt: skip
    assert ts.sql(GROUPED, ledger=ledger, why="two").fresh


def test_explain_opens_no_data_and_costs_nothing(ledger: str) -> None:
    Path("visits.csv").unlink()
    said = str(ts.sql(f"EXPLAIN {GROUPED}", ledger=ledger))
    assert "rho 0.02" in said
    assert "No data was read and nothing was charged." in said
    assert used(ledger) == 0


@pytest.mark.parametrize(
    ("sql", "options", "problem"),
    [
        ("SELECT * FROM visits", {}, Refused),
        ("SELECT COUNT(*) FROM nowhere", {}, InvalidInput),
        (GROUPED, {"epsilon": 1e20}, TallystickError),
        (GROUPED, {"rho": 0.6}, Refused),
        (GROUPED, {"epsilon": 1.0}, InvalidInput),  # pure or with a delta: nobody said
        (GROUPED, {"epsilon": 1.2, "pure": True}, Refused),  # costs rho 0.6
        (GROUPED, {"epsilon": 6.0, "delta": 1e-6}, Refused),
        (GROUPED, {"why": None}, InvalidInput),
        ("SELECT COUNT(*) + UPPER('x') AS n FROM visits", {}, Refused),
    ],
)
def test_what_is_refused_costs_nothing(ledger: str, sql: str, options: dict[str, Any], problem: type) -> None:
    with pytest.raises(problem):
        ts.sql(sql, ledger=ledger, **{"why": "x", **options})
    assert used(ledger) == 0


@pytest.mark.parametrize("price", [{"epsilon": 0.5, "delta": 1e-6}, {"epsilon": 0.5, "pure": True}])
def test_an_epsilon_that_costs_less_than_the_most_is_answered(ledger: str, price: dict[str, Any]) -> None:
    assert ts.sql(GROUPED, ledger=ledger, why="x", **price).fresh
    assert 0 < used(ledger) < 5e11


FOUND = "SELECT year, COUNT(*) AS n FROM visits GROUP BY year"


@pytest.mark.parametrize(
    ("sql", "delta", "charged", "said"),
    [
        (FOUND, 1e-6, 1e-8, "delta 1e-8 is charged, and not 1e-6: the registered key_delta finds groups"),
        (FOUND, 1e-9, 5e-10, "delta 5e-10 is charged, and not 1e-9: half of the delta finds groups"),
        (GROUPED, 1e-6, 0.0, "delta 1e-6 is not charged: the groups are public"),
    ],
)
def test_a_delta_that_is_not_charged_as_named_is_said(
    ledger: str, sql: str, delta: float, charged: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in str(ts.sql(f"EXPLAIN {sql}", ledger=ledger, rho=0.01, delta=delta))
    words = ("sql", sql, "--rho", "0.01", "--delta", str(delta), "--why", "x", "--ledger", ledger)
    for more in (("--dry-run",), ()):
        capsys.readouterr()
        assert shell(*words, *more) == 0
        assert said in "".join(capsys.readouterr())
    with ts.Ledger(ledger, create=False) as book:
        assert float(book.open("clinic").used.delta) == pytest.approx(charged)


def test_nothing_is_said_of_a_delta_that_a_price_in_epsilon_needs(ledger: str) -> None:
    assert "is charged" not in str(ts.sql(f"EXPLAIN {FOUND}", ledger=ledger, epsilon=0.1, delta=1e-6))
    assert "delta 1e-8 " in str(ts.sql(f"EXPLAIN {FOUND}", ledger=ledger, rho=0.01))


def test_what_the_account_cannot_pay_is_denied(ledger: str) -> None:
    for number in range(2):
        ts.sql(GROUPED, ledger=ledger, why="x", rho=0.5, key=f"k{number}")
    with pytest.raises(BudgetExceeded):
        ts.sql(GROUPED, ledger=ledger, why="x", rho=0.5, key="k2")


def test_a_burned_automatic_key_says_so_and_asks_for_a_new_one(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError("of patient 7")

    with monkeypatch.context() as patch:
        patch.setattr(running, "_integers", broken)
        with pytest.raises(Unavailable) as failed:
            ts.sql(GROUPED, ledger=ledger, why="x")
    assert "patient 7" not in str(failed.value)
    assert shell("dataset", "clear", "visits", "--why", "looked at the log", "--ledger", ledger) == 0
    with pytest.raises(IdempotencyConflict, match="OPTIONS\\(key="):
        ts.sql(GROUPED, ledger=ledger, why="x")
    assert ts.sql(GROUPED, ledger=ledger, why="x", key="again").fresh


def test_the_same_version_of_another_file_is_another_question(tmp_path: Path) -> None:
    with ts.Ledger(tmp_path / "own.db") as own:
        account = own.open("people", budget=ts.zcdp(rho=1), unit="who")
        charges = []
        for name in ("one", "two", "one"):
            file = tmp_path / f"{name}.csv"
            file.write_text("who,ward\n1,a\n2,b\n")
            private = ts.Private(str(file), account=account)
            table = private.table(unit="who", types={"who": "integer"}).per_unit(max_groups=1, max_rows_per_group=1)
            asked = f"SELECT COUNT(*) AS n FROM {table.name}"
            charges.append(private.sql(asked, table, rho=0.1, version="1", why="x").release.receipt.charge)
    assert charges[0] == charges[2] != charges[1]


def test_the_shell_answers_refuses_and_explains(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert shell("sql", GROUPED, "--why", "report", "--ledger", ledger, "--json") == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert found["columns"] == ["ward", "n_limited", "n_limited_lower", "n_limited_upper"]
    assert len(found["rows"]) == 2
    joined = "SELECT f.floor, AVG(v.age) AS age FROM visits v JOIN floors f ON f.ward = v.ward GROUP BY f.floor"
    options = ("--public", "floors=floors.csv", "--rho", "0.05", "--why", "report", "--ledger", ledger)
    assert shell("sql", joined, *options, "--out", "table.csv") == 0
    assert Path("table.csv").read_text().startswith("floor,age_limited,age_limited_lower,age_limited_upper\n1,")
    assert shell("sql", f"EXPLAIN {GROUPED}", "--ledger", ledger) == 0
    capsys.readouterr()
    assert shell("sql", "SELECT patient FROM visits", "--why", "x", "--ledger", ledger) == 4
    assert "patient (line 1, column 8)" in capsys.readouterr().err
    assert shell("sql", "SELECT COUNT(*) FROM visits WHERE agge > 1", "--why", "x", "--ledger", ledger) == 2
    assert shell("sql", "SELECT FROM WHERE", "--why", "x", "--ledger", ledger) == 2


def test_two_registered_tables_of_one_population_meet_on_their_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("clinic.duckdb") as source:
        source.execute(
            "CREATE TABLE patients AS SELECT i AS patient, 'ns'[1 + i % 2] AS region FROM range(400) AS t(i)"
        )
        source.execute("CREATE TABLE visits AS SELECT i // 2 AS patient, i % 50 AS cost FROM range(600) AS t(i)")
        source.execute("CREATE TABLE staff AS SELECT i AS patient FROM range(9) AS t(i)")
    caps = ("--max-groups", "1", "--max-rows-per-group", "2", "--unit", "patient", "--ledger", "budget.db")
    for table, population in (("patients", "clinic"), ("visits", "clinic"), ("staff", "house")):
        options = ("--population", population, "--limit", "rho=5,delta=1e-6", "--name", table, "--table", table)
        bounds = ("--bounds", "cost=0:50") if table == "visits" else ()
        assert shell("dataset", "add", "clinic.duckdb", *options, *bounds, *caps, "--version", "1") == 0
    regions = "(VALUES ('n'), ('s')) AS r(region) LEFT JOIN"
    joined = "SELECT AVG(v.cost) AS cost, COUNT(DISTINCT p.patient) AS n FROM patients p JOIN visits v USING (patient)"
    answer = ts.sql(joined, ledger="budget.db", rho=2, why="x")
    assert abs(answer.rows[0]["n"] - 300) < 30
    assert not ts.sql(joined, ledger="budget.db", rho=2, why="x").fresh
    seen = f"SELECT r.region, COUNT(p.patient) AS n FROM {regions} patients p ON p.region = r.region GROUP BY r.region"
    assert [row["region"] for row in ts.sql(seen, ledger="budget.db", rho=0.5, why="x").rows] == ["n", "s"]
    lost = "SELECT COUNT(*) AS n FROM patients WHERE patient NOT IN (SELECT patient FROM visits)"
    assert abs(ts.sql(lost, ledger="budget.db", rho=2, why="x").rows[0]["n"] - 100) < 30
    with pytest.raises(Refused, match="population"):
        ts.sql(
            "SELECT COUNT(*) FROM patients p JOIN staff s ON s.patient = p.patient", ledger="budget.db", rho=1, why="x"
        )


def test_a_source_in_hand_is_asked_in_sql(tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "b.db").open("clinic", budget=ts.zcdp(rho=1, delta=1e-6))
    rows = pyarrow.table({"patient": list(range(300)), "ward": ["a", "b", "c"] * 100, "age": [40] * 300})
    source = ts.Private({"visits": rows}, account=account)
    visits = source.table("visits", unit="patient").per_unit(max_groups=1, max_rows_per_group=1).bounds(age=(0, 100))
    options: dict[str, Any] = {"keys": {"ward": ["a", "b"]}, "rho": 0.4, "why": "x"}
    answer = source.sql("SELECT ward, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY ward", visits, **options)
    assert [row["ward"] for row in answer.rows] == ["a", "b"]
    assert all(abs(row["n"] - 100) < 30 for row in answer.rows)
    with pytest.raises(Refused, match="reveal someone"):
        source.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", visits, rho=0.1, why="x")


def test_python_and_sql_say_the_same_plan() -> None:
    rows = pyarrow.table({"patient": [1], "ward": ["a"], "age": [40], "cost": [1.0]})
    source = ts.Private({"visits": rows})
    visits = source.table("visits", unit="patient").per_unit(max_groups=2, max_rows_per_group=3)
    visits = visits.bounds(age=(0, 100), cost=(0, 500))
    column = ts.col("age")
    pairs = {
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean FROM visits WHERE age >= 18 AND ward <> 'x' GROUP BY ward": (
            visits.filter(column >= 18).filter(ts.col("ward") != "x").group_by("ward", keys=["a", "b"])
            .agg(n=ts.count(), mean=ts.mean("cost"))
        ),
        "SELECT COUNT(DISTINCT patient) AS people, SUM(cost CLAMPED BETWEEN 0 AND 9) AS s FROM visits": (
            visits.agg(people=ts.count_units(), s=ts.sum("cost", 0, 9))
        ),
        "SELECT old, MEDIAN(cost) AS m FROM (SELECT *, age > 65 AS old FROM visits) AS t GROUP BY old": (
            visits.derive(old=column > 65).group_by("old", keys=[False, True]).agg(m=ts.median("cost"))
        ),
    }  # fmt: skip
    for sql, query in pairs.items():
        asked = source.sql(f"EXPLAIN {sql}", visits, keys={"ward": ["a", "b"]}, rho=0.1)
        assert asked.plan.hash == query.plan(rho=0.1).hash, sql


@pytest.mark.parametrize(
    "around",
    [
        "SELECT ward, n FROM ({}) t WHERE n > -10000 ORDER BY ward",
        "WITH t AS ({}) SELECT * FROM t ORDER BY 1",
        "SELECT t.w AS ward, t.c AS n FROM ({}) AS t(w, c) ORDER BY w",
        "SELECT ward, n FROM (SELECT m AS n, ward FROM (SELECT n AS m, ward FROM ({}) a) b LIMIT 9) c ORDER BY ward",
    ],
)
def test_a_number_that_only_passes_through_keeps_its_interval(ledger: str, around: str) -> None:
    plain = ts.sql(f"{GROUPED} ORDER BY ward", ledger=ledger, why="one")
    passed = ts.sql(around.format(GROUPED), ledger=ledger, why="two")
    assert not passed.fresh
    assert passed.data == plain.data
    assert "n_limited  number of rows" in passed.details()
    assert "Intervals are for" in str(passed)


@pytest.mark.parametrize(
    ("sql", "columns", "computed"),
    [
        (
            "SELECT ward, n, 2 * n AS twice, SUM(n) OVER () AS s FROM ({}) t",
            "ward n n_lower n_upper twice twice_lower twice_upper s",
            "s",
        ),
        ("SELECT SUM(n) AS n FROM ({}) t", "n", "n"),
        ("SELECT DISTINCT n FROM ({}) t", "n", "n"),
        ("SELECT n * n * n % 7 AS n, n AS other FROM ({}) t", "n other", "n, other"),
        ("SELECT n, ward AS n_lower FROM ({}) t", "n n_lower", "n"),
    ],
)
def test_a_number_without_an_interval_is_said_to_have_none(ledger: str, sql: str, columns: str, computed: str) -> None:
    answer = ts.sql(sql.format(GROUPED), ledger=ledger, why="one")
    assert answer.columns == tuple(columns.split())
    said = "computed from released numbers in a way that has no interval, so it is not shown"
    assert f"{computed}: {said}" in answer.notes
    assert all(row[name] is None for row in answer.rows for name in computed.split(", "))
    assert ("Intervals are for" in str(answer)) == ("n_upper" in columns)
    assert ("every _lower" in answer.about_csv()) == ("n_upper" in columns)


def test_what_stands_beside_an_answer_has_the_names_of_the_answer(ledger: str) -> None:
    asked = "SELECT ward AS w, COUNT(*) AS people, AVG(years) AS old, STDDEV(years) AS spread FROM ({}) t GROUP BY ward"
    text = asked.format("SELECT patient, ward, age AS years FROM visits")
    answer = ts.sql(text, ledger=ledger, why="one")
    assert {"mean_age", "count"} <= set(answer.release.columns)  # the record's own form has other names
    notes = "\n".join([*answer.notes, *answer.details()])
    for said in (
        "people_limited  number of rows",
        "old_limited     mean of age",
        "spread_limited  standard deviation of age",
        "age above",
    ):
        assert said in notes
    assert "mean_age" not in notes
    Path("answers").mkdir()
    assert shell("sql", text, "--why", "one", "--ledger", ledger, "--out", "answers/o.csv") == 0
    about = [line.split(",")[0] for line in Path("answers/o.about.csv").read_text().splitlines()]
    assert about[:5] == ["what", "every _lower and _upper", "people_limited", "old_limited", "spread_limited"]
    assert {"people_limited", "old_limited", "spread_limited"} <= set(
        Path("answers/o.csv").read_text().splitlines()[0].split(",")
    )


def test_what_was_left_out_of_a_join_has_the_names_of_the_answer(tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "b.db").open("clinic", budget=ts.zcdp(rho=1, delta=1e-6))
    people = {"patient": list(range(50)), "old": [1.0] * 50}
    private = ts.Private(
        {"visits": pyarrow.table({"patient": list(range(50)), "cost": [2.0] * 50}), "people": pyarrow.table(people)},
        account=account,
    )
    visits, persons = (
        private.table(name, unit="patient").per_unit(max_groups=1, max_rows_per_group=1)
        for name in ("visits", "people")
    )
    text = "SELECT AVG(p.old CLAMPED BETWEEN 0 AND 9) AS a FROM visits v JOIN people p ON v.patient = p.patient"
    answer = private.sql(text, visits, persons, rho=0.1, why="x", version="1")
    assert "t1.old" in answer.release.left_out
    assert "t1.old" not in "\n".join(answer.notes)
    assert [(one.value, one.lower, one.upper, one.share) for one in answer.removed()] == [
        (one.value, one.lower, one.upper, one.share) for one in answer.release.removed()
    ]


def test_explain_says_where_the_record_has_the_answer(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Not asked before." in str(ts.sql(f"EXPLAIN {GROUPED}", ledger=ledger))
    answer = ts.sql(GROUPED, ledger=ledger, why="one")
    paid, receipt = used(ledger), answer.release.receipt
    assert receipt is not None
    Path("visits.csv").unlink()
    said = f"Asked before: ledger entry {receipt.charge} has the answer, and it costs nothing."
    assert said in str(ts.sql(f"EXPLAIN {GROUPED.replace(' AS n', ' AS m')}", ledger=ledger))
    assert said not in str(ts.sql(f"EXPLAIN {GROUPED}", ledger=ledger, rho=0.03))
    assert said not in str(ts.sql(f"EXPLAIN {GROUPED}", ledger=ledger, key="own"))
    capsys.readouterr()
    assert shell("sql", GROUPED, "--explain", "--ledger", ledger, "--json") == 0
    assert json.loads(capsys.readouterr().out)["found"]["again"]
    assert used(ledger) == paid


@pytest.mark.parametrize("dry", [False, True])
def test_a_denial_speaks_of_the_first_number_of_the_statement_and_of_the_size_of_groups(
    ledger: str, capsys: pytest.CaptureFixture[str], dry: bool
) -> None:
    for key in ("a", "b"):
        ts.sql("SELECT COUNT(*) FROM visits", ledger=ledger, why="spend", rho=0.45, key=key)
    both = "SELECT ward, {} FROM visits GROUP BY ward"
    for order, said in {
        "COUNT(*) AS people, AVG(age) AS old": "people ±",
        "AVG(age) AS old, COUNT(*) AS people": "old ±",
    }.items():
        capsys.readouterr()
        options = ("--why", "x", "--rho", "0.2", "--ledger", ledger, *(["--dry-run"] if dry else []))
        assert shell("sql", both.format(order), *options) == 3
        printed = capsys.readouterr().err
        assert re.search("larger error +--rho 0.1", printed)
        assert said in printed


@pytest.mark.parametrize(
    ("sql", "why", "code", "headline"),
    [
        (GROUPED, None, 2, "Error: "),
        (f"{GROUPED}; {GROUPED}", "x", 2, "Error: "),
        ("SELECT NOVEL(age) FROM visits", "x", 2, "Error: "),
        ("SELECT CORR(age, age) FROM visits", "x", 4, "Refused: "),
        ("SELECT * FROM visits", "x", 4, "Refused: "),
    ],
)
def test_what_cannot_be_read_is_usage_and_breaks_no_promise(
    ledger: str, capsys: pytest.CaptureFixture[str], sql: str, why: str | None, code: int, headline: str
) -> None:
    capsys.readouterr()
    assert shell("sql", sql, "--ledger", ledger, *(["--why", why] if why else [])) == code
    said = capsys.readouterr().err
    assert said.startswith(headline)
    assert "promise" not in said
    assert ("--why" in said) == (why is None)


def test_groups_of_a_count_say_where_their_list_ends(tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "b.db").open("clinic", budget=ts.zcdp(rho=1000))
    rows = pyarrow.table({"patient": [1] * 3 + [2] * 3 + [3] * 30})
    private = ts.Private({"visits": rows}, account=account)
    visits = private.table("visits", unit="patient").per_unit(max_groups=2, max_rows_per_group=4)
    inner = "(SELECT patient, COUNT(*) AS times FROM visits GROUP BY patient) t"
    text = f"SELECT {{}} AS k, COUNT(*) AS n FROM {inner} {{}} GROUP BY 1"
    answer = private.sql(text.format("times", ""), visits, rho=500, why="x")
    assert sum(answer.data["n"]) == 2  # the unit with 30 rows is in no group
    said = "times: the groups are 0 to 8, because the limits count no more rows of one person. A person with more is"
    for value, where, told in (
        ("times", "", True),
        ("times > 4", "", True),
        ("times", "WHERE times IN (3, 30)", False),
    ):
        shown = str(private.sql(f"EXPLAIN {text.format(value, where)}", visits, rho=1))
        assert (said in shown) == told
