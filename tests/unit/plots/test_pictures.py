"""Pictures show the numbers of the loss, in words a person can read, with colours everybody can tell apart."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text

import tallystick as ts
from tallystick import plots
from tallystick.errors import InvalidInput
from unit.plots.gallery import planned

LOSS = 20 * ts.gaussian(sigma=8)


def lines(figure):
    return [line.get_xydata() for line in figure.axes[0].lines]


def words(figure) -> str:
    axes = figure.axes[0]
    return " ".join(
        [axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel(), *(t.get_text() for t in axes.texts)]
    )


def test_the_tradeoff_picture_draws_the_tradeoff_curve() -> None:
    figure = plots.tradeoff(LOSS)
    curve = max(lines(figure), key=len)
    assert np.array_equal(curve[:, 1], np.asarray(LOSS.tradeoff(alpha=curve[:, 0])))
    assert "false accusations" in words(figure)
    printed = float(re.search(r"at most ([\d.]+) % of people found", words(figure))[1])
    assert 0 <= printed / 100 - LOSS.power(alpha=0.05) < 0.0011


@pytest.mark.parametrize(
    ("loss", "accused", "found"),
    [
        (ts.gdp(mu=1, unit="patient"), "people not in the data who are accused", "people found"),
        (ts.gdp(mu=1, unit="aircraft"), "aircraft not in the data that are accused", "aircraft found"),
        (ts.gdp(mu=1, unit="ship").for_groups(3), "groups of 3 ships not in the data that are", "3 ships found"),
        (
            ts.gdp(mu=1, adjacency="replace"),
            "people with one version of their data who are taken for the other",
            "people found",
        ),
    ],
)
def test_the_tradeoff_picture_is_about_whom_the_loss_protects(loss, accused: str, found: str) -> None:
    assert f"share of {accused}" in words(plots.tradeoff(loss))
    assert found in words(plots.tradeoff(loss))


def test_the_profile_picture_draws_delta_and_writes_out_one_epsilon() -> None:
    figure = plots.profile(LOSS, mark=1e-6)
    curve = max(lines(figure), key=len)
    assert np.array_equal(curve[:, 1], np.asarray(LOSS.delta(epsilon=curve[:, 0])))
    assert "at delta 1e-6" in words(figure)


@pytest.mark.parametrize(
    "loss", [ts.pure_dp(epsilon=1), ts.approx_dp(epsilon=1, delta=1e-4), ts.no_loss(), ts.pure_dp(epsilon=50)], ids=repr
)
def test_extreme_losses_can_be_drawn(loss: ts.PrivacyLoss, tmp_path: Path) -> None:
    for number, draw in enumerate((plots.tradeoff, plots.profile)):
        assert plots.save(draw(loss), tmp_path / f"{number}.png").stat().st_size > 5_000


def test_the_steps_picture_names_every_line_and_dashes_approximations() -> None:
    curves = [
        plots.Curve("basic", (1, 10, 100), (1.0, 10.0, 100.0)),
        plots.Curve("tight", (1, 10, 100), (1.0, 4.0, 15.0)),
        plots.Curve("limit theorem", (1, 10, 100), (0.9, 3.9, 14.9), is_bound=False),
    ]
    figure = plots.steps(curves, delta=1e-5)
    assert all(curve.name in words(figure) for curve in curves)
    styles = [line.get_linestyle() for line in figure.axes[0].lines]
    assert styles.count("-") == 2
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def test_names_at_the_line_ends_do_not_overlap() -> None:
    curves = [plots.Curve(f"method {i}", (1, 10), (1.0, 5.0 + i / 1000)) for i in range(8)]
    figure = plots.steps(curves, delta=1e-5)
    figure.canvas.draw()
    # The words alone, without the thin line that leads to them.
    boxes = sorted(Text.get_window_extent(text).y0 for text in figure.axes[0].texts)
    assert min(np.diff(boxes)) > figure.axes[0].texts[0].get_fontsize()


def test_points_a_method_does_not_have_are_left_out() -> None:
    figure = plots.steps([plots.Curve("advanced", (1, 10), (float("inf"), 2.0))], delta=1e-5)
    assert lines(figure)[0].tolist() == [[10.0, 2.0]]
    with pytest.raises(InvalidInput):
        plots.steps([plots.Curve("advanced", (1,), (float("inf"),))], delta=1e-5)


def test_the_noise_picture_shades_the_interval_and_refuses_nonsense() -> None:
    figure = plots.noise(lambda x: np.exp(-np.abs(x)) / 2, half_width=3.0, unit="people")
    assert "within ±3 people" in words(figure)
    for options in ({"half_width": 0.0}, {"half_width": float("nan")}, {"half_width": 1.0, "confidence": 1.0}):
        with pytest.raises(InvalidInput):
            plots.noise(np.cos, **options)


def test_the_same_picture_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (plots.save(plots.tradeoff(LOSS), tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second


def test_drawing_leaves_pyplot_and_its_global_state_alone() -> None:
    code = (
        "import sys, tallystick as ts\nfrom tallystick import plots\nplots.tradeoff(ts.gdp(mu=1))\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_positions_draws_composition_above_the_last_iterate() -> None:
    figure = plots.positions([0.1, 0.2, 0.9], every=1.0, delta=1e-6)
    flat, rising = figure.axes[0].lines
    assert list(flat.get_ydata()) == [1.0, 1.0]
    assert list(rising.get_ydata()) == [0.1, 0.2, 0.9]
    with pytest.raises(InvalidInput, match="epsilons"):
        plots.positions([], every=1.0, delta=1e-6)


def test_samples_has_one_named_line_per_route():
    plans = [planned(queries) for queries in (100, 10)]
    axes = plots.samples(plans).axes[0]
    assert {text.get_text() for text in axes.texts} == set(plans[0].bounds)
    assert all(list(line.get_xdata()) == [10, 100] for line in axes.lines)
    other = ts.adaptive.plan(queries=10, tau=0.2, beta=0.05)
    with pytest.raises(InvalidInput, match="plans"):
        plots.samples([plans[0], other])


def test_the_picture_of_errors_has_a_flat_line_for_counts_and_a_falling_one_for_means() -> None:
    import pyarrow as pa

    visits = ts.Private(pa.table({"who": [1], "age": [40.0]})).table(unit="who").per_unit(max_rows_per_group=1)
    plan = visits.agg(n=ts.count(), age=ts.mean("age", 0, 100)).plan(rho=0.1)
    count, mean = lines(plots.errors(plan))
    assert set(count[:, 1]) == {plan.error()["n"]}
    assert mean[-1, 1] == pytest.approx(plan.error(group_size=10_000)["age"])
    assert (np.diff(mean[:, 1]) <= 0).all()
