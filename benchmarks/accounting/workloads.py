"""The rows of the accounting table: what is asked, and the truth (from the oracle, to all digits shown)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    id: str
    title: str
    truth: float | None  # None: a row that measures time only
    goal: str
    peers: tuple[str, ...]
    truth_is: str = "exact"  # "bound": only a certified upper bound is known


POISSON = (
    "dp_accounting PLD",
    "dp_accounting RDP",
    "prv_accountant",
    "opacus PRV",
    "opacus RDP",
    "opacus GDP",
    "autodp RDP",
)
GRIDS = ("dp_accounting PLD", "prv_accountant")

ROWS = (
    Row("W1", "Poisson q=.01, sigma=1, T=10^4, delta=1e-5", 6.18771238997154, "<= 20 ms", POISSON),
    Row("W2", "q=.001, sigma=.8, T=10^6, delta=1e-6", 10.6824075461990, "as W1", POISSON),
    Row("W3a", "q=.01, sigma=2, T=1000, delta=1e-12", 1.17830359742734, "1e-6", ("dp_accounting PLD", "dp_accounting RDP")),
    Row("W3b", "the same, delta=1e-15", 1.36127061885601, "1e-6", ("dp_accounting PLD", "dp_accounting RDP")),
    Row("W3c", "the same, delta=1e-20", 1.63102188548668, "1e-6", ("dp_accounting PLD", "dp_accounting RDP")),
    Row("W3d", "the same, delta=1e-30", 2.09262926498861, "1e-6", (*GRIDS, "dp_accounting RDP")),
    Row("W3h", "the same, delta=1e-100", 6.81288907328949, "1e-6", ("dp_accounting PLD", "dp_accounting RDP")),
    Row("W3e", "W1 at delta=1e-10", 9.31613852588233, "never below", ("dp_accounting PLD",)),
    Row("W3f", "W1 at delta=1e-12", 10.3466898376740, "never below", ("dp_accounting PLD",)),
    Row("W3g", "W1 at delta=1e-14", 11.3035588123165, "never below", GRIDS),
    Row("W4a", "100 x Gaussian sigma=10, delta=1e-5", 4.37717809568122, "1e-12", ("dp_accounting PLD", "autodp RDP")),
    Row("W4b", "the same, delta=1e-30", 11.7438830252317, "1e-12", ("dp_accounting PLD",)),
    Row("W5", "200 distinct mechanisms, delta=1e-6", 1.80633605685392, "<= 1 s, 50 MB", GRIDS),
    Row("W6", "calibrate sigma: q=.004, T=20,000, (2, 1e-5)", 1.32557524, "<= 0.3 s",
        ("dp_accounting PLD", "opacus GDP")),
    Row("W7", "1000 x Laplace b=20, delta=1e-6", 8.20444034393394, "<= 50 ms", ("dp_accounting PLD", "autodp RDP")),
    Row("W8", "1000 x randomized response eps0=.1, delta=1e-6", 19.3446714479930, "exact, <= 10 ms",
        ("dp_accounting pure", "dp_accounting RR event")),
    Row("W9", "subset 100 of 10,000, REPLACE, std=C, T=1000, delta=1e-5", 14.8206668727737, "well under 20.99",
        ("dp_accounting RDP",), "bound"),
    Row("W10", "50 x Gaussian sigma=.3, delta=1e-5", 377.383455509601, "exact", ("dp_accounting PLD", "opacus GDP")),
    Row("W11", "epsilon after each of 1000 steps of W1, seconds per query", None, "<= 2 ms", ("opacus RDP",)),
    Row("W12", "q=256/60000, sigma=1.1, T=14062, delta=1e-5", 2.38159692142440, "1e-6", ("dp_accounting PLD", "opacus GDP", "autodp RDP")),
    Row("W13", "q=1e-4, sigma=1, T=10^6, delta=1e-6", 0.53242115, "1e-6", ("dp_accounting PLD",)),
    Row("W14", "mixtures of Gaussians, 3 x (sigma 1; 0, 1, 2) + 2 x (sigma 2; 0, 2, 3), delta=1e-6", 17.1931102, "1e-6",
        ("dp_accounting PLD",)),
    Row("W15", "tree aggregation, 1600 steps, noise 1.13, delta=1e-6", 17.6667508, "exact", ("dp_accounting RDP",)),
    Row("W16", "best of a geometric number of runs, mean 10, gaussian(1), delta=1e-6 (a real score: 6.881)", 6.881, "well under 8.96",
        ("dp_accounting RDP",), "bound"),
    Row("W17", "random allocation, one epoch of 1000 steps, gaussian(1), delta=1e-6", None, "<= 0.3 s", ()),
    Row("W18", "3 x laplace(1) + 2 x laplace(2), delta=1e-14", 4.0 - 3.2e-13, "<= 0.1 s", ("dp_accounting PLD",)),
    Row("W19", "smallest Laplace noise for 20 queries at (1, 1e-4)", 13.547128, "<= 0.3 s", ("dp_accounting PLD",)),
)  # fmt: skip
