"""A person is told before the charge that an answer will be mostly noise: by the plan and public sizes alone."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import MostlyNoise
from tallystick.ledger import Ledger
from tallystick.tables.reporting.noise import is_noise, noise_lines, warned
from tallystick.tables.reporting.sizes import Size, Usual, size_in, sized
from tallystick.tables.reporting.words import is_too_noisy

ADD = "dataset add visits.csv --population patients --unit who --person patient --limit rho=1".split()
CAPS = "--max-groups 2 --max-rows-per-group 60 --bounds age=0:110 --type age=integer".split()
ASKED = "--by ward --keys wards.csv --measures rows,people,sum(age),mean(age)".split()
QUERY = ["query", "visits", *ASKED, "--why", "x"]
PLAN = ["publish", "plan", "visits", *ASKED]

TABLES = {
    "two rows": "who,ward,age\n1,a,30\n2,b,40\n",
    "many rows of a few": "who,ward,age\n" + "".join(f"{i % 7},a,{i % 90}\n" for i in range(5_000)),
    "many people": "who,ward,age\n" + "".join(f"{i},{'ab'[i % 2]},17\n" for i in range(9_000)),
    "no rows": "who,ward,age\n",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    return tmp_path


def put(folder: Path, rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "visits.csv").write_text(rows)
    (folder / "wards.csv").write_text("ward\na\nb\n")


def notes(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if line.startswith("note: the answer will be")]


@pytest.mark.parametrize("more", [[], ["--group-size", "3000"]], ids=["no public size", "a registered size"])
def test_on_completely_different_tables_every_word_before_the_charge_is_the_same(
    more: list[str], run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    for name, rows in TABLES.items():
        put(here / name, rows, monkeypatch)
        added = run(*ADD, *CAPS, *more)
        assert added.code == 0, added.errors
        planned = run(*PLAN, "--rho", "0.001")
        asked = run(*QUERY, "--rho", "0.001")
        assert planned.code == asked.code == 0, asked.errors
        said.append((planned.out, planned.errors, notes(asked.errors)))
    assert len(set(map(repr, said))) == 1
    out, _, warning = said[0]
    assert "Noise    " in out
    assert len(warning) == 1


def test_without_a_public_size_the_error_stands_beside_three_sizes(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "x", TABLES["two rows"], monkeypatch)
    run(*ADD, *CAPS)
    lines = [line[9:] for line in run(*PLAN, "--rho", "0.01").out.splitlines()]
    beside = {line.split()[0]: line for line in lines if "% of 1,000 and" in line}
    assert sorted(beside) == ["people", "rows"], lines
    assert "% of 100 patients" in beside["people"]
    assert any("mostly noise in groups of 100" in line and line.startswith("sum_age") for line in lines), lines
    assert "(mostly noise above 25 %)" in lines
    few, plenty = (run(*PLAN, "--rho", rho, "--json").document["found"]["plan"]["warnings"] for rho in ("0.01", "0.9"))
    assert len(few) > len(plenty)


def test_a_registered_size_decides_and_is_kept_by_updates(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "x", TABLES["two rows"], monkeypatch)
    run(*ADD, *CAPS, "--group-size", "200")
    assert "mostly noise in groups of 200 rows" in run(*PLAN, "--rho", "0.03").out
    first = run(*QUERY, "--rho", "0.03")
    assert "mostly noise in groups of 200 rows (the registered usual size)" in notes(first.errors)[0]
    run("dataset", "update", "visits", "--max-groups", "1")
    assert run("dataset", "show", "visits", "--json").document["found"]["asking"]["group_size"] == 200
    run("dataset", "update", "visits", "--group-size", "1000000")
    assert notes(run(*QUERY, "--rho", "0.03").errors) == []
    assert "Noise " not in run(*PLAN, "--rho", "0.03").out
    assert run("dataset", "update", "visits", "--group-size", "0").code == 2


def test_the_warning_comes_before_the_charge_and_not_with_a_stored_answer(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "x", TABLES["two rows"], monkeypatch)
    run(*ADD, *CAPS)
    assert notes(run(*QUERY, "--rho", "0.001", "--key", "k").errors)
    assert notes(run(*QUERY, "--rho", "0.001", "--key", "k").errors) == []
    with Ledger("tallystick.db") as book, warnings.catch_warnings():
        warnings.simplefilter("error", MostlyNoise)
        before = book.open("patients").used
        with pytest.raises(MostlyNoise):
            ts.sql("SELECT COUNT(*) AS n FROM visits", ledger=book, rho=0.0001, why="x")
        assert book.open("patients").used == before
        shown = ts.sql("EXPLAIN SELECT COUNT(*) AS n FROM visits", ledger=book, rho=0.0001)
        assert "% of 100 rows" in str(shown)


# -- sizes that were paid for

BIG = "who,ward,age\n" + "".join(f"{i},{'ab'[i % 2]},{i % 90}\n" for i in range(9_000))
COUNTS = "--by ward --keys wards.csv --measures count".split()
COUNT_PLAN = ["publish", "plan", "visits", *COUNTS, "--rho", "0.0005"]
COUNT_QUERY = ["query", "visits", *COUNTS, "--why", "x"]


def paid(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> Any:
    """A ledger with a count of 4,500 rows in each ward, which cost rho 0.2."""
    put(here / "x", BIG, monkeypatch)
    assert run(*ADD, *CAPS, *more).code == 0
    asked = run(*COUNT_QUERY, "--rho", "0.2", "--key", "first", "--json")
    assert asked.code == 0, asked.errors
    return asked.document["found"]


def noise_line(run: Any, *words: str) -> str:
    planned = run(*(words or COUNT_PLAN))
    assert planned.code == 0, planned.errors
    return next((line for line in planned.out.splitlines() if line.startswith("Noise")), "")


def test_a_count_that_was_paid_for_is_the_size_of_a_group(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = paid(run, here, monkeypatch)
    middle = sorted(row[1] for row in found["rows"])
    size = round(sum(middle) / 2)
    assert 4_000 <= size <= 5_000
    said = f"in groups of {size:,} rows (the middle group of ledger entry {found['charge']})"
    assert said in noise_line(run)
    (warned_of,) = notes(run(*COUNT_QUERY, "--rho", "0.0005", "--dry-run").errors) or [""]
    assert warned_of == ""  # a dry run charges nothing, so it warns of nothing
    assert said in notes(run(*COUNT_QUERY, "--rho", "0.0005").errors)[0]
    shown = run(*COUNT_PLAN, "--json").document["found"]["plan"]["warnings"]
    assert any(said in line for line in shown)
    statement = run("sql", "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "--rho", "0.0004", "--why", "x")
    assert statement.code != 0 or said in notes(statement.errors)[0]
    # a registered size goes before, and other groups have no size
    other = run("publish", "plan", "visits", "--measures", "count", "--rho", "0.00001")
    assert "ledger entry" not in other.out
    filtered = run(*COUNT_PLAN, "--where", "age < 5")
    assert "ledger entry" not in filtered.out
    run("dataset", "update", "visits", "--group-size", "300")
    assert "in groups of 300 rows" in noise_line(run)
    assert "ledger entry" not in noise_line(run)


def test_with_a_paid_size_every_word_is_a_function_of_plan_and_ledger(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are exchanged for completely different ones after the release; the plan is the same byte for byte."""
    paid(run, here, monkeypatch)
    said = set()
    for rows in (BIG, *TABLES.values()):
        (here / "x" / "visits.csv").write_text(rows)
        planned, as_json = run(*COUNT_PLAN), run(*COUNT_PLAN, "--json")
        said.add((planned.out, planned.errors, as_json.out))
    assert len(said) == 1
    assert "the middle group of ledger entry" in next(iter(said))[0]


def test_an_answer_that_cannot_be_seen_is_not_a_size(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charge = paid(run, here, monkeypatch)["charge"]
    assert "ledger entry" in noise_line(run)
    assert run("ledger", "erase", str(charge), "--why", "asked to", "--answers").code == 0
    assert "ledger entry" not in noise_line(run)
    again = run(*COUNT_QUERY, "--rho", "0.2", "--key", "second", "--json").document["found"]["charge"]
    assert f"ledger entry {again})" in noise_line(run)
    assert run("ledger", "erase", str(again), "--why", "asked to").code == 0  # its question alone
    assert "ledger entry" not in noise_line(run)


def test_answers_of_other_people_or_without_a_role_are_no_size(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid(run, here, monkeypatch)
    with Ledger("tallystick.db") as book:
        account, sources = book.open("patients"), book.datasets()["visits"].sources
        assert len(list(account.newest_answers(sources))) == 1
        assert list(account.newest_answers(["other data"])) == []
        assert len(list(account.newest_answers(sources, most=1))) == 1
        monkeypatch.setattr(Ledger, "may", lambda self, action, population: action != "replay")
        assert list(account.newest_answers(sources)) == []  # this caller has no role


def test_a_count_within_its_noise_and_an_answer_of_an_earlier_version_are_no_size(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "x", TABLES["two rows"], monkeypatch)
    run(*ADD, *CAPS)
    assert run(*COUNT_QUERY, "--rho", "0.001").code == 0
    assert "% of 1,000" in noise_line(run)
    asked = plan(0.1, n=ts.count())
    field = sized(asked)["sized"]
    answer = {"numbers": [[5, 60, 70]] * len(asked.noises), "sized": field}
    assert size_in(answer, field["groups"]) == Size(60, None, field["rows"]["half"] / 60)
    within = {**field, "rows": {**field["rows"], "half": 60.0}}
    assert size_in({**answer, "sized": within}, field["groups"]) is None
    assert size_in({"numbers": [[5, 60, 70]]}, field["groups"]) is None
    assert size_in(answer, "other groups") is None
    assert sized(plan(0.1, m=ts.histogram("age", [0, 50, 100]))) == {}


def test_an_error_of_people_is_compared_with_people_and_one_of_rows_with_rows(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = paid(run, here, monkeypatch)["charge"]  # rows alone
    both = [word.replace("measures count", "") for word in COUNT_PLAN]
    both[both.index("count")] = "rows,people"
    both[-1] = "0.0001"
    lines = run(*both).out
    assert f"rows (the middle group of ledger entry {charge})" in lines
    assert "of 100 patients" in lines or "people" not in lines.partition("Noise")[2].partition("Limits")[0]
    asked = run("query", "visits", *"--by ward --keys wards.csv --measures rows,people --why y --rho 0.3".split())
    assert asked.code == 0, asked.errors
    people = Usual(None, 40, "a size")
    warning = warned(plan(1e-3, rows=ts.count(), people=ts.count_units()), people)
    assert "in groups of 1,000 rows or fewer and in groups of 40 table (a size)" in warning.replace("whos", "table")


def test_a_suggestion_buys_a_size_where_it_is_applied(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(here / "x", BIG, monkeypatch)
    run(*ADD, *CAPS)
    suggest = "dataset suggest visits --by ward --groups 2 --rho 0.2 --why limits".split()
    found = run(*suggest, "--json").document["found"]
    assert "ledger entry" not in noise_line(run)
    assert run(*suggest, "--apply").code == 0
    assert run("dataset", "update", "visits", "--max-rows-per-group", "60").code == 0  # so that a count is noise again
    assert f"(a middle group by the suggestion of ledger entry {found['charge']})" in noise_line(run)
    assert "size     about 4,500 rows" in run("dataset", "show", "visits").out
    counted = run(*COUNT_QUERY, "--rho", "0.2", "--json").document["found"]["charge"]
    assert f"(the middle group of ledger entry {counted})" in noise_line(run)  # a count goes before an estimate


# -- the rule


def plan(rho: float, **measures: Any) -> Any:
    table = pa.table({"who": [1], "ward": ["a"], "age": [40.0]})
    visits = ts.Private(table).table(unit="who").per_unit(max_groups=2, max_rows_per_group=5)
    return visits.group_by("ward", keys=["a", "b", "c"]).agg(**measures).plan(rho=rho)


def test_a_count_is_noise_if_its_interval_is_more_than_half_of_the_group() -> None:
    asked = plan(0.1, n=ts.count())
    half = asked.error()["n"]
    [(name, measure)] = asked.query.measures
    assert is_noise(asked, name, measure, 4 * half - 1)
    assert not is_noise(asked, name, measure, 4 * half)


def test_a_mean_is_noise_before_where_it_would_be_too_noisy_after() -> None:
    asked = plan(0.1, m=ts.mean("age", 0, 100), q=ts.median("age", 0, 100))
    for name, measure in asked.query.measures:
        for size in (10, 30, 100, 300, 1_000, 3_000, 10_000):
            half = asked.error(group_size=size)[name]
            assert is_noise(asked, name, measure, size) == is_too_noisy(50, 50 - half, 50 + half, (0, 100))


def test_a_sum_is_compared_with_all_that_it_can_be() -> None:
    asked = plan(0.1, s=ts.sum("age", 0, 100))
    [(name, measure)] = asked.query.measures
    half = asked.error()["s"]
    assert is_noise(asked, name, measure, 4 * half / 100 - 1)
    assert not is_noise(asked, name, measure, 4 * half / 100 + 1)


EVERY = [
    ts.variance("age", 0, 100), ts.standard_deviation("age", 0, 100), ts.histogram("age", [0, 50, 100]),
    ts.units_over_cap(), ts.rows_over_cap(5),
]  # fmt: skip


@pytest.mark.parametrize("measure", EVERY, ids=lambda measure: measure.kind)
def test_every_measure_is_noise_in_a_small_group_and_not_in_a_large_one(measure: Any) -> None:
    asked = plan(0.1, m=measure)
    [(name, bound)] = asked.query.measures
    assert is_noise(asked, name, bound, 2)
    assert not is_noise(asked, name, bound, 10**7)


def test_a_plan_without_noise_to_speak_of_says_nothing() -> None:
    asked = plan(100, n=ts.count(), m=ts.mean("age", 0, 100))
    assert noise_lines(asked) == []
    assert warned(asked) == warned(asked, Usual(10_000, 10_000, "a size")) == ""
    assert "Noise    " not in asked.explain()


# -- a schedule


def test_a_schedule_of_equal_releases_fits_together(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(here / "x", TABLES["two rows"], monkeypatch)
    run(*ADD, *CAPS)
    planned = run(*PLAN, "--rho", "1", "--times", "12", "--out", "month.json")
    assert planned.code == 0, planned.errors
    assert "Schedule: 12 releases of this plan, each with another --key, cost rho 1 of the 1 left." in planned.errors
    for month in range(12):
        made = run("publish", "run", "month.json", "--key", f"month-{month}", "--why", "monthly")
        assert made.code == 0, made.errors
    assert run("publish", "run", "month.json", "--key", "month-12", "--why", "monthly").code == 3
    schedule = run(*PLAN, "--rho", "1", "--times", "12", "--json").document["found"]["schedule"]
    assert (schedule["times"], schedule["fits"]) == (12, False)
    assert "which is more than that" in schedule["said"]
    assert run(*PLAN, "--rho", "1", "--times", "0").code == 2


def test_an_error_is_that_of_each_release(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(here / "x", TABLES["two rows"], monkeypatch)
    run(*ADD, *CAPS)
    asked = "publish plan visits --by ward --keys wards.csv --measures people --error 50 --json".split()
    one, many = (run(*asked, *more).document["found"] for more in ([], ["--times", "3"]))
    assert one["plan"]["price"] == many["plan"]["price"]
    assert many["schedule"]["together"]["a0"] == 3 * one["plan"]["price_amount"]["a0"]
