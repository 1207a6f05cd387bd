"""What the columns of an answer are called where nobody says: as they were typed."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.ledger import Ledger

DAYS = [datetime.date(2023 + i % 2, 1 + i % 12, 5) for i in range(200)]
VISITS = pa.table({"p": [i % 50 for i in range(200)], "r": ["ab"[i % 2] for i in range(200)], "d": DAYS})
PEOPLE = pa.table(
    {"p": list(range(50)), "r": ["cd"[i % 2] for i in range(50)], "sex": ["mf"[i % 2] for i in range(50)]}
)
LISTED = "(VALUES ('a'), ('b')) AS k(x)"
JOINED = "FROM visits v JOIN people q ON v.p = q.p"


def _asked(statement: str, tmp_path: Any, **more: Any) -> Any:
    with Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=10, delta=1e-4), unit="patient")
        private = ts.Private({"visits": VISITS, "people": PEOPLE}, account=account)
        tables = [private.table(n, unit="p").per_unit(max_groups=3, max_rows_per_group=9) for n in ("visits", "people")]
        return private.sql(statement, *tables, why="x", rho=1, delta=1e-6, **more)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        (f"SELECT k.x, COUNT(v.p) AS n FROM {LISTED} LEFT JOIN visits v ON v.r = k.x GROUP BY k.x", ["x", "n"]),
        (f"SELECT q.sex, COUNT(*) AS n {JOINED} WHERE q.sex IN ('m', 'f') GROUP BY q.sex", ["sex", "n"]),
        (f"SELECT q.r, COUNT(*) AS n {JOINED} GROUP BY q.r ORDER BY q.r", ["r", "n"]),
        (f"SELECT q.r, COUNT(*) AS n {JOINED} GROUP BY q.r ORDER BY r", ["r", "n"]),
        (f"SELECT q.r AS w, v.r, COUNT(*) AS n {JOINED} GROUP BY q.r, v.r", ["w", "r", "n"]),
        ("SELECT YEAR(d), COUNT(*) AS n FROM visits GROUP BY YEAR(d)", ["year_d", "n"]),
        ("SELECT YEAR(v.d), COUNT(*) AS n FROM visits v GROUP BY 1 ORDER BY YEAR(v.d)", ["year_d", "n"]),
        ("SELECT DATE_TRUNC('month', d), COUNT(*) AS n FROM visits GROUP BY 1", ["date_trunc_d", "n"]),
        ("SELECT R, COUNT(*) AS n FROM visits GROUP BY r", ["r", "n"]),
    ],
)  # fmt: skip
def test_columns_are_called_as_they_were_typed(statement: str, names: list[str], tmp_path: Any) -> None:
    answer = _asked(statement, tmp_path)
    assert [name for name in answer.columns if not name.endswith(("_lower", "_upper"))] == names
    assert answer.groups == tuple(names[:-1])


def test_two_columns_of_one_name_are_still_told_apart(tmp_path: Any) -> None:
    names = _asked(f"SELECT q.r, v.r, COUNT(*) AS n {JOINED} GROUP BY q.r, v.r", tmp_path).columns
    assert len({name.casefold() for name in names}) == len(names) == 5


def test_years_are_shown_as_names_and_amounts_as_amounts(tmp_path: Any) -> None:
    said = str(_asked("SELECT YEAR(d), 10000 + ROUND(COUNT(*)) AS much FROM visits GROUP BY 1 ORDER BY 1", tmp_path))
    first = said.splitlines()[1].split()
    assert first[0] == "2023"
    assert first[1].startswith(("9,", "10,"))
