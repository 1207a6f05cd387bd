"""The repr of what people see in a notebook is one short line without addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.cards import card

LONGEST = 120


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("reprs")
    ledger = ts.Ledger(folder / "ledger.db")
    account = ledger.open("people", budget=ts.zcdp(rho=1, delta=1e-6), unit="patient")
    rows = {"who": [str(i % 50) for i in range(300)], "ward": ["a", "b"] * 150}
    private = ts.Private(pa.table(rows), account=account)
    table = private.table(unit="who").per_unit(max_groups=2, max_rows_per_group=3)
    grouped = table.group_by("ward", keys=["a", "b"])
    query = grouped.agg(n=ts.count())
    plan = query.plan(rho=0.1)
    release = plan.release(why="report")
    loss = 100 * ts.gaussian(sigma=10)
    return {
        "loss": loss,
        "explanation": ts.explain(loss),
        "comparison": ts.compare(loss, delta=1e-5),
        "ledger": ledger,
        "account": account,
        "private": private,
        "table": table,
        "grouped": grouped,
        "query": query,
        "plan": plan,
        "release": release,
        "card": card(release),
        "adaptive plan": ts.adaptive.plan(queries=10, tau=0.1, beta=0.05),
    }


def test_a_repr_is_one_short_line_that_names_its_kind(objects: dict[str, Any]) -> None:
    for name, each in objects.items():
        text = repr(each)
        assert text.startswith(f"<{type(each).__name__}"), name
        assert "\n" not in text, name
        assert len(text) <= LONGEST, (name, text)
        assert not re.search(r"0x[0-9a-f]{6}", text), name


def test_numbers_of_html_tables_are_right_aligned(objects: dict[str, Any]) -> None:
    for name in ("comparison", "adaptive plan", "release"):
        assert "text-align:right" in objects[name]._repr_html_(), name
