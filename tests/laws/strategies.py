"""Random losses: every leaf by name, and mixtures of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st

import tallystick as ts

ADD_REMOVE = ts.Adjacency.ADD_REMOVE
few = settings(max_examples=4)  # for laws that read several compositions
one = settings(max_examples=2)  # for leaves whose composition goes through the grid


def logarithmic(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(lambda x: float(f"{math.exp(x):.6g}"))


def probabilities(size: int) -> st.SearchStrategy[list[float]]:
    """Vectors of multiples of 2^-20 that sum to one exactly."""

    def normalise(weights: list[int]) -> list[float]:
        units = [w * 2**20 // sum(weights) for w in weights]
        units[0] += 2**20 - sum(units)
        return [u / 2**20 for u in units]

    return st.lists(st.integers(1, 1000), min_size=size, max_size=size).map(normalise)


def pairs() -> st.SearchStrategy[ts.PrivacyLoss]:
    return st.integers(2, 4).flatmap(lambda size: st.builds(ts.discrete_pair, probabilities(size), probabilities(size)))


def tradeoffs() -> st.SearchStrategy[ts.PrivacyLoss]:
    def make(epsilon: float, delta: float) -> ts.PrivacyLoss:
        def f(alpha: float) -> float:
            rise, fall = math.exp(epsilon), math.exp(-epsilon)
            return max(0.0, 1 - delta - rise * alpha, fall * (1 - delta - alpha))

        return ts.from_tradeoff(f)

    return st.builds(make, logarithmic(0.05, 2.0), logarithmic(1e-6, 0.1))


def profiles() -> st.SearchStrategy[ts.PrivacyLoss]:
    """The profile of randomized response, as a function."""

    def make(top: float) -> ts.PrivacyLoss:
        return ts.from_profile(lambda e: max(0.0, 1 - math.exp(e), (math.exp(top) - math.exp(e)) / (1 + math.exp(top))))

    return logarithmic(0.1, 2.0).map(make)


LEAVES: dict[str, st.SearchStrategy[ts.PrivacyLoss]] = {
    "pure_dp": st.builds(ts.pure_dp, epsilon=logarithmic(1e-3, 3.0)),
    "approx_dp": st.builds(ts.approx_dp, epsilon=logarithmic(1e-3, 3.0), delta=logarithmic(1e-9, 1e-3)),
    "gdp": st.builds(ts.gdp, mu=logarithmic(0.01, 4.0)),
    "gaussian": st.builds(ts.gaussian, sigma=logarithmic(0.3, 50.0)),
    "laplace": st.builds(ts.laplace, scale=logarithmic(0.4, 30.0)),
    "discrete_gaussian": st.builds(ts.discrete_gaussian, sigma=logarithmic(0.5, 20.0), sensitivity=st.integers(1, 3)),
    "discrete_laplace": st.builds(ts.discrete_laplace, scale=logarithmic(0.5, 20.0), sensitivity=st.integers(1, 3)),
    "randomized_response": st.builds(
        ts.randomized_response, epsilon=logarithmic(0.01, 3.0), choices=st.integers(2, 6), adjacency=st.just(ADD_REMOVE)
    ),
    "exponential": st.builds(ts.exponential, epsilon=logarithmic(0.01, 3.0)),
    "discrete_pair": pairs(),
    "from_tradeoff": tradeoffs(),
    "from_profile": profiles(),
    "zcdp": st.builds(ts.zcdp, rho=logarithmic(1e-4, 1.0)),
    "renyi_dp": st.builds(lambda e: ts.renyi_dp({2: e, 4: 1.5 * e, 16: 4 * e}), logarithmic(1e-3, 1.0)),
}

CURVES = ("zcdp", "renyi_dp")  # only a Renyi curve is known of them
PAIRED = tuple(name for name in LEAVES if name not in CURVES)
QUICK = ("pure_dp", "approx_dp", "gdp", "gaussian", "discrete_gaussian", "discrete_laplace", "randomized_response",
         "discrete_pair")  # fmt: skip


def leaf(name: str) -> st.SearchStrategy[ts.PrivacyLoss]:
    return LEAVES[name]


def quick_losses() -> st.SearchStrategy[ts.PrivacyLoss]:
    """One or two quick terms with counts, sometimes sampled."""
    one_of = st.one_of([LEAVES[name] for name in QUICK])
    plain = st.builds(lambda n, a: n * a, st.integers(1, 12), one_of)
    training = st.builds(
        lambda n, s, q: n * ts.gaussian(sigma=s).sampled(rate=q),
        st.integers(200, 5000), logarithmic(0.7, 4.0), logarithmic(0.001, 0.05),
    )  # fmt: skip
    return st.one_of(plain, training)


def total(losses: list[ts.PrivacyLoss]) -> ts.PrivacyLoss:
    return sum(losses, ts.no_loss())


Readout = Callable[[ts.PrivacyLoss], object]
