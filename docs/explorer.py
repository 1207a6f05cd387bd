"""Write docs/explorer.html and, with ``--grid``, compute its grid of certified bounds of DP-SGD again (a minute).

Every node holds the total variation distance and epsilon at several deltas, as upper ends of certified bounds in the
worse direction, rounded up to a grid of two letters each. The page reads between nodes at the next node that promises
less, which is safe because epsilon grows with the rate and the number of steps and falls with sigma.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import tallystick as ts
from tallystick.cli.explorer import page

ROOT = Path(__file__).resolve().parents[1]
GRID = ROOT / "src" / "tallystick" / "cli" / "explorer" / "dpsgd.json"
PAGE = ROOT / "docs" / "explorer.html"

RATES = (0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
SIGMAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
STEPS = (100, 300, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
SHARES = (0.8, 0.6, 0.4, 0.25, 0.12, 0.05)
"""Deltas as shares of the total variation distance, for the middle of the curve ..."""
DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
"""... and those that people quote."""

LETTERS = "".join(chr(code) for code in range(35, 127) if chr(code) not in "<\\")
BASE = len(LETTERS)
LEAST, MOST = math.log(1e-5), math.log(1e5)
BY = (MOST - LEAST) / (BASE * BASE - 1)


def code_above(value: float) -> int:
    """The least code whose number is not below a value, with room for the rounding of exp on any machine."""
    if value <= 0.0:
        return 0
    code = max(1, math.ceil((math.log(value) - LEAST) / BY + 1e-9))
    if code >= BASE * BASE:
        raise ValueError(f"{value} is beyond the codes")
    return code


def number(code: int) -> float:
    """What the page reads."""
    return math.exp(LEAST + code * BY) if code else 0.0


def node(rate: float, sigma: float, steps: int) -> list[int]:
    """The codes of one node."""
    loss = steps * ts.gaussian(sigma=sigma).sampled(rate=rate)
    apart = code_above(loss.total_variation())
    distance = min(1.0, number(apart))
    # a little less than the page's delta, whose last digits depend on the machine
    deltas = [share * distance * (1 - 1e-9) for share in SHARES] + [delta * (1 - 1e-9) for delta in DELTAS]
    return [apart, *(code_above(loss.epsilon(delta=delta)) for delta in deltas)]


def grid() -> str:
    """All nodes, as the JSON that the page contains."""
    codes = [code for rate in RATES for sigma in SIGMAS for steps in STEPS for code in node(rate, sigma, steps)]
    letters = "".join(LETTERS[code // BASE] + LETTERS[code % BASE] for code in codes)
    named = {"rates": RATES, "sigmas": SIGMAS, "steps": STEPS, "shares": SHARES, "deltas": DELTAS}
    return json.dumps({**named, "base": BASE, "log": LEAST, "by": BY, "codes": letters}) + "\n"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--grid", action="store_true", help="compute the grid again")
    if asked.parse_args().grid:
        GRID.write_text(grid(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {PAGE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
