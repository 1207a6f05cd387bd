"""Hostile draws: every leaf under every transformation, with numbers chosen where arithmetic goes wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from referee import worlds
from referee.expressions import Expression, leaf
from referee.leaves import LEAVES, last_iterate_says

Draw = Callable[[random.Random, bool], Expression]


def spread(rng: random.Random, low: float, high: float) -> float:
    """Even in the logarithm."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def often(rng: random.Random, share: float) -> bool:
    return rng.random() < share


def an_epsilon(rng: random.Random, wild: bool) -> float:
    if wild:
        return rng.choice([0.0, 1e-300, 1e-12, 1e-5, 40.0, 700.0, 750.0, 1e4, 1e6, spread(rng, 1e-8, 1e6)])
    return rng.choice([0.25, 0.5, 1.0, 2.0, spread(rng, 1e-3, 8)])


def a_delta(rng: random.Random, wild: bool) -> float:
    if wild:
        return rng.choice([0.0, 1e-300, 5e-324, 1e-17, 1 - 1e-15, 1.0, 0.9, spread(rng, 1e-300, 1)])
    return rng.choice([1e-5, 0.3, 0.125, spread(rng, 1e-12, 0.5)])


def a_scale(rng: random.Random, wild: bool) -> float:
    if wild:
        return rng.choice([1e-6, 1e-5, 1e-4, 1e-2, 100.0, 1e6, 1e12, spread(rng, 1e-6, 1e12)])
    return rng.choice([0.5, 1.0, 2.0, spread(rng, 0.3, 10)])


def a_rate(rng: random.Random) -> float:
    edge = [1e-12, 1 - 1e-12, 1e-300, math.nextafter(1, 0), 1.0, 0.0, 1e-6, 1 - 1e-6]
    return rng.choice(edge) if often(rng, 0.25) else rng.choice([0.5, 0.1, 0.01, 0.25, spread(rng, 1e-4, 1)])


def masses(rng: random.Random, size: int, wild: bool) -> list[float]:
    """Probabilities that sum to one exactly, in sixty-fourths; wild ones have zeros and a mass near nothing."""
    cuts = sorted(rng.choices(range(65), k=size - 1)) if wild else sorted(rng.sample(range(1, 64), size - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, 64], strict=True)]
    rng.shuffle(parts)
    return [part / 64 for part in parts]


def a_pair(rng: random.Random, wild: bool) -> tuple[list[float], list[float]]:
    size = rng.choice([2, 2, 3, 4])
    p, q = masses(rng, size, wild), masses(rng, size, wild)
    if wild and often(rng, 0.5):
        tiny = rng.choice([1e-300, 1e-18, 1e-17, 1e-30, 1e-20])
        p, q = [*p, tiny], [*q, rng.choice([0.0, tiny * 1e-3, tiny])]
    elif wild and often(rng, 0.3):
        p, q = [1 - 2.0**-50, 2.0**-50], [2.0**-50, 1 - 2.0**-50]
    return p, q


def discrete_pair(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    p, q = a_pair(rng, wild)
    if often(rng, 0.25):
        q = p[::-1]  # a pair that is its own swap, so that chains are real mechanisms
    return leaf("discrete_pair", p, q, replaced=replaced)


def from_tradeoff(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    p, q = masses(rng, rng.choice([2, 3]), wild), None
    q = p[::-1] if often(rng, 0.5) else masses(rng, len(p), wild)
    order = sorted(range(len(p)), key=lambda i: p[i] / q[i] if q[i] else math.inf, reverse=True)
    level, power, knots = 0.0, 0.0, []
    for i in order:
        if q[i] == 0:
            power += p[i]
    knots = [(0.0, 1 - power)]
    for i in order:
        if q[i]:
            level, power = level + q[i], power + p[i]
            knots.append((level, 1 - power))
    return leaf("from_tradeoff", knots, replaced=replaced)


def from_profile(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    if often(rng, 0.4):
        return leaf("from_profile", [(an_epsilon(rng, False), a_delta(rng, wild))], replaced=replaced)
    first = rng.choice([0.5, 0.25, 0.125])
    knots = [(0.0, first), (1.0, first / 8), (3.0, rng.choice([0.0, first / 64 / 32, 1e-300 if wild else 0.0]))]
    return leaf("from_profile", knots, replaced=replaced)


def renyi_dp(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    size = spread(rng, 1e-6, 100) if wild else spread(rng, 1e-2, 2)
    orders = rng.choice([[2.0], [1.5, 4.0, 32.0], [1.0001, 1e5] if wild else [2.0, 8.0], [16.0]])
    return leaf("renyi_dp", {o: size * o for o in orders}, replaced=replaced)


def discrete_gaussian(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    if wild:
        sigma = rng.choice([1.0, 5.0, 0.5, 30.0, 5000.0, 0.3, 1e6, spread(rng, 1e-2, 1e9)])
        step = rng.choice([1, 2, 66_000, 10**5, 10**6, 10**7, 10**9])
        return leaf("discrete_gaussian", sigma=sigma, sensitivity=step, replaced=replaced)
    return leaf("discrete_gaussian", sigma=a_scale(rng, False), sensitivity=rng.choice([1, 1, 2, 3]), replaced=replaced)


def discrete_laplace(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    step = rng.choice([1, 7, 10**5, 10**9]) if wild else rng.choice([1, 2, 3])
    return leaf("discrete_laplace", scale=a_scale(rng, wild), sensitivity=step, replaced=replaced)


def randomized_response(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    choices = rng.choice([2, 2, 3, 10, 10**9 if wild else 4])
    if often(rng, 0.3):
        lie = rng.choice([1e-15, 1e-300, 0.25]) if wild else rng.choice([0.25, 0.125, 0.375])
        return leaf(
            "randomized_response", flip_prob=min(lie, (choices - 1) / choices), choices=choices, replaced=replaced
        )
    return leaf("randomized_response", epsilon=an_epsilon(rng, wild), choices=choices, replaced=replaced)


def zcdp(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    rho = rng.choice([1e-12, 1e6, 1e-4, 50.0]) if wild else spread(rng, 1e-3, 3)
    delta = a_delta(rng, wild) if often(rng, 0.3) else 0.0
    if often(rng, 0.3):
        offset = rng.choice([1e-12, 50.0, 1e6]) if wild else spread(rng, 1e-2, 2)
        return leaf(
            "zcdp", rho=rho if often(rng, 0.8) else 0.0, delta=min(delta, 0.999), offset=offset, replaced=replaced
        )
    return leaf("zcdp", rho=rho, delta=min(delta, 0.999), replaced=replaced)


def objective_perturbation(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    """Known for added and removed records only; about replaced ones it speaks through ``as_replace``."""
    sigma = rng.choice([0.05, 1e3, 1e9, spread(rng, 0.05, 1e3)]) if wild else a_scale(rng, False)
    ridge = rng.choice([0.01, 1e15, 1e3]) if wild else rng.choice([0.1, 0.5, 1.0, spread(rng, 0.02, 50)])
    made = leaf("objective_perturbation", sigma=sigma, ridge=ridge, replaced=False)
    return made.as_replace() if replaced else made


def gaussian_mixture(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    """Known for added and removed units only; wild ones hardly ever move much, or move by next to nothing."""
    sigma = rng.choice([1e-3, 1e6, 1.0, spread(rng, 1e-3, 1e6)]) if wild else a_scale(rng, False)
    if wild:
        shifts = rng.choice([[1e-14, 79.0], [0.0, 1e-10, 1.0], [0.5, 0.5, 20.0], [0.0, 3.0], [0.0, 0.0]])
        shares = masses(rng, len(shifts), True) if often(rng, 0.5) else [1 - 2.0**-40, 2.0**-40]
        shares += [0.0] * (len(shifts) - len(shares))
    else:
        shifts = rng.choice([[0.0, 1.0, 2.0], [0.25, 1.0], [0.0, 0.5, 1.0, 1.5], [1.0, 2.0]])
        shares = masses(rng, len(shifts), False)
    sizes = [shift * sigma if wild else shift for shift in shifts]
    made = leaf("gaussian_mixture", sigma=sigma, sensitivities=sizes, probabilities=shares, replaced=False)
    return made.as_replace() if replaced else made


def shift_walk(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    steps = rng.choice([2, 5, 12])
    contraction = rng.choice([0.5, math.nextafter(1, 0), 1e-9]) if wild else rng.choice([1.0, 0.9, 0.75])
    return leaf(
        "shift_walk", tail=rng.randint(1, steps - 1), steps=steps, contraction=contraction, sigma=a_scale(rng, wild),
        diameter=rng.choice([None, 0.5, 2.0, 1e9 if wild else 4.0]), replaced=replaced,
    )  # fmt: skip


def correlated(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    """Few steps, so that every pattern of taking part can be listed."""
    steps = rng.choice([1, 4, 7, 8])
    uses, separation = rng.choice([1, 2, 3, 10]), rng.choice([1, 2, 3, 8])
    given = {"sigma": a_scale(rng, wild), "uses": uses, "separation": separation}
    if often(rng, 0.3):
        return leaf("correlated", steps=steps, **given, replaced=replaced)
    if often(rng, 0.3):
        rows = [[rng.choice([0.0, 1.0, -0.5, 0.25]) if k <= i else 0.0 for k in range(steps)] for i in range(steps)]
        return leaf("correlated", matrix=rows, **given, replaced=replaced)
    bands = [
        [1.0, 0.5, 0.375, 0.3125],
        [1.0, -0.5, 0.25],
        [0.5, 1.0, 0.75],
        [1e-6 if wild else 1.0, 1e6 if wild else 0.5],
    ]
    return leaf("correlated", steps=steps, coefficients=rng.choice(bands)[:steps], **given, replaced=replaced)


def last_iterate(rng: random.Random, wild: bool, replaced: bool | None) -> Expression:
    """Few steps, which the referee lists one by one; wild ones contract to a point, hardly, or have a tiny domain."""
    every, passes = rng.choice([(1, 6), (1, 20), (2, 5), (3, 4), (7, 2), (12, 1)])
    contraction = rng.choice([0.0, 1e-200, 1 - 1e-12, math.nextafter(1, 0)]) if wild else rng.choice([1.0, 0.9, 0.5])
    diameter = rng.choice([None, None, 1e-6, 1e12] if wild else [None, None, 1.0, 3.0, 0.5])
    position = rng.choice([None, rng.randint(1, every)])
    order = rng.choice([f"ts.cyclic(batches={every}, position={position})", f"ts.shuffled(batches={every})"])
    batches = "None" if every == 1 and often(rng, 0.8) else order
    after = every - position if position and "cyclic" in batches else 0
    sigma = a_scale(rng, wild)
    told = {"contraction": contraction, "sigma": sigma, "diameter": diameter}
    spoken = ", ".join(f"{name}={value!r}" for name, value in told.items())
    relation = "replace" if replaced else "add_remove"
    text = f"ts.last_iterate(steps={every * passes}, {spoken}, batches={batches}, adjacency={relation!r})"
    truth = LEAVES["last_iterate"]
    if not wild and often(rng, 0.15):
        sample = "ts.subset(batch=1, population=4)" if replaced else "ts.poisson(rate=0.25)"
        return Expression(
            f"ts.last_iterate(steps=8, {spoken}, batches={sample}, delta=1e-5, adjacency={relation!r})",
            lambda: sampled_last_step(LEAVES["gaussian"](sigma=sigma, replaced=bool(replaced)), bool(replaced)),
            bool(replaced),
        )
    given = {"every": every, "passes": passes, "after": after, **told, "replaced": bool(replaced)}
    return Expression(text, lambda: truth(**given), bool(replaced), lambda: last_iterate_says(**given))


def sampled_last_step(step: worlds.Truth, replaced: bool) -> worlds.Truth:
    """An iteration that forgets all but its last step is a witness; the referee knows nothing above."""
    found = worlds.subset(step, 1, 4) if replaced else worlds.sampled(step, 0.25)
    return worlds.Truth(found.variants, None, replaced)


MAKERS: dict[str, Callable[[random.Random, bool, bool | None], Expression]] = {
    "no_loss": lambda rng, wild, rep: leaf("no_loss", replaced=rep),
    "pure_dp": lambda rng, wild, rep: leaf("pure_dp", epsilon=an_epsilon(rng, wild), replaced=rep),
    "approx_dp": lambda rng, wild, rep: leaf(
        "approx_dp", epsilon=an_epsilon(rng, wild and often(rng, 0.5)), delta=a_delta(rng, wild), replaced=rep
    ),
    "gdp": lambda rng, wild, rep: leaf(
        "gdp", mu=rng.choice([0.0, 1e-300, 1e-5, 1e3, 1e6]) if wild else a_scale(rng, False), replaced=rep
    ),
    "gaussian": lambda rng, wild, rep: leaf("gaussian", sigma=a_scale(rng, wild), replaced=rep),
    "gaussian_mixture": gaussian_mixture,
    "laplace": lambda rng, wild, rep: leaf("laplace", scale=a_scale(rng, wild), replaced=rep),
    "discrete_gaussian": discrete_gaussian,
    "discrete_laplace": discrete_laplace,
    "randomized_response": randomized_response,
    "exponential": lambda rng, wild, rep: leaf("exponential", epsilon=an_epsilon(rng, wild), replaced=rep),
    "sparse_vector": lambda rng, wild, rep: leaf(
        "sparse_vector",
        threshold_scale=a_scale(rng, wild),
        answer_scale=a_scale(rng, wild),
        hits=rng.choice([1, 3]),
        monotone=often(rng, 0.5),
        replaced=rep,
    ),
    "not_private": lambda rng, wild, rep: leaf("not_private", why="a table with names", replaced=rep),
    "zcdp": zcdp,
    "renyi_dp": renyi_dp,
    "from_tradeoff": from_tradeoff,
    "from_profile": from_profile,
    "discrete_pair": discrete_pair,
    "objective_perturbation": objective_perturbation,
    "shift_walk": shift_walk,
    "correlated": correlated,
    "last_iterate": last_iterate,
}


def a_leaf(rng: random.Random, name: str, *, wild: float = 0.3, replaced: bool | None = False) -> Expression:
    return MAKERS[name](rng, often(rng, wild), replaced)


def another(rng: random.Random, replaced: bool) -> Expression:
    name = rng.choice(["pure_dp", "approx_dp", "gaussian", "discrete_pair", "randomized_response"])
    return a_leaf(rng, name, wild=0.0, replaced=replaced)


def identity(rng: random.Random, name: str) -> Expression:
    return a_leaf(rng, name, wild=0.5, replaced=None if often(rng, 0.6) else often(rng, 0.5))


def times(rng: random.Random, name: str) -> Expression:
    count = rng.choice([10**9, 10**6, 1000, 50]) if often(rng, 0.2) else rng.choice([2, 2, 3, 4, 5])
    return a_leaf(rng, name, wild=0.2).times(count)


def plus(rng: random.Random, name: str) -> Expression:
    relation = often(rng, 0.2)
    return a_leaf(rng, name, wild=0.2, replaced=relation).plus(another(rng, relation))


def sampled(rng: random.Random, name: str) -> Expression:
    step = a_leaf(rng, name, wild=0.25).sampled(a_rate(rng))
    return step.times(rng.choice([2, 2, 3, 10])) if often(rng, 0.2) else step


def truncated(rng: random.Random, name: str) -> Expression:
    population = rng.choice([1, 2, 10, 100, 400])
    return a_leaf(rng, name, wild=0.2).truncated(
        a_rate(rng),
        rng.choice([1, 2, population // 4 + 1, population, population + 5]),
        population,
        rng.choice(["anyhow", "ranked", "random"]),
    )


def subset(rng: random.Random, name: str) -> Expression:
    population = rng.choice([2, 3, 10, 1000, 10**9])
    step = a_leaf(rng, name, wild=0.25, replaced=True).subset(
        rng.choice([1, max(1, population // 3), population]), population
    )
    return step.times(rng.choice([2, 3])) if often(rng, 0.15) else step


def replacement(rng: random.Random, name: str) -> Expression:
    """Only losses whose groups have a closed form; the others are refused, and the last is drawn for them."""
    known = ("pure_dp", "approx_dp", "gdp", "gaussian", "discrete_gaussian", "discrete_laplace", "last_iterate")
    population = rng.choice([2, 3, 10, 1000])
    base = a_leaf(rng, name if name in known else "gaussian", wild=0.1, replaced=True)
    return base.replacement(rng.choice([1, 2, max(1, population // 3), population]), population)


def tested(rng: random.Random, name: str) -> Expression:
    """A mixture beside the test's Laplace noise, read at a ladder of knots, takes six seconds: too slow to judge."""
    release = "gaussian" if name == "gaussian_mixture" else name
    return a_leaf(rng, release, wild=0.1).tested(rng.choice([1.0, 2.0, 0.3]), rng.choice([1e-6, 0.01, 0.3, 1e-300]))


def allocated(rng: random.Random, name: str) -> Expression:
    return a_leaf(rng, name, wild=0.1).allocated(rng.choice([1, 2, 2, 3]))


def nested(rng: random.Random, name: str) -> Expression:
    inner = (
        a_leaf(rng, name, wild=0.1).plus(another(rng, False))
        if often(rng, 0.6)
        else a_leaf(rng, name, wild=0.1).times(2)
    )
    return inner.sampled(a_rate(rng))


def for_groups(rng: random.Random, name: str) -> Expression:
    inner = a_leaf(rng, name, wild=0.2, replaced=often(rng, 0.2))
    inner = inner.times(2) if often(rng, 0.15) else inner
    return inner.for_groups(rng.choice([1, 2, 2, 3, 5]))


def as_replace(rng: random.Random, name: str) -> Expression:
    inner = a_leaf(rng, name, wild=0.2)
    if often(rng, 0.2):
        inner = inner.sampled(a_rate(rng))
    return inner.times(2).as_replace() if often(rng, 0.15) else inner.as_replace()


def worst(rng: random.Random, name: str) -> Expression:
    return a_leaf(rng, name, wild=0.2).worst(another(rng, False))


def selected(rng: random.Random, name: str) -> Expression:
    inner = a_leaf(rng, name, wild=0.1, replaced=often(rng, 0.2))
    if often(rng, 0.3):
        return inner.selected(poisson=rng.choice([0.5, 3.0, 20.0]))
    gamma = rng.choice([0.5, 0.1, 0.01, 1e-6 if often(rng, 0.2) else 0.3])
    return inner.selected(eta=rng.choice([0.0, 1.0, 0.5, -0.5, 4.0]), gamma=gamma)


TRANSFORMATIONS: dict[str, Callable[[random.Random, str], Expression]] = {
    f.__name__: f
    for f in (
        identity,
        times,
        plus,
        sampled,
        truncated,
        subset,
        replacement,
        tested,
        allocated,
        nested,
        for_groups,
        as_replace,
        worst,
        selected,
    )
}


SUMMED = 4
"""Of every so many draws the last is a part of a sum: what is known of a law above zero alone is not enough there."""


def drawn(seed: int, name: str, transformation: str, index: int) -> Expression:
    """The draw of that number: the same for ever."""
    rng = random.Random(f"{seed}/{name}/{transformation}/{index}")
    made = TRANSFORMATIONS[transformation](rng, name)
    if index % SUMMED != SUMMED - 1 or transformation in ("identity", "times", "plus"):
        return made
    return made.plus(another(rng, made.replaced))
