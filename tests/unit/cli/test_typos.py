"""Names that are not there, text where a number is needed, other separators: the error says what is wrong and a fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import BudgetExceeded

ADD = "dataset add visits.csv --population patients --unit patient --max-groups 1 --max-rows-per-group 1 --limit rho=1"


@pytest.fixture
def visits(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = "".join(f"p{i},{'north' if i % 2 else 'south'},{i % 9}\n" for i in range(60))
    Path("visits.csv").write_text(f"patient,region,days\n{rows}")
    assert run(*ADD.split()).code == 0
    return run


@pytest.mark.parametrize(
    ("statement", "name", "meant"),
    [
        ("SELECT regoin FROM visits", "regoin", "region"),
        ("SELECT COUNT(*) AS total FROM visits ORDER BY totla", "totla", "total"),
        ("SELECT region, COUNT(*) FROM visits WHERE region IN ('north') GROUP BY regoin", "regoin", "region"),
    ],
)
def test_a_misspelt_column_is_a_column_that_is_not_there(visits: Any, statement: str, name: str, meant: str) -> None:
    found = visits("sql", statement, "--rho", "0.01", "--why", "x")
    assert found.code == 2, found.errors
    assert f"there is no column {name} (line 1, column " in found.errors
    assert f"{meant} (did you mean this?)" in found.errors
    assert "rows of people" not in found.errors


def test_describe_offers_what_the_guide_says(visits: Any) -> None:
    assert "tallystick dataset show visits" in visits("sql", "DESCRIBE visits", "--why", "x").errors
    assert "tallystick dataset list" in visits("sql", "SHOW TABLES", "--why", "x").errors


def test_an_average_of_text_offers_a_cast_that_works(visits: Any) -> None:
    found = visits("sql", "SELECT AVG(days) FROM visits", "--rho", "0.01", "--why", "x")
    assert "days is text (line 1, column 8)" in found.errors
    offered = "AVG(CAST(days AS INTEGER) CLAMPED BETWEEN 0 AND 100)"
    assert f"Try:   {offered}, with bounds that you choose" in found.errors
    assert visits("sql", f"SELECT {offered} FROM visits", "--rho", "0.01", "--why", "x").code == 0


def test_a_mean_of_text_offers_a_type_with_bounds_that_works(visits: Any) -> None:
    asked = ("publish", "plan", "visits", "--measures", "mean(days)", "--rho", "0.01")
    found = visits(*asked)
    assert "days is text. A mean needs a number." in found.errors
    offered = "tallystick dataset update visits --type days=number --bounds days=0:100"
    assert f"Try:   {offered}\n" in found.errors
    assert visits(*offered.split()[1:]).code == 0
    assert visits(*asked).code == 0


@pytest.mark.parametrize(("sign", "word"), [(";", "semicolons"), ("|", "vertical bars")])
def test_a_file_with_another_separator_is_named(visits: Any, sign: str, word: str) -> None:
    Path("excel.csv").write_text(f"patient{sign}age\np1{sign}3\n")
    found = visits(*ADD.replace("visits.csv", "excel.csv").split(), "--bounds", "age=0:9")
    assert found.code == 2
    assert f"the values of excel.csv are separated by {word}" in found.errors
    assert f"pandas.read_csv('excel.csv', sep={sign!r}).to_csv('commas.csv', index=False)" in found.errors


@pytest.mark.usefixtures("visits")
def test_a_denied_statement_offers_the_cost_where_it_was_given() -> None:
    with pytest.raises(BudgetExceeded) as beside:
        ts.sql("SELECT COUNT(*) AS n FROM visits", ledger="tallystick.db", rho=3, why="x")
    assert "  rho=1 (n ±" in str(beside.value)
    assert "OPTIONS" not in str(beside.value)
    inside = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=3) COUNT(*) AS n FROM visits"
    with pytest.raises(BudgetExceeded, match=r"OPTIONS\(rho=1\)"):
        ts.sql(inside, ledger="tallystick.db", why="x")


def test_an_absurd_cost_of_the_statement_is_not_called_an_option_of_the_shell(visits: Any) -> None:
    found = visits("sql", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1e20) COUNT(*) FROM visits", "--why", "x")
    assert "epsilon is 1e20 in OPTIONS. Give a budget from 1e-9 to 1e9." in found.errors
    assert "--epsilon" not in found.errors
