"""Write the table of certification.md: which argument covers each cell of the matrix leaf x transformation x read-out.

``python docs/cells.py`` after a leaf, a transformation, a read-out or a route was added; a test compares. Leaves and
transformations are those that the referee asks (tests/referee); what stands in a cell is read off the code: the classes
that the loss is made of, and the routes that apply to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import tallystick as ts
from tallystick.accounting.readout import reader
from tallystick.accounting.routes import routes_of

PAGE = Path(__file__).resolve().parent / "theory" / "certification.md"
START, END = "<!-- written by docs/cells.py -->", "<!-- end of what docs/cells.py writes -->"
Make = Callable[[str], ts.PrivacyLoss]

LEAVES: dict[str, Make] = {
    "no_loss": lambda who: ts.no_loss(adjacency=who),
    "pure_dp": lambda who: ts.pure_dp(epsilon=1, adjacency=who),
    "approx_dp": lambda who: ts.approx_dp(epsilon=1, delta=1e-6, adjacency=who),
    "gdp": lambda who: ts.gdp(mu=1, adjacency=who),
    "gaussian": lambda who: ts.gaussian(sigma=1, adjacency=who),
    "gaussian_mixture": lambda who: _known_added(_mixed(), who),
    "laplace": lambda who: ts.laplace(scale=1, adjacency=who),
    "discrete_gaussian": lambda who: ts.discrete_gaussian(sigma=2, adjacency=who),
    "discrete_laplace": lambda who: ts.discrete_laplace(scale=2, adjacency=who),
    "randomized_response": lambda who: ts.randomized_response(epsilon=1, choices=3, adjacency=who),
    "exponential": lambda who: ts.exponential(epsilon=1, adjacency=who),
    "sparse_vector": lambda who: ts.sparse_vector(threshold_scale=4, answer_scale=8, adjacency=who),
    "not_private": lambda who: ts.not_private(why="names", adjacency=who),
    "zcdp": lambda who: ts.zcdp(rho=0.5, adjacency=who),
    "renyi_dp": lambda who: ts.renyi_dp({2: 1, 8: 4}, adjacency=who),
    "from_tradeoff": lambda who: ts.from_tradeoff([(0, 1), (0.25, 0.25), (1, 0)], adjacency=who),
    "from_profile": lambda who: ts.from_profile([(0, 0.5), (1, 0.0625)], adjacency=who),
    "discrete_pair": lambda who: ts.discrete_pair([0.75, 0.25], [0.5, 0.5], adjacency=who),
    "objective_perturbation": lambda who: _known_added(ts.objective_perturbation(sigma=1, ridge=1), who),
    "shift_walk": lambda who: ts.shift_walk(tail=4, steps=9, contraction=0.9, sigma=2, adjacency=who),
    "correlated": lambda who: ts.correlated(sigma=2, steps=8, coefficients=[1, 0.5], adjacency=who),
    "last_iterate": lambda who: ts.last_iterate(steps=9, contraction=0.9, sigma=2, adjacency=who),
}
HERE, THERE = "add_remove", "replace"


def _known_added(loss: ts.PrivacyLoss, who: str) -> ts.PrivacyLoss:
    """Known for added and removed records; about replaced ones it speaks through ``as_replace``."""
    return loss.as_replace() if who == THERE else loss


def _grouped(leaf: Make) -> ts.PrivacyLoss:
    """Draws with replacement need a closed form for groups; for the others a Gaussian stands here."""
    loss = leaf(THERE)
    try:
        loss.subset(batch=1, population=10, replacement=True)
    except ts.errors.InvalidInput:
        return ts.gaussian(sigma=1, adjacency=THERE)
    return loss


def _mixed() -> ts.PrivacyLoss:
    return ts.gaussian_mixture(sigma=1, sensitivities=[1, 2], probabilities=[0.5, 0.5])


TRANSFORMATIONS: dict[str, Callable[[Make], ts.PrivacyLoss]] = {
    "identity": lambda leaf: leaf(HERE),
    "times": lambda leaf: 3 * leaf(HERE),
    "plus": lambda leaf: leaf(HERE) + ts.laplace(scale=2),
    "sampled": lambda leaf: 3 * leaf(HERE).sampled(rate=0.1),
    "truncated": lambda leaf: leaf(HERE).sampled(rate=0.1, largest=5, population=10, cut="anyhow"),
    "subset": lambda leaf: leaf(THERE).subset(batch=1, population=10),
    "replacement": lambda leaf: _grouped(leaf).subset(batch=1, population=10, replacement=True),
    "tested": lambda leaf: ts.propose_test_release(leaf(HERE), scale=2, delta=1e-6),
    "allocated": lambda leaf: leaf(HERE).allocated(steps=2),
    "nested": lambda leaf: (leaf(HERE) + ts.laplace(scale=2)).sampled(rate=0.1),
    "for_groups": lambda leaf: leaf(HERE).for_groups(2),
    "as_replace": lambda leaf: leaf(HERE).as_replace(),
    "worst": lambda leaf: ts.worst(leaf(HERE), ts.laplace(scale=2)),
    "selected": lambda leaf: ts.selected(leaf(HERE), gamma=0.1),
}

PAIRS: dict[str, tuple[str, str]] = {
    "Gaussian": ("g", "N(mu, 1) against N(0, 1), in closed form ([profile](gdp-profile.md))"),
    "Gdp": ("g", ""),
    "GaussianMixture": ("m", "Gaussians at random places against one, on the line ([mixtures](gaussian-mixture.md))"),
    "PureDp": ("f", "a finite pair: masses of both laws as given, kinks where they are (Polygons, 7)"),
    "ApproxDp": ("f", ""),
    "RandomizedResponse": ("f", ""),
    "DiscretePair": ("f", ""),
    "Laplace": ("e", "exponential pieces and two atoms, integrated in closed form (Contour, 3)"),
    "DiscreteGaussian": (
        "l",
        "lattice noise: listed, or blocks between two laws ([lattice](noise-lattice.md), Regimes)",
    ),
    "DiscreteLaplace": ("l", ""),
    "Exponential": (
        "b",
        "the hull of bounded range above, a pair with that range below ([bounded range](bounded-range.md))",
    ),
    "Zcdp": ("r", "a Renyi curve: conversions above ([zCDP](zcdp-to-dp.md), [Renyi](rdp-to-dp.md)), nothing below"),
    "ZcdpOffset": ("r", ""),
    "RenyiDp": ("r", ""),
    "NotPrivate": ("f", ""),
    "Tradeoff": ("t", "a polygon: chords above, tangents below (Polygons, 1 to 4)"),
    "Profile": ("t", ""),
    "ObjectivePerturbation": (
        "o",
        "Gaussian noise and the change of variables ([objective](objective-perturbation.md))",
    ),
    "LastIterate": (
        "i",
        (
            "N(mu, 1) against N(0, 1), mu by the shift walk, rounded up above and down below "
            "([last iterate](last-iterate.md))"
        ),
    ),
    "ShiftWalk": ("i", ""),
    "Correlated": (
        "d",
        (
            "N(mu, 1) against N(0, 1), mu over all patterns of taking part, rounded up above and down below "
            "([correlated](correlated-noise.md))"
        ),
    ),
    "Sampled": ("s", "mixtures of both laws of what is sampled ([Poisson sampling](poisson-sampling.md), Regimes)"),
    "Truncated": (
        "c",
        (
            "Poisson sampling, and of too large samples all at infinity or, where units are ranked blindly, both "
            "neighbours' batches at twice the sensitivity ([truncated](truncated-poisson.md))"
        ),
    ),
    "Cut": ("c", ""),
    "Subset": ("u", "the hull of both mixtures ([subset](subset-sampling.md))"),
    "WithReplacement": ("v", "a group of random size, told which, sampled ([with replacement](subset-sampling.md))"),
    "Allocated": ("a", "one step among several, as a mixture ([allocation](random-allocation.md))"),
    "Composed": (
        "n",
        (
            "a sum held at knots, then sampled (Polygons, 1 to 3); alone, when removing, epsilon and delta are "
            "read from the sum itself: H of the sample is the rate times H of the sum "
            "([Poisson sampling](poisson-sampling.md))"
        ),
    ),
    "Replaced": ("h", "the better of two chains of power curves (Polygons, 5 and 6; [adjacency](adjacency.md))"),
    "SampledReplaced": (
        "p",
        "the tight pair of Poisson-sampled Gaussian noise, as `as_replace` of a sample ([replace](poisson-replace.md))",
    ),
    "Worst": (
        "w",
        (
            "the larger profile at every point ([parallel](parallel-composition.md), Polygons, 1 and 2); alone, "
            "epsilon and delta are the largest of the members' own"
        ),
    ),
    "Selected": ("k", "the base's profile mixed over shifts of epsilon, and a Renyi form ([best of K](selected.md))"),
    "SelectedPoisson": ("k", ""),
}
"""Class of a term: the letter and the argument that its two laws bound every pair of neighbours."""

WAYS: dict[str, tuple[str, str]] = {
    "NoRelease": ("0", "nothing to compute"),
    "Gaussian": ("G", "one Gaussian for all terms, in closed form"),
    "SingleRelease": ("A", "one release by its own law"),
    "Enumerated": ("E", "every joint outcome listed"),
    "BesideOutcomes": ("B", "one release by its own law, at each joint outcome of the others"),
    "RenyiCurve": ("R", "Renyi curves add, and the sum is converted"),
    "Contour": ("C", "contour, blurred contours, trimming, grid, in the order of *Routes*"),
}
"""The engine among the routes that apply; the others only narrow what it finds."""

TRANSFORMED = (
    "Sampled",
    "Truncated",
    "Cut",
    "Subset",
    "WithReplacement",
    "Allocated",
    "Replaced",
    "SampledReplaced",
    "Worst",
    "Selected",
)
"""One of these is one release by its own law; making the law only to see that takes seconds."""

READ_OUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "epsilon, delta and their bounds": (
        (
            "epsilon",
            "delta",
            "epsilon_bounds.lower",
            "epsilon_bounds.upper",
            "delta_bounds.lower",
            "delta_bounds.upper",
        ),
        "the worse direction, by the cell's routes; largest loss and mass at infinity are exact (*Routes*, *Regimes*)",
    ),
    "rigorous bounds": (
        (
            "epsilon_bounds_rigorous.lower",
            "epsilon_bounds_rigorous.upper",
            "delta_bounds_rigorous.lower",
            "delta_bounds_rigorous.upper",
        ),
        "the same quantity in ball arithmetic, or NotComputable ([rigorous](rigorous.md))",
    ),
    "certificate": (
        ("certificate",),
        "an upper bound proved by the independent checker, or NotComputable ([certificates](certificates.md))",
    ),
    "single directions and negative epsilon": (
        ("delta.directed",),
        "one direction by the cell's routes; below zero 1 - a + a H_{1/a} of the other direction, rounded outward",
    ),
    "total variation and Bayes risk": (
        ("total_variation", "bayes_risk"),
        "delta at epsilon 0; the rarer case times 1 - delta at its log odds, rounded down",
    ),
    "trade-off and power": (
        ("tradeoff", "power"),
        (
            "in cells with G the Gaussian curve in closed form (`gdp.power`); else lines delta + e^epsilon alpha above "
            "the power curve, rounded outward (*Polygons*, 4)"
        ),
    ),
    "Renyi and Kullback-Leibler": (
        ("renyi", "kl"),
        "sums of closed forms, of integrals of laws good for that order, or of `Leaf.renyi_above` (*Regimes*)",
    ),
    "posterior": (
        ("posterior",),
        "P(L > e + s)(1 - e^-s) <= delta(e), the least over seven s ([loss tail](loss-tail.md)), rounded up",
    ),
    "Gaussian bound, order, calibration": (
        ("gdp_bound", "<=", "calibrate"),
        "proofs for each direction by itself (*Order*); `calibrate` returns only what `<=` accepts",
    ),
    "costs": (
        ("price.zcdp", "price.approx", "price.gdp", "price.rdp"),
        (
            "epsilon, mu squared or the divergence as above; in zCDP the least of closed forms, of randomized response "
            "with that epsilon, and of the curve cut at the declared delta ([truncated zCDP](truncated-zcdp.md)); "
            "rounded up to the ledger's unit, refused where infinite ([filters](filters.md))"
        ),
    ),
    "the card": (
        (
            "meaning.epsilon",
            "meaning.false_alarm",
            "meaning.guess_accuracy",
            "meaning.hit_rates",
            "meaning.beliefs",
            "meaning.odds_factor",
        ),
        "epsilon, trade-off, total variation, power and posterior as above, each rounded towards the attacker",
    ),
    "the loss as a random variable": (
        (
            "privacy_loss.cdf",
            "privacy_loss.quantile",
            "privacy_loss.mean",
            "privacy_loss.variance",
            "privacy_loss.characteristic_function",
        ),
        "estimates with the error that `PrivacyLossVariable` states, not bounds ([variable](privacy-loss-variable.md))",
    ),
}
"""Families of read-outs, the cells of the referee's matrix in each, and what makes them right."""


def entry(loss: ts.PrivacyLoss) -> str:
    """The letters of one cell: pairs, then the engine; a group is chained afterwards."""
    letters = [letter for term, _ in loss.terms for letter in letters_of(term)]
    engines = []
    transformed = len(loss.terms) == 1 and loss.terms[0][1] == 1 and type(loss.terms[0][0]).__name__ in TRANSFORMED
    for side in () if transformed else reader(loss).sides:
        names = [type(route).__name__ for route in routes_of(side)]
        engines.append(next(WAYS[name][0] for name in ("Contour", *WAYS) if name in names))
    group = "h" if loss.terms and loss.group > 1 and not reader(loss).closed_group else ""
    return "".join(dict.fromkeys(letters)) + group + " " + ("".join(dict.fromkeys(engines)) or "A")


def letters_of(term: object) -> list[str]:
    """Of a term, and of what it is made of."""
    found = [PAIRS[type(term).__name__][0]]
    waiting = [getattr(term, name) for name in getattr(type(term), "__dataclass_fields__", {})]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, tuple):
            waiting[:0] = part
        elif type(part).__name__ in PAIRS:
            found += letters_of(part)
    return found


@cache
def block() -> str:
    """What stands between the marks."""
    lines = [
        "Small letters say why the two laws of a cell bound every pair of neighbours, outer before inner; capitals say",
        "which route adds them up. A sum of transformed releases has the small letters of its parts and is added up as",
        "under *times* and *plus*: a contour where their laws are smooth, else a list or a grid. What is read is the",
        "third dimension, in the last table. Every cell is judged by",
        "[the referee](../../benchmarks/results/referee.md).",
        "",
        "| | " + " | ".join(TRANSFORMATIONS) + " |",
        "|---" * (len(TRANSFORMATIONS) + 1) + "|",
    ]
    for name, leaf in LEAVES.items():
        cells = (entry(change(leaf)).strip() for change in TRANSFORMATIONS.values())
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    lines += ["", "| letter | argument |", "|---|---|"]
    lines += [f"| {letter} | {words} |" for letter, words in (*PAIRS.values(), *WAYS.values()) if words]
    lines += ["", "| value | in every cell |", "|---|---|"]
    lines += [f"| {family} | {words} |" for family, (_, words) in READ_OUTS.items()]
    return "\n".join(lines)


def written(text: str) -> str:
    before, rest = text.split(START)
    return f"{before}{START}\n\n{block()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.exit(0)
