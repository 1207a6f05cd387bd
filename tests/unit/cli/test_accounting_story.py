"""``tallystick demo --accounting`` composes, compares, explains, calibrates and draws."""

from __future__ import annotations

from pathlib import Path

import typer

import tallystick as ts


def test_the_story_is_told_with_true_numbers_and_leaves_two_pictures(run, tmp_path: Path) -> None:
    outcome = run("demo", "--accounting", "--out", str(tmp_path / "demo"), "--json")
    assert outcome.code == 0, outcome.errors
    found = outcome.document["found"]
    assert found["lower"] <= found["upper"] < sum(part["epsilon"] for part in found["parts"])
    assert 52 * ts.gaussian(sigma=found["weekly_sigma_for_epsilon_1"]) <= ts.approx_dp(epsilon=1, delta=1e-6)
    pictures = [Path(name) for name in found["pictures"]]
    assert len(pictures) == 2
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
    assert len(found["next"]) == 3
    bounds = {row["method"]: row["epsilon"] for row in found["methods"] if row["kind"] == "bound"}
    assert min(bounds.values()) == bounds["tight"]


def test_the_commands_to_try_next_are_commands(run) -> None:
    from tallystick.cli.app import app
    from tallystick.cli.commands.accounting_story import NEXT

    names = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert all(line.split()[0] == "tallystick" and line.split()[1] in names for line in NEXT)
