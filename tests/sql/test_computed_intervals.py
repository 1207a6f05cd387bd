"""What a statement computes from released numbers has an interval, or no value: never a number without a warning."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import tallystick as ts
from tallystick.cli import main
from tallystick.tables.sources import FORM
from tallystick.tables.sql.answer import asked_of
from tallystick.tables.sql.intervals import Ends, columns_of, ends_of

SUMS = "SELECT g, SUM(r) AS s, COUNT(*) AS n FROM v GROUP BY g"
FIELDS = frozenset(("a", "b", "c"))
EXPRESSIONS = [
    "a + b",
    "a - b * 2",
    "(a - 3) / (b + 50)",
    "-a / b",
    "100.0 * a / (a + b)",
    "a * b - c",
    "ROUND(a / b, 1)",
]


def parsed(text: str) -> Any:
    return sqlglot.parse_one(text)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_interval_holds_every_value_that_numbers_in_theirs_can_give(text: str) -> None:
    draw = np.random.default_rng(1)
    value = parsed(text)
    for _ in range(200):
        middle, half = draw.normal(0, 40, 3), draw.exponential(20, 3)
        known = {n: Ends(np.array([m - h]), np.array([m + h])) for n, m, h in zip("abc", middle, half, strict=True)}
        ends = ends_of(value, known, 1)
        inside = [draw.uniform(m - h, m + h, 200) for m, h in zip(middle, half, strict=True)]
        a, b, c = (
            np.concatenate([each, known[n].lower, known[n].upper]) for n, each in zip("abc", inside, strict=True)
        )
        with np.errstate(all="ignore"):
            found = eval(text.replace("ROUND", "np.round"), {"np": np}, {"a": a, "b": b, "c": c})
        if not math.isnan(ends.lower[0]):
            assert (found >= ends.lower[0] - 1e-9).all()
            assert (found <= ends.upper[0] + 1e-9).all()
        else:  # some divisor may be zero
            assert "/" in text
            assert min(known["b"].lower[0], known["a"].lower[0] + known["b"].lower[0]) <= 0


@pytest.mark.parametrize(
    "text", ["ABS(a)", "a % b", "SUM(a) OVER (ORDER BY b)", "a + z", "'1'", "ROUND(a, b)", "ROUND(a, -1)"]
)
def test_other_expressions_have_none(text: str) -> None:
    assert not columns_of(parsed(text), FIELDS)


def ratings(folder: Path) -> tuple[Any, Any]:
    """Ratings from 1 to 5: many of "a", and two of "c"."""
    who = np.arange(3_000)
    table = pa.table({"who": who, "g": ["c" if i < 2 else "ab"[i % 2] for i in who], "r": who % 5 + 1})
    account = ts.Ledger(folder / "x.db").open("people", budget=ts.zcdp(rho=9), unit="person")
    source = ts.Private({"v": table}, account=account)
    return source.table("v", unit="who").per_unit(max_groups=1, max_rows_per_group=1).bounds(r=(1, 5)), account


def asked(folder: Path, text: str, rho: float = 0.01, **more: Any) -> Any:
    table, account = ratings(folder)
    return asked_of(text, [table], account, why="test", keys={"g": ["a", "b", "c"]}, rho=rho, **more)


def asked_with_zero(folder: Path, text: str) -> Any:
    """A release in which the interval of ``n`` holds 0 in the group ``c`` of two rows, as in about 94 of 100."""
    for _ in range(8):
        made = asked(folder, text)
        c = next(row for row in made.rows if row["g"] == "c")
        if c["n_lower"] <= 0 <= c["n_upper"]:
            return made
    raise AssertionError("8 intervals in a row miss 0")


def test_a_ratio_has_an_interval_and_no_value_where_the_divisor_may_be_zero(tmp_path: Path) -> None:
    made = asked_with_zero(tmp_path, "SELECT g, SUM(r) / COUNT(*) AS m, COUNT(*) AS n FROM v GROUP BY g ORDER BY g")
    a, b, c = made.rows
    for row in (a, b):
        assert row["m_lower"] < row["m"] < row["m_upper"]
        assert 0 < row["m_upper"] - row["m_lower"] < 1
        assert abs(row["m"] - 3) < 0.5
    assert c["m"] is c["m_lower"] is c["m_upper"] is None
    assert "m_limited (95 % interval)" in str(made)
    assert "without its own interval" not in str(made)
    assert made.to_csv().splitlines()[0].startswith("g,m_limited,m_limited_lower,m_limited_upper,n_limited")


def test_differences_shares_and_rounded_ratios_have_intervals_too(tmp_path: Path) -> None:
    text = "SELECT g, SUM(r) - COUNT(*) AS d, ROUND(100.0 * SUM(r) / COUNT(*), 1) AS pc FROM v GROUP BY g"
    text += " HAVING COUNT(*) > 500"
    for row in asked(tmp_path, text).rows:
        assert row["d_lower"] < row["d"] < row["d_upper"]
        assert row["pc_lower"] < row["pc"] < row["pc_upper"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, s / n AS m FROM (SELECT g, SUM(r) AS s, COUNT(*) AS n FROM v GROUP BY g) AS t WHERE n > 500",
        "WITH t AS (SELECT g, SUM(r) AS s, COUNT(*) AS n FROM v GROUP BY g) SELECT g, s / n AS m FROM t WHERE n > 500",
        "SELECT g, m FROM (SELECT g, SUM(r) / COUNT(*) AS m FROM v GROUP BY g) AS t WHERE m > 1",
        "SELECT g, x - 1 AS m FROM (SELECT g, SUM(r) / COUNT(*) + 1 FROM v GROUP BY g) AS t(g, x) WHERE x > 1",
        f"SELECT g, m FROM (SELECT g, s / n AS m FROM ({SUMS}) AS t) AS u WHERE m > 1",
        "SELECT g, CAST(SUM(r) AS DOUBLE) / NULLIF(COUNT(*), 0) AS m FROM v GROUP BY g HAVING COUNT(*) > 500",
        "SELECT g, COALESCE(SUM(r) / COUNT(*), 3) AS m FROM v GROUP BY g HAVING COUNT(*) > 500",
        f"SELECT g, CASE WHEN n > 9 THEN s / n ELSE 3 END AS m FROM ({SUMS}) AS t WHERE n > 500",
    ],
)
def test_a_ratio_has_its_interval_wherever_it_is_written(tmp_path: Path, text: str) -> None:
    made = asked(tmp_path, text)
    assert list(made.columns) == ["g", "m", "m_lower", "m_upper"]
    assert {row["g"] for row in made.rows} == {"a", "b"}
    for row in made.rows:
        assert row["m_lower"] < row["m"] < row["m_upper"]
        assert abs(row["m"] - 3) < 0.5
        assert row["m_upper"] - row["m_lower"] < 1


def test_what_a_number_computed_from_others_would_hide_has_no_value(tmp_path: Path) -> None:
    """The divisor may be zero: neither COALESCE nor a SELECT around it makes a number of that."""
    for text in ("COALESCE(SUM(r) / COUNT(*), 0)", "CASE WHEN COUNT(*) < 0 THEN 1 ELSE SUM(r) / COUNT(*) END"):
        made = asked_with_zero(tmp_path, f"SELECT g, {text} AS m, COUNT(*) AS n FROM v GROUP BY g")
        rows = {row["g"]: row for row in made.rows}
        assert rows["c"]["m"] is rows["c"]["m_lower"] is None
    inner = "SELECT g, SUM(r) / COUNT(*) AS m, COUNT(*) AS n FROM v GROUP BY g"
    made = asked_with_zero(tmp_path, f"SELECT g, 2 * m AS m, n FROM ({inner}) AS t")
    rows = {row["g"]: row for row in made.rows}
    assert rows["c"]["m"] is None


def test_shares_of_all_groups_have_intervals_and_other_windows_no_values(tmp_path: Path) -> None:
    share = "100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()"
    made = asked(tmp_path, f"SELECT g, {share} AS pc, SUM(COUNT(*)) OVER (ORDER BY g) AS s FROM v GROUP BY g")
    assert list(made.columns) == ["g", "pc", "pc_lower", "pc_upper", "s"]
    for row in made.rows:
        assert row["pc_lower"] < row["pc"] < row["pc_upper"]
        assert row["s"] is None
    assert "s: computed from released numbers in a way that has no interval" in str(made)
    few = asked(tmp_path, f"SELECT g, {share} AS pc FROM v GROUP BY g HAVING COUNT(*) > 500")
    assert [row["pc"] for row in few.rows] == [None, None]  # the sum over some groups is not that of all


def test_a_number_written_as_a_text_is_not_shown(tmp_path: Path) -> None:
    made = asked(tmp_path, "SELECT g, CAST(COUNT(*) AS VARCHAR) AS t, CONCAT('n = ', COUNT(*)) AS u FROM v GROUP BY g")
    assert all(row["t"] is row["u"] is None for row in made.rows)


def test_places_in_an_order_and_words_are_shown(tmp_path: Path) -> None:
    how = "CASE WHEN COUNT(*) > 500 THEN 'many' END AS how"
    made = asked(tmp_path, f"SELECT g, RANK() OVER (ORDER BY COUNT(*)) AS k, {how} FROM v GROUP BY g")
    assert [row["k"] for row in made.rows] == [1, 2, 3]
    assert [row["how"] for row in made.rows] == [None, "many", "many"]


def test_answers_of_earlier_versions_keep_their_columns_and_values(tmp_path: Path) -> None:
    text = "SELECT g, SUM(COUNT(*)) OVER () AS s, COALESCE(SUM(r) / COUNT(*), 0) AS m FROM v GROUP BY g"
    made = asked(tmp_path, text)
    assert list(made.columns) == ["g", "s", "s_lower", "s_upper", "m", "m_lower", "m_upper"]
    earlier = {name: value for name, value in made.release.answer.items() if name != FORM}
    older = replace(made, release=replace(made.release, answer=earlier))
    assert older.to_csv().splitlines()[0] == "g,s,m"
    assert all(None not in (row["s"], row["m"]) for row in older.rows)
    assert "s, m: computed from released numbers, without its own interval" in str(older)


def test_intervals_stay_with_their_groups_under_an_automatic_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = "".join(f"{i},{'b' if i % 4 else 'a'},{5 if i % 4 else 1}\n" for i in range(6_000))
    (tmp_path / "v.csv").write_text("who,g,r\n" + rows)
    (tmp_path / "g.csv").write_text("g\nb\na\n")
    add = "dataset add v.csv --population p --unit who --limit rho=9 --max-groups 1 --max-rows-per-group 1"
    assert main([*add.split(), *"--type r=integer --bounds r=1:5 --keys g=g.csv --version 1".split()]) == 0
    text = "SELECT g, SUM(r) / COUNT(*) AS m FROM v GROUP BY g ORDER BY m"
    for _ in range(2):  # the second time from the record
        capsys.readouterr()
        assert main(["sql", text, "--rho", "1", "--why", "x", "--json"]) == 0
        low, high = json.loads(capsys.readouterr().out)["found"]["rows"]
        assert (low[0], high[0]) == ("a", "b")
        assert low[2] < 1 < low[3] < high[2] < 5 < high[3]


def test_intervals_of_ratios_hold_the_true_ratio_at_least_at_their_rate() -> None:
    """5,000 draws; an interval that holds with .95 misses in more than 300 of them with probability below 1e-4."""
    draw, true = np.random.default_rng(7), (300.0, 100.0)
    noise = draw.normal(0, 10, (2, 5_000))
    z = 2.2414  # the normal quantile of 1 - 0.05 / 4: two columns at 97.5 %
    known = {n: Ends(t + e - z * 10, t + e + z * 10) for n, t, e in zip("ab", true, noise, strict=True)}
    ends = ends_of(parsed("a / b"), known, 5_000)
    held = (ends.lower <= 3) & (ends.upper >= 3)
    assert held.sum() >= 4_700
    alone = {n: Ends(t + e - 6.7, t + e + 6.7) for n, t, e in zip("ab", true, noise, strict=True)}
    worse = ends_of(parsed("a / b"), alone, 5_000)  # of numbers read at one half
    assert ((worse.lower <= 3) & (worse.upper >= 3)).sum() < 4_700
