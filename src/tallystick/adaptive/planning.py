"""Number of records that k adaptive questions need, by every route; the best one is named.

    stability      k TV-stable answers, Markov's inequality            records ~ k.
    transfer       privacy of the transcript and sample accuracy       records ~ sqrt(k).
    gaussian curve privacy of the transcript, Gaussian answers         records ~ sqrt(k), the fewest for many questions.
    splitting      fresh records for every question, Hoeffding         records ~ k log k, no noise.
    non-adaptive   all questions fixed before the data                 records ~ log k, no noise.

A route has a factor x from noise to error, a constant c and a deviation T(r) at n sigma = r; then the noise is
sigma = (tau - c - T)/x, and n = r/sigma. The search is in floating point; what it finds is certified afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from tallystick import drawing
from tallystick.accounting import check
from tallystick.accounting.generalization import curve_deviation, normal_mean_tail
from tallystick.adaptive.answer_noise import LATTICE, ROUNDING, AnswerNoise
from tallystick.digits import percent, typed
from tallystick.errors import InvalidInput
from tallystick.rounding import up

MOST_QUERIES, LEAST_TAU = 10**7, 1e-3
_MARGIN = 1.0 - 1e-6  # of tau, so that rounding and the search of the certificate fit in


@dataclass(frozen=True, slots=True)
class Route:
    """One way to certify the answers: ``samples`` records and Gaussian noise of deviation ``noise`` are enough."""

    name: str
    samples: int
    noise: float
    adaptive: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """k questions, each answered within ``tau`` of the population, all of them with probability 1 - ``beta``."""

    queries: int
    tau: float
    beta: float
    samples: int
    noise: float
    bound: str
    bounds: dict[str, Route]

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {**asdict(self), "bounds": [asdict(route) for route in self.bounds.values()]}

    def _rows(self) -> list[list[str]]:
        def marked(route: Route) -> str:
            return route.name + (" (best)" if route.name == self.bound else "")

        return [
            [marked(r), f"{r.samples:,}", f"{r.noise:.4g}" if r.noise else "0 (exact means: not private)"]
            for r in self.bounds.values()
        ]

    def _title(self) -> str:
        said = (
            f"{self.queries:,} questions, each within {typed(self.tau)} of the population, all with probability "
            f"{percent(1.0 - self.beta)}: {self.samples:,} records, noise {self.noise:.4g} ({self.bound})"
        )
        if self.noise:
            return said
        private = self.bounds["gaussian curve"]
        return f"{said}. StatisticalQueries, which are private, need {private.samples:,}, noise {private.noise:.4g}"

    def __str__(self) -> str:
        lines = [f"  {name:<24}{samples:>16} records   noise {noise}" for name, samples, noise in self._rows()]
        return "\n".join([self._title(), *lines])

    def __repr__(self) -> str:
        goal = f"{self.queries:,} queries within {typed(self.tau)}"
        return f"<Plan of {goal}: {self.samples:,} records ({self.bound})>"

    def _repr_html_(self) -> str:
        head = ["route", "records", "noise"]
        return f"<p>{self._title()}</p>" + drawing.table(head, self._rows(), [False, True, True])


def plan(
    *,
    queries: int | None = None,
    tau: float | None = None,
    beta: float,
    samples: int | None = None,
    adaptive: bool = True,
) -> Plan:
    """The fewest records we can certify for this many questions, and with which noise.

    ``samples`` records and Gaussian answers of deviation ``noise`` (0 for splitting and non-adaptive) keep every answer
    within ``tau`` of the population, all of them at once except with probability ``beta``. ``bounds`` has
    every route. With ``adaptive=False`` the questions are fixed before the data are seen, and nothing is needed but
    Hoeffding's inequality. Page ``theory/transfer.md``.

    Give two of ``queries``, ``tau`` and the number of records you have, ``samples``: the plan is then for the most
    questions, or the least tau, that ``StatisticalQueries`` can certify on so many records.

    >>> found = plan(queries=1000, tau=0.1, beta=0.05)
    >>> found.bound, found.samples < 145_400, found.bounds["splitting"].samples
    ('gaussian curve', True, 530000)
    >>> plan(samples=20_000, tau=0.1, beta=0.05).queries > 200
    True
    """
    if [queries, tau, samples].count(None) != 1:
        raise InvalidInput("plan", "other than two of queries, tau and samples", "two of them: the third is the answer")
    chance = check.inside("beta", beta)
    if chance < 1e-12:
        raise InvalidInput("beta", beta, "a probability of at least 1e-12")
    if queries is not None:
        check.count("queries", queries, least=1, most=MOST_QUERIES)
    if tau is not None and check.inside("tau", tau) < LEAST_TAU:
        raise InvalidInput("tau", tau, "an error of at least 0.001")
    if samples is None:
        assert queries is not None
        assert tau is not None
        return _plan(queries, tau, chance, adaptive)
    n = check.count("samples", samples, least=1, most=10**13)
    if queries is None:
        assert tau is not None
        return _plan(_most_queries(n, tau, chance), tau, chance, adaptive)
    return _plan(queries, _least_tau(n, queries, chance), chance, adaptive)


def _plan(k: int, t: float, b: float, adaptive: bool) -> Plan:
    each = hoeffding_samples(queries=k, tau=t, beta=b)
    routes = [_stability(k, t, b), _transfer(k, t, b), _curve(k, t, b)]
    routes += [Route("splitting", k * each, 0.0), Route("non-adaptive", each, 0.0, adaptive=False)]
    best = min((route for route in routes if route.adaptive or not adaptive), key=lambda route: route.samples)
    return Plan(k, t, b, best.samples, best.noise, best.name, {route.name: route for route in routes})


def _most_queries(n: int, tau: float, beta: float) -> int:
    """The most questions that n records are enough for."""
    if _curve(1, tau, beta).samples > n:
        raise InvalidInput("samples", n, f"at least {_curve(1, tau, beta).samples} records for one question")
    low, high = 1, 2
    while high < MOST_QUERIES and _curve(high, tau, beta).samples <= n:
        low, high = high, 2 * high
    high = min(high, MOST_QUERIES)
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (middle, high) if _curve(middle, tau, beta).samples <= n else (low, middle)
    return low


def _least_tau(n: int, queries: int, beta: float) -> float:
    """The least error, in thousandths, that n records are enough for."""
    low, high = round(LEAST_TAU * 1000) - 1, 1000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _curve(queries, middle / 1000, beta).samples <= n else (middle, high)
    if high == 1000:
        enough = _curve(queries, 0.999, beta).samples
        raise InvalidInput("samples", n, f"at least {enough} records for so many questions")
    return high / 1000


def hoeffding_samples(*, queries: int, tau: float, beta: float) -> int:
    """log(2k/beta)/(2 tau^2) records: k questions fixed before the data are within tau, all but with chance beta.

    >>> hoeffding_samples(queries=100, tau=0.1, beta=0.05)
    415
    """
    return math.ceil(up(math.log(2 * queries / beta) / (2.0 * tau * tau)))


def _curve(k: int, tau: float, beta: float) -> Route:
    def records(share: float) -> tuple[float, float]:
        a = beta * share
        factor = normal_mean_tail(failure=(beta - a) / (2 * k)) * LATTICE
        return _fewest(factor, tau * _MARGIN - ROUNDING, lambda r: curve_deviation(mu=math.sqrt(k) / r, failure=a), k)

    samples, noise = _best_share(records)
    n = math.ceil(samples)
    while AnswerNoise("gaussian", noise, n).error(answers=k, covered=k, failure=beta) > tau:
        n += 1 + n // 10**6
    return Route("gaussian curve", n, noise)


def _transfer(k: int, tau: float, beta: float) -> Route:
    """Sample accuracy sigma z with failure c (beta - a): the Markov slack c comes on top of the error."""
    best = (math.inf, 0.0)
    for c in (tau * 10.0 ** (-tenth / 4.0) for tenth in range(4, 20)):

        def records(share: float, c: float = c) -> tuple[float, float]:
            a = beta * share
            factor = -float(ndtri(c * (beta - a) / (2 * k))) * LATTICE
            room = tau * _MARGIN - ROUNDING - c
            return _fewest(factor, room, lambda r: curve_deviation(mu=math.sqrt(k) / r, failure=a), k)

        best = min(best, _best_share(records))
    return Route("transfer", math.ceil(best[0]), best[1])


def _stability(k: int, tau: float, beta: float) -> Route:
    """The transcript is k TV_1 stable (Theorem 0.1 of the lecture), so that its mean deviation is above T with
    probability at most k TV_1/T; TV_1 = 2 Phi(1/(2r)) - 1."""

    def records(share: float) -> tuple[float, float]:
        a = beta * share
        factor = normal_mean_tail(failure=(beta - a) / (2 * k)) * LATTICE
        return _fewest(factor, tau * _MARGIN - ROUNDING, lambda r: up(k * math.erf(1.0 / (math.sqrt(8.0) * r)) / a), k)

    samples, noise = _best_share(records)
    return Route("stability", math.ceil(samples), noise)


def _fewest(factor: float, room: float, deviation: Callable[[float], float], k: int) -> tuple[float, float]:
    """The least n, with its sigma, over r = n sigma: sigma = (room - T(r))/factor, n = r/sigma."""

    def samples(log_r: float) -> float:
        r = math.exp(log_r)
        left = room - deviation(r)
        return r * factor / left if left > 0.0 else 1e30 * (2.0 - left)

    if room <= 0.0:
        return math.inf, 0.0
    start = 1.0
    while deviation(start) > room / 2.0:
        start *= 2.0
    near = math.log(start)
    found = minimize_scalar(samples, bounds=(near - 1.0, near + 1.0), method="bounded", options={"xatol": 1e-5})
    return float(found.fun), math.exp(float(found.x)) / float(found.fun)


def _best_share(records: Callable[[float], tuple[float, float]]) -> tuple[float, float]:
    """Over the share of beta that the transcript gets."""
    found = minimize_scalar(
        lambda share: records(share)[0], bounds=(1e-3, 0.999), method="bounded", options={"xatol": 1e-4}
    )
    return records(float(found.x))


def best_noise(samples: int, queries: int, beta: float) -> float:
    """The deviation of Gaussian answers with the least certified error on this many records.

    >>> round(best_noise(20_000, 202, 0.05), 4)
    0.0107
    """
    middle = math.log(queries) / 4.0 - math.log(samples) / 2.0  # where noise and deviation are about equal
    low, high = middle - 3.0, min(middle + 3.0, 25.0 * math.log(2.0) - math.log(samples))
    low = max(low, -math.log(16.0 * samples) + 1e-9)

    def error(log_noise: float) -> float:
        noise = AnswerNoise("gaussian", math.exp(log_noise), samples)
        return noise.error(answers=queries, covered=queries, failure=beta)

    found = minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))
