"""Intervals for all groups at once, and the standard errors of columns."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import Refused
from tallystick.mechanisms.exact.randomness import SYSTEM
from tallystick.tables.release import Release, answer_of

GROUPS = 20


def release_of(numbers: Any = None, *, keys: Any = range(GROUPS), rho: float = 0.5, **measures: Any) -> Release:
    table = pa.table({"who": [1], "g": [0], "x": [1.0]})
    visits = ts.Private(table).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("g", keys=keys).agg(**(measures or {"n": ts.count()})).plan(rho=rho, caps_share=0)
    width = GROUPS if numbers is None else len(numbers)
    made = (
        [np.zeros((width, part.width), dtype=np.int64) for part in plan.query.parts] if numbers is None else [numbers]
    )
    found = None if plan.threshold is None else [(i,) for i in range(width)]
    return Release(plan, answer_of(plan, found, made))


def test_all_groups_hold_together_at_their_rate_and_single_intervals_do_not() -> None:
    """600 releases of 20 groups. Together, 95 % hold; 7 deviations below that is .887. One by one, 36 % hold."""
    draw = np.random.default_rng(3)
    plan = release_of(rho=0.005).plan
    law = plan.noises[0].law
    alone = together = 0
    for _ in range(600):
        noise = np.rint(draw.normal(0, law.scale, (GROUPS, 1))).astype(np.int64)
        release = Release(plan, answer_of(plan, None, [noise]))
        for intervals, is_together in ((release.estimates(), False), (release.together(), True)):
            held = bool(((intervals["n"].lower <= 0) & (intervals["n"].upper >= 0)).all())
            together += held and is_together
            alone += held and not is_together
    assert together / 600 > 0.887
    assert alone / 600 < 0.6


def test_groups_of_the_data_have_no_intervals_together() -> None:
    found = release_of(keys=ts.private_keys(delta=1e-6), people=ts.count_units())
    with pytest.raises(Refused, match="found in the data"):
        found.together()


def test_standard_errors_are_those_of_the_noise() -> None:
    """10,000 draws of the mechanism: seven standard deviations of a standard deviation are 5 %."""
    release = release_of(
        rho=0.01, n=ts.count(), s=ts.sum("x", 0, 7), t=ts.sum("x", 2, 7), h=ts.histogram("x", [0, 1, 2])
    )
    errors = release.standard_errors()
    assert list(errors) == ["n", "s", "t", "h[0,1)", "h[1,2]"]
    noises = {
        noise.part: noise.law.draw(10_000, SYSTEM).astype(float) * noise.part.scale for noise in release.plan.noises
    }
    measures = dict(release.plan.query.measures)
    drawn = {"n": noises[measures["n"].parts()[0]], "s": noises[measures["s"].parts()[0]]}
    total, present = (noises[part] for part in measures["t"].parts())
    drawn["t"] = total + 2 * present
    for name, values in drawn.items():
        assert math.isclose(float(values.std()), errors[name], rel_tol=0.05), name


def test_a_mean_has_no_standard_error_of_its_own() -> None:
    assert release_of(m=ts.mean("x", 0, 7)).standard_errors() == {}


def test_the_shell_has_them_in_json(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "v.csv").write_text("who\n1\n")
    assert run(*"dataset add v.csv --population p --unit who --limit rho=1".split()).code == 0
    made = run(*"query v --measures people --rho 0.5 --why x --json".split())
    assert made.document["found"]["standard_errors"]["people"] == pytest.approx(1.0, rel=0.1)


def test_a_table_shows_intervals_that_hold_together_in_every_output() -> None:
    release = release_of(n=ts.count(), m=ts.mean("x", 0, 7))
    joint = release.for_all_groups()
    wide = release.together()["n"]
    assert [row["n_lower"] for row in joint.rows] == pytest.approx(wide.lower.tolist())
    assert joint.data["n"] == release.data["n"]
    names = [f"{name}{end}" for name in "nm" for end in ("", "_together_lower", "_together_upper")]
    assert joint.to_csv().splitlines()[0].split(",") == ["g", *names]
    assert list(json.loads(joint.to_json())["rows"][0]) == ["g", *names]
    assert re.search(r"n ±\S+ \(all groups\) +m \(95 % interval, all groups\)", str(joint))
    for said in (str(joint), joint.html()):
        assert "all groups" in said
    assert "Those of each column hold for all groups together" in joint.about_csv()
    assert "standard error of n," in joint.about_csv()
    assert json.loads(joint.to_json())["standard_errors"]["n"] == pytest.approx(release.standard_errors()["n"])
    with pytest.raises(Refused, match="found in the data"):
        release_of(keys=ts.private_keys(delta=1e-6), people=ts.count_units()).for_all_groups()


def test_what_a_statement_computes_holds_for_all_groups_together_too(tmp_path: Path) -> None:
    account = ts.Ledger(tmp_path / "x.db").open("people", budget=ts.zcdp(rho=9), unit="person")
    rows = pa.table({"who": list(range(2_000)), "g": [i % 4 for i in range(2_000)], "x": [1.0] * 2_000})
    private = ts.Private({"v": rows}, account=account)
    table = private.table("v", unit="who").per_unit(max_groups=1, max_rows_per_group=1).bounds(x=(0, 7), g=(0, 3))
    made = private.sql("SELECT g, SUM(x) / COUNT(*) AS m, COUNT(*) AS n FROM v GROUP BY g", table, rho=0.5, why="x")
    joint = made.for_all_groups()
    for own, wide in zip(made.rows, joint.rows, strict=True):
        for name in ("m", "n"):
            assert wide[f"{name}_lower"] < own[f"{name}_lower"]
            assert wide[f"{name}_upper"] > own[f"{name}_upper"]
    assert "n_limited_together_lower" in joint.to_csv()
    assert made.standard_errors_shown().keys() == {"n_limited"}


def test_the_shell_widens_them_and_refuses_groups_of_the_data_before_the_charge(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "v.csv").write_text("who,g\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(900)))
    (tmp_path / "g.csv").write_text("g\na\nb\nc\n")
    add = "dataset add v.csv --population p --unit who --limit rho=9,delta=1e-6 --max-groups 1 --max-rows-per-group 1"
    assert run(*add.split(), "--keys", "g=g.csv", "--version", "1").code == 0
    plan = "publish plan v --by g --measures count --rho 1 --out p.json"
    assert run(*plan.split()).code == 0
    for words in (
        "publish run p.json --why x --out t.csv --card c.html --together --key k",
        "query v --by g --measures count --rho 1 --why y --together --out q.csv",
    ):
        made = run(*words.split())
        assert made.code == 0, made.errors
        assert "(all groups)" in made.out
        assert "hold for all groups together" in made.errors
    assert "count_limited_together_lower" in (tmp_path / "t.csv").read_text()
    assert run(*"card verify c.html --table t.csv".split()).code == 0
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "e.csv").write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n")
    assert run(*"card verify c.html --table e.csv".split()).code != 0
    single = run(*"publish run p.json --why x --key k --out t.csv".split())
    assert single.code == 0  # the answer is the same, and its own intervals are narrower
    assert "together" not in (tmp_path / "t.csv").read_text()
    sql = "SELECT g, COUNT(*) AS n FROM v GROUP BY g"
    found = run("sql", sql, "--rho", "1", "--why", "z", "--together", "--json").document["found"]
    assert found["columns"] == ["g", "n_limited", "n_limited_together_lower", "n_limited_together_upper"]
    assert found["standard_errors"]["n_limited"] == pytest.approx(0.7, rel=0.1)
    used = run("budget", "--json").document["found"]["used"]
    refused = run(*"query v --by g --private-keys 1e-8 --measures count_units --rho 1 --why x --together".split())
    assert refused.code == 4
    assert run("budget", "--json").document["found"]["used"] == used


def test_a_delta_that_is_not_below_one_in_n_is_warned_of_where_n_is_public(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "v.csv").write_text("who\n1\n")
    add = "dataset add v.csv --population p --unit who --limit rho=1,delta=1e-4 --people"
    assert run(*add.split(), "20000").code == 0
    plan = "publish plan v --measures count_units --rho 0.5"
    said = "of 20,000 people allows to publish one of them as is"
    assert said in run(*plan.split()).out
    assert run(*"dataset update v --people 2000".split()).code == 0
    assert "allows to publish" not in run(*plan.split()).out
