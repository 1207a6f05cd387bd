"""Each command answers, says the same in JSON as in words, and keeps stdout for the answer."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path

import pytest

import tallystick as ts
from sweeps import share

TRAINING = "1000 * gaussian(sigma=2).sampled(rate=0.01)"

EVERY_COMMAND = {
    "epsilon": ("epsilon", TRAINING, "--delta", "1e-5"),
    "delta": ("delta", TRAINING, "--epsilon", "0.5"),
    "compare": ("compare", "100 * gaussian(sigma=10)", "--delta", "1e-5"),
    "explain": ("explain", "pure_dp(epsilon=1)"),
    "calibrate": ("calibrate", "100 * gaussian(sigma=X)", "--epsilon", "1", "--delta", "1e-6"),
    "theorem": ("theorem", "13.5"),
    "doctor": ("doctor",),
}


@pytest.mark.parametrize("arguments", EVERY_COMMAND.values(), ids=EVERY_COMMAND)
def test_a_command_answers_on_stdout_and_keeps_stderr_quiet(run, arguments) -> None:
    outcome = run(*arguments)
    assert outcome.code == 0, outcome.errors
    assert outcome.out
    assert outcome.errors == ""
    assert "nan" not in outcome.out.lower().split()
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize("arguments", EVERY_COMMAND.values(), ids=EVERY_COMMAND)
def test_json_is_one_versioned_object(run, arguments) -> None:
    outcome = run(*arguments, "--json")
    assert outcome.code == 0, outcome.errors
    document = outcome.document
    assert document["schema"] == f"tallystick/{arguments[0]}"
    assert document["version"] == 1
    assert set(document) == {"schema", "version", "asked", "found"}


def test_epsilon_is_what_the_library_says_and_is_printed_rounded_up(run) -> None:
    arguments = EVERY_COMMAND["epsilon"]
    exact = (1000 * ts.gaussian(sigma=2).sampled(rate=0.01)).epsilon(delta=1e-5)
    assert run(*arguments, "--json").document["found"]["epsilon"] == exact
    printed = float(run(*arguments).out.split()[1])
    assert exact <= printed <= exact * (1 + 1e-5)


def test_bounds_enclose_and_are_printed_outward(run) -> None:
    found = run(*EVERY_COMMAND["delta"], "--bounds", "--json").document["found"]
    assert found["lower"] <= found["upper"] == found["delta"]
    low, high = map(float, re.search(r"between (\S+) and (\S+)", run(*EVERY_COMMAND["delta"], "--bounds").out).groups())
    assert low <= found["lower"] <= found["upper"] <= high


def test_an_infinite_epsilon_is_said_in_words_and_in_legal_json(run) -> None:
    arguments = ("epsilon", "gaussian(sigma=1)", "--delta", "0")
    assert "infinite" in run(*arguments).out
    assert run(*arguments, "--json").document["found"]["epsilon"] == "inf"


def test_explain_gives_the_reference_points_of_pure_epsilon_one(run) -> None:
    text = run("explain", "pure_dp(epsilon=1)").out
    assert "about 27 of 100 possible results make the best attacker think you are" in text
    assert "about 73 of 100 do" in text
    for fact in ("equally likely                    73.2 %", "a suspicion of 1 % grows to"):
        assert fact in text
    assert not re.search(r"\b(strong|weak|good|bad|safe)\b", text)


def test_explain_gives_the_reference_points_of_pure_epsilon_eight(run) -> None:
    found = run("explain", "pure_dp(epsilon=8)", "--json").document["found"]
    assert found["odds_factor"] == pytest.approx(2981, rel=1e-3)
    assert found["belief_from_prior"]["0.01"] == pytest.approx(0.968, abs=5e-4)


@pytest.mark.parametrize(
    ("written", "unit", "adjacency", "group", "said"),
    [
        ("", None, "add_remove", 1, "for one person added to or removed from the data."),
        (", unit='patient'", "patient", "add_remove", 1, "for one patient added to or removed from the data."),
        (", unit='aircraft'", "aircraft", "add_remove", 1, "more likely with one aircraft than without it"),
        (", unit='[red]box'", "[red]box", "add_remove", 1, "more likely with one [red]box than without it"),
        (", adjacency='replace'", None, "replace", 1, "more likely with one version of your data than with another"),
        (", unit='ship', adjacency='replace'", "ship", "replace", 1, "for the data of one ship replaced."),
        (", unit='ship'", "ship", "add_remove", 3, "for up to 3 ships added to or removed from the data."),
        (", unit='ship'", "ship", "add_remove", 3, "groups of 3 ships found, with 1 false accusation per 100"),
        (
            ", unit='ship', adjacency='replace'",
            "ship",
            "replace",
            3,
            "groups of 3 ships with the other data recognised",
        ),
    ],
)
def test_explain_names_unit_neighbours_and_group(run, written, unit, adjacency, group, said) -> None:
    expression = f"gaussian(sigma=1{written}).for_groups({group})"
    text = run("explain", expression).out
    assert said in text
    assert ("not in the data" in text) == ("in and out" in text) == (adjacency == "add_remove")
    assert bool(re.search(r"\byou", text)) == (unit in (None, "patient"))
    found = run("explain", expression, "--json").document["found"]
    assert found["about"] == {"unit": unit, "adjacency": adjacency, "group": group}
    assert found["sentence"] in text


def test_calibrated_noise_meets_the_goal_and_slightly_less_noise_does_not(run) -> None:
    sigma = run(*EVERY_COMMAND["calibrate"], "--json").document["found"]["X"]
    goal = ts.approx_dp(epsilon=1, delta=1e-6)
    assert 100 * ts.gaussian(sigma=sigma) <= goal
    assert (100 * ts.gaussian(sigma=sigma * 0.999)).epsilon_bounds(delta=1e-6).lower > 1


def test_an_unknown_count_is_answered_with_the_most_steps_that_fit(run) -> None:
    arguments = ("calibrate", "X * pure_dp(epsilon=0.25)", "--epsilon", "1", "--delta", "0", "--json")
    found = run(*arguments).document["found"]
    assert found["X"] == 4
    assert isinstance(found["X"], int)


def test_calibrate_dpsgd_prices_other_accountants_and_saves_a_plan_that_can_be_read_back(run, tmp_path: Path) -> None:
    plan_file = tmp_path / "plan.json"
    options = "--epsilon 8 --delta 1e-5 --examples 50000 --batch 1024 --epochs 30".split()
    outcome = run("calibrate", "dpsgd", *options, "--save", str(plan_file), "--json")
    assert outcome.code == 0, outcome.errors
    found = outcome.document["found"]
    assert found["steps"] == math.ceil(30 * 50000 / 1024)
    assert found["upper"] <= 8
    assert found["lower"] > 7.99
    assert len(found["methods"]) >= 6
    plan = json.loads(plan_file.read_text())
    assert (plan["schema"], plan["version"]) == ("tallystick/dpsgd-plan", 1)
    loss = ts.PrivacyLoss.from_json(json.dumps(plan["loss"]))
    assert loss <= ts.approx_dp(epsilon=8, delta=1e-5)


@pytest.mark.parametrize(
    ("kind", "ending"),
    share(
        itertools.product(["tradeoff", "profile", "steps"], ["svg", "png"]),
        6,
        always=[("profile", "png"), ("steps", "svg")],
    ),
)
def test_plot_writes_the_file_it_names(run, tmp_path: Path, kind: str, ending: str) -> None:
    target = tmp_path / f"picture.{ending}"
    outcome = run("plot", "20 * gaussian(sigma=5)", "--kind", kind, "--out", str(target))
    assert outcome.code == 0, outcome.errors
    assert outcome.out == f"{target}\n"
    start = target.read_bytes()[:8]
    assert start.startswith(b"\x89PNG") if ending == "png" else start.startswith(b"<?xml")


def test_the_version_and_the_help_are_there(run) -> None:
    assert run("--version").out == f"tallystick {ts.__version__}\n"
    for arguments in ((), ("--help",), ("-h",)):
        outcome = run(*arguments)
        assert outcome.code == 0
        assert all(name in outcome.out for name in (*EVERY_COMMAND, "plot", "demo"))


def test_doctor_names_a_missing_part_and_how_to_get_it(run, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    assert "pictures: absent: pip install '.[plots]'" in run("doctor").out


def test_calibrate_dpsgd_and_train_plan_mean_the_same_run(run) -> None:
    words_of_a_run = "--epsilon 2 --delta 1e-5 --examples 700 --batch 70 --epochs 1.1".split()  # 1.1 * 700 / 70 > 11
    found = [
        run(*words, *words_of_a_run, "--json").document["found"]
        for words in (("calibrate", "dpsgd"), ("train", "plan"))
    ]
    for name in ("steps", "noise_multiplier", "rate", "expression"):
        assert found[0][name] == found[1][name]
    assert found[0]["steps"] == 11


def test_a_given_epsilon_is_said_as_it_was_given(run) -> None:
    """To six digits it was another one, at which the sentence was false."""
    said = run("delta", "pure_dp(epsilon=1.0000001)", "--epsilon", "1.0000001", "--bounds").out
    assert "at epsilon 1.0000001\n" in said
