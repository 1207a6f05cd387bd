"""What somebody reads who follows the guide to SQL with data of their own for the first time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tallystick.cli.app import run

VISITS = "patient,ward,year,cost,seen\n" + "".join(
    f"p{i % 40},{'ns'[i % 2]},{2023 + i % 2},{i % 9},2026-01-0{1 + i % 3} 10:00:00\n" for i in range(400)
)
ADD = ["dataset", "add", "visits.csv", "--unit", "patient", "--population", "clinic"]
CAPS = ["--max-groups", "2", "--max-rows-per-group", "20", "--type", "year=integer", "--type", "seen=date"]


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    for name, text in (("visits", VISITS), ("wards", "ward\nn\ns\n"), ("years", "year\n2023\n2024\n")):
        Path(f"{name}.csv").write_text(text)

    def call(*words, code=0):
        found = run([*words])
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        return said.out + said.err

    call(*ADD, *CAPS, "--limit", "rho=2,delta=1e-4", "--keys", "ward=wards.csv", "--keys", "year=years.csv",
         "--version", "1")  # fmt: skip
    return call


def asked(shell, statement, *more, code=0):
    return shell("sql", statement, "--why", "x", *more, code=code)


def test_used_and_limit_are_said_at_one_delta(shell):
    asked(shell, "SELECT COUNT(*) FROM visits", "--rho", "1.9")
    for command in (["budget", "clinic"], ["account", "show", "clinic"]):
        said = re.findall(r"epsilon ([0-9.]+) at delta ([0-9.e-]+)", shell(*command))
        assert len(said) == 2
        (limit, one), (used, other) = said
        assert one == other == "0.00011"
        assert float(used) < float(limit)


def test_a_pure_release_is_said_to_be_its_epsilon_and_not_that_of_its_price(shell):
    said = asked(shell, "SELECT COUNT(*) FROM visits", "--epsilon", "0.1", "--pure")
    assert "Charged  rho 0.005 (epsilon 0.1) as ledger entry" in said
    said = asked(shell, "SELECT COUNT(*) FROM visits", "--rho", "0.005")
    assert "Charged  rho 0.005 (epsilon 0.31 at delta 0.00011) as ledger entry" in said
    plan = shell("publish", "plan", "visits", "--measures", "count", "--epsilon", "0.1", "--pure")
    assert re.search(r"Cost     rho 0.005 of the \S+ left \(epsilon 0.1\)", plan)


def test_an_update_of_what_is_not_registered_is_refused_and_registers_nothing(shell):
    for more in ([], ["--dry-run"]):
        said = shell(*ADD, "--update", "--name", "visitz", *more, code=2)
        assert "no dataset visitz" in said
        assert "visits (did you mean this?)" in said
    assert "visitz" not in shell("dataset", "list")
    assert "nothing is registered yet" in shell(*ADD, "--update", "--dry-run", "--ledger", "new.db", code=2)
    assert "Updated visits of" in shell(*ADD, *CAPS, "--update")


def test_years_are_names_of_groups_and_have_no_thousands(shell):
    said = asked(shell, "SELECT year, COUNT(*) AS n FROM visits GROUP BY year", "--rho", "0.5")
    assert re.findall(r"^20\d\d ", said, re.MULTILINE) == ["2023 ", "2024 "]
    shell("publish", "plan", "visits", "--by", "year", "--keys", "years.csv", "--measures", "count", "--rho", "0.1",
          "--out", "plan.json")  # fmt: skip
    said = shell("publish", "run", "plan.json", "--why", "x")
    assert re.findall(r"^20\d\d ", said, re.MULTILINE) == ["2023 ", "2024 "]


def test_files_are_named_where_they_should_be_and_what_to_type(shell):
    assert "sql - < q.sql" in asked(shell, "q.sql", code=2)
    said = asked(shell, "SELECT COUNT(*) FROM visits", "--rho", "0.1", "--public", "f=nofile.csv", code=2)
    assert "nofile.csv" in said
    assert "an existing file that can be read" in said
    before = shell("budget", "clinic")
    Path("visits.csv").rename("moved.csv")
    typed = "tallystick dataset update visits --source NEW_PLACE"
    assert typed in asked(shell, "SELECT COUNT(*) FROM visits", "--rho", "0.1", code=2)
    shell("publish", "plan", "visits", "--measures", "count", "--rho", "0.1", "--out", "plan.json")
    assert typed in shell("publish", "run", "plan.json", "--why", "x", code=2)
    assert typed in shell("publish", "run", "plan.json", "--why", "x", "--dry-run", code=2)
    assert shell("budget", "clinic") == before
    shell(*typed.replace("NEW_PLACE", "moved.csv").split()[1:])
    asked(shell, "SELECT COUNT(*) FROM visits", "--rho", "0.1")


def test_a_database_without_a_table_named_lists_its_tables(shell):
    import duckdb

    with duckdb.connect("two.duckdb") as made:
        made.execute("CREATE TABLE zebra AS SELECT 1 AS p; CREATE TABLE ape AS SELECT 1 AS p; CREATE SCHEMA s")
        made.execute("CREATE TABLE s.cat AS SELECT 1 AS p")
    said = shell("dataset", "add", "two.duckdb", "--population", "clinic", "--unit", "p", code=2)
    assert "Error: --table is" in said
    assert "ape, s.cat, zebra" in said
    shell("dataset", "add", "two.duckdb", "--population", "clinic", "--unit", "p", "--table", "s.cat")


def test_a_new_population_needs_a_limit_and_says_so(shell):
    new = [*ADD, "--ledger", "new.db"]
    for more in ([], ["--dry-run"]):
        said = shell(*new, *more, code=2)
        assert "Error: --limit is" in said
        assert "opens a new population" in said
    assert not Path("new.db").exists()
    said = shell("dataset", "add", "wards.csv", "--population", "other", "--unit", "ward", code=2)
    assert "one of: clinic" in said
    assert '--limit "rho=0.5,delta=1e-6"' in said


def test_a_column_of_text_says_how_it_becomes_numbers(shell):
    assert "--type" not in asked(shell, "SELECT AVG(cost) FROM visits", code=2)
    said = asked(shell, "SELECT AVG(cost CLAMPED BETWEEN 0 AND 9) FROM visits", code=2)
    assert "tallystick dataset update visits --type cost=number" in said


def test_a_number_that_is_no_registered_group_is_refused_with_another_way_to_mean_it(shell):
    before = shell("budget", "clinic")
    said = asked(shell, "SELECT COUNT(*) FROM visits WHERE year = 2022", "--rho", "0.1", code=2)
    assert "year = 2022 (line 1, column 35)" in said
    assert "2023" in said
    assert "or BETWEEN 2022 AND 2022" in said
    assert shell("budget", "clinic") == before
    asked(shell, "SELECT COUNT(*) FROM visits WHERE year BETWEEN 2022 AND 2022", "--rho", "0.1")
