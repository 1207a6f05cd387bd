"""What somebody reads who follows the guides to the accountant for the first half hour."""

from __future__ import annotations

import inspect
import io
import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.expression import CONSTRUCTORS, METHODS, read_loss
from tallystick.audit.recomputed import telling_digits
from tallystick.cli.commands.plot import Picture
from tallystick.digits import decimal_down, decimal_up, typed

TRAINING = "14063 * gaussian(sigma=1.1).sampled(rate=256/60000)"
CUT = "14063 * gaussian(sigma=1.1).sampled(rate=256/60000, largest=300, population=60000{})"
ANYHOW = ", cut='anyhow'"
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


# Neighbours and units


def test_poisson_sampling_of_a_replace_loss_names_the_way_that_is_poisson_sampling(run: Any) -> None:
    outcome = run("epsilon", "gaussian(sigma=1.1, adjacency='replace').sampled(rate=0.01)", "--delta", "1e-5")
    assert outcome.code == 2
    said = " ".join(outcome.errors.split())
    assert "sample the add/remove loss, then say .as_replace()" in said
    assert ".subset() is for batches of fixed size" in said
    assert run("epsilon", "gaussian(sigma=1.1).sampled(rate=0.01).as_replace()", "--delta", "1e-5").code == 0


@pytest.mark.parametrize(
    "expression",
    [
        "(100 * gaussian(sigma=X).sampled(rate=0.01)).as_replace()",
        "gaussian(sigma=X, adjacency='replace', unit='patient')",
        "X * randomized_response(epsilon=0.1)",
        "(X * gaussian(sigma=20, unit='visit')).for_groups(2)",
    ],
)
def test_a_goal_is_about_the_neighbours_and_the_unit_of_the_loss(run: Any, expression: str) -> None:
    outcome = run("calibrate", expression, "--epsilon", "2", "--delta", "1e-5", "--json")
    assert outcome.code == 0, outcome.errors
    found = outcome.document["found"]
    assert found["epsilon"] <= 2
    more = found["X"] + 1 if "X *" in expression else found["X"] * 0.999
    assert read_loss(expression.replace("X", repr(more))).epsilon(delta=1e-5) > 2


def test_the_picture_of_a_training_plan_is_about_examples(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from tallystick import plots

    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure.axes[0]) or path)
    words = "train plan --epsilon 3 --delta 1e-5 --examples 60000 --batch 1024 --epochs 8 --picture x.svg".split()
    assert run(*words).code == 0
    texts = [drawn[0].get_xlabel(), drawn[0].get_ylabel(), *(text.get_text() for text in drawn[0].texts)]
    assert not [text for text in texts if "people" in text]
    assert any("of examples found" in text for text in texts)


# Numbers that must not contradict each other


def event(folder: Path) -> str:
    name = "dp_accounting.dp_event"
    record = [name, "PoissonSampledDpEvent", 256 / 60000, [name, "GaussianDpEvent", 1.1]]
    (folder / "event.json").write_text(json.dumps([name, "SelfComposedDpEvent", record, 14063]))
    return str(folder / "event.json")


def test_a_claim_a_hair_too_small_is_visibly_too_small(run: Any, tmp_path: Path) -> None:
    outcome = run("import", "dp-accounting", event(tmp_path), "--claimed", "2.381689")
    assert outcome.code == 5
    claimed, least = re.findall(r"claimed (\S+): too small: the truth is at least (\S+)", outcome.out)[0]
    assert Decimal(claimed) < Decimal(least) <= read_loss(TRAINING).epsilon_bounds(delta=1e-5).lower
    ends = re.findall(r"certified between (\S+) and (\S+)", outcome.out)[0]
    assert Decimal(claimed) < Decimal(ends[0]) < Decimal(ends[1])


@pytest.mark.parametrize("distance", [-1e-3, -1e-8, -1e-13, 1e-13, 1e-8, 1e-3])
@pytest.mark.parametrize("bounds", [Bounds(2.3816897, 2.3816899), Bounds(0.1, 0.1), Bounds(1e-9, 3e5)])
def test_printed_ends_are_on_the_side_of_the_claim_that_they_are_on(bounds: Bounds, distance: float) -> None:
    for end in (bounds.lower, bounds.upper):
        claimed = end * (1 + distance)
        digits = telling_digits(claimed, bounds)
        said = Decimal(typed(claimed))
        assert (said < decimal_down(bounds.lower, digits)) == (claimed < bounds.lower)
        assert (said >= decimal_up(bounds.upper, digits)) == (claimed >= bounds.upper)


def test_a_claim_that_is_the_certified_bound_is_called_that(run: Any, tmp_path: Path) -> None:
    bound = repr(float(read_loss(TRAINING).epsilon(delta=1e-5)))
    assert (
        f"claimed {bound}: valid: it is the certified bound\n"
        in run("import", "dp-accounting", event(tmp_path), "--claimed", bound).out
    )


@pytest.mark.parametrize("words", [["import"], ["audit", "accounting"]])
def test_a_source_may_be_spelled_as_its_module(run: Any, tmp_path: Path, words: list[str]) -> None:
    outcome = run(*words, "dp_accounting", event(tmp_path), "--claimed", "2.5", "--json")
    assert outcome.code == 0, outcome.errors


def test_bounds_are_said_to_be_of_the_loss_and_a_proof_to_be_one(run: Any) -> None:
    words = ("epsilon", "zcdp(rho=0.1)", "--delta", "1e-5", "--bounds")
    assert "certified between 0 and " in run(*words).out
    assert run(*words, "--json").document["found"]["rigorous"] is False
    pytest.importorskip("flint")
    words = ("delta", "gaussian(sigma=1)", "--epsilon", "1", "--rigorous")
    assert "proved by interval arithmetic to be between " in run(*words).out
    assert run(*words, "--json").document["found"]["rigorous"] is True


# Hints


def test_an_infinite_epsilon_of_cut_batches_says_which_cut_is_finite(run: Any) -> None:
    said = run("epsilon", CUT.format(ANYHOW), "--delta", "1e-5").out
    assert said.startswith("epsilon infinite at delta 1e-5\n")
    finite = re.findall(r'With cut="random" epsilon is (\S+)\. It assumes that batches are cut at random', said)
    truth = read_loss(CUT.format(", cut='random'")).epsilon(delta=1e-5)
    assert float(finite[0]) == pytest.approx(truth, rel=1e-5)
    assert "hint" in run("epsilon", CUT.format(ANYHOW), "--delta", "1e-5", "--json").document["found"]


@pytest.mark.parametrize(
    ("expression", "delta"),
    [
        ("gaussian(sigma=1)", "0"),  # infinite, and nothing is cut
        (CUT.format(ANYHOW), "0"),  # infinite however batches are cut
        (CUT.format(ANYHOW) + " + not_private(why='a leak')", "1e-5"),
        (CUT.format(", cut='ranked'"), "1e-5"),  # finite already
        ("gaussian(sigma=1.1).sampled(rate=0.01, largest=90, population=1000, cut='anyhow')", "1e-5"),
    ],
)
def test_no_cut_is_recommended_that_would_not_help(run: Any, expression: str, delta: str) -> None:
    assert "cut=" not in run("epsilon", expression, "--delta", delta).out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["epsilon", "gaussian(sigma=1)", "--epsilon", "1"], "tallystick delta EXPR --epsilon E"),
        (["delta", "gaussian(sigma=1)", "--delta", "1e-5"], "tallystick epsilon EXPR --delta D"),
        (["epsilon", "60*60000/256 * gaussian(sigma=1)", "--delta", "1e-5"], "round it up to 14063"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(run: Any, words: list[str], says: str) -> None:
    outcome = run(*words)
    assert outcome.code == 2
    assert says in outcome.errors
    assert "did you mean" not in outcome.errors


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["epsilon", "gaussian(sigma=1)", "--delta", "1e-5"], "asking the accountant"),
        (["calibrate", "gaussian(sigma=X)", "--epsilon", "1", "--delta", "1e-5"], "calibrating"),
    ],
)
def test_whoever_waits_at_a_terminal_sees_what_for(run: Any, monkeypatch: Any, words: list[str], says: str) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    outcome = run(*words)
    assert outcome.code == 0
    assert says in screen.getvalue()
    assert says not in outcome.out


# The page


def expressions() -> str:
    return PAGE.split("## Expressions\n")[1].split("\n## ")[0]


def test_the_page_lists_every_word_of_expressions_with_its_arguments_and_no_other() -> None:
    spans = dict(re.findall(r"`(\.?[a-z_]+)\(([^`]*)\)`", expressions()))
    code = {**CONSTRUCTORS, **{f".{name}": getattr(ts.PrivacyLoss, name) for name in METHODS}}
    assert sorted(spans) == sorted(code)
    for name, function in code.items():
        named = [each for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
        taken = {each.name for each in named} - {"adjacency", "unit"}
        assert set(re.findall(r"(\w+)=", spans[name])) == taken, name


def test_the_page_names_every_way_to_cut_and_every_picture() -> None:
    from tallystick.accounting.leaves.truncated import CUTS

    assert all(f'"{cut}"' in expressions() for cut in CUTS)
    assert f"[--kind {'|'.join(Picture)}]" in PAGE


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("explain", "pure_dp(epsilon=0.1)"), "Epsilon 0.1, for one person"),
        (("epsilon", "pure_dp(epsilon=0.1)", "--delta", "0"), "epsilon 0.1 at delta 0"),
    ],
)
def test_an_epsilon_that_a_person_typed_is_printed_as_typed(run: Any, words: tuple[str, ...], shown: str) -> None:
    said = run(*words).out
    assert shown in said
    assert "0.100001" not in said
