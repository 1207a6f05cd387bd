"""Draws the pictures of the documentation again: ``make pictures``. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tallystick as ts
from tallystick import plots
from tallystick.accounting.leaves.last_iterate import iteration_of
from tallystick.plots.steps import curves_of

HERE = Path(__file__).parent


def main() -> None:
    training = 10_000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    run = plots.steps(
        curves_of(training, delta=1e-5), delta=1e-5, title="DP-SGD, noise 1, one example in a hundred per step"
    )
    print(plots.save(run, HERE / "steps.svg"))
    print(plots.save(plots.tradeoff(ts.gdp(mu=1)), HERE / "tradeoff.svg"))
    last = plots.steps(
        list(iterations()), delta=1e-6, title="Full batches, noise of 50 displacements", highlight="domain of 20"
    )
    print(plots.save(last, HERE / "last-iterate.svg"))
    one_pass = iteration_of(ts.last_iterate(steps=100, contraction=1, sigma=5, batches=ts.cyclic(batches=100)))
    assert one_pass is not None
    record = plots.positions(
        [loss.epsilon(delta=1e-6) for loss in one_pass.positions()],
        every=one_pass.every(1).epsilon(delta=1e-6),
        delta=1e-6,
        title="One pass over 100 batches, noise of 5 displacements",
    )
    print(plots.save(record, HERE / "positions.svg"))
    plans = [ts.adaptive.plan(queries=k, tau=0.1, beta=0.05) for k in (1, 3, 10, 30, 100, 1000, 10_000, 100_000)]
    print(plots.save(plots.samples(plans), HERE / "samples.svg"))


def iterations() -> Iterator[plots.Curve]:
    """Every iterate published, and the last one only."""
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
