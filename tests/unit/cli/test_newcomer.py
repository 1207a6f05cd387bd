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
        assert one == other == "0.001"
        assert float(used) < float(limit)


def test_a_pure_release_is_said_to_be_its_epsilon_and_not_that_of_its_price(shell):
    said = asked(shell, "SELECT COUNT(*) FROM visits", "--epsilon", "0.1")
    assert "charged rho 0.00500 to clinic" in said
    assert said.rstrip().endswith("this release alone: epsilon 0.1")
    said = asked(shell, "SELECT COUNT(*) FROM visits", "--rho", "0.005")
    assert said.rstrip().endswith("this release alone: epsilon 0.43 at delta 1e-06")
    plan = shell("publish", "plan", "visits", "--measures", "count", "--epsilon", "0.1")
    assert "price    rho 0.00500 (epsilon 0.1)" in plan


def test_an_update_of_what_is_not_registered_is_refused_and_registers_nothing(shell):
    for more in ([], ["--dry-run"]):
        said = shell(*ADD, "--update", "--name", "visitz", *more, code=2)
        assert "no data set visitz" in said
        assert "visits (did you mean this?)" in said
    assert "visitz" not in shell("dataset", "list")
    assert "nothing is registered yet" in shell(*ADD, "--update", "--dry-run", "--ledger", "new.db", code=2)
    assert "updated visits of" in shell(*ADD, *CAPS, "--update")


def test_years_are_names_of_groups_and_have_no_thousands(shell):
    said = asked(shell, "SELECT year, COUNT(*) AS n FROM visits GROUP BY year", "--rho", "0.5")
    assert re.findall(r"^20\d\d ", said, re.MULTILINE) == ["2023 ", "2024 "]
    shell("publish", "plan", "visits", "--by", "year", "--keys", "years.csv", "--measures", "count", "--rho", "0.1",
          "--out", "plan.json")  # fmt: skip
    said = shell("publish", "run", "plan.json", "--why", "x")
    assert re.findall(r"^20\d\d ", said, re.MULTILINE) == ["2023 ", "2024 "]
