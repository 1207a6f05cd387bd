"""``tallystick audit`` as a person or a script uses it: verdicts, exit codes, JSON and the page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tallystick.audit.inclusion import Coins
from tallystick.cli import main

HALF = """
import random
def release(data):
    return round(sum(data) + random.choice([-1, 1]) * random.expovariate(2.0), 1)
"""


def asked_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    return code, capsys.readouterr().out


def test_a_function_in_a_file_is_falsified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "count.py").write_text(HALF)
    for name, data in (("a.json", [0, 0]), ("b.json", [0, 1])):
        (tmp_path / name).write_text(json.dumps(data))
    page = tmp_path / "page.html"
    words = ["audit", "mechanism", f"{tmp_path}/count.py:release", "--first", f"{tmp_path}/a.json"]
    words += ["--second", f"{tmp_path}/b.json", "--draws", "6000", "--report", str(page)]
    code, out = asked_of(capsys, *words, "--claim", "pure_dp(epsilon=0.5)", "--json")
    found = json.loads(out)["found"]
    assert (code, found["verdict"]) == (5, "FALSIFIED")
    assert "<h1>The claim is false: this attack succeeds more often than it allows</h1>" in page.read_text()
    code, out = asked_of(capsys, *words, "--claim", "pure_dp(epsilon=6)")
    assert code == 0
    assert out.startswith("No evidence against the claim: pure_dp(epsilon=6)")


def test_a_run_with_canaries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coins = tmp_path / "coins.json"
    code, out = asked_of(capsys, "audit", "coins", "1000", "--out", str(coins))
    assert code == 0
    drawn = Coins.load(coins)
    assert drawn.commitment in out
    assert asked_of(capsys, "audit", "coins", "1000", "--out", str(coins))[0] == 2
    code, out = asked_of(capsys, "audit", "plan", "--claim", "gdp(mu=1)", "--canaries", "1000", "--json")
    guesses = json.loads(out)["found"]["guesses"]
    rng = np.random.default_rng(1)
    for leak, expected in ((5.0, 5), (0.0, 0)):
        scores = tmp_path / "scores.txt"
        values = leak * drawn.included + rng.normal(size=1000)
        scores.write_text("\n".join(map(str, values.tolist())))
        words = ["audit", "run", str(scores), "--coins", str(coins), "--claim", "gdp(mu=1)"]
        code, out = asked_of(capsys, *words, "--guesses", str(guesses))
        assert code == expected, out
    as_list = tmp_path / "scores.json"
    as_list.write_text(json.dumps(values.tolist()))
    assert asked_of(capsys, "audit", "run", str(as_list), "--coins", str(coins), "--claim", "gdp(mu=1)")[0] == 0


def test_scores_are_not_read_from_a_registered_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ages.csv").write_text("7\n" + "\n".join(str(20 + i % 50) for i in range(199)) + "\n")
    asked_of(capsys, "dataset", "add", "ages.csv", "--population", "people", "--unit", "each-row", "--limit", "rho=1")
    assert asked_of(capsys, "audit", "coins", "200", "--out", "coins.json")[0] == 0
    code, _ = asked_of(capsys, "audit", "run", "ages.csv", "--coins", "coins.json", "--claim", "gdp(mu=1)")
    assert code == 4


def test_another_accountants_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = ("audit", "accounting", "loss", "1000 * gaussian(sigma=1).sampled(rate=0.01)", "--delta", "1e-5")
    assert asked_of(capsys, *loss, "--claimed", "1.5")[0] == 5
    assert asked_of(capsys, *loss, "--claimed", "1.9")[0] == 0
    record = tmp_path / "run.json"
    record.write_text('{"history": [[1.0, 0.01, 1000]]}')
    code, out = asked_of(capsys, "audit", "accounting", "opacus", str(record), "--claimed", "1.5", "--json")
    assert (code, json.loads(out)["found"]["refutes"]) == (5, "(epsilon, delta)-DP")


def test_a_ledger_whose_prices_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "l.db")
    assert asked_of(capsys, "ledger", "init", "--ledger", place)[0] == 0
    code, out = asked_of(capsys, "audit", "ledger", "--ledger", place)
    assert code == 0
    assert out.startswith("Every charge covers its cost")


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "mechanism", "nowhere.py:f", "--first", "a", "--second", "b", "--claim", "pure_dp(epsilon=1)"],
        ["audit", "run", "none.txt", "--coins", "none.json", "--claim", "gdp(mu=1)"],
        ["audit", "accounting", "opacus", "none.json", "--claimed", "1"],
        ["audit", "accounting", "other", "none.json", "--claimed", "1"],
        ["audit", "plan", "--claim", "gdp(", "--canaries", "10"],
    ],
)
def test_bad_input_is_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_table_plan_is_attacked_on_made_up_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import tallystick as ts
    from tallystick.publish.export import saved

    rows = ["unit,region,age", "1,north,30", "2,south,50", "3,north,41"]
    for name, extra in (("real.csv", []), ("a.csv", []), ("b.csv", ["9,north,99"]), ("far.csv", ["9,a,9", "8,b,8"])):
        (tmp_path / name).write_text("\n".join([*rows, *extra]) + "\n")
    visits = ts.Private(str(tmp_path / "real.csv")).table(unit="unit", types={"age": "integer"})
    visits = visits.per_unit(max_groups=1, max_rows_per_group=1)
    asked = visits.group_by("region", keys=["north", "south"]).agg(n=ts.count(), total=ts.sum("age", 0, 110))
    plan = tmp_path / "plan.json"
    # The claim of rho 0.01 below is far from the truth, so that 300 draws find it: p-values are near 1e-25.
    plan.write_text(saved("visits", asked.plan(rho=8)))
    words = ["audit", "table", str(plan), "--first", f"{tmp_path}/a.csv", "--second", f"{tmp_path}/b.csv"]
    code, out = asked_of(capsys, *words, "--draws", "300", "--significance", "1e-6", "--json")
    assert (code, json.loads(out)["found"]["verdict"]) == (0, "NOT FALSIFIED")
    code, out = asked_of(capsys, *words, "--draws", "300", "--claim", "zcdp(rho=0.01)", "--json")
    assert (code, json.loads(out)["found"]["verdict"]) == (5, "FALSIFIED")
    assert asked_of(capsys, *words[:-1], f"{tmp_path}/none.csv")[0] == 2
    # Found from outside: tables that are no neighbours, and the plan's own (or registered) data, 20,000 times for free.
    for other in ("a.csv", "far.csv", "real.csv"):
        assert asked_of(capsys, *words[:-1], f"{tmp_path}/{other}")[0] == 2
    os.link(tmp_path / "real.csv", tmp_path / "hidden.csv")
    hidden = [*words[:3], "--first", f"{tmp_path}/hidden.csv", "--second", f"{tmp_path}/b.csv"]
    assert asked_of(capsys, *hidden)[0] == 4
    ledger = str(tmp_path / "budget.db")
    options = ["--population", "people", "--unit", "unit", "--max-groups", "1", "--max-rows-per-group", "1"]
    added = ["dataset", "add", f"{tmp_path}/a.csv", *options, "--limit", "rho=1", "--ledger", ledger]
    assert asked_of(capsys, *added)[0] == 0
    assert asked_of(capsys, *words, "--ledger", ledger)[0] == 4


def test_a_report_overwrites_no_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found from outside: `--report` wrote its page over the ledger."""
    held = tmp_path / "budget.html"
    held.write_bytes(b"SQLite format 3")
    asked = ["audit", "accounting", "loss", "gaussian(sigma=1)", "--claimed", "50", "--delta", "1e-5", "--report"]
    for place in (held, tmp_path / "budget.db", tmp_path / "none" / "page.html", tmp_path):
        assert asked_of(capsys, *asked, str(place))[0] == 2
    assert held.read_bytes() == b"SQLite format 3"
    for _ in range(2):  # a page may be written again
        assert asked_of(capsys, *asked, str(tmp_path / "page.html"))[0] == 0


@pytest.mark.parametrize(
    "text", ["import sys\nsys.exit(0)", "import nowhere_at_all", "def f(x):\n    raise SystemExit(0)"]
)
def test_a_file_that_exits_is_no_verdict(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.py").write_text(text)
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(f'"{name}"')
    words = [
        "audit",
        "mechanism",
        f"{tmp_path}/f.py:f",
        "--first",
        f"{tmp_path}/a.json",
        "--second",
        f"{tmp_path}/b.json",
    ]
    assert asked_of(capsys, *words, "--claim", "pure_dp(epsilon=1)", "--draws", "60")[0] == 2
