"""Random compositions against the independent oracle: is any certified bound on the wrong side?

    python benchmarks/accounting/sweep.py --cases 10000 --seed 1        # make campaign-accounting
    python benchmarks/accounting/sweep.py --cases 300 --seed 7 --write tests/reference/sweep_cases.json

Results go to build/sweep-<seed>.jsonl, one line per case; a second run with the same seed goes on where the first
stopped.  Cases for which the oracle has no trustworthy route are redrawn (their number is reported).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from reference import oracle
from reference.expressions import loss_of

oracle.MOST_NODES, oracle.MOST_WORK, oracle.MOST_POINTS = 8_000, 2e7, 4_000  # redraw rather than wait

Case = dict[str, Any]
ORACLE_SECONDS = 4
OURS_SECONDS = 30


class TooLong(Exception):
    pass


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def ring(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------------------------------------------------------- drawing


def spread(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def count(rng: random.Random) -> int:
    kind = rng.random()
    if kind < 0.25:
        return 1
    if kind < 0.5:
        return rng.randint(2, 60)
    return round(spread(rng, 10, 1e7))


def draw_term(rng: random.Random) -> dict[str, Any]:
    """A leaf whose composed strength (in units of mu) is spread over 1e-4 .. 20, sampled half of the time."""
    name = rng.choice([
        "gaussian", "gaussian", "gdp", "laplace", "discrete_gaussian", "discrete_laplace",
        "randomized_response", "pure_dp", "approx_dp", "exponential", "discrete_pair",
    ])  # fmt: skip
    times = count(rng)
    term: dict[str, Any] = {"leaf": name, "count": times}
    strength = spread(rng, 1e-4, 20.0) / math.sqrt(times)
    if rng.random() < 0.45:
        rate = spread(rng, 1e-4, 0.9)
        term["rate"] = rate
        strength = min(strength / rate, spread(rng, 0.1, 4.0))
    strength = min(strength, 8.0)
    if name == "gaussian":
        term["sigma"] = 1 / strength
    elif name == "gdp":
        term["mu"] = strength
    elif name == "laplace":
        term["scale"] = 1 / strength
    elif name == "discrete_gaussian":
        term["sensitivity"] = rng.randint(1, 4)
        term["sigma"] = min(term["sensitivity"] / strength, 400.0)
    elif name == "discrete_laplace":
        term["sensitivity"] = rng.randint(1, 4)
        term["scale"] = term["sensitivity"] / strength
    elif name == "randomized_response":
        if rng.random() < 0.3:
            term["flip_prob"] = 1 / (1 + math.exp(strength))
        else:
            term.update(epsilon=strength, choices=rng.choice([2, 2, 3, 5, 20]))
    elif name in ("pure_dp", "exponential"):
        term["epsilon"] = strength
    elif name == "approx_dp":
        term.update(epsilon=strength, delta=spread(rng, 1e-14, 1e-3) / times)
    elif name == "discrete_pair":
        term.update(draw_pair(rng, strength))
    return term


def draw_pair(rng: random.Random, strength: float) -> dict[str, list[float]]:
    """Two probability vectors on the 1/2^40 grid, so that they sum to one exactly."""
    size = rng.randint(2, 4)
    raw = [rng.uniform(0.1, 1.0) for _ in range(size)]
    tilted = [r * math.exp(rng.uniform(-0.5, 0.5) * strength) for r in raw]
    pair = {}
    for key, values in (("p", raw), ("q", tilted)):
        units = [round(2**40 * v / sum(values)) for v in values]
        units[0] += 2**40 - sum(units)
        pair[key] = [u / 2**40 for u in units]
    if rng.random() < 0.2:
        mass = 2.0 ** -rng.randint(8, 40)
        pair["p"].append(mass)
        pair["p"][0] -= mass
        pair["q"].append(0.0)
    return pair


def draw(rng: random.Random) -> Case:
    terms = [draw_term(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    if rng.random() < 0.7:
        return {"terms": terms, "read": "epsilon", "at": repr(spread(rng, 1e-30, 0.1))}
    return {"terms": terms, "read": "delta", "at": repr(spread(rng, 1e-6, 100.0))}


def truth(case: Case) -> None:
    """Fill in the oracle's answer, the worse of the two directions; raise OracleCannot when it has none."""
    read: Callable[..., oracle.Answer] = oracle.epsilon if case["read"] == "epsilon" else oracle.delta
    other = "delta" if case["read"] == "epsilon" else "epsilon"
    answers = [read(case["terms"], direction=d, **{other: float(case["at"])}) for d in ("remove", "add")]
    worse = max(answers, key=lambda a: a.value)
    if worse.error > 1e-9 or max(a.error for a in answers) > 1e-6 or not math.isfinite(worse.value):
        raise oracle.OracleCannot("not accurate enough")
    floor = 1e-12 if case["read"] == "epsilon" else 1e-45
    if worse.value < floor or (case["read"] == "epsilon" and worse.value > 1100):
        raise oracle.OracleCannot("outside the range of the sweep")
    case.update(truth=worse.digits, error=worse.error, route=worse.route)


# ------------------------------------------------------------------------------------------------------------- judging


def judge(case: Case) -> None:
    """Fill in what tallystick says and whether it is right."""
    started = time.perf_counter()
    try:
        with at_most(OURS_SECONDS):
            loss, at = loss_of(case["terms"]), float(case["at"])
            if case["read"] == "epsilon":
                bounds, single = loss.epsilon_bounds(delta=at), loss.epsilon(delta=at)
            else:
                bounds, single = loss.delta_bounds(epsilon=at), loss.delta(epsilon=at)
            case.update(lower=float(bounds.lower), upper=float(bounds.upper), single=float(single))
            case["verdict"] = verdict(case)
    except TooLong:
        case["verdict"] = "timeout"
    except Exception as error:
        case["verdict"] = f"failure: {type(error).__name__}: {error}"[:300]
    case["seconds"] = round(time.perf_counter() - started, 4)


def only_an_upper_bound(terms: list[dict[str, Any]]) -> bool:
    """Several bounded-range steps have no single worst pair: the oracle's hull is then a bound, not the truth."""
    return any(t["leaf"] == "exponential" for t in terms) and sum(t["count"] for t in terms) > 1


def verdict(case: Case) -> str:
    """right, or which side is wrong; the oracle's own error and two roundings are allowed for."""
    value = float(case["truth"])
    slack = value * (2 * case["error"] + 5e-16)
    if not (math.isfinite(case["lower"]) and case["upper"] == case["upper"] and case["single"] == case["single"]):
        return "failure: not a number"
    if case["lower"] > value + slack:
        return "wrong: lower bound above the truth"
    if not only_an_upper_bound(case["terms"]) and min(case["upper"], case["single"]) < value - slack:
        return "wrong: upper bound below the truth"
    return "right"


def widths(case: Case) -> tuple[float, float]:
    """(relative excess of the upper bound, relative width of the enclosure)"""
    value = max(float(case["truth"]), 1e-300)
    return case["single"] / value - 1, (case["upper"] - case["lower"]) / value


def cases(seed: int, number: int, done: int) -> Iterator[tuple[Case, int]]:
    """Case i is drawn from its own generator, so runs resume exactly; yields it with the number of redraws."""
    for index in range(done, number):
        rng = random.Random(f"{seed}/{index}")
        for redraws in range(1000):
            case = draw(rng)
            try:
                with at_most(ORACLE_SECONDS):
                    truth(case)
            except (oracle.OracleCannot, TooLong, OverflowError, ZeroDivisionError, ValueError, MemoryError):
                continue
            case["index"] = index
            yield case, redraws
            break


def report(rows: list[Case]) -> str:
    wrong = [r for r in rows if r["verdict"].startswith("wrong")]
    failed = [r for r in rows if r["verdict"].startswith(("failure", "timeout"))]
    right = [r for r in rows if r["verdict"] == "right" and not only_an_upper_bound(r["terms"])]
    excess = sorted(widths(r)[0] for r in right)
    width = sorted(widths(r)[1] for r in right)
    seconds = sorted(r["seconds"] for r in rows)

    def at(values: list[float], share: float) -> float:
        return values[min(len(values) - 1, int(share * len(values)))] if values else math.nan

    return (
        f"{len(rows)} cases: {len(wrong)} bounds on the wrong side, {len(failed)} failures\n"
        f"upper bound above the truth (relative): median {at(excess, 0.5):.1e}, 99 % {at(excess, 0.99):.1e}, "
        f"worst {at(excess, 1):.1e}\n"
        f"width of the enclosure (relative): median {at(width, 0.5):.1e}, 99 % {at(width, 0.99):.1e}, "
        f"worst {at(width, 1):.1e}\n"
        f"seconds: median {at(seconds, 0.5):.3f}, 99 % {at(seconds, 0.99):.2f}, worst {at(seconds, 1):.1f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="store the cases and their truths as a test file")
    parser.add_argument("--again", action="store_true", help="judge the stored cases of this seed again")
    options = parser.parse_args()
    log = ROOT / "build" / f"sweep-{options.seed}.jsonl"
    log.parent.mkdir(exist_ok=True)
    rows: list[Case] = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    rows = rows[: options.cases]
    redrawn = 0
    if options.again:
        for position, row in enumerate(rows):
            judge(row)
            show(row, position + 1, len(rows))
        log.write_text("".join(json.dumps(r) + "\n" for r in rows))
    with log.open("a") as out:
        for case, redraws in cases(options.seed, options.cases, len(rows)):
            redrawn += redraws
            judge(case)
            rows.append(case)
            out.write(json.dumps(case) + "\n")
            out.flush()
            show(case, len(rows), options.cases)
    print(f"\n{report(rows)}\n{redrawn} draws had no trustworthy oracle and were redrawn")
    if options.write:
        kept = ("terms", "read", "at", "truth", "error")
        lines = [json.dumps({k: r[k] for k in kept}) for r in rows if r["seconds"] < 4]
        options.write.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return 1 if any(r["verdict"] != "right" for r in rows) else 0


def show(case: Case, done: int, total: int) -> None:
    if case["verdict"] != "right":
        print("\r" + json.dumps(case))
    bar = "#" * (30 * done // total)
    print(f"\r[{bar:<30}] {done}/{total}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
