"""Draws the pictures of the documentation again: ``make pictures``. The same numbers give the same bytes."""

from __future__ import annotations

from pathlib import Path

import tallystick as ts
from tallystick import plots
from tallystick.cli.commands.compare import curves_of

HERE = Path(__file__).parent


def main() -> None:
    training = 10_000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    run = plots.steps(
        curves_of(training, delta=1e-5), delta=1e-5, title="DP-SGD, noise 1, one example in a hundred per step"
    )
    print(plots.save(run, HERE / "steps.svg"))
    print(plots.save(plots.tradeoff(ts.gdp(mu=1)), HERE / "tradeoff.svg"))


if __name__ == "__main__":
    main()
