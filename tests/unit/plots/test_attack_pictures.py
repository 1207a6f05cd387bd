"""Pictures of attacks draw the numbers they are given, beside what a claim allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tallystick as ts
from tallystick import plots
from tallystick.audit.band import banded
from tallystick.errors import InvalidInput

CLAIM = ts.gdp(mu=1)


def test_the_recovery_picture_has_a_line_for_every_n_and_the_frontier() -> None:
    figure = plots.recovery({64: [1.0, 0.6], 128: [1.0, 0.55]}, noises=[0.1, 2.0])
    axes = figure.axes[0]
    assert axes.get_legend_handles_labels()[1] == ["64 people", "128 people"]
    assert any(line.get_xdata()[0] == 1.0 for line in axes.lines)
    with pytest.raises(InvalidInput):
        plots.recovery({64: [1.0]}, noises=[0.1, 2.0])


def test_hits_are_drawn_under_the_ceiling() -> None:
    rates = [ts.audit.hit_rate([3, 2, 1, 0], [True, True, False, False], alarm=a, claim=CLAIM) for a in (0.0, 0.5)]
    axes = plots.hits(rates, claim=CLAIM).axes[0]
    ceiling = max((line.get_xydata() for line in axes.lines), key=len)
    assert np.allclose(ceiling[:, 1], 1 - np.asarray(CLAIM.tradeoff(alpha=ceiling[:, 0])))
    with pytest.raises(InvalidInput):
        plots.hits([], claim=CLAIM)


def test_pictures_of_units_that_are_nobody_do_not_speak_of_people() -> None:
    rates = [ts.audit.hit_rate([3, 2, 1, 0], [True, True, False, False], alarm=0.5, claim=CLAIM)]
    of_claim = plots.hits(rates, claim=ts.gdp(mu=1, unit="flight")).axes[0]
    assert of_claim.get_xlabel() == "false accusations: share of flights not in the data that are accused"
    assert "share of examples not" in plots.hits(rates, claim=CLAIM, unit="example").axes[0].get_xlabel()
    assert "share of people not" in plots.hits(rates, claim=CLAIM).axes[0].get_xlabel()
    curve = {"mu 1": lambda alpha: np.asarray(CLAIM.tradeoff(alpha=alpha))}
    assert (
        "share of examples in the data that are not found"
        in plots.tradeoffs(curve, unit="example").axes[0].get_ylabel()
    )
    one = plots.tradeoff(CLAIM, unit="example").axes[0]
    assert "of examples found" in "".join(text.get_text() for text in one.texts)


def test_the_band_marks_what_is_below_the_claim(tmp_path: Path) -> None:
    leak = banded(CLAIM, "x", 10_000, [100, 1000], [2000, 500], 0.05)
    axes = plots.tradeoff_band(leak).axes[0]
    assert axes.get_title(loc="left").startswith("Evidence against the claim")
    assert "below the claim" in [text.get_text() for text in axes.texts]
    quiet = plots.tradeoff_band(banded(CLAIM, "x", 100, [50, 90], [50, 10], 0.05))
    assert quiet.axes[0].get_title(loc="left").startswith("No evidence against the claim")
    assert "below the claim" not in [text.get_text() for text in quiet.axes[0].texts]
    assert plots.save(quiet, tmp_path / "band.svg").stat().st_size > 5_000


def test_other_attacks_have_their_pictures() -> None:
    guess = ts.audit.differencing(sum, others=[1, 0], repeats=20)
    assert len(plots.guesses({1.0: guess}).axes[0].lines) == 4
    assert len(plots.linked({"rows": {1: 0.2, 2: 0.9}}).axes[0].lines) == 1
    for draw in (plots.guesses, plots.linked):
        with pytest.raises(InvalidInput):
            draw({})
