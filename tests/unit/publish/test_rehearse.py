"""A rehearsal tells noise, caps and clamping apart, charges nothing, and takes no registered data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.audit import plans
from tallystick.errors import InvalidInput, Refused

# Anna has four visits in ward a and one in b; the others one each. One cost is far above the bound.
ROWS = pa.table(
    {
        "who": [1, 1, 1, 1, 1, 2, 3, 4],
        "ward": ["a", "a", "a", "a", "b", "a", "a", "b"],
        "cost": [10.0, 10.0, 10.0, 10.0, 20.0, 40.0, 900.0, 20.0],
    }
)


def asked(rows: Any = ROWS, **budget: Any) -> Any:
    visits = ts.Private(rows.slice(0, 1)).table(unit="who").per_unit(max_groups=2, max_rows_per_group=2)
    measures = {"n": ts.count(), "u": ts.count_units(), "cost": ts.sum("cost", 0, 100)}
    return visits.group_by("ward", keys=["a", "b"]).agg(**measures).plan(**(budget or {"rho": 0.5}))


def test_each_cause_is_what_it_is_by_hand() -> None:
    found = ts.rehearse(asked(), ROWS, caps=[(1, 1), (2, 1), (2, 4)])
    assert (found.groups, found.columns) == (2, ("n", "u", "cost"))
    by_caps = {(line.max_groups, line.max_rows_per_group): line for line in found.of("n")}
    # ward a counts 6 rows, and 3 under a cap of one; ward b counts 2 and loses none: the middle of 3 and 0
    assert by_caps[2, 1].caps == 1.5
    assert by_caps[2, 4].caps == 0.0
    assert (
        by_caps[2, 4].noise
        == asked()
        .query.table.per_unit(max_groups=2, max_rows_per_group=4)
        .group_by("ward", keys=["a", "b"])
        .agg(**dict(asked().query.measures))
        .plan(rho=0.5)
        .error()["n"]
    )
    assert by_caps[2, 1].noise < by_caps[2, 4].noise
    assert [line.caps for line in found.of("u")] == [0.5, 0.0, 0.0]  # Anna counts in one ward of two
    # 900 counts as 100, in ward a only; the caps change what Anna's 40 in ward a count: 10 of them, or all
    assert {line.clamping for line in found.of("cost")} == {400.0}
    assert [line.caps for line in found.of("cost")][1:] == [15.0, pytest.approx(0.0, abs=1e-4)]
    line = found.of("cost")[1]
    assert line.together == pytest.approx(line.noise + (830.0 + 0.0) / 2)
    assert found.best("u").max_groups == 1  # half a ward is less than the noise of another
    assert "smallest" in str(found)


def test_a_rehearsal_of_no_caps_is_refused_before_rows_are_read() -> None:
    with pytest.raises(InvalidInput, match="at least one pair") as refused:
        ts.rehearse(asked(), "no such file.csv", caps=[])
    assert refused.value.argument == "caps"


def test_a_quantile_inside_its_bounds_is_not_clamped() -> None:
    visits = ts.Private(ROWS.slice(0, 1)).table(unit="who").per_unit(max_rows_per_group=4)
    plan = visits.agg(low=ts.median("cost", 0, 100), high=ts.quantile("cost", 0.99, 0, 100)).plan(rho=0.5)
    found = ts.rehearse(plan, ROWS, caps=[(1, 4)])
    assert found.of("low")[0].clamping == 0
    assert 790 < found.of("high")[0].clamping < 810


@pytest.mark.parametrize("keys", [["a", "b", "c"], "private"])
def test_rows_can_be_made_up_from_a_plan(keys: Any) -> None:
    visits = ts.Private(ROWS.slice(0, 1)).table(unit="who").per_unit(max_groups=2, max_rows_per_group=2)
    chosen = ts.private_keys(delta=1e-6) if keys == "private" else keys
    plan = visits.group_by("ward", keys=chosen).agg(n=ts.count(), cost=ts.mean("cost", 0, 100)).plan(rho=0.1)
    rows = ts.made_up_rows(plan, units=300)
    assert len(set(rows.columns["who"])) == 300
    above = rows.columns["cost"] > 100
    assert 0.005 < above.mean() < 0.05
    same = pa.table(ts.made_up_rows(plan, units=300))
    assert pa.table(rows).equals(same)
    assert len(rows) == same.num_rows > 300
    alone = ts.made_up_rows(plan, units=300, groups_per_unit=1)
    assert len(set(zip(alone.columns["who"], alone.columns["ward"], strict=True))) == 300
    with pytest.raises(InvalidInput):
        ts.made_up_rows(plan, groups_per_unit=0.5)
    found = ts.rehearse(plan, rows, caps=[(1, 1), (2, 1), (2, 2), (2, 5)])
    noises = [line.noise for line in found.of("n") if line.max_groups == 2]
    lost = [line.caps for line in found.of("n") if line.max_groups == 2]
    assert noises == sorted(noises)
    assert lost[0] > lost[-1]  # which groups a unit keeps goes by the hash of each plan, so nearly in this order


def test_made_up_rows_are_read_at_once_by_many_threads_and_after_a_fork() -> None:
    rows = ts.made_up_rows(asked(), units=20)
    wanted = pa.table(rows)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: pa.table(rows).equals(wanted), range(40)))
    program = "import os, sys, pyarrow, tallystick as ts\nfrom unit.publish.test_rehearse import asked\n"
    program += "rows = ts.made_up_rows(asked(), units=20)\nwanted = pyarrow.table(rows)\n"
    program += "if child := os.fork():\n    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    program += "sys.exit(0 if pyarrow.table(rows).equals(wanted) else 1)"
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", program], env=tests, check=False).returncode == 0


def test_data_that_are_not_made_up_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = asked()
    own = next(iter(plan.query.table.source.handle.values()))
    with pytest.raises(InvalidInput, match="own data"):
        ts.rehearse(plan, own)
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    with pytest.raises(InvalidInput, match="made up"):
        ts.rehearse(plan, tmp_path / "rows.parquet")
    assert ts.rehearse(plan, tmp_path / "rows.parquet", public=True).groups == 2
    monkeypatch.setattr(plans, "MOST_BYTES", 10)
    (tmp_path / "rows.csv").write_text("who,ward,cost\n1,a,5\n")
    with pytest.raises(InvalidInput, match="made up"):
        ts.rehearse(plan, tmp_path / "rows.csv")
    with pytest.raises(Refused, match="no limits"):
        ts.rehearse(ts.Private(ROWS).table(unit=ts.each_row).agg(n=ts.count()).plan(rho=1), ROWS.slice(0, 3))
    with pytest.raises(InvalidInput, match="filters and keys"):
        ts.rehearse(plan, ROWS.slice(0, 0))


# From the shell

REHEARSE = "publish rehearse p.json".split()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    lines = "".join(f"p{i % 90},{'nesw'[i % 4]},{20 + i % 60}\n" for i in range(300))
    (tmp_path / "visits.csv").write_text("patient_id,region,age\n" + lines)
    (tmp_path / "public.csv").write_text("patient_id,region,age\n" + lines)
    (tmp_path / "regions.csv").write_text("region\nn\ne\ns\nw\n")
    caps = "--max-groups 2 --max-rows-per-group 2 --bounds age=0:110 --limit rho=0.5"
    assert run(*f"dataset add visits.csv --population people --unit patient_id {caps}".split()).code == 0
    plan = "publish plan visits --by region --keys regions.csv --measures count,mean(age) --rho 0.05 --out p.json"
    assert run(*plan.split()).code == 0
    return tmp_path


def test_rehearse_shows_a_table_and_a_picture_and_charges_nothing(run: Any, here: Path) -> None:
    made = run(*REHEARSE, "--synthetic", "--units", "200", "--plot", "errors.svg", "--column", "mean_age")
    assert made.code == 0, made.errors
    assert "Measured on made-up rows of 200 people." in made.errors
    assert (here / "errors.svg").stat().st_size > 5_000
    found = run(*REHEARSE, "--rows", "public.csv", "--caps", "1x1,4x4", "--json").document["found"]
    assert [line["column"] for line in found["lines"]] == ["count", "count", "mean_age", "mean_age"]
    assert found["lines"][1]["caps"] == 0
    assert found["charged"] is False
    assert run("budget", "--json").document["found"]["used"]["rho"] == 0


def test_rehearse_refuses_registered_data_under_any_name(run: Any, here: Path) -> None:
    (here / "other.csv").symlink_to(here / "visits.csv")
    for name in ("visits.csv", "other.csv"):
        outcome = run(*REHEARSE, "--rows", name, "--public")
        assert outcome.code == 4
        assert "registered" in outcome.errors
    shutil.copy(here / "p.json", here / "elsewhere.json")
    added = "--population some --unit region --max-groups 1 --max-rows-per-group 1 --limit rho=1"
    assert run(*f"dataset add regions.csv --ledger another.db {added}".split()).code == 0
    for ledger, said in (("another.db", "registered"), ("none.db", "none.db")):  # naming another is no way around it
        outcome = run(*REHEARSE, "--rows", "visits.csv", "--ledger", ledger)
        assert outcome.code != 0
        assert said in outcome.errors
        assert "by cause" not in outcome.out
    assert run(*REHEARSE, "--rows", "public.csv", "--ledger", "none.db").code != 0
    for wrong in ([], ["--rows", "public.csv", "--synthetic"], ["--rows", "missing.csv"], ["--rows", "regions.csv"]):
        assert run(*REHEARSE, *wrong).code != 0
    for wrong in ("2", "2x", "0x1", "x"):
        assert run(*REHEARSE, "--synthetic", "--caps", wrong).code == 2


def wage_plan(rho: float) -> Any:
    rows = pa.table({"who": [1], "year": [1], "wage": [1.0]})
    people = ts.Private(rows).table(unit="who").per_unit(max_groups=8, max_rows_per_group=1).bounds(wage=(0, 4))
    return people.group_by("year", keys=list(range(1, 9))).agg(wage=ts.mean("wage")).plan(rho=rho)


def test_a_mean_that_the_noise_hides_counts_as_all_of_its_bounds() -> None:
    plan = wage_plan(0.005)
    rows = ts.made_up_rows(plan, units=1_000)
    found = ts.rehearse(plan, rows, caps=[(1, 1), (2, 3), (4, 20), (8, 50), (8, 500)])
    narrow, widest = found.of("wage")[0], found.of("wage")[-1]
    assert narrow.without_value == 0
    assert (widest.without_value, widest.noise) == (8, 2.0)
    assert widest.caps == pytest.approx(0.0, abs=1e-3)  # nothing is left out under the widest caps
    assert widest.together == pytest.approx(4.0)
    assert found.best("wage").without_value == 0
    assert "no value in 8 of them" in str(found)


def test_a_mean_of_a_group_that_the_caps_empty_counts_as_all_of_its_bounds() -> None:
    """One person has rows in two groups and may count in one of them."""
    rows = pa.table({"who": [1, 1], "year": [1, 2], "wage": [4.0, 4.0]})
    found = ts.rehearse(wage_plan(1e5), rows, caps=[(1, 1), (2, 1)])
    emptied, whole = found.of("wage")
    assert (emptied.without_value, whole.without_value) == (1, 0)
    assert emptied.noise == pytest.approx(1.0, abs=0.05)  # half of 2.0 and about 0
    assert found.best("wage") == whole
