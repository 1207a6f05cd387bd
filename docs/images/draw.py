"""Draw the pictures of the documentation: ``make pictures``. The same numbers give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import tallystick as ts
from tallystick import plots, theorems
from tallystick.accounting.leaves.last_iterate import iteration_of
from tallystick.digits import up
from tallystick.mechanisms.select.noisy_law import pumpkin_prices
from tallystick.plots.steps import curves_of

Floats = NDArray[np.float64]

HERE = Path(__file__).parent


def main() -> None:
    training = 10_000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    run = plots.steps(curves_of(training, delta=1e-5), delta=1e-5)
    print(plots.save(run, HERE / "steps.svg"))
    print(plots.save(accountants(), HERE / "accountants.svg"))
    print(plots.save(plots.tradeoff(ts.gdp(mu=1)), HERE / "tradeoff.svg"))
    curves = list(iterations())
    every, _, domain = (up(curve.epsilons[-1]) for curve in curves)
    finding = f"After 10,000 steps: epsilon {domain} for the last iterate in a domain of 20, {every} for all"
    last = plots.steps(curves, delta=1e-6, title=finding, highlight="domain of 20")
    print(plots.save(last, HERE / "last-iterate.svg"))
    one_pass = iteration_of(ts.last_iterate(steps=100, contraction=1, sigma=5, batches=ts.cyclic(batches=100)))
    assert one_pass is not None
    record = plots.positions(
        [loss.epsilon(delta=1e-6) for loss in one_pass.positions()],
        every=one_pass.every(1).epsilon(delta=1e-6),
        delta=1e-6,
    )
    print(plots.save(record, HERE / "positions.svg"))
    plans = [ts.adaptive.plan(queries=k, tau=0.1, beta=0.05) for k in (1, 3, 10, 30, 100, 1000, 10_000, 100_000)]
    print(plots.save(plots.samples(plans), HERE / "samples.svg"))
    for name, figure in figures_of_the_notes():
        print(plots.save(figure, HERE / f"{name}.svg"))


def accountants() -> Figure:
    """Epsilon of one training run by four accounting methods. Upper bounds are rounded up."""
    run = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    methods = ts.compare(run, delta=1e-5)
    exact = methods["tight"].epsilon or math.nan
    grey, blue, red = "#6b7280", "#0f5c8c", "#c2410c"
    rows = [
        ("Rényi, original conversion", "RDP (Mironov)", "valid, 39 % too high", grey),
        ("Rényi, improved conversion", "RDP (better)", "valid, 15 % too high", grey),
        ("tallystick (certified)", "tight", "certified", blue),
        ("Gaussian limit", "GDP limit", "not a bound: 12 % below the true value", red),
    ]
    figure = Figure(figsize=(8, 3.1), layout="constrained")
    axes = figure.subplots()
    axes.axvline(exact, color=blue, linewidth=1, alpha=0.5, zorder=0)
    axes.axvspan(1.2, exact, color=red, alpha=0.06, zorder=0)
    for height, (_, method, words, colour) in enumerate(rows):
        epsilon = methods[method].epsilon or math.nan
        is_bound = method != "GDP limit"
        shown = math.ceil(epsilon * 1000) / 1000 if is_bound else epsilon
        filling = colour if is_bound else "white"
        axes.plot(epsilon, height, "o", markersize=9, color=colour, markerfacecolor=filling)
        axes.text(epsilon + 0.04, height, f"{shown:.3f}  {words}", va="center", color=colour)
    axes.set_yticks(range(4), [name for name, *_ in rows])
    axes.set_xlim(1.2, 3.3)
    axes.set_ylim(-0.6, 3.6)
    axes.set_xlabel("epsilon at delta 1e-5 (lower is a stronger guarantee, if it is true)")
    axes.set_title("One training run, four answers: only one is both valid and tight", loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def figures_of_the_notes() -> Iterator[tuple[str, Figure]]:
    """Yield the pictures of the lecture notes."""

    def bell(centre: float) -> Callable[[Floats], Floats]:
        return lambda x: np.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi)

    yield "two-densities", plots.pair(bell(1), bell(0), epsilon=0.5, between=(-4, 5))
    lopsided = theorems.PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])
    yield "symmetrised", plots.symmetry(lopsided)
    whole = theorems.PiecewiseTradeoff.of_approx_dp(epsilon=2.0)
    yield "subsampling", plots.sampling(whole, rate=0.3)
    yield "limit-band", plots.limit_band(epsilon=0.1, steps=400)
    yield "supporting-lines", plots.supporting_lines([(0.0, 0.3), (1.0, 0.05), (2.0, 0.0)])
    yield "tangent", plots.tangent(lambda a: np.asarray(ts.gdp(mu=1).tradeoff(alpha=a)), epsilon=1.0)
    counts = [1, 3, 10, 29, 100, 300, 1000]
    variances = {
        "basic": [theorems.laplace_variance_basic(epsilon=1, queries=k) for k in counts],
        "advanced": [theorems.laplace_variance_advanced(epsilon=1, delta=1e-6, queries=k) for k in counts],
        "Gaussian": [theorems.gaussian_variance_tight(epsilon=1, delta=1e-6, queries=k) for k in counts],
    }
    yield "noise-for-queries", plots.noise_for_queries(variances, queries=counts)
    yield (
        "tilted",
        plots.tilted(lambda x: np.log1p(np.exp(-3 * x)) + 0.4 * x**2, tilts=[-0.5, 0.3, 0.7], between=(-2, 3)),
    )
    yield "revenue", plots.revenue(pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 25, epsilon=1.0))


def iterations() -> Iterator[plots.Curve]:
    """Yield epsilon of all iterates, and of the last one only."""
    counts = tuple(round(10 ** (k / 4)) for k in range(17))
    for name, given in {
        "all iterates": None,
        "contraction 0.99": {"contraction": 0.99},
        "domain of 20": {"contraction": 1, "diameter": 20},
    }.items():
        losses = [
            n * ts.gaussian(sigma=50) if given is None else ts.last_iterate(steps=n, sigma=50, **given) for n in counts
        ]
        yield plots.Curve(name, counts, tuple(loss.epsilon(delta=1e-6) for loss in losses))


if __name__ == "__main__":
    main()
