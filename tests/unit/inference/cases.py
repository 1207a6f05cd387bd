"""Worlds for intervals and tests: populations, samples and noise drawn by numpy from the definitions.

A case is a function of a random generator that draws one release and returns, by name, whether each interval held what
it is about. Names that start with "naive" are the usual mistakes: the suite shows that the same worlds catch them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

import tallystick as ts
from tallystick.errors import Refused
from tallystick.inference import Mean, Noise, Quantile, Released, cells
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace

Random = np.random.Generator
Case = Callable[[Random], dict[str, bool]]
Z = 1.959963984540054
RARE = 0.003


@lru_cache(maxsize=32)
def masses(sigma: float):
    """The discrete Gaussian law from its definition."""
    k = np.arange(-math.ceil(12 * sigma) - 3, math.ceil(12 * sigma) + 4)
    weight = np.exp(-(k**2) / (2 * sigma**2))
    return k, weight / weight.sum()


def discrete_gaussian(random: Random, sigma: float, size: int | None = None):
    k, weight = masses(sigma)
    return random.choice(k, size=size, p=weight)


def discrete_laplace(random: Random, scale: float, size: int | None = None):
    """The difference of two geometric numbers."""
    p = -math.expm1(-1 / scale)
    return random.geometric(p, size) - random.geometric(p, size)


def held(interval, truth: float) -> bool:
    return bool(interval.lower - 1e-12 <= truth <= interval.upper + 1e-12)


# Shares


def share(n: int, p: float, *, sigma: float | None = None, scale: float | None = None) -> Case:
    law = DiscreteGaussian(sigma) if sigma else DiscreteLaplace(scale)

    def once(random: Random) -> dict[str, bool]:
        count = random.binomial(n, p)
        y = count + (discrete_gaussian(random, sigma) if sigma else discrete_laplace(random, scale))
        answer = Released(int(y), law, of=n)
        low, high = _clopper(y, n)
        return {
            "population": held(answer.population_interval(), p),
            "noise": held(answer.noise_interval(), count),
            "naive: noise forgotten": low <= p <= high,
        }

    return once


def _clopper(y: float, n: int) -> tuple[float, float]:
    from scipy.stats import beta

    k = int(min(n, max(0, round(y))))
    return beta.ppf(0.025, k, n - k + 1) if k else 0.0, beta.ppf(0.975, k + 1, n - k) if k < n else 1.0


def rare_share(n: int = 1000, p: float = 0.0005, sigma: float = 0.4) -> Case:
    """The lattice matters: inverting Pr[Y <= y] alone, with 1 - Pr[Y <= y] for the other tail, covers too seldom."""
    noise = Noise(DiscreteGaussian(sigma))

    def once(random: Random) -> dict[str, bool]:
        y = int(random.binomial(n, p) + discrete_gaussian(random, sigma))
        answer = Released(y, noise, of=n)
        below = answer.law.at_most(y, p)
        return {
            "population": held(answer.population_interval(), p),
            "naive: one tail for both": 0.025 <= below <= 0.975,
        }

    return once


def suppressed_share(n: int, p: float, sigma: float, threshold: int) -> Case:
    """Only what reaches the threshold is shown; intervals that ignore it are optimistic."""
    law = DiscreteGaussian(sigma)

    def once(random: Random) -> dict[str, bool]:
        while True:
            count = random.binomial(n, p)
            y = int(count + discrete_gaussian(random, sigma))
            if y >= threshold:
                break
        shown, blind = Released(y, law, of=n, shown_from=threshold), Released(y, law, of=n)
        return {
            "population": held(shown.population_interval(), p),
            "naive: threshold forgotten, population": held(blind.population_interval(), p),
        }

    return once


def suppressed_value(count: int, sigma: float, threshold: int) -> Case:
    law = DiscreteGaussian(sigma)

    def once(random: Random) -> dict[str, bool]:
        while True:
            y = int(count + discrete_gaussian(random, sigma))
            if y >= threshold:
                break
        shown, blind = Released(y, law, shown_from=threshold), Released(y, law)
        return {
            "noise": held(shown.noise_interval(), count),
            "naive: threshold forgotten, noise": held(blind.noise_interval(), count),
        }

    return once


# Means


@lru_cache(maxsize=16)
def clamped_truth(law: str, clip: float) -> tuple[float, float]:
    """Mean of the clamped law and of the law itself."""
    if law == "exponential":
        return -math.expm1(-clip), 1.0
    if law == "bernoulli":
        return RARE, RARE
    big = np.exp(np.random.default_rng(11).normal(size=4 * 10**6))
    return float(np.minimum(big, clip).mean()), math.exp(0.5)


def values(random: Random, law: str, n: int):
    if law == "exponential":
        return random.exponential(1, n)
    return random.lognormal(0, 1, n) if law == "lognormal" else (random.random(n) < RARE).astype(float)


def clamped_mean(law: str, n: int, clip: float, sigma: float, *, public: bool = False) -> Case:
    """Totals of values less the middle, which halves what one row can move; count and squares with their own noise."""
    target, truth = clamped_truth(law, clip)
    middle = clip / 2

    def once(random: Random) -> dict[str, bool]:
        x = np.minimum(values(random, law, n), clip)
        total, count = Noise.gaussian(sigma=sigma * middle), Noise.gaussian(sigma=sigma)
        squares = Noise.gaussian(sigma=sigma * middle**2)
        s = (x - middle).sum() + random.normal(0, sigma * middle)
        q = ((x - middle) ** 2).sum() + random.normal(0, sigma * middle**2)
        size = n + random.normal(0, sigma)
        about = {"bounds": (0, clip), "origin": middle, "count": n if public else Released(size, count)}
        plain = Mean(Released(s, total), **about)
        richer = Mean(Released(s, total), squares=Released(q, squares), **about)
        e = plain.value
        spread = max(e, 0) * max(clip - e, 0) / n + ((sigma * middle) ** 2 + (sigma * (e - middle)) ** 2) / n**2
        found = {
            "population": held(plain.population_interval(), target),
            "population, squares released": held(richer.population_interval(), target),
            "noise": held(plain.noise_interval(), x.mean()),
            "naive: variance plugged in": abs(e - target) <= Z * math.sqrt(spread),
        }
        if truth != target:
            found["naive: read as the mean before clamping"] = held(richer.population_interval(), truth)
        return found

    return once


def clustered_mean(units: int = 200, rows: int = 4) -> Case:
    """Units are sampled, and the rows of one are alike: 0 or 1, all of them."""

    def once(random: Random) -> dict[str, bool]:
        x = np.repeat((random.random(units) < 0.3).astype(float), rows)
        total = Released(x.sum() + random.normal(0, 5.0), Noise.gaussian(sigma=5.0))
        size = Released(len(x) + random.normal(0, 5.0), Noise.gaussian(sigma=5.0))
        capped, blind = (Mean(total, count=size, bounds=(0, 1), rows_per_unit=k) for k in (rows, 1))
        return {
            "population": held(capped.population_interval(), 0.3),
            "naive: rows taken as a sample": held(blind.population_interval(), 0.3),
        }

    return once


def laplace_mean(n: int = 100, epsilon: float = 0.1) -> Case:
    """A proportion with Laplace noise on the mean: the interval that forgets the noise."""

    def once(random: Random) -> dict[str, bool]:
        x = (random.random(n) < 0.5).astype(float)
        noisy = x.sum() + random.laplace(0, 1 / epsilon)
        answer = Mean(Released(noisy, Noise.laplace(scale=1 / epsilon)), count=n, bounds=(0, 1))
        e = noisy / n
        return {
            "population": held(answer.population_interval(), 0.5),
            "naive: noise forgotten": abs(e - 0.5) <= Z * math.sqrt(max(0, e * (1 - e)) / n),
        }

    return once


def small_mean(n: int, sigma: float, mean: float) -> Case:
    """Groups so small that the released count often does not exclude 0; the same number for everybody."""

    def once(random: Random) -> dict[str, bool]:
        noise = Noise(DiscreteGaussian(sigma))
        total = Released(n * mean + float(discrete_gaussian(random, sigma)), noise)
        count = Released(n + float(discrete_gaussian(random, sigma)), noise)
        answer = Mean(total, count, (0, 1))
        ratio = ts.inference.ratio(total, count)
        found = {
            "noise": held(answer.noise_interval(), mean),
            "population": held(answer.population_interval(), mean),
            "ratio, noise": held(ratio.noise_interval(), mean),
        }
        if count.value > 3 * sigma:
            found["naive: only where the count is clear"] = held(answer.noise_interval(), mean)
        return found

    return once


# Quantiles, contrasts, local answers


def quantile(n: int, p: float, bins: int, *, law: str, public: bool) -> Case:
    edges = np.linspace(0, 4, bins + 1)
    truth = -math.log1p(-p)

    def once(random: Random) -> dict[str, bool]:
        x = np.clip(random.exponential(1, n), 0, 4)
        counts = np.histogram(x, edges)[0]
        noise = discrete_gaussian(random, 4.0, bins) if law == "gaussian" else discrete_laplace(random, 2.0, bins)
        made = cells(counts + noise, noise=DiscreteGaussian(4.0) if law == "gaussian" else DiscreteLaplace(2.0))
        answer = Quantile(made, edges, p=p, of=n if public else None)
        own = float(np.sort(x)[math.ceil(p * n) - 1])
        found = {"population": held(answer.population_interval(), truth), "noise": held(answer.noise_interval(), own)}
        found["naive: sampling forgotten"] = held(answer.noise_interval(), truth)
        return found

    return once


def contrast(first: tuple[int, float], second: tuple[int, float], sigma: float) -> Case:
    noise = Noise(DiscreteGaussian(sigma))

    def once(random: Random) -> dict[str, bool]:
        made = [
            Released(int(random.binomial(n, p) + discrete_gaussian(random, sigma)), noise, of=n)
            for n, p in (first, second)
        ]
        return {
            "difference": held(ts.inference.difference(*made).population_interval(), first[1] - second[1]),
            "ratio": held(ts.inference.ratio(*made).population_interval(), first[1] / second[1]),
        }

    return once


def local_share(n: int, share: float, epsilon: float) -> Case:
    truth = 1 / (1 + math.exp(-epsilon))

    def once(random: Random) -> dict[str, bool]:
        yes = random.random(n) < share
        ones = int((random.random(n) < np.where(yes, truth, 1 - truth)).sum())
        answer = ts.inference.LocalShare(ones, n, if_true=truth, if_false=1 - truth)
        low, high = _clopper(ones, n)
        return {
            "population": held(answer.population_interval(), share),
            "noise": held(answer.noise_interval(), yes.mean()),
            "naive: reports read as answers": low <= share <= high,
        }

    return once


# Lines


def slope(n: int, mu: float, *, public: bool = True) -> Case:
    """The oracle's world: x in [-1, 1], y = x / 2 + noise clipped to [-1, 1], sums with Gaussian noise."""
    sigma = math.sqrt(5.0 if public else 6.0) / mu

    def once(random: Random) -> dict[str, bool]:
        x = random.uniform(-1, 1, n)
        y = np.clip(0.5 * x + random.normal(0, 0.2, n), -1, 1)
        sums = {"x": x.sum(), "xx": (x * x).sum(), "y": y.sum(), "xy": (x * y).sum(), "yy": (y * y).sum()}
        noise = Noise.gaussian(sigma=sigma)
        made = {name: Released(value + random.normal(0, sigma), noise) for name, value in sums.items()}
        size = n if public else Released(n + random.normal(0, sigma), noise)
        exact = (sums["xy"] - sums["x"] * sums["y"] / n) / (sums["xx"] - sums["x"] ** 2 / n)
        try:
            b, _ = ts.inference.line(n=size, **made)
        except Refused:
            return {"population": False, "noise": False}
        rows = b.statistics.rows
        den = made["xx"].value - made["x"].value ** 2 / rows
        theta = b.statistics.solve(0.0)
        blind = math.sqrt(b.statistics.residual_squares(theta) / (rows - 2) / den)
        return {
            "population": held(b.population_interval(), 0.5),
            "noise": held(b.noise_interval(), exact),
            "naive: noise forgotten": abs(b.value - 0.5) <= Z * blind,
        }

    return once


# What is free


def combined(random: Random) -> dict[str, bool]:
    made = [
        Released(100 + int(discrete_gaussian(random, 8.0)), DiscreteGaussian(8.0), of=400),
        Released(100 + int(discrete_laplace(random, 10.0)), DiscreteLaplace(10.0), of=400),
        Released(100 + int(discrete_gaussian(random, 20.0)), DiscreteGaussian(20.0), of=400),
    ]
    best = ts.inference.combine(*made)
    cellular = [[Released(25 + int(discrete_gaussian(random, 5.0)), DiscreteGaussian(5.0)) for _ in "ab"] for _ in "ab"]
    total = Released(100 + int(discrete_gaussian(random, 5.0)), DiscreteGaussian(5.0))
    better = ts.inference.consistent_table(cellular, total=total)
    return {"combined": held(best.noise_interval(), 100), "consistent cell": held(better[0][0].noise_interval(), 25)}


def believed(random: Random) -> dict[str, bool]:
    """Shares drawn from the prior itself: a credible interval then covers at exactly its rate."""
    p = random.beta(2, 5)
    y = int(random.binomial(60, p) + discrete_gaussian(random, 6.0))
    _, interval = ts.inference.posterior_share(Released(y, DiscreteGaussian(6.0), of=60), prior=(2, 5))
    return {"posterior": held(interval, p)}


def simulated(random: Random) -> dict[str, bool]:
    """A rate from a noisy count of 50 exponential waiting times above 1, for which there is no formula here."""
    scale, n, truth = 3.0, 50, 0.7

    def draw(rate: float, inner: Random) -> float:
        return inner.binomial(n, math.exp(-max(rate, 1e-9))) + inner.laplace(0, scale)

    seen = draw(truth, random)
    seed = int(random.integers(2**31))
    grid = np.linspace(0.02, 4.0, 100)
    repro = ts.inference.repro_interval(draw, observed=seen, candidates=grid, draws=99, seed=seed)
    return {"repro": held(repro, truth)}


def bootstrapped(random: Random) -> dict[str, bool]:
    n, scale, truth = 2000, 5.0, 0.3

    def draw(share: float, inner: Random) -> float:
        return inner.binomial(n, min(1.0, max(0.0, share))) + inner.laplace(0, scale)

    found = ts.inference.bootstrap_interval(
        draw, lambda y: y / n, observed=draw(truth, random), draws=400, seed=int(random.integers(2**31))
    )
    return {"bootstrap": held(found, truth)}


CASES: dict[str, Case] = {
    "share 200 x .5, Gaussian 10": share(200, 0.5, sigma=10.0),
    "share 200 x .02, Gaussian 5": share(200, 0.02, sigma=5.0),
    "share 1000 x .01, Gaussian 20": share(1000, 0.01, sigma=20.0),
    "share 50 x .3, Gaussian 3": share(50, 0.3, sigma=3.0),
    "share 500 x .1, Laplace 5": share(500, 0.1, scale=5.0),
    "share 1000 x .0005, Gaussian .4": rare_share(),
    "suppressed share 200 x .05 from 20": suppressed_share(200, 0.05, 6.0, 20),
    "suppressed value 10 from 20": suppressed_value(10, 6.0, 20),
    "mean, exponential 200 to 3": clamped_mean("exponential", 200, 3.0, 5.0),
    "mean, exponential 1000 to 1.5": clamped_mean("exponential", 1000, 1.5, 10.0),
    "mean, lognormal 500 to 4": clamped_mean("lognormal", 500, 4.0, 5.0),
    "mean near its bound, public 500": clamped_mean("bernoulli", 500, 1.0, 0.3, public=True),
    "mean of 100 bits, Laplace 10": laplace_mean(),
    "mean of 5 people, Gaussian 10": small_mean(5, 10.0, 0.9),
    "mean of 10 people, Gaussian 10": small_mean(10, 10.0, 0.9),
    "mean of 20 people, Gaussian 10": small_mean(20, 10.0, 0.9),
    "mean of 0 people, Gaussian 10": small_mean(0, 10.0, 0.9),
    "mean of 3 people, Gaussian 1": small_mean(3, 1.0, 0.9),
    "mean of 200 people with 4 rows each": clustered_mean(),
    "median of 400 in 16 bins, Gaussian": quantile(400, 0.5, 16, law="gaussian", public=True),
    "upper decile of 400, Laplace": quantile(400, 0.9, 16, law="laplace", public=True),
    "median of 400, count private": quantile(400, 0.5, 16, law="gaussian", public=False),
    "two shares .3 and .2": contrast((500, 0.3), (400, 0.2), 10.0),
    "two small shares .04 and .02": contrast((2000, 0.04), (2000, 0.02), 5.0),
    "local share 500 x .3, epsilon 1": local_share(500, 0.3, 1.0),
    "slope 200, mu .3": slope(200, 0.3),
    "slope 500, mu .5": slope(500, 0.5),
    "slope 2000, mu .5": slope(2000, 0.5),
    "slope 2000, mu .1": slope(2000, 0.1),
    "slope 500, mu .5, count private": slope(500, 0.5, public=False),
    "combined and consistent": combined,
    "posterior under Beta(2, 5)": believed,
    "repro samples": simulated,
    "bootstrap": bootstrapped,
}


def coverage(case: Case, replicates: int, seed: int) -> dict[str, tuple[int, int]]:
    """How often each interval held, and out of how many; an interval that is refused has missed."""
    random, counts = np.random.default_rng(seed), {}
    for _ in range(replicates):
        for name, good in case(random).items():
            hits, tries = counts.get(name, (0, 0))
            counts[name] = hits + int(good), tries + 1
    return counts


# Tests: under the hypothesis a p-value is at most a with probability at most a


def null_share(random: Random) -> float:
    y = int(random.binomial(120, 0.1) + discrete_laplace(random, 4.0))
    return ts.inference.share_equals(Released(y, DiscreteLaplace(4.0), of=120), 0.1).p_value


def null_same_share(first: int, second: int, p: float, sigma: float) -> Callable[[Random], float]:
    law = DiscreteGaussian(sigma)

    def once(random: Random) -> float:
        made = [
            Released(int(random.binomial(n, p) + discrete_gaussian(random, sigma)), law, of=n) for n in (first, second)
        ]
        return ts.inference.same_share(*made, draws=199, seed=int(random.integers(2**31))).p_value

    return once


def _noisy_mean(random: Random, n: int, clip: float, sigma: float, *, squares: bool) -> Mean:
    x = np.minimum(random.exponential(1, n), clip)
    middle, half = clip / 2, clip / 2
    made = {"count": Released(n + random.normal(0, sigma), Noise.gaussian(sigma=sigma))}
    if squares:
        noisy = ((x - middle) ** 2).sum() + random.normal(0, sigma * half**2)
        made["squares"] = Released(noisy, Noise.gaussian(sigma=sigma * half**2))
    total = Released((x - middle).sum() + random.normal(0, sigma * half), Noise.gaussian(sigma=sigma * half))
    return Mean(total, bounds=(0, clip), origin=middle, **made)


def null_mean(random: Random) -> float:
    answer = _noisy_mean(random, 300, 3.0, 5.0, squares=True)
    return ts.inference.mean_equals(answer, clamped_truth("exponential", 3.0)[0]).p_value


def null_same_mean(random: Random) -> float:
    left, right = (_noisy_mean(random, n, 3.0, 5.0, squares=True) for n in (300, 500))
    return ts.inference.same_mean(left, right).p_value


def null_table(n: int, rows: list[float], columns: list[float], sigma: float) -> Callable[[Random], float]:
    law, expected = DiscreteGaussian(sigma), np.outer(rows, columns)

    def once(random: Random) -> float:
        counts = random.multinomial(n, expected.ravel()) + discrete_gaussian(random, sigma, expected.size)
        seed = int(random.integers(2**31))
        try:
            return ts.inference.independent(counts.reshape(expected.shape), noise=law, draws=199, seed=seed).p_value
        except Refused:
            return 1.0

    return once


def naive_table(random: Random) -> float:
    """The usual chi-square test on noisy counts: it takes the noise for dependence."""
    from scipy.stats import chi2

    expected = np.outer([0.5, 0.5], [0.3, 0.3, 0.4])
    noise = discrete_gaussian(random, 8.0, 6)
    counts = (random.multinomial(400, expected.ravel()) + noise).reshape(2, 3).astype(float)
    fitted = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum()
    return float(chi2.sf(((counts - fitted) ** 2 / fitted).sum(), 2))


NULLS: dict[str, Callable[[Random], float]] = {
    "share of 120 is .1, Laplace 4": null_share,
    "same share, 300 and 500 x .2, Gaussian 8": null_same_share(300, 500, 0.2, 8.0),
    "same share, 200 and 200 x .02, Gaussian 3": null_same_share(200, 200, 0.02, 3.0),
    "mean of 300, exponential to 3": null_mean,
    "same mean, 300 and 500": null_same_mean,
    "independent, 2 x 3 of 400, Gaussian 8": null_table(400, [0.5, 0.5], [0.3, 0.3, 0.4], 8.0),
    "independent, 3 x 3 of 300, skew, Gaussian 4": null_table(300, [0.7, 0.2, 0.1], [0.6, 0.3, 0.1], 4.0),
    "naive: chi-square without noise": naive_table,
}


def level(null: Callable[[Random], float], replicates: int, seed: int, wanted: float = 0.05) -> int:
    """How often the hypothesis, which is true, is rejected."""
    random = np.random.default_rng(seed)
    return sum(null(random) <= wanted for _ in range(replicates))
