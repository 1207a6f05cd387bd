"""Intervals for all groups at once, and the standard errors of columns."""

from __future__ import annotations

import math
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
