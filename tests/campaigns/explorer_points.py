"""The explorer's numbers against Python's: every closed form at thousands of points, in the page's own JavaScript.

Two judges: the formulas in high precision (mpmath), below which no upper bound may be, and the library's own read-outs.
``python tests/campaigns/explorer_points.py`` compares 10,000 points; the tests compare a few.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from scipy.special import ndtri

import tallystick as ts
from tallystick.accounting import gdp
from tallystick.cli.explorer import part

CLOSE = 1e-9
NODE = shutil.which("node")
PRIORS = (0.01, 0.001, 0.3)

ASKING = """
const fs = require("fs");
const asked = JSON.parse(fs.readFileSync(process.argv[2] + "/asked.json"));
const promise = (p) => p.rate ? bounds.node(grid, p.rate, p.sigma, p.steps).promise
  : p.rho ? bounds.concentrated(p.rho) : p.mu ? bounds.gaussian(p.mu) : bounds.approximate(p.epsilon, p.delta);
const answers = asked.map((q) => {
  const p = promise(q), odd = bounds.exceptions(p);
  const noise = q.rho ? bounds.integerGaussianError(Math.sqrt(1 / (2 * q.rho))) : q.mu ? bounds.gaussianError(1 / q.mu)
    : q.rate ? 0 : q.delta ? bounds.gaussianSigma(q.epsilon, q.delta) : bounds.laplaceError(q.epsilon);
  return { hits: q.alphas.map(p.hits), misses: q.alphas.map(p.misses), delta: q.epsilons.map(p.delta),
    epsilon: q.deltas.map(p.epsilon), even: bounds.even(p), accuracy: bounds.accuracy(p), odd, noise,
    loss: bounds.exceeded(p, odd), beliefs: q.priors.map((prior) => bounds.belief(p, prior, odd)) };
});
fs.writeFileSync(process.argv[2] + "/answers.json", JSON.stringify(answers, (_, x) => x === Infinity ? "inf" : x));
"""


def in_javascript(script: str, given: Any, *, pieces: tuple[str, ...] = ("bounds.js",)) -> Any:
    """What a script makes of ``given``, with the page's files before it."""
    assert NODE is not None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "asked.json").write_text(json.dumps(given))
        grid = f"const grid = {part('dpsgd.json')};\n"
        Path(folder, "run.js").write_text(grid + "\n".join(part(name) for name in pieces) + script)
        done = subprocess.run([NODE, f"{folder}/run.js", folder], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(Path(folder, "answers.json").read_text())


def drawn(count: int, seed: int) -> list[dict[str, Any]]:
    """Promises over the ranges of the sliders and beyond, with places to read them at."""
    rng = np.random.default_rng(seed)

    def log(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    points = []
    for number in range(count):
        kind = number % 4
        if kind == 0:
            claim = {"epsilon": log(0.001, 30), "delta": 0.0}
        elif kind == 1:
            claim = {"epsilon": log(0.001, 30), "delta": log(1e-12, 0.1)}
        elif kind == 2:
            claim = {"mu": log(0.005, 12)}
        else:
            claim = {"rho": log(1e-5, 50)}
        deltas = [log(1e-12, 0.5) for _ in range(2)]
        alphas = [log(1e-6, 0.5), rng.uniform(0.01, 0.99), 0.01]
        epsilons = [0.0, log(1e-3, 30)]
        points.append({**claim, "deltas": deltas, "alphas": alphas, "epsilons": epsilons, "priors": PRIORS})
    return points


def loss_of(q: dict[str, Any]) -> Any:
    if "rho" in q:
        return ts.zcdp(rho=q["rho"])
    if "mu" in q:
        return ts.gdp(mu=q["mu"])
    return ts.approx_dp(epsilon=q["epsilon"], delta=q["delta"]) if q["delta"] else ts.pure_dp(epsilon=q["epsilon"])


@dataclass
class Truth:
    """The formulas in forty digits: what an upper bound may not be below."""

    q: dict[str, Any]
    number: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.number = {name: mpmath.mpf(self.q[name]) for name in ("epsilon", "delta", "mu", "rho") if name in self.q}

    def misses(self, alpha: float) -> Any:
        a, n = mpmath.mpf(alpha), self.number
        if "mu" in n:
            quantile = mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z) / a), mpmath.mpf(float(ndtri(alpha))))
            return mpmath.ncdf(-quantile - n["mu"])
        if "rho" in n:
            ahead, behind, root = mpmath.sqrt(-mpmath.log(a)), mpmath.sqrt(-mpmath.log(1 - a)), mpmath.sqrt(n["rho"])
            first = 1 - mpmath.exp(-((ahead - root) ** 2)) if ahead > root else mpmath.mpf(0)
            return max(first, mpmath.exp(-((behind + root) ** 2)), 1 - self.delta(0.0) - a)
        e, kept = mpmath.exp(n["epsilon"]), 1 - n["delta"]
        return max(mpmath.mpf(0), kept - e * a, (kept - a) / e)

    def delta(self, epsilon: float) -> Any:
        t, n = mpmath.mpf(epsilon), self.number
        if "mu" in n:
            ratio, mu = t / n["mu"], n["mu"]
            return mpmath.ncdf(mu / 2 - ratio) - mpmath.exp(t) * mpmath.ncdf(-mu / 2 - ratio)
        if "rho" in n:
            return min(mpmath.mpf(1), mpmath.exp(self._best_order(t)))
        if t >= n["epsilon"]:
            return n["delta"]
        return n["delta"] + (1 - n["delta"]) * (1 - mpmath.exp(t - n["epsilon"])) / (1 + mpmath.exp(-n["epsilon"]))

    def _best_order(self, epsilon: Any) -> Any:
        rho = self.number["rho"]
        low, high = mpmath.mpf(-60), mpmath.mpf(60)  # logarithms of order - 1
        for _ in range(130):
            middle = (low + high) / 2
            t = mpmath.exp(middle)
            low, high = (middle, high) if 2 * rho * t + rho - epsilon < mpmath.log1p(1 / t) else (low, middle)
        t = mpmath.exp(low)
        return rho * t * (1 + t) - t * epsilon - t * mpmath.log1p(1 / t) - mpmath.log1p(t)

    def loss(self, slack: float) -> Any:
        """A loss that the worst mechanism really exceeds with that probability; none is known for zCDP."""
        n = self.number
        if "mu" in n:
            return n["mu"] ** 2 / 2 + n["mu"] * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(slack))
        if "rho" in n:  # the Gaussian mechanism is one of them
            return n["rho"] + mpmath.sqrt(4 * n["rho"]) * mpmath.erfinv(1 - 2 * mpmath.mpf(slack))
        beyond = n["delta"] + (1 - n["delta"]) / (1 + mpmath.exp(-n["epsilon"]))
        return n["epsilon"] if beyond > slack >= n["delta"] else mpmath.mpf(0)


def judge(q: dict[str, Any], said: dict[str, Any]) -> list[str]:
    """What is wrong with one promise's numbers; nothing, one hopes."""
    wrong: list[str] = []
    truth, loss = Truth(q), loss_of(q)

    def above(name: str, value: Any, least: Any) -> None:
        got = math.inf if value == "inf" else value
        if not (mpmath.mpf(got) >= least and got - least <= CLOSE * max(1, least)):
            wrong.append(f"{name}: {value} is not just above {mpmath.nstr(least, 17)}")

    def same(name: str, value: Any, python: float) -> None:
        got = math.inf if value == "inf" else value
        if "rho" in q and 0.999 < python <= 1.0 and 0.0 <= python - got < 1e-3:
            return  # the best order is below 1.001, the least that Python looks at; the truth is compared above
        if not (got == python or abs(got - python) <= CLOSE * max(1.0, python)):
            wrong.append(f"{name}: {value}, and Python has {python!r}")

    for alpha, hits, misses in zip(q["alphas"], said["hits"], said["misses"], strict=True):
        exact = truth.misses(alpha)
        above(f"hits at {alpha}", hits, 1 - exact)
        above(f"misses at {alpha}", -misses, -exact)
        if "rho" in q:  # Python reads a polygon, which is a little above; a Gaussian of this rho is below
            python, example = loss.power(alpha=alpha), ts.gdp(mu=math.sqrt(2 * q["rho"])).power(alpha=alpha)
            if not example * (1 - CLOSE) <= hits <= python * (1 + CLOSE):
                wrong.append(f"hits at {alpha}: {hits} is not between {example} and {python}")
        else:
            same(f"hits at {alpha}", hits, loss.power(alpha=alpha))
            same(f"misses at {alpha}", misses, loss.tradeoff(alpha=alpha))
    for epsilon, delta in zip(q["epsilons"], said["delta"], strict=True):
        above(f"delta at {epsilon}", delta, truth.delta(epsilon))
        same(f"delta at {epsilon}", delta, loss.delta(epsilon=epsilon))
    for delta, epsilon in zip(q["deltas"], said["epsilon"], strict=True):
        same(f"epsilon at {delta}", epsilon, loss.epsilon(delta=delta))
        if epsilon != "inf" and truth.delta(epsilon) > mpmath.mpf(delta) * (1 + mpmath.mpf(10) ** -15):
            wrong.append(f"epsilon at {delta}: {epsilon} leaves more")
    same("accuracy", said["accuracy"], (1 + loss.total_variation()) / 2)
    for prior, belief in zip(q["priors"], said["beliefs"], strict=True):
        same(f"belief from {prior}", belief, loss.posterior(prior=prior, delta=said["odd"]))
    if said["odd"] > 0 and said["loss"] < truth.loss(said["odd"]):
        wrong.append(f"the loss {said['loss']} is exceeded more often than stated")
    least = said["even"] or 1e-12  # below this the page says "fewer than"
    beyond = least * (1 + 1e-8)
    if (said["even"] and least > truth.misses(least)) or beyond < truth.misses(beyond):
        wrong.append(f"even-handed at {said['even']} is not a share with as many misses")
    return wrong + noise(q, said["noise"])


def noise(q: dict[str, Any], said: float) -> list[str]:
    """How far a count is off: whole numbers are equal, others just above."""
    if "rho" in q:
        right = said == ts.noise.add_discrete_gaussian(sigma=math.sqrt(1 / (2 * q["rho"]))).error()
    elif "mu" in q:
        right = 0 <= said * q["mu"] + float(ndtri(0.025)) <= CLOSE
    elif q["delta"] == 0.0:
        right = said == ts.noise.add_discrete_laplace(epsilon=q["epsilon"]).error()
    else:
        enough = gdp.delta_bounds(1 / said, q["epsilon"]).lower <= q["delta"]
        right = enough and gdp.delta_bounds((1 + CLOSE) / said, q["epsilon"]).upper > q["delta"]
    return [] if right else [f"noise: {said}"]


def compare(count: int, seed: int) -> tuple[list[str], int]:
    """Everything that is wrong at so many points, and how many numbers were looked at."""
    asked = drawn(count, seed)
    answers = in_javascript(ASKING, asked)
    with mpmath.workdps(40):
        wrong = [f"{q}: {words}" for q, said in zip(asked, answers, strict=True) for words in judge(q, said)]
    return wrong, sum(1 if not isinstance(x, list) else len(x) for said in answers for x in said.values())


def main() -> None:
    if NODE is None:
        sys.exit("node is needed: it runs the page's JavaScript")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    wrong, numbers = compare(count, seed=20)
    print("\n".join(wrong[:20]))
    print(f"{count:,} promises, {numbers:,} numbers compared, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
