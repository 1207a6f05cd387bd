"""Write docs/explorer.html and, with ``--grid``, compute its grid of certified bounds of DP-SGD again (ten minutes).

Every node holds the total variation distance and epsilon at several deltas, as upper ends of certified bounds in the
worse direction, rounded up to a grid of two letters each. The page reads between nodes at the next node that promises
less, which is safe because epsilon grows with the rate and the number of steps and falls with sigma.

Beside these, every node holds the numbers that ``tallystick explain`` prints, with the same digits.
"""

from __future__ import annotations

import argparse
import json
import math
from decimal import Decimal
from pathlib import Path

import tallystick as ts
from tallystick.cli.explorer import page
from tallystick.digits import percent_up, up

ROOT = Path(__file__).resolve().parents[1]
GRID = ROOT / "src" / "tallystick" / "cli" / "explorer" / "dpsgd.json"
PAGE = ROOT / "docs" / "explorer.html"

RATES = (0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
SIGMAS = (0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
STEPS = (100, 300, 1000, 3000, 10000, 30000, 100000)
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


QUOTED = (1e-5, 1e-6, 1e-8)
"""Deltas at which the page prints epsilon."""
_SMALLEST = -9
"""Least power of ten of a printed number of three digits, as a whole number times a power of ten."""


def code_of_text(text: str) -> int:
    """The code of a printed number of at most three digits.

    >>> code_of_text("1.83"), code_of_text("0")
    (6384, 0)
    """
    number = Decimal(text.replace(",", ""))
    if not number:
        return 0
    power = number.adjusted() - 2
    return 1 + (power - _SMALLEST) * 900 + int(number.scaleb(-power)) - 100


def printed(rate: float, sigma: float, steps: int) -> list[int]:
    """The codes of the numbers that ``tallystick explain`` prints about one node, and of its odds."""
    loss = steps * ts.gaussian(sigma=sigma).sampled(rate=rate)
    words = ts.explain(loss, delta=QUOTED[0]).meaning
    shares = [*words.hit_rates.values(), *words.beliefs.values(), words.guess_accuracy]
    texts = [up(loss.epsilon(delta=delta)) for delta in QUOTED]
    texts += [percent_up(share).removesuffix(" %") for share in shares]
    return [*map(code_of_text, texts), round(1e6 * words.false_alarm)]


def node(rate: float, sigma: float, steps: int) -> list[int]:
    """The codes of one node."""
    loss = steps * ts.gaussian(sigma=sigma).sampled(rate=rate)
    apart = code_above(loss.total_variation())
    distance = min(1.0, number(apart))
    # a little less than the page's delta, whose last digits depend on the machine
    deltas = [share * distance * (1 - 1e-9) for share in SHARES] + [delta * (1 - 1e-9) for delta in DELTAS]
    return [apart, *(code_above(loss.epsilon(delta=delta)) for delta in deltas)]


def three_letters(code: int) -> str:
    """A code below BASE cubed."""
    return LETTERS[code // BASE**2] + LETTERS[code // BASE % BASE] + LETTERS[code % BASE]


def grid() -> str:
    """All nodes, as the JSON that the page contains."""
    codes = [code for rate in RATES for sigma in SIGMAS for steps in STEPS for code in node(rate, sigma, steps)]
    letters = "".join(LETTERS[code // BASE] + LETTERS[code % BASE] for code in codes)
    places = [(rate, sigma, steps) for rate in RATES for sigma in SIGMAS for steps in STEPS]
    shown = "".join(three_letters(code) for place in places for code in printed(*place))
    named = {"rates": RATES, "sigmas": SIGMAS, "steps": STEPS, "shares": SHARES, "deltas": DELTAS}
    return json.dumps({**named, "base": BASE, "log": LEAST, "by": BY, "codes": letters, "shown": shown}) + "\n"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--grid", action="store_true", help="compute the grid again")
    if asked.parse_args().grid:
        GRID.write_text(grid(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {PAGE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
