"""The fast oracle: delta(epsilon) and epsilon(delta) to about 1e-10 in milliseconds, independent of tallystick.

    >>> terms = [{"leaf": "gaussian", "sigma": 1.0, "count": 10000, "rate": 0.01}]
    >>> print(f"{epsilon(terms, delta=1e-5, direction='remove').value:.8f}")
    6.18771239

- ``listed``   all losses discrete: powers of lattice laws by a tilted 80-bit FFT, other powers as multinomials, sums by
               searching one in the other;
- ``period``   one lattice law, by its periodic contour integral;
- ``contour``  1/(2 pi i) int exp(S(z) - z epsilon) / (z (z+1)) dz on a vertical line, the integrand tapered smoothly to
               zero at |Im z| = T.  Tapering convolves delta with a kernel of width 1/T all of whose moments vanish, so
               the error is tiny unless delta has a kink within a few 1/T; T is doubled until the answer stands still.

Every answer is computed twice with unlike windows, cuts and tapers; ``Answer.error`` is ten times their disagreement
plus an estimate of rounding.  ``OracleCannot`` where they do not agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft
from scipy.signal import lfilter

from reference.fast_laws import LD, PI, Array, FastLaw, fast_law, phases
from reference.oracle import Answer, OracleCannot, smallest

Terms = list[dict[str, Any]]
MOST_WORK = 2e8  # nodes times points, in doubles
MOST_EXACT = 3e6  # the same in 80 bits
MOST_NODES = 150_000
MOST_STATES = 400_000
GOOD = 1e-11  # relative disagreement at which T is no longer doubled


@dataclass
class Sum:
    """A composition in one direction."""

    laws: list[FastLaw]

    @property
    def steps(self) -> int:
        return sum(law.count for law in self.laws)

    def log_mgf(self, theta: float) -> float:
        if not 1e-9 < theta < 1e5:
            return math.inf
        try:
            with np.errstate(all="ignore"):
                value = math.fsum(law.count * law.log_mgf(theta) for law in self.laws)
        except (OverflowError, ValueError, MemoryError):
            return math.inf
        return value if value == value else math.inf

    def variance(self, theta: float) -> float:
        step = 0.02 * theta
        value = (self.log_mgf(theta + step) - 2 * self.log_mgf(theta) + self.log_mgf(theta - step)) / step**2
        return max(value, 1e-30) if math.isfinite(value) else 1e-30

    def spread(self, theta: float) -> float:
        """A size of the losses that are added up: the mean and a few standard deviations."""
        step = 0.01 * theta
        mean = (self.log_mgf(theta + step) - self.log_mgf(theta - step)) / (2 * step)
        return abs(mean) + 6 * math.sqrt(self.variance(theta)) if math.isfinite(mean) else 1e3

    def threshold(self, epsilon: float) -> float:
        return smallest(lambda t: self.log_mgf(t) - t * epsilon - math.log(t) - math.log1p(t))

    def mass(self, log_delta: float) -> tuple[float, float]:
        def bound(t: float) -> float:
            return (self.log_mgf(t) + t * math.log(t) - (1 + t) * math.log1p(t) - log_delta) / t

        theta = smallest(bound)
        level = bound(theta)
        spread = math.sqrt(self.variance(theta))
        return theta, max(level - 0.5 * math.log1p(theta * spread * 2.5) / theta, 0.0)


# ------------------------------------------------------------------------------------------------------------ contours

SHAKEN = np.random.default_rng(20261116).uniform(0.0, math.log(600.0) / 1000, 1000)


def taper(x: Array) -> Array:
    """1 up to 1/2, 0 from 1 on, infinitely smooth between."""
    u = np.clip((x - 0.5) * 2.0, 1e-12, 1.0 - 1e-12)
    with np.errstate(over="ignore"):
        return np.where(x <= 0.5, 1.0, np.where(x >= 1.0, 0.0, 1.0 / (1.0 + np.exp(1.0 / (1.0 - u) - 1.0 / u))))


class Contour:
    """Nodes of the tapered integral for one tilt; ``delta(e)`` reads any epsilon near the tilt's."""

    def __init__(self, total: Sum, theta: float, epsilon: float, log_delta: float, reach: float, widen: float) -> None:
        self.theta, self.total = theta, total
        self.period = total.laws[0].lattice if len(total.laws) == 1 and total.laws[0].lattice is not None else None
        window = widen * self._window(epsilon, log_delta)
        if self.period is not None:
            step = abs(float(self.period[1]))
            steps = 2 * math.ceil(window / step / 2)
            self.dt = 2 * PI / (abs(self.period[1]) * steps)
            self.whole = reach * widen >= math.pi / step
            count = steps // 2 if self.whole else math.ceil(reach * widen / float(self.dt))
        else:
            self.dt = 2 * PI / LD(window)
            self.whole = False
            count = math.ceil(reach * widen / float(self.dt))
        if count > MOST_NODES:
            raise OracleCannot(f"{count} nodes")
        self.count = count
        self.last: list[float] = []
        self.log_scale, values = self._values(count)
        t = self.dt * np.arange(count + 1, dtype=LD)
        self.z = LD(theta) + 1j * t
        weight = np.full(count + 1, LD(2))
        weight[0] = 1
        if self.whole:
            weight[-1] = 1
        else:
            weight = weight * taper((t / (self.dt * count)).astype(float))
        self.values = values * weight
        self.kernel = self.values / (self.z * (self.z + 1))
        if count >= 4000:
            self.kernel = self.kernel.astype(np.complex128)

    def _window(self, epsilon: float, log_delta: float) -> float:
        theta, asked = self.theta, 32.0
        tilts = [theta * f for f in (1.003, 1.01, 1.03, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)]
        tilts += [theta + g for g in (0.5, 2.0)]
        gaps = [(self.total.log_mgf(s) - s * epsilon - log_delta + asked) / (s - theta) for s in tilts]
        # Past the largest loss there is nothing to alias.
        gaps.append(max(0.0, sum(law.count * law.highest() for law in self.total.laws) - epsilon) * 1.01 + 1e-9)
        above = min((g for g in gaps if g == g), default=math.inf)
        found = max(above, (asked - log_delta) / theta, 8.0 * math.sqrt(self.total.variance(theta)))
        if not math.isfinite(found):
            raise OracleCannot("no window")
        return found

    def _values(self, count: int) -> tuple[Any, Array]:
        level, product = LD(0), np.ones(count + 1, dtype=np.clongdouble)
        for law in self.total.laws:
            size = 1
            if law.points is not None:
                size = len(law.points(self.theta, float(self.dt) * count)[0])
            if size * count > MOST_WORK:
                raise OracleCannot("too much work")
            log_m, ratio = law.ratios(self.theta, self.dt, count, exact=size * count <= MOST_EXACT)
            self.last.append(float(np.abs(ratio[count // 2 :]).max()))
            level += law.count * log_m
            with np.errstate(divide="ignore", invalid="ignore"):
                product *= np.where(ratio == 0, 0, np.exp(law.count * np.log(ratio)))
        return level, product

    def missing(self, epsilon: float, value: float) -> float:
        """What revivals of atoms between T and 300 T may add to delta, relatively: a mean over a thousand places."""
        grainy = [law.atoms or law.revival > 0 for law in self.total.laws]
        if self.period is not None or not any(grainy):
            return 0.0
        end = float(self.dt) * self.count / 2
        t = end * np.exp(np.linspace(0.0, math.log(600.0), 1000) + SHAKEN)
        level = np.zeros(len(t))
        for law, last in zip(self.total.laws, self.last, strict=True):
            level += law.count * np.log(np.maximum(law.far(self.theta, t, last), 1e-300))
        sizes = np.exp(np.minimum(level, 0.0))
        tail = float(np.mean(sizes / t)) * math.log(600.0) + float(np.mean(sizes)) / (600.0 * end)
        floor = 5e-10 if all(grainy) else 3e-11  # a thousand places may miss a narrow peak
        front = float(self.log_scale) - self.theta * epsilon - math.log(value)
        return tail / math.pi * math.exp(min(front, 600.0)) + floor

    def delta(self, epsilon: float) -> float:
        e = LD(epsilon)
        if self.period is None:
            turn = phases(self.z.imag * e, self.count < 4000)
            total = (self.kernel.real * turn.real + self.kernel.imag * turn.imag).sum()
            return float(total * self.dt / (2 * PI) * np.exp(self.log_scale - self.theta * e))
        offset, step = self.period[0] * self.total.laws[0].count, abs(self.period[1])
        first = offset + step * (np.floor((e - offset) / step) + 1)
        turn = self.values * np.exp(-1j * self.z.imag * first)
        near = turn / -np.expm1(-self.z * step)
        far = turn / -np.expm1(-(self.z + 1) * step) * np.exp(e - first)
        total = (near - far).real.sum() * self.dt * step / (2 * PI)
        return float(total * np.exp(self.log_scale - self.theta * first))


def first_reach(total: Sum, theta: float) -> tuple[float, float]:
    """A frequency past which the integrand is small, and a bound on the revivals of atoms that are left out."""
    base = 9.0 / math.sqrt(total.variance(theta))
    reach, left_out = base, 0.0
    if len(total.laws) == 1 and total.laws[0].lattice is not None:
        return reach, 0.0
    for law in total.laws:
        for again in revivals(law, theta):
            if again <= base or again < reach / 2:
                continue
            size = 8 * theta * (theta + 1) / again**2 * math.exp(min(0.0, level_at(total, theta, again)))
            if size < 1e-10:
                left_out += size
            else:
                reach = max(reach, 5.0 * again)
    return reach, left_out


def revivals(law: FastLaw, theta: float) -> list[float]:
    """Frequencies at which atoms may come back in phase: of a lattice, or of the gaps of atoms that nearly are one."""
    if law.revival:
        return [law.revival]
    if not law.atoms or law.points is None:
        return []
    loss, logs = law.points(theta, 0.0)
    sizes = (theta * loss + logs).astype(float)
    heavy = np.sort(loss[sizes > sizes.max() - 7.0].astype(float))
    gaps = np.diff(heavy)
    gaps = gaps[gaps > 0]
    if not len(gaps):
        return []
    return [2 * math.pi / g for g in {float(gaps.min()), float(np.median(gaps)), float(gaps.max())}]


def level_at(total: Sum, theta: float, t: float) -> float:
    """log |exp(S(theta + it) - S(theta))|; a law too fine for this frequency is read at a lower one."""
    value = 0.0
    for law in total.laws:
        at = t
        while True:
            try:
                ratio = law.ratios(theta, LD(at), 1, exact=True)[1][1]
                break
            except OverflowError:
                at /= 4
        value += law.count * math.log(max(float(abs(ratio)), 1e-300))
    return value


# ------------------------------------------------------------------------------------------------------------ discrete


@dataclass
class States:
    """Tilted atoms: losses, and masses times e^{theta loss} / M(theta), 80 bits."""

    loss: Array
    weight: Array
    lattice: tuple[Any, Any] | None = None  # first loss, step: when the losses are evenly spaced

    def pruned(self) -> States:
        keep = self.weight > self.weight.max() * LD(1e-25)
        if self.lattice is not None:
            where = np.flatnonzero(keep)
            a, b = where[0], where[-1] + 1
            return States(self.loss[a:b], np.maximum(self.weight[a:b], 0), (self.loss[a], self.lattice[1]))
        return States(self.loss[keep], self.weight[keep])


def power(law: FastLaw, theta: float) -> tuple[Any, States]:
    """log M(theta)^n and the tilted n-fold convolution."""
    assert law.points is not None
    loss, logs = law.points(theta, 0.0)
    sizes = LD(theta) * loss + logs
    top = sizes.max()
    weight = np.exp(sizes - top)
    total = weight.sum()
    level, weight = law.count * (top + np.log(total)), weight / total
    if law.count == 1:
        order = np.argsort(loss)
        even = law.lattice is not None and len(loss) > 2
        if not even:
            return level, States(loss[order], weight[order]).pruned()
    if law.lattice is not None:
        return level, lattice_power(law, loss, weight).pruned()
    return level, multinomial(loss, weight, law.count).pruned()


def lattice_power(law: FastLaw, loss: Array, weight: Array) -> States:
    assert law.lattice is not None
    offset, step = law.lattice[0], abs(law.lattice[1])
    index = np.rint(((loss - offset) / step).astype(float)).astype(int)
    low = index.min()
    single = np.zeros(index.max() - low + 1, dtype=LD)
    np.add.at(single, index - low, weight)
    keep = np.flatnonzero(single > 1e-40)
    low, single = low + keep[0], single[keep[0] : keep[-1] + 1]
    full = law.count * (len(single) - 1) + 1
    mean = float(np.dot(single, np.arange(len(single)))) * law.count
    spread = math.sqrt(max(float(np.dot(single, (np.arange(len(single)) - mean / law.count) ** 2)), 1e-300) * law.count)
    size = fft.next_fast_len(min(full, int(30 * spread + (20 if len(single) < 500 else 3) * len(single)) + 64))
    if size > 1 << 20:
        raise OracleCannot("a lattice too long to list")
    start = 0 if size >= full else int(mean) - size // 2
    row = np.zeros(size, dtype=LD)
    np.add.at(row, np.arange(len(single)) % size, single)
    spectrum = fft.fft(row.astype(np.clongdouble))
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = np.where(spectrum == 0, 0, np.exp(law.count * np.log(spectrum)))
    found = fft.ifft(raised).real
    found = np.roll(found, -(start % size))
    losses = (offset + step * low) * law.count + step * (start + np.arange(size, dtype=LD))
    return States(losses, np.maximum(found, 0), (losses[0], step))


def multinomial(loss: Array, weight: Array, count: int) -> States:
    """Every composition of ``count`` into as many parts as there are atoms, for a few atoms."""
    atoms = len(loss)
    if math.comb(count + atoms - 1, atoms - 1) > 3 * MOST_STATES:
        raise OracleCannot("too many compositions to list")
    left = np.array([count])
    columns: list[Array] = []
    for _ in range(atoms - 1):
        sizes = left + 1
        repeat = np.repeat(np.arange(len(left)), sizes)
        taken = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        columns = [c[repeat] for c in columns] + [taken]
        left = left[repeat] - taken
    columns.append(left)
    table = np.concatenate([[LD(0)], np.cumsum(np.log(np.arange(1, count + 1, dtype=LD)))])
    logs = np.full(len(left), table[count])
    total = np.zeros(len(left), dtype=LD)
    for column, l, w in zip(columns, loss, weight, strict=True):
        logs += column * np.log(w) - table[column]
        total += column * l
    return States(total, np.exp(logs))


def combined(total: Sum, theta: float) -> tuple[Any, States, States]:
    """log M(theta), the largest evenly spaced part and the rest of a sum of discrete laws."""
    level, parts = LD(0), []
    for law in total.laws:
        log_m, states = power(law, theta)
        level += log_m
        parts.append(states)
    parts.sort(key=lambda s: -len(s.loss))
    even = next((s for s in parts if s.lattice is not None), None)
    rest = States(np.zeros(1, dtype=LD), np.ones(1, dtype=LD))
    for states in parts:
        if states is even:
            continue
        if len(rest.loss) * len(states.loss) > 6 * MOST_STATES:
            raise OracleCannot("too many joint outcomes")
        loss = (rest.loss[:, None] + states.loss[None, :]).ravel()
        weight = (rest.weight[:, None] * states.weight[None, :]).ravel()
        rest = States(loss, weight).pruned()
    if even is None:
        even = States(np.zeros(1, dtype=LD), np.ones(1, dtype=LD), (LD(0), LD(1)))
    return level, even, rest


def listed(total: Sum, theta: float) -> Callable[[float], float]:
    level, even, rest = combined(total, theta)
    assert even.lattice is not None
    first, step = even.lattice
    size = len(even.loss)
    # far_j = sum over i >= j of weight_i e^{-(theta+1)(i-j) step}, and more_j the same with theta, minus far_j:
    # more_j = e^{-theta step} (more_{j+1} + (1 - e^{-step}) far_{j+1}), a sum of positive terms.
    slow, fast = np.exp(-LD(theta) * step), np.exp(-(LD(theta) + 1) * step)
    far = np.append(filtered(even.weight, fast), LD(0))
    gain = np.append(filtered(slow * -np.expm1(-step) * far[1:], slow), LD(0))

    def delta(epsilon: float) -> float:
        e = LD(epsilon)
        place = np.floor((e - rest.loss - first) / step) + 1
        place = np.clip(place, 0, size).astype(int)
        gap = first + step * place + rest.loss - e
        gap = np.where(place < size, gap, 0)
        part = np.exp(-theta * gap) * (gain[place] - np.expm1(-gap) * far[place])
        with np.errstate(over="ignore", invalid="ignore"):  # not a number far below the tilt's own epsilon
            return float((rest.weight * part).sum() * np.exp(level - theta * e))

    return delta


def filtered(weight: Array, decay: Any) -> Array:
    """y_j = weight_j + decay y_{j+1}, from the last to the first."""
    if len(weight) == 1:
        return weight
    return np.asarray(lfilter([LD(1)], [LD(1), -decay], weight[::-1]))[::-1]


# -------------------------------------------------------------------------------------------------------------- routes


def merged(terms: Terms, direction: str) -> Sum:
    found: dict[str, FastLaw] = {}
    variance = LD(0)
    for term in terms:
        law = fast_law(term, direction)
        if law.variance:
            variance += law.count * law.variance
            continue
        key = repr(sorted((k, str(v)) for k, v in term.items() if k != "count"))
        if key in found:
            found[key].count += law.count
        else:
            found[key] = law
    laws = [law for law in found.values() if law.count]
    if variance > 0:
        laws.append(FastLaw(1, 0.0, variance=variance))
    return Sum(laws)


Read = Callable[[Callable[[float], float]], float]
Far = Callable[[Contour, float], float]  # the relative error of a value that revivals may make


def answer(total: Sum, theta: float, near: float, log_delta: float, read: Read, far: Far) -> tuple[float, float, str]:
    """read(profile) by the best route, with its relative error."""
    if not all(law.atoms for law in total.laws):
        return contour_answer(total, theta, near, log_delta, read, far)
    long = len(total.laws) == 1 and total.laws[0].lattice is not None and size_of(total.laws[0], theta) > 30_000
    try:
        if long:  # its period is summed in no time, and listing it is not
            found = contour_answer(total, theta, near, log_delta, read, far)
            if found[1] < 1e-9:
                return found
        return listed_answer(total, theta, read)
    except (OracleCannot, OverflowError, MemoryError):
        return contour_answer(total, theta, near, log_delta, read, far)


def size_of(law: FastLaw, theta: float) -> int:
    assert law.points is not None
    return law.count * len(law.points(theta, 0.0)[0])


def contour_answer(
    total: Sum, theta: float, near: float, log_delta: float, read: Read, far: Far
) -> tuple[float, float, str]:
    reach, left_out = first_reach(total, theta)
    work_left = 1.5
    before: list[float] = []
    best: tuple[float, float, str] | None = None
    for turn in range(12):
        try:
            contour = Contour(total, theta, near, log_delta, reach, 1.0 if turn % 2 else 1.17)
        except (OracleCannot, OverflowError, MemoryError):
            break
        value = read(contour.delta)
        rounding = left_out + 1e-18 * total.steps + 1e-13 + (1e-15 * total.steps if contour.count > 20_000 else 0.0)
        if before and value != 0.0:
            gap = abs(value / before[-1] - 1) if before[-1] else 1.0
            error = 10 * gap + rounding
            if error < 1e-6:
                error += far(contour, value)
            if best is None or error < best[1]:
                best = value, error, "period" if contour.period is not None else "contour"
            if (gap < GOOD and error < 1e-9) or (contour.whole and turn):
                return best
        before.append(value)
        reach *= 1.0 if contour.whole else 2.0
        work_left -= contour.count / 1e5
        if work_left < 0:
            break
    if best is None:
        raise OracleCannot("the integrand does not decay")
    return best


def listed_answer(total: Sum, theta: float, read: Read) -> tuple[float, float, str]:
    values = [read(listed(total, theta * f)) for f in (1.0, 1.1)]
    gap = abs(values[0] / values[1] - 1) if values[1] else (0.0 if not values[0] else 1.0)
    if gap > 1e-8:
        raise OracleCannot("two tilts disagree")
    return values[0], 10 * gap + 1e-13 + 1e-18 * total.steps, "listed"


def infinite_mass(total: Sum) -> float:
    return -math.expm1(math.fsum(law.count * law.log_finite for law in total.laws))


def delta(terms: Terms, *, epsilon: float, direction: str) -> Answer:
    """delta(epsilon) in one direction."""
    total = merged(terms, direction)
    infinite = infinite_mass(total)
    theta = total.threshold(epsilon)
    log_delta = min(0.0, total.log_mgf(theta) - theta * epsilon - 3.0)
    if log_delta < -400.0 and infinite < 1e-100:
        return Answer(0.0, "0", 0.0, "below e^-400")
    slope = 0.0

    def read(profile: Callable[[float], float]) -> float:
        nonlocal slope
        found, beside = profile(epsilon), profile(epsilon * (1 + 1e-9))
        slope = abs(beside / found - 1) * 1e9 if found else 0.0
        return found

    def far(contour: Contour, found: float) -> float:
        return contour.missing(epsilon, found)

    value, error, route = answer(total, theta, epsilon, log_delta, read, far)
    error += 4e-19 * slope * (1 + total.spread(theta) / epsilon)  # losses are rounded too
    whole = infinite + value
    return Answer(whole, repr(whole), error * abs(value) / max(whole, 1e-300) + 2e-16, route)


def epsilon(terms: Terms, *, delta: float, direction: str) -> Answer:
    """The least epsilon >= 0 with delta(epsilon) <= delta in one direction."""
    total = merged(terms, direction)
    left = delta - infinite_mass(total)
    if left <= 0:
        return Answer(math.inf, "inf", 0.0, "infinite mass")
    if left < 1e-6 * delta:
        raise OracleCannot("delta is the mass at infinity, nearly")
    log_delta = math.log(left)
    # KL is at most the Renyi divergence of order 2; its rounding in doubles is added.
    pinsker = math.sqrt((max(total.log_mgf(1.0), 0.0) + 1e-14 * total.steps) / 2)
    if left == delta and pinsker < left:  # total variation is below delta
        return Answer(0.0, "0", 0.0, "Pinsker")
    theta, near = total.mass(log_delta)

    def far(contour: Contour, found: float) -> float:
        """An error of delta moves epsilon by about that over theta."""
        return contour.missing(found, left) / (theta * found) if found else 0.0

    value, error, route = answer(total, theta, near, log_delta, lambda profile: root(profile, left, near), far)
    if value == 0.0:
        return Answer(0.0, "0", 0.0, route)
    return Answer(value, repr(value), error + 2e-16, route)


def root(profile: Callable[[float], float], target: float, near: float) -> float:
    """The crossing of a decreasing profile; 0 where it starts below."""

    def g(e: float) -> float:
        value = profile(e)
        if value != value:  # overflow, far below the tilt's own epsilon
            return 700.0
        return math.log(value / target) if value > 1e-300 else -700.0

    near = max(near, 1e-9)
    low = high = near
    step = 0.02 * near
    f_low = f_high = g(near)
    while f_high > 0 and high < 1e7:
        low, f_low = high, f_high
        high += step
        step *= 2
        f_high = g(high)
    while f_low <= 0:
        if low == 0.0:
            return 0.0
        high, f_high = low, f_low
        low = max(0.0, low - step)
        step *= 2
        f_low = g(low)
    for turn in range(80):
        if high - low <= 1e-15 * high:
            break
        middle = (low * f_high - high * f_low) / (f_high - f_low) if turn % 4 != 3 else (low + high) / 2
        if not low < middle < high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
        value = g(middle)
        if value == 0.0:
            return middle
        if value > 0:
            low, f_low = middle, value
            f_high *= 0.5 if turn % 2 else 1.0
        else:
            high, f_high = middle, value
            f_low *= 0.5 if turn % 2 else 1.0
        if abs(value) < 1e-15:
            return middle
    return (low + high) / 2
