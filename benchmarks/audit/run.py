"""How much does one training run show? Our audits and jax-privacy's on the same canaries.

    python benchmarks/audit/run.py [--peer PYTHON] [--plays 200] [--peer-plays 40]

Writes benchmarks/results/audit-strength.md. The peer lives in its own environment, .peers/audit, made on first use.
Scores are those of a Gaussian mechanism with mu = 1 (epsilon 4.377 at delta 1e-5): what is shown is at most that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tallystick as ts
from tallystick.audit.evidence import epsilon_of_mu

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers" / "audit"
NEEDED = ["jax-privacy==2.0.0"]
RESULT = ROOT / "benchmarks" / "results" / "audit-strength.md"
MU, CANARIES, DELTA, LEVEL, SEED = 1.0, 10_000, 1e-5, 0.05, 20
TRUE = 4.377
GOALS = {"one run, as mu-GDP": 2.9, "two runs, as mu-GDP": 3.4, "one run, as (epsilon, delta)": 2.4}


def environment() -> Path | None:
    """The peer's own virtual environment; None where it cannot be installed."""
    python = PEERS / "bin" / "python"
    if not (PEERS / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        if subprocess.run([str(python), "-m", "pip", "install", "--quiet", *NEEDED], check=False).returncode:
            return None
        (PEERS / ".installed").touch()
    return python


def plays(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    included = rng.random((count, CANARIES)) < 0.5
    return np.where(included, MU / 2, -MU / 2) + rng.normal(size=included.shape), included


def ours(scores: np.ndarray, included: np.ndarray) -> dict[str, tuple[list[float], float]]:
    claim = ts.gdp(mu=MU)
    pairs = [(2 * i, 2 * i + 1) for i in range(len(scores) // 2)]

    def gdp(i: int) -> float:
        return epsilon_of_mu(ts.audit.one_run(scores[i], included[i], claim=claim).mu_at_least, delta=DELTA)

    def two(i: int) -> float:
        one, other = pairs[i]
        found = ts.audit.one_run(
            [scores[one], scores[other]], [included[one], included[other]], claim=claim, guesses=300
        )
        return epsilon_of_mu(found.mu_at_least, delta=DELTA)

    def direct(i: int) -> float:
        return ts.audit.one_run(scores[i], included[i], claim=claim, guesses=200).epsilon_at_least(delta=DELTA)

    return {
        "one run, as mu-GDP": timed(gdp, len(scores)),
        "two runs, as mu-GDP": timed(two, len(pairs)),
        "one run, as (epsilon, delta)": timed(direct, len(scores)),
    }


def timed(ask: Callable[[int], float], count: int) -> tuple[list[float], float]:
    start = time.process_time()
    found = [ask(i) for i in range(count)]
    return found, time.process_time() - start


def row(who: str, name: str, found: list[float], seconds: float, goal: float | None = None) -> str:
    shown = f"{np.mean(found):.2f} ± {np.std(found, ddof=1) / len(found) ** 0.5:.2f}"
    wanted = "" if goal is None else f"{goal:g}"
    over = sum(x > TRUE for x in found)
    return f"| {who} | {name} | {shown} | {wanted} | {over} of {len(found)} | {seconds / len(found):.2f} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--plays", type=int, default=200)
    parser.add_argument("--peer-plays", type=int, default=40)
    options = parser.parse_args()
    scores, included = plays(options.plays)
    mine = ours(scores, included)
    rows = [row("tallystick", name, found, seconds, GOALS[name]) for name, (found, seconds) in mine.items()]
    python, said = options.peer or environment(), "jax-privacy could not be installed here."
    if python is not None:
        answer = peer(python, scores, included, options.peer_plays)
        said = f"jax-privacy {answer['version']}, on the first {options.peer_plays} of the same plays."
        rows += [row("jax-privacy", n, answer["found"][n], answer["seconds"][n]) for n in answer["found"]]
    head = f"""# How much does one training run show?

Written by `make bench` (`benchmarks/audit/run.py`). {CANARIES:,} canaries of a Gaussian mechanism with mu = {MU:g}: the
truth is epsilon {TRUE} at delta {DELTA:g}. Mean of what is refuted at 95 % in {options.plays} plays, ± its standard
error; *above the truth* must be rare (5 % is allowed). {said} "As mu-GDP" is worth so much epsilon if the mechanism is
Gaussian-shaped, and refutes no (epsilon, delta) by itself. The peer searches thresholds afterwards (Bonferroni, or on a
split); ours declares its guesses beforehand.

| who | method | epsilon refuted | goal | above the truth | CPU seconds each |
|---|---|---|---|---|---|
"""
    RESULT.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    print("\n".join(rows))
    return 0 if all(reached(mine[name][0], goal) for name, goal in GOALS.items()) else 1


def reached(found: list[float], goal: float) -> bool:
    """Within two standard errors of the mean."""
    return float(np.mean(found) + 2 * np.std(found, ddof=1) / len(found) ** 0.5) >= goal


def peer(python: Path, scores: np.ndarray, included: np.ndarray, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plays.npz"
        np.savez(path, scores=scores, included=included)
        command = [str(python), str(Path(__file__).with_name("peer.py")), str(path), str(LEVEL), str(DELTA), str(count)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main())
