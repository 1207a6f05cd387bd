"""``tallystick demo curves|race|iterate|local|game|six``: each says what a theorem says, with its own numbers."""

from __future__ import annotations

import io
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.cli.commands import game_story, race_story, six_story

DRAWN = ["curves", "iterate", "local", "race", "six"]


@pytest.fixture(scope="module")
def tellings() -> dict[str, Any]:
    return {}


@pytest.fixture
def told(run, tmp_path: Path, tellings, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A story's facts; each is told once."""
    monkeypatch.setattr(six_story, "SIZES", (50, 100, 10_000))
    monkeypatch.setattr(six_story, "DRAWS", 25)
    monkeypatch.setattr(race_story, "COUNTS", (1, 10, 29, 300))
    monkeypatch.setattr(race_story, "ASKED", (10,))

    def tell(story: str) -> dict[str, Any]:
        if story not in tellings:
            outcome = run("demo", story, "--out", str(tmp_path), "--json")
            assert outcome.code == 0, outcome.errors
            tellings[story] = outcome.document["found"]
            if story in DRAWN:
                assert Path(tellings[story]["picture"]) == tmp_path / f"{story}.svg"
                assert (tmp_path / f"{story}.svg").stat().st_size > 5_000
        return tellings[story]

    return tell


def test_ours_wins_the_race_from_start_to_end(told) -> None:
    found = told("race")
    rows = found["epsilon"]
    for place, k in enumerate(found["steps"]):
        assert rows["ours"][place] <= rows["optimal"][place] * (1 + 1e-9) <= rows["basic"][place] * (1 + 2e-9)
        assert rows["ours"][place] == pytest.approx((k * ts.laplace(scale=10)).epsilon(delta=1e-5), rel=1e-9)
    assert found["advanced_beats_basic_from"] == 29  # the crossing of the notes
    for row in found["noise"]:
        assert (row["answers"] * ts.laplace(scale=row["ours"])).epsilon(delta=1e-5) <= 1.0
        assert row["ours"] < row["basic"]


def test_early_records_are_hidden_and_contractions_forget(told) -> None:
    found = told("iterate")
    by_batch = found["last_iterate_by_batch"]
    assert by_batch == sorted(by_batch)
    assert by_batch[-1] == pytest.approx(found["every_iterate"], rel=1e-9)
    assert by_batch[0] == pytest.approx(ts.gaussian(sigma=5 * math.sqrt(50)).epsilon(delta=1e-5), rel=1e-6)
    every, *shorter = found["full_batches"].values()
    for row in shorter:
        assert all(last <= all_ * (1 + 1e-9) for last, all_ in zip(row, every, strict=True))
    assert shorter[-1][-1] == pytest.approx(shorter[-1][-2], rel=1e-3)  # it has stopped growing


def test_a_curator_is_worth_more_people_than_everybody(told) -> None:
    found = told("local")
    for row in found["rows"]:
        n, errors, worth = row["people"], row["standard_error"], row["worth_people"]
        gain = math.tanh(0.5)  # of randomized response at epsilon 1: the truth's probability less the lie's
        lie = 1 / (1 + math.e)
        yes = lie + gain * 0.3
        assert errors["local"] == pytest.approx(math.sqrt(yes * (1 - yes) / n) / gain, rel=1e-9)
        assert errors["central"] == pytest.approx(math.sqrt(0.21 / n + 2 / n**2), rel=1e-9)
        assert worth["local"] < worth["central"] < n
    assert found["survey"]["central"] == pytest.approx(0.3, abs=0.004)  # e^-40 of all surveys are further off
    assert found["survey"]["local"] == pytest.approx(0.3, abs=0.1)  # nine standard errors


def test_curves_are_what_their_names_say(told) -> None:
    found = told("curves")
    both = dict(zip(found["alphas"], zip(*found["misses"].values(), strict=True), strict=True))
    for alpha, (f, g, larger, hull, sampled, chained, product) in both.items():
        assert f == pytest.approx(max(1 - math.e * alpha, (1 - alpha) / math.e), abs=1e-12)
        assert g == pytest.approx(0.7 - alpha if alpha < 0.7 else 0, abs=1e-12)
        assert larger == pytest.approx(max(f, g), abs=1e-12)
        assert hull <= min(f, g) + 1e-12
        assert f - 1e-12 <= sampled <= 1 - alpha + 1e-12
        assert max(chained, product) <= f + 1e-12
        two = ts.pure_dp(epsilon=1) + ts.pure_dp(epsilon=1)
        assert product == pytest.approx(two.tradeoff(alpha=alpha), abs=1e-9)


def test_the_game_is_enumerated_exactly(told) -> None:
    found = told("game")
    for factor, adaptive, fixed, worst in zip(
        *(map(Fraction, found[name]) for name in ("factor", "adaptive", "fixed", "worst")), strict=True
    ):
        assert max(adaptive, fixed) <= worst
        coins = 4 * ts.pure_dp(epsilon=math.log(2))
        assert float(fixed) == pytest.approx(coins.delta(epsilon=math.log(factor)), abs=1e-9)
        allowed = 4 * ts.approx_dp(epsilon=math.log(2), delta=0.05)
        assert float(worst) <= allowed.delta(epsilon=math.log(factor)) + 1e-9


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("typed", ["1\n2\nx\n1\n1\n0\n", "\n\n", ""])
def test_the_game_is_played_in_a_terminal(run, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    outcome = run("demo", "game")
    assert outcome.code == 0, outcome.errors
    turns = outcome.out.count("it says")
    assert turns == sum(line in ("1", "2") for line in typed.split())
    assert ("Type one of: 1, 2, Enter" in outcome.out) == ("x" in typed)
    assert ("(it was" in outcome.out) == (turns > 0)
    assert "No adversary does better" in outcome.out


def test_outputs_of_the_game_have_their_probabilities() -> None:
    class Places:
        def __init__(self, place: int) -> None:
            self.place = place

        def randrange(self, stop: int) -> int:
            return self.place % stop

    masses = (Fraction(1, 3), Fraction(0), Fraction(2, 3))
    drawn = [game_story._output(masses, Places(place)) for place in range(9)]
    assert [drawn.count(output) for output in range(3)] == [3, 0, 6]


def test_slopes_of_six_ways(told) -> None:
    slopes = told("six")["slope"]
    # over two decades 25 draws leave about 0.07 of chance in a slope
    assert -0.85 < slopes["exponential mechanism"] < -0.15
    for name in ("K-norm gradient", "objective perturbation", "output perturbation", "noisy gradient descent"):
        assert -1.5 < slopes[name] < -0.5


@pytest.mark.parametrize("story", ["curves", "iterate", "local"])
def test_stories_are_told_in_words(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: str) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("demo", story)
    assert outcome.code == 0, outcome.errors
    assert f"tallystick-demo/{story}.svg" in outcome.out
    assert "nan" not in outcome.out


@pytest.mark.parametrize("story", ["race", "game", "six"])
def test_the_words_have_the_facts(told, story: str, capsys) -> None:
    """The slower stories are told once; here only the words."""
    from importlib import import_module

    from tallystick.cli.output import console

    import_module(f"tallystick.cli.commands.{story}_story")._say(console(), told(story))
    said = capsys.readouterr().out
    assert {"race": "k = 29", "game": "the worst", "six": "slope"}[story] in said
