"""``tallystick demo six``: one mean, six private ways to it, and how fast the error of each falls with more people.

One person is replaced, n is public, epsilon = 1; all pure but gradient descent (delta = 1e-6). What is measured is the
distance from the answer without privacy, over repeated draws on the same made-up data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.cli.output import Answer, deliver, working
from tallystick.digits import typed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from tallystick.learn.erm import ExponentialERM

EPSILON, DELTA, STEPS = 1.0, 1e-6, 20
SIZES, DRAWS = (100, 300, 1000, 3000, 10_000), 60

Values = NDArray[np.float64]
Release = Callable[[], float]
Way = Callable[[Values], Release]


def six_story(folder: Path, *, as_json: bool) -> None:
    """The least-squares mean of n numbers in [-1, 1] by six mechanisms, against n."""
    from tallystick.cli.commands.demo import drawn_into
    from tallystick.mechanisms.base import UnrecordedRelease

    with working("one mean, six ways"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedRelease)  # nobody's numbers
        table = errors(SIZES, DRAWS)
        place = drawn_into(folder, "six.svg", lambda: picture(table, SIZES))
    facts: dict[str, Any] = {
        "people": list(SIZES),
        "draws": DRAWS,
        "error": table,
        "slope": {name: slope(column, SIZES) for name, column in table.items()},
        "picture": place and str(place),
    }
    deliver(Answer("demo", {"story": "six", "out": str(folder)}, facts, lambda out: _say(out, facts)), as_json=as_json)


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(f"[bold]One mean, six ways[/bold] at epsilon {typed(EPSILON)}: how far from the answer without privacy.")
    out.print(f"  {'people':<24}" + "".join(f"{n:>9,}" for n in facts["people"]) + f"{'slope':>8}", markup=False)
    for name, column in facts["error"].items():
        cells = "".join(f"{error:>9.2g}" for error in column)
        out.print(f"  {name:<24}{cells}{facts['slope'][name]:>8.2f}", markup=False)
    out.print("A slope of -1 soon disappears beside the sampling error, whose slope is -1/2; one of -1/2 never does.")
    if facts["picture"]:
        out.print(f"Error against people: {facts['picture']}", markup=False, soft_wrap=True)


def _drawn(kind: str) -> Way:
    """A density on [-1, 1], sampled exactly; the sums are made once per dataset."""

    def prepared(values: Values) -> Release:
        from tallystick import learn
        from tallystick.learn import cells
        from tallystick.learn.records import given
        from tallystick.mechanisms.exact.randomness import SYSTEM

        estimator: type[ExponentialERM] = getattr(learn, kind)
        bounds: dict[str, Any] = {"feature_bound": 1.0, "target_bound": 1.0, "coefficient_bound": 1.0}
        recipe = estimator(epsilon=EPSILON, adjacency="replace", **bounds)._recipe()
        score = recipe.score(recipe.moments(given(np.ones((len(values), 1)), values)))
        step = 2.0**-recipe.shift
        return lambda: cells.draw(score, radius=recipe.radius, dimensions=1, source=SYSTEM)[0] * step

    return prepared


def _noisy(mechanism: Any, value: float | Values) -> float:
    """One draw of a mechanism whose answer is one number."""
    return float(np.ravel(mechanism.release(value))[0])


def _objective(values: Values) -> Release:
    """argmin of sum (y - t)^2/2 + g t^2/2 + b t on [-1, 1], b Laplace of scale 2/(epsilon q), q = 1/2.

    The rest of epsilon pays for the curvature: g = 1/(e^{epsilon (1 - q)} - 1).
    """
    import tallystick as ts

    noise = ts.noise.add_laplace(epsilon=EPSILON / 2, sensitivity=2.0, adjacency="replace")
    extra = 1 / math.expm1(EPSILON / 2)
    return lambda: float(np.clip((values.sum() - _noisy(noise, 0.0)) / (len(values) + extra), -1, 1))


def _output(values: Values) -> Release:
    """The sum with Laplace noise, over n."""
    import tallystick as ts

    noise = ts.noise.add_laplace(epsilon=EPSILON, sensitivity=2.0, adjacency="replace")
    total = float(values.sum())
    return lambda: float(np.clip(_noisy(noise, total) / len(values), -1, 1))


def _aggregate(values: Values) -> Release:
    """Means of random blocks, and their noisy widened winsorised mean."""
    import tallystick as ts
    from tallystick.mechanisms.aggregate.subsample import SmallSample, blocks_for

    made = ts.aggregate.subsample_and_aggregate(
        statistic=np.mean, blocks=max(4, blocks_for(len(values))), bounds=(-1.0, 1.0), epsilon=EPSILON
    )

    def run() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSample)  # the story shows how large the noise is
            return _noisy(made, values)

    return run


def _descent(values: Values) -> Release:
    """Full-batch gradient steps of length 1/2 from 0, each gradient sum with Gaussian noise for STEPS steps."""
    import tallystick as ts

    goal = ts.approx_dp(epsilon=EPSILON, delta=DELTA, adjacency="replace")
    sigma = ts.calibrate(lambda s: STEPS * ts.gaussian(sigma=s, adjacency="replace"), goal)
    noise = ts.noise.add_gaussian(sigma=2.0 * sigma * (1 + 1e-5), sensitivity=2.0, adjacency="replace")
    total, size = float(values.sum()), len(values)

    def run() -> float:
        here = 0.0
        for _ in range(STEPS):
            here = float(np.clip(here - 0.5 * _noisy(noise, size * here - total) / size, -1, 1))
        return here

    return run


WAYS: dict[str, Way] = {
    "exponential mechanism": _drawn("ExponentialERM"),
    "K-norm gradient": _drawn("KNormGradient"),
    "objective perturbation": _objective,
    "output perturbation": _output,
    "subsample and aggregate": _aggregate,
    "noisy gradient descent": _descent,
}


def errors(sizes: Sequence[int], draws: int) -> dict[str, list[float]]:
    """Root mean square distance from the mean, per way and size.

    >>> sorted(errors((100,), 1))[:2]
    ['K-norm gradient', 'exponential mechanism']
    """
    rng = np.random.default_rng(0)
    table: dict[str, list[float]] = {name: [] for name in WAYS}
    for size in sizes:
        values = rng.beta(2.0, 5.0, size) * 2.0 - 1.0
        for name, way in WAYS.items():
            release = way(values)
            found = np.array([release() for _ in range(draws)])
            table[name].append(float(np.sqrt(np.mean((found - values.mean()) ** 2))))
    return table


def slope(column: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the slope of the error against n, in logarithms, over the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(column[half:]), 1)[0])


def picture(table: dict[str, list[float]], sizes: Sequence[int]) -> Figure:
    """Draw error against n, both in logarithms."""
    from tallystick.digits import nearest
    from tallystick.drawing import INK, PALETTE
    from tallystick.plots.canvas import sheet
    from tallystick.plots.labels import keep_visible

    best = min(table, key=lambda name: table[name][-1])
    least = nearest(table[best][-1], 2)
    figure, axes = sheet(
        title=f"For {sizes[-1]:,} people at epsilon 1, {best} adds the least error: {least}",
        across="people (number)",
        up="error that privacy adds (units of the mean)",
    )
    deviation = math.sqrt(2 * 5 / (7**2 * 8)) * 2
    sampling = [deviation / math.sqrt(n) for n in sizes]
    axes.plot(sizes, sampling, color=INK, linestyle=":", label="sampling error")
    for (name, column), colour in zip(table.items(), PALETTE, strict=False):
        label = f"{name}: slope {slope(column, sizes):.2f}"
        axes.plot(sizes, column, color=colour, marker="o", markersize=4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    keep_visible(axes)
    axes.legend(fontsize=9, loc="lower left")
    return figure
