"""Laws of the privacy loss for the fast oracle: extended precision (80-bit), from the specification alone.

Nothing here imports tallystick.  The terms are those of ``oracle_laws``.  A ``FastLaw`` gives the finite part of
L = log dP/dQ under P in one direction as points with logarithmic masses, fine enough for a tilt and a frequency.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx

LD = np.longdouble
ACCURACY = 46.0  # natural logarithm of the relative accuracy of every quadrature: about 20 decimals
Array = np.ndarray
Points = tuple[Array, Array]  # losses, log masses (80-bit)


@dataclass
class FastLaw:
    count: int
    log_finite: float  # log(1 - mass at infinity), of one step
    points: Callable[[float, float], Points] | None = None  # (tilt, frequency)
    atoms: bool = False  # points are the law itself, whatever the frequency
    lattice: tuple[Any, Any] | None = None  # offset, step
    interval: tuple[Any, Any, Any, Any] | None = None  # end, top, bottom, c of an unsampled Laplace or bounded range
    variance: Any = 0.0  # of an unsampled Gaussian
    bounded: bool = False
    revival: float = 0.0  # the frequency at which the atoms come back in phase, 0 where there are none

    def log_mgf(self, theta: float) -> float:
        """log E[e^{theta L}], in doubles."""
        if self.variance:
            return float((theta * theta + theta) * self.variance / 2)
        if self.interval is not None:
            return float(np.log(interval_mgf(self.interval, np.array([theta], dtype=np.clongdouble))[0].real))
        loss, logs = self.rough(theta)
        sizes = theta * loss + logs
        top = sizes.max()
        return float(top + math.log(np.exp(sizes - top).sum()))

    def highest(self) -> float:
        """The largest loss, infinite where there is none."""
        if self.interval is not None:
            return float(self.interval[0])
        return float(self.points(1.0, 0.0)[0].max()) if self.bounded and self.points is not None else math.inf

    def rough(self, theta: float) -> tuple[Array, Array]:
        key = math.ceil(4 * math.log2(max(theta, 0.25)))
        cache = self.__dict__.setdefault("_rough", {})
        if key not in cache:
            assert self.points is not None
            loss, logs = self.points(2.0 ** (key / 4), 0.0)
            cache[key] = loss.astype(float), np.maximum(logs, LD(-1e5)).astype(float)
        return cache[key]

    def far(self, theta: float, t: Array, last: float) -> Array:
        """About |M(theta + it)| / M(theta) far out, in doubles; ``last`` is its size where it was last computed."""
        if self.variance:
            return np.exp(-np.minimum(float(self.variance) * t * t / 2, 700.0))
        if self.interval is not None:
            value = interval_mgf(self.interval, (theta + 1j * t).astype(np.clongdouble))
            return np.abs(value / interval_mgf(self.interval, np.array([theta], dtype=np.clongdouble))[0]).astype(float)
        if not self.atoms and not self.revival:
            return np.full(len(t), last)
        loss, logs = self.rough(theta)
        if not self.atoms:  # a sampled Laplace law: its two atoms are listed last
            weight = np.exp(theta * loss + logs - (theta * loss + logs).max())
            atoms, spread = weight[-2:] / weight.sum(), float(loss.max() - loss.min())
            swing = np.abs(np.exp(1j * np.outer(t, loss[-2:])) @ atoms)
            return swing + (1 - atoms.sum()) * np.minimum(1.0, 6.0 / (t * spread))
        sizes = theta * loss + logs
        heavy = sizes > sizes.max() - 25.0
        loss, weight = loss[heavy], np.exp(sizes[heavy] - sizes.max())
        parts = np.array_split(t, 1 + len(t) * len(loss) // 1_000_000)
        sums = [np.abs(np.exp(1j * np.outer(part, loss)) @ (weight / weight.sum())) for part in parts]
        return np.concatenate(sums)

    def ratios(self, theta: float, dt: Any, count: int, *, exact: bool) -> tuple[Any, Array]:
        """log M(theta) and M(theta + i k dt) / M(theta) for k = 0 .. count."""
        if self.variance:
            t = dt * np.arange(count + 1, dtype=LD)
            v = LD(self.variance)
            return (LD(theta) ** 2 + theta) * v / 2, np.exp(-v * t * t / 2 + 1j * t * v * (LD(theta) + LD(0.5)))
        if self.interval is not None:
            z = LD(theta) + 1j * dt * np.arange(count + 1, dtype=LD)
            value = interval_mgf(self.interval, z)
            return np.log(value[0].real), value / value[0].real
        assert self.points is not None
        loss, logs = self.points(theta, float(dt) * count)
        sizes = LD(theta) * loss + logs
        top = sizes.max()
        keep = sizes > top - ACCURACY - 4.0
        loss, weight = loss[keep], np.exp(sizes[keep] - top)
        total = weight.sum()
        return top + np.log(total), transform(loss, weight / total, dt, count, exact=exact)


def transform(loss: Array, weight: Array, dt: Any, count: int, *, exact: bool) -> Array:
    """sum of weight e^{i k dt loss}: one matrix product; 80-bit where ``exact``, else doubles with 80-bit phases."""
    inner = max(1, math.isqrt(count + 1))
    outer = (count + 1) // inner + 1
    kind = np.clongdouble if exact else np.complex128
    result = np.zeros((outer, inner), dtype=kind)
    block = max(1, 4_000_000 // (outer + inner))
    for start in range(0, len(loss), block):
        part, mass = loss[start : start + block], weight[start : start + block]
        fine = phases(np.outer(np.arange(inner, dtype=LD) * dt, part), exact)
        coarse = phases(np.outer(np.arange(outer, dtype=LD) * (dt * inner), part), exact) * mass.astype(
            LD if exact else float
        )
        result += coarse @ fine.T
    return result.reshape(-1)[: count + 1].astype(np.clongdouble)


def phases(angle: Array, exact: bool) -> Array:
    if exact:
        return np.cos(angle) + 1j * np.sin(angle)
    reduced = np.remainder(angle, 2 * PI).astype(float)
    return np.cos(reduced) + 1j * np.sin(reduced)


PI = LD("3.14159265358979323846264338327950288")


def interval_mgf(interval: tuple[Any, Any, Any, Any], z: Array) -> Array:
    end, top, bottom, c = interval
    s = z + LD(0.5)
    up, down = np.exp(z * end), np.exp(-z * end)
    small = np.abs(s * end) < 1e-3
    x = s * end
    wave = np.where(small, 1 + x * x / 6 * (1 + x * x / 20 * (1 + x * x / 42)), np.sinh(x) / np.where(small, 1, x))
    return top * up + bottom * down + 2 * c * end * wave


# ------------------------------------------------------------------------------------------------------------ discrete


def exactly(value: Any) -> Any:
    """A ball as the nearest 80-bit number."""
    return LD(value.mid().str(25, radius=False))


def discrete(
    loss: Array, p: Array, q: Array, only_p: Any, only_q: Any, lattice: Any, term: dict[str, Any], direction: str
) -> FastLaw:
    """(loss, P, Q) of the REMOVE pair; sampling and direction applied."""
    rate, remove = term.get("rate"), direction == "remove"
    with np.errstate(divide="ignore"):
        if rate is None:
            losses, logs = (loss, np.log(p)) if remove else (-loss, np.log(q))
            infinite = only_p if remove else only_q
            if lattice is not None and not remove:
                lattice = (-lattice[0], lattice[1])
        else:
            r = LD(rate)
            mixed = np.log1p(r * np.expm1(loss))
            losses, logs = (mixed, np.log(q) + mixed) if remove else (-mixed, np.log(q))
            infinite = r * only_p if remove else LD(0)
            if only_q > 0:
                edge = np.log1p(-r)
                losses = np.append(losses, edge if remove else -edge)
                logs = np.append(logs, np.log(only_q) + (edge if remove else 0))
            lattice = (losses[0], abs(losses[1] - losses[0])) if len(losses) == 2 else None
    good = np.isfinite(logs)
    losses, logs = losses[good], logs[good]
    return FastLaw(
        term["count"],
        float(np.log1p(-infinite)),
        points=lambda _tilt, _frequency: (losses, logs),
        atoms=True,
        bounded=True,
        lattice=lattice,
        revival=float(2 * PI / abs(lattice[1])) if lattice is not None and lattice[1] != 0 else 0.0,
    )


def two_point(epsilon: Any, delta: Any, choices: int, term: dict[str, Any], direction: str) -> FastLaw:
    total = np.exp(epsilon) + (choices - 1)
    loss, p = [epsilon, -epsilon], [np.exp(epsilon) / total, 1 / total]
    if choices > 2:
        loss.append(LD(0))
        p.append((choices - 2) / total)
    losses, masses = np.array(loss, dtype=LD), np.array(p, dtype=LD) * (1 - delta)
    step = epsilon if choices > 2 else 2 * epsilon
    return discrete(losses, masses, masses * np.exp(-losses), delta, delta, (-epsilon, step), term, direction)


def discrete_law(term: dict[str, Any], direction: str) -> FastLaw:
    name = term["leaf"]
    if name == "pure_dp":
        return two_point(LD(term["epsilon"]), LD(0), 2, term, direction)
    if name == "approx_dp":
        return two_point(LD(term["epsilon"]), LD(term["delta"]), 2, term, direction)
    if name == "randomized_response":
        if "flip_prob" in term:
            flip = LD(term["flip_prob"])
            return two_point(np.log1p((1 - 2 * flip) / flip), LD(0), 2, term, direction)
        return two_point(LD(term["epsilon"]), LD(0), int(term.get("choices", 2)), term, direction)
    if name == "discrete_pair":
        p, q = np.array(term["p"], dtype=LD), np.array(term["q"], dtype=LD)
        both = (p > 0) & (q > 0)
        only_p, only_q = p[q == 0].sum(), q[p == 0].sum()
        loss = np.log1p((p[both] - q[both]) / q[both])
        lattice = (loss[0], abs(loss[1] - loss[0])) if len(loss) == 2 else None
        return discrete(loss, p[both], q[both], only_p, only_q, lattice, term, direction)
    shift = int(term.get("sensitivity", 1))
    if name == "discrete_laplace":
        b = LD(term["scale"])
        alpha = np.exp(-1 / b)
        x = np.arange(shift + 1)
        p = -np.expm1(-1 / b) / (1 + alpha) * np.exp(-(shift - x) / b)
        p[-1], p[0] = 1 / (1 + alpha), np.exp(-shift / b) / (1 + alpha)
        loss = (2 * x - shift) / b
        return discrete(loss, p, p * np.exp(-loss), LD(0), LD(0), (-shift / b, 2 / b), term, direction)
    return discrete_gaussian(LD(term["sigma"]), shift, term, direction)


def discrete_gaussian(sigma: Any, shift: int, term: dict[str, Any], direction: str) -> FastLaw:
    """Unlike the other discrete laws its points depend on the tilt."""
    rate, remove = term.get("rate"), direction == "remove"
    reach = float(sigma) * 11.5 + 2
    k = np.arange(1, int(reach) + 2, dtype=LD)
    log_norm = np.log1p(2 * np.exp(-k * k / (2 * sigma * sigma)).sum())

    @lru_cache(maxsize=8)
    def points(tilt: float, _frequency: float) -> Points:
        low, high = -reach, shift + reach
        if rate is None or remove:
            high = shift * (1 + tilt) + reach
        else:
            low -= float(sigma) * math.sqrt(-2 * tilt * math.log1p(-rate)) * 1.0
        if high - low > 400_000:
            raise OverflowError("too many points")
        x = np.arange(int(low) - 1, int(high) + 2, dtype=LD)
        loss = (2 * x * shift - shift * shift) / (2 * sigma * sigma)
        log_q = -x * x / (2 * sigma * sigma) - log_norm
        if rate is None:  # symmetric: the ADD law is the REMOVE law
            return loss, log_q + loss
        mixed = np.where(
            loss < 1,
            np.log1p(LD(rate) * np.expm1(np.minimum(loss, 1))),
            np.logaddexp(np.log1p(-LD(rate)), np.log(LD(rate)) + loss),
        )
        return (mixed, log_q + mixed) if remove else (-mixed, log_q)

    step = shift / (sigma * sigma)
    lattice = (-step * shift / 2, step) if rate is None else None
    revival = float(2 * PI / step) if rate is None else 0.0
    return FastLaw(term["count"], 0.0, points=points, atoms=True, lattice=lattice, revival=revival)


# ---------------------------------------------------------------------------------------------------------- continuous


@lru_cache(maxsize=1)
def legendre() -> Points:
    before, ctx.prec = ctx.prec, 128
    pairs = [arb.legendre_p_root(24, k, weight=True) for k in range(24)]
    ctx.prec = before
    return np.array([exactly(x) for x, _ in pairs]), np.array([exactly(w) for _, w in pairs])


def interval_law(term: dict[str, Any], direction: str) -> FastLaw:
    one = LD(1)
    if term["leaf"] == "laplace":
        end = 1 / LD(term["scale"])
        top, bottom, c = one / 2, np.exp(-end) / 2, np.exp(-end / 2) / 4
    else:
        end = LD(term["epsilon"])
        top, bottom, c = LD(0), LD(0), np.exp(end / 2) / (2 * np.expm1(end))
    revival = float(PI / end) if top > 0 else 0.0
    if "rate" not in term:
        return FastLaw(term["count"], 0.0, interval=(end, top, bottom, c), revival=revival)
    r, remove = LD(term["rate"]), direction == "remove"

    @lru_cache(maxsize=8)
    def points(tilt: float, frequency: float) -> Points:
        x, w = legendre()
        pieces = math.ceil(2 * float(end) / min(1.0, 5.0 / (frequency + 1e-9), 8.0 / (1.0 + tilt)))
        if pieces > 20_000:
            raise OverflowError("too many points")
        width = end / pieces
        centre = -end + width * (2 * np.arange(pieces, dtype=LD) + 1)
        loss = (centre[:, None] + width * x[None, :]).ravel()
        logs = np.log(np.tile(w, pieces) * width * c) + loss / 2
        if top > 0:
            loss = np.concatenate([loss, [end, -end]])
            logs = np.concatenate([logs, [np.log(top), np.log(bottom)]])
        mixed = np.log1p(r * np.expm1(loss))
        return (mixed, logs - loss + mixed) if remove else (-mixed, logs - loss)

    high, low = np.log1p(r * np.expm1(end)), np.log1p(r * np.expm1(-end))
    again = float(2 * PI / (high - low)) if top > 0 else 0.0
    return FastLaw(term["count"], 0.0, points=points, bounded=bool(top > 0), revival=again)


def gaussian_law(term: dict[str, Any], direction: str) -> FastLaw:
    mu = LD(term["mu"]) if term["leaf"] == "gdp" else 1 / LD(term["sigma"])
    if "rate" not in term:
        return FastLaw(term["count"], 0.0, variance=mu * mu)
    size, remove, r = float(mu), direction == "remove", LD(term["rate"])

    @lru_cache(maxsize=8)
    def points(tilt: float, frequency: float) -> Points:
        strip = min((3.0 if remove else 2.0) / size, 6.0)
        gain = ACCURACY + strip**2 / 2 + frequency * size * strip
        if not remove:
            gain -= tilt * math.log(math.cos(size * strip / 2))
        dx = 2 * math.pi * strip / gain
        reach = math.sqrt(2 * ACCURACY) + 1
        left = reach + (0.0 if remove else min(math.sqrt(-2 * tilt * math.log1p(-float(r))), (1 + tilt) * size))
        right = reach + ((1 + tilt) * size if remove else 0.0)
        if (left + right) / dx > 60_000:
            raise OverflowError("too many points")
        x = np.arange(math.floor(-left / dx), math.ceil(right / dx) + 1, dtype=LD) * LD(dx)
        inner = mu * x - mu * mu / 2
        loss = np.where(
            inner < 1, np.log1p(r * np.expm1(np.minimum(inner, 1))), np.logaddexp(np.log1p(-r), np.log(r) + inner)
        )
        logs = -x * x / 2 + np.log(LD(dx)) - np.log(2 * PI) / 2
        return (loss, logs + loss) if remove else (-loss, logs)

    return FastLaw(term["count"], 0.0, points=points)


def fast_law(term: dict[str, Any], direction: str) -> FastLaw:
    name = term["leaf"]
    if name in ("gaussian", "gdp"):
        return gaussian_law(term, direction)
    if name in ("laplace", "exponential"):
        return interval_law(term, direction)
    return discrete_law(term, direction)
