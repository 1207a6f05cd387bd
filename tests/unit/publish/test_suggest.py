"""Caps and bounds from private quantiles: priced, charged, recorded, near the truth, and the reason on the card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tallystick as ts
from tallystick.cli import main
from tallystick.errors import BudgetExceeded, InvalidInput, Refused
from tallystick.ledger import Account, Ledger
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.publish.datasets import find
from tallystick.publish.suggest import CANDIDATES, friendly, lines
from tallystick.tables import run
from tallystick.tables.release import Release

SUGGEST = "dataset suggest visits --by region --range age=0:150 --rho 0.05".split()
WHY = ["--why", "choose caps"]


def made_up(units: int = 3_000, seed: int = 0) -> pa.Table:
    """Units with 1 to about 30 rows in up to 12 wards, costs up to some thousands, and three units beyond all that."""
    rng = np.random.default_rng(seed)
    rows = rng.geometric(0.2, units)
    rows[:3] = 5_000
    who = np.repeat(np.arange(units), rows)
    cost = rng.lognormal(6, 1, len(who))
    cost[who < 3] = 99_999.0
    return pa.table({"who": who, "ward": rng.integers(0, 12, len(who)), "cost": cost})


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.zcdp(rho=1.0), unit="patient")


def test_a_suggestion_recovers_sensible_caps_and_bounds_and_is_charged_once(account: Account) -> None:
    table = made_up()
    visits = ts.Private(table, account=account).table(unit="who")
    asked = ts.suggest_caps(visits, by=["ward"], ranges={"cost": (0, 100_000)}, within=0.95, rho=0.2)
    assert account.used.a0 == 0
    found = asked.release(why="choose caps", key="caps")
    assert account.used.to_dict()["rho"] == 0.2
    assert asked.release(why="choose caps", key="caps").to_data() == found.to_data()
    assert account.used.to_dict()["rho"] == 0.2

    cells = {key: int(n) for key, n in zip(*_cells(table), strict=True)}
    groups = np.bincount([who for who, _ in cells])
    most = np.zeros(len(groups), dtype=int)
    for (who, _), n in cells.items():
        most[who] = max(most[who], n)
    for cap, truth in zip(found.caps, (groups, most), strict=True):
        assert cap.lower <= cap.value <= cap.upper
        assert np.mean(truth <= cap.value) >= 0.9, cap
        below = [c for c in CANDIDATES if c < cap.value][-1]
        assert np.mean(truth <= below) <= 0.97, cap
    (bound,) = found.bounds
    one_each = np.quantile(table.column("cost").to_numpy(), 0.99)
    assert bound.lower <= 100
    assert 2_000 <= bound.upper <= 10_000 < one_each  # three units with 15,000 rows at 99,999 count as three
    capped = found.applied(visits)
    assert (capped.max_groups, capped.max_rows) == tuple(cap.value for cap in found.caps)
    assert capped.declared == (("cost", bound.lower, bound.upper),)


def _cells(table: pa.Table) -> tuple[list[tuple[int, int]], Any]:
    pairs = np.stack([table.column("who").to_numpy(), table.column("ward").to_numpy()])
    keys, counts = np.unique(pairs, axis=1, return_counts=True)
    return [(int(a), int(b)) for a, b in keys.T], counts


def test_one_unit_more_moves_what_is_asked_by_no_more_than_it_pays(account: Account) -> None:
    """The unit with 5,000 rows at the largest value moves every histogram by one."""
    table = made_up(200)
    plan = ts.suggest_caps(
        ts.Private(table).table(unit="who"), by=["ward"], ranges={"cost": (0, 100_000)}, rho=0.2
    ).plan
    whole = run.integers(plan)
    less = run.integers(plan.on(table.filter(pc.not_equal(table.column("who"), 0))))
    for part, numbers in whole.numbers.items():
        moved = (numbers - less.numbers[part]).astype(float)
        assert (moved**2).sum() == part.l2_squared(plan.query.caps, plan.query.table.adjacency)


def drawn(asked: Any, exact: Any, seed: int) -> Any:
    """The suggestion of one draw of the noise; nothing is charged."""
    return asked.read(Release(asked.plan, run.noisy(asked.plan, exact, SeededSource(seed))))


def test_the_caps_that_the_noise_leaves_hold_the_true_one() -> None:
    table = made_up(600, seed=4)
    asked = ts.suggest_caps(ts.Private(table).table(unit="who"), by=["ward"], within=0.95, rho=0.02)
    exact = run.integers(asked.plan)
    cells, counts = _cells(table)
    groups, most = np.zeros(600, dtype=int), np.zeros(600, dtype=int)
    for (who, _), n in zip(cells, counts, strict=True):
        groups[who] += 1
        most[who] = max(most[who], n)
    truths = [next(c for c in CANDIDATES if np.mean(own <= c) >= 0.95) for own in (groups, most)]
    draws = [drawn(asked, exact, seed).caps for seed in range(400)]
    for i, truth in enumerate(truths):
        held = np.mean([caps[i].lower <= truth <= caps[i].upper for caps in draws])
        assert held >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)
        assert np.mean([caps[i].value == truth for caps in draws]) < 0.9  # otherwise the test could not fail


@pytest.mark.parametrize("within", [None, 0.95])
def test_no_noise_makes_a_suggestion_fail(within: float | None) -> None:
    """Three units and next to no budget: counts may add up to less than nothing, and the bounds stay bounds."""
    table = ts.Private(made_up(3).slice(0, 9)).table(unit="who")
    asked = ts.suggest_caps(table, by=["ward"], ranges={"cost": (0, 10)}, within=within, rho=1e-6)
    exact = run.integers(asked.plan)
    for seed in range(60):
        found = drawn(asked, exact, seed)
        (bound,) = found.bounds
        assert 0 <= bound.lower < bound.upper <= 10
        assert all(cap.lower <= cap.value <= cap.upper for cap in found.caps)
        assert {found.limits["max_groups"], found.limits["max_rows_per_group"]} <= set(CANDIDATES)
        assert "nan" not in str(found)
        assert "Not certain: because of the noise it is possible that" in str(found)
        with pytest.raises(Refused, match=r"max_groups.*bounds of cost.*too noisy to rely on.*a higher cost"):
            found.applied(asked.plan.query.table)
        assert found.applied(ts.Private(made_up(3)).table(unit="who"), anyway=True).declared


def test_a_suggestion_that_the_noise_hardly_touches_is_applied_without_a_word() -> None:
    """The same units at a price that tells: what decides is the noise, not the data."""
    table = made_up(3_000)
    visits = ts.Private(table).table(unit="who")
    told = {}
    for rho in (0.5, 0.0005):
        asked = ts.suggest_caps(visits, by=["ward"], ranges={"cost": (0, 100_000)}, rho=rho)
        exact = run.integers(asked.plan)
        told[rho] = [drawn(asked, exact, seed) for seed in range(20)]
    assert not any(found.says_nothing or "Not certain" in str(found) for found in told[0.5])
    assert all("Not certain" in str(found) for found in told[0.0005])
    truth = np.sort(table.column("cost").to_numpy()[np.unique(table.column("who").to_numpy(), return_index=True)[1]])
    for found in (*told[0.5], *told[0.0005]):  # values of a unit are drawn alike, so one each is beyond as often
        (bound,) = found.bounds
        assert np.mean(truth > bound.upper) <= bound.may_be_beyond + 0.02
    assert any(np.mean(truth > found.bounds[0].upper) > 0.05 for found in told[0.0005])  # 1 % was asked for


def test_bounds_where_single_rows_are_protected(tmp_path: Path) -> None:
    rows = ts.Private(made_up(300)).table(unit=ts.each_row)
    asked = ts.suggest_caps(rows, ranges={"cost": (0, 100_000)}, rho=0.1)
    assert asked.plan.measures == ("low0", "high0")
    with pytest.raises(InvalidInput, match="no limits"):
        ts.suggest_caps(rows, rho=0.1)


def test_words_that_make_no_sense_are_refused() -> None:
    visits = ts.Private(made_up(9)).table(unit="who")
    for wrong in ({"within": 0.3}, {"beyond": 0.4}, {"within": 1.0}, {"ranges": {"ward": (5, 5)}}, {"by": ["cost"]}):
        with pytest.raises(InvalidInput):
            ts.suggest_caps(visits, **{"rho": 0.1, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "declared"),
    [(17.3, 91.8, (0, 150)), (0.0, 0.0, (0, 10)), (-3e-7, 5e-7, (-1, 1)), (1e14, 1e15, (0, 1e15)), (9.99, 10, (0, 10))],
)
def test_friendly_bounds_hold_the_quantiles_inside_the_range(low: float, high: float, declared: Any) -> None:
    lower, upper = friendly(low, high, declared)
    assert declared[0] <= lower <= low
    assert high <= upper <= declared[1]
    assert lower < upper


# From the shell


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = (f"p{i % 4000:04d},{'nesw'[i % 4]},{20 + i % 60}\n" for i in range(10_000))
    (tmp_path / "visits.csv").write_text("patient_id,region,age\n" + "".join(rows))
    (tmp_path / "regions.csv").write_text("region\nn\ne\ns\nw\n")
    add = "dataset add visits.csv --population patients --unit patient_id --type age=integer --limit rho=0.5"
    assert run(*add.split()).code == 0
    return tmp_path


def test_suggest_says_its_price_charges_once_and_registers_with_its_reason(run: Any, here: Path) -> None:
    dry = run(*SUGGEST, *WHY, "--dry-run", "--json")
    assert dry.document["found"]["plan"]["price"] == "rho 0.05"
    assert run("budget", "--json").document["found"]["used"]["rho"] == 0
    first = run(*SUGGEST, *WHY)
    assert first.code == 0, first.errors
    assert "Charged  rho 0.05 (" in first.errors
    assert "Not saved. To save these, repeat the command with --apply (no further cost)." in first.errors
    again = run(*SUGGEST, *WHY, "--apply", "--json")
    found = again.document["found"]
    assert (found["again"], found["applied"]) == (True, True)
    shown = run("dataset", "show", "visits", "--json").document["found"]
    assert shown["account"]["used"]["rho"] == 0.05
    assert shown["table"]["max_rows"] == found["caps"]["max_rows_per_group"]["value"]
    assert shown["table"]["bounds"] == [["age", *found["bounds"]["age"]["value"]]]
    assert shown["about"]["bounds_from"] == found["reason"]
    # registered caps and bounds are not part of what is asked, so the suggestion is the same one and still free
    assert run(*SUGGEST, *WHY, "--json").document["found"]["again"]

    plan = "publish plan visits --by region --keys regions.csv --measures mean(age) --rho 0.05 --out p.json".split()
    assert run(*plan).code == 0
    assert run("publish", "run", "p.json", "--why", "report", "--card", "card.html").code == 0
    card = json.loads((here / "card.json").read_text())
    assert card["mechanisms"]["bounds_from"].startswith(f"from private quantiles (ledger entry {found['charge']})")
    assert "private quantiles (ledger entry" in (here / "card.html").read_text()
    assert run("card", "verify", "card.html").code == 0


def test_a_suggestion_that_says_nothing_is_shown_and_not_applied(run: Any, here: Path) -> None:
    (here / "few.csv").write_text("patient_id,age\n" + "".join(f"p{i},{i}\n" for i in range(20)))
    assert (
        run(*"dataset add few.csv --population few --unit patient_id --type age=integer --limit rho=0.5".split()).code
        == 0
    )
    ask = ["dataset", "suggest", "few", "--range", "age=0:150", "--rho", "0.0002", *WHY, "--apply"]
    refused = run(*ask)
    assert refused.code == 4
    assert "bounds of age" in refused.out
    assert "Charged  rho 0.0002 (" in refused.errors
    assert "not applied: max_rows_per_group, bounds of age" in refused.errors
    assert "--apply --anyway" in refused.errors
    shown = run("dataset", "show", "few", "--json").document["found"]
    assert (shown["table"]["max_rows"], shown["table"]["bounds"]) == (None, [])
    again = run(*ask, "--anyway", "--json")
    assert (again.code, again.document["found"]["again"], again.document["found"]["applied"]) == (0, True, True)
    assert run("dataset", "show", "few", "--json").document["found"]["table"]["bounds"]


def test_what_is_refused_charges_nothing(run: Any, here: Path) -> None:
    assert run(*SUGGEST[:-1], "0.6", *WHY).code == 3
    assert run(*SUGGEST[:-2], *WHY).code == 2
    assert run("dataset", "suggest", "visits", "--range", "region=0:5", "--rho", "0.1", *WHY).code == 2
    outcome = run("dataset", "suggest", "visits", "--range", "patient_id=0:5", "--rho", "0.1", *WHY)
    assert "--type patient_id=number" in outcome.errors
    assert run(*SUGGEST, *WHY, "--key", "k").code == 0
    assert run(*SUGGEST, *WHY, "--key", "k", "--beyond", "0.05").code == 8
    assert run(*SUGGEST, *WHY, "--key", "k", "--within", "0.8").code == 0  # another reading of what was paid for
    assert run("budget", "--json").document["found"]["used"]["rho"] == 0.05


def test_a_reason_does_not_outlive_the_bounds_it_speaks_of(tmp_path: Path) -> None:
    """Found from outside: caps that were changed by hand were still said to come from private quantiles."""
    data, ledger = tmp_path / "visits.csv", str(tmp_path / "budget.db")
    data.write_text("p,g\n1,a\n2,b\n")
    add = ["dataset", "add", str(data), "--population", "people", "--unit", "p", "--max-groups", "2"]
    add += ["--max-rows-per-group", "3", "--limit", "rho=5", "--ledger", ledger]
    assert main([*add, "--about", "bounds_from=private quantiles (charge 6)"]) == 0
    assert main([*add, "--update"]) == 0
    with ts.Ledger(ledger) as book:
        assert find("visits", book).about["bounds_from"] == "private quantiles (charge 6)"
    add[add.index("--max-groups") + 1] = "1"
    for _ in range(2):
        assert main([*add, "--update"]) == 0
    with ts.Ledger(ledger) as book:
        assert find("visits", book).about["bounds_from"].count("changed since") == 1


@pytest.mark.parametrize(("rho", "is_applied"), [(0.02, True), (0.004, False)])
def test_an_end_that_may_lie_far_out_is_unsure(rho: float, is_applied: bool) -> None:
    visits = ts.Private(made_up()).table(unit="who")
    asked = ts.suggest_caps(visits, by=["ward"], ranges={"cost": (0, 100_000)}, rho=rho)
    exact = run.integers(asked.plan)
    for seed in range(10):
        found = drawn(asked, exact, seed)
        (bound,) = found.bounds
        assert bound.upper_quantile[2] > 10 * bound.upper  # the noise hides where the last hundredth ends
        assert bound.may_be_beyond < 0.2
        (said,) = [line for line in lines(found) if "Not certain" in line and "values from" in line]
        assert "to 100,000 are usual, with" in said
        assert ("bounds of cost" not in found.says_nothing) is is_applied


def test_a_denied_suggestion_is_not_told_to_drop_measures(run: Any, here: Path, account: Account) -> None:
    denied = run(*SUGGEST[:-2], "--rho", "5", *WHY)
    assert denied.code == 3
    assert "--rho " in denied.out + denied.errors
    assert "drop" not in denied.out + denied.errors
    asked = ts.suggest_caps(ts.Private(made_up(), account=account).table(unit="who"), ranges={"cost": (0, 9)}, rho=1.5)
    with pytest.raises(BudgetExceeded) as caught:
        asked.release(why="x")
    assert {remedy.kind for remedy in caught.value.remedies} == {"lower_price", "raise_limit"}
