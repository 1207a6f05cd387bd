"""Random compositions against the independent oracles: is any certified bound on the wrong side?

    python benchmarks/accounting/sweep.py --cases 10000 --seed 1        # make campaign-accounting
    python benchmarks/accounting/sweep.py --cases 350 --seed 1 --write tests/reference/sweep_cases.json

Every case is drawn from its own generator.  The fast oracle (tests/reference/fast.py) answers first, the slow one
(tests/reference/oracle.py) where it cannot; a draw that neither knows to 1e-9 is redrawn and counted by class.  A bound
found on the wrong side is put to a second witness before it is reported.  Results go to build/sweep-<seed>.jsonl, one
line per case, and a second run with the same seed goes on where the first stopped (--again judges all of them anew,
--truths only asks the oracles); the summary goes to benchmarks/results/sweep.md.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from reference import fast, listing, oracle
from reference.expressions import loss_of

Case = dict[str, Any]
FAST_SECONDS, SLOW_SECONDS = 0.5, 0.6
OURS_SECONDS = 30.0
WITNESS_SECONDS = 40.0
LISTING_SECONDS = 120
ENOUGH = 1e-9  # relative error of a trustworthy oracle
RESULTS = ROOT / "benchmarks" / "results" / "sweep.md"
CANNOT = (
    oracle.OracleCannot,
    OverflowError,
    ZeroDivisionError,
    ValueError,
    MemoryError,
    IndexError,
    FloatingPointError,
)


class TooLong(Exception):
    pass


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Seconds of processor time, so that a busy machine does not make the oracles abstain."""

    def ring(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


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
    return {"terms": terms, "read": "delta", "at": repr(spread(rng, 1e-6, 1000.0))}


# --------------------------------------------------------------------------------------------------------------- truth

SYMMETRIC = {"gaussian", "gdp", "laplace", "discrete_gaussian", "discrete_laplace", "randomized_response"} | {
    "pure_dp",
    "approx_dp",
    "exponential",
}
LATTICES = {"discrete_gaussian", "discrete_laplace", "randomized_response", "pure_dp", "approx_dp", "discrete_pair"}


def directions(terms: list[dict[str, Any]]) -> tuple[str, ...]:
    same = all(t["leaf"] in SYMMETRIC and "rate" not in t for t in terms)
    return ("remove",) if same else ("remove", "add")


def one_truth(case: Case, direction: str) -> oracle.Answer:
    """The fast oracle where it is sure of itself, else the slow one."""
    other, at = ("delta" if case["read"] == "epsilon" else "epsilon"), float(case["at"])
    if sum(t["count"] for t in case["terms"]) > 1:
        try:
            with at_most(FAST_SECONDS):
                found: oracle.Answer = getattr(fast, case["read"])(case["terms"], direction=direction, **{other: at})
            if found.error <= ENOUGH:
                return found
        except (*CANNOT, TooLong):
            pass
    if not worth_asking(case["terms"]):
        raise oracle.OracleCannot("no oracle for this composition")
    with at_most(SLOW_SECONDS):
        return slow_truth(case, direction)


def worth_asking(terms: list[dict[str, Any]]) -> bool:
    """Does the slow oracle have a closed form, a residue sum or a short list for these terms?"""
    smooth = [t for t in terms if t["leaf"] not in LATTICES]
    draws = sum(t["count"] for t in smooth)
    plain = all(t["leaf"] in ("laplace", "exponential") and "rate" not in t for t in smooth)
    few = all(t["count"] <= 200 for t in terms if t["leaf"] in LATTICES)
    return few and (draws <= 1 or (plain and draws <= 60))


def slow_truth(case: Case, direction: str) -> oracle.Answer:
    other, at = ("delta" if case["read"] == "epsilon" else "epsilon"), float(case["at"])
    read: Callable[..., oracle.Answer] = oracle.epsilon if case["read"] == "epsilon" else oracle.delta
    return read(case["terms"], direction=direction, **{other: at})


def truth(case: Case, one: Callable[[Case, str], oracle.Answer] = one_truth) -> None:
    """Fill in the oracle's answer, the worse of the two directions; raise OracleCannot when it has none."""
    answers = [one(case, d) for d in directions(case["terms"])]
    worse = max(answers, key=lambda a: a.value)
    if not math.isfinite(worse.value):
        raise Trivial
    floor = 1e-12 if case["read"] == "epsilon" else 1e-45
    if worse.value < floor or (case["read"] == "epsilon" and worse.value > 1100):
        raise Trivial
    # A direction that is clearly better need not be known well.
    unsure = [a for a in answers if a.value * (1 + 2 * a.error) > worse.value * (1 - 1e-3) or a is worse]
    if max(a.error for a in unsure) > ENOUGH:
        raise oracle.OracleCannot("not accurate enough")
    case.update(truth=worse.digits, error=worse.error, route=worse.route)


PENDING = "not judged"


class Trivial(Exception):
    """The answer is 0, infinite or outside the range of the sweep."""


# ------------------------------------------------------------------------------------------------------------- judging


def judge(case: Case) -> None:
    """Fill in what tallystick says and whether it is right."""
    started = time.process_time()
    try:
        with at_most(OURS_SECONDS):
            loss, at = loss_of(case["terms"]), float(case["at"])
            if case["read"] == "epsilon":
                bounds, single = loss.epsilon_bounds(delta=at), loss.epsilon(delta=at)
            else:
                bounds, single = loss.delta_bounds(epsilon=at), loss.delta(epsilon=at)
        case.update(lower=float(bounds.lower), upper=float(bounds.upper), single=float(single))
        case["seconds"] = round(time.process_time() - started, 4)
        case["verdict"] = verdict(case)
    except TooLong:
        case["verdict"] = "timeout"
    except Exception as error:
        case["verdict"] = f"failure: {type(error).__name__}: {error}"[:300]
    case.setdefault("seconds", round(time.process_time() - started, 4))
    if case["verdict"].startswith("wrong"):
        case["verdict"] = second_opinion(case)


def listed_opinion(case: Case) -> str:
    """The verdict of listing every outcome: delta at our bounds against the target, or delta against our bounds."""
    at, low, high = float(case["at"]), case["lower"], min(case["upper"], case["single"])

    def worst(epsilon: float) -> float:
        return max(listing.delta(case["terms"], epsilon=epsilon, direction=d) for d in directions(case["terms"]))

    if case["read"] == "epsilon":
        good = worst(high) <= at * (1 + 1e-9) and (low == 0.0 or worst(low) >= at * (1 - 1e-9))
    else:
        good = low * (1 - 1e-9) <= worst(at) <= high * (1 + 1e-9)
    return "oracles disagree" if good else f"{case['verdict']} (listed)"


def second_opinion(case: Case) -> str:
    """Ask for a list of outcomes, the slow oracle, or ball arithmetic, whether the bound really is on the wrong side."""
    again = dict(case)
    try:
        with at_most(LISTING_SECONDS):
            return listed_opinion(case)
    except (*CANNOT, TooLong, Trivial):
        pass
    try:
        with at_most(WITNESS_SECONDS):
            if case["route"] in ("listed", "period", "contour"):
                truth(again, slow_truth)
                if verdict(again) == "right":
                    return "oracles disagree"
                return f"{verdict(again)} (two oracles)"
    except (*CANNOT, TooLong, Trivial):
        pass
    try:
        with at_most(WITNESS_SECONDS):
            loss, at = loss_of(case["terms"]), float(case["at"])
            if case["read"] == "epsilon":
                proved = loss.epsilon_bounds(delta=at, rigorous=True)
            else:
                proved = loss.delta_bounds(epsilon=at, rigorous=True)
        apart = proved.lower > min(case["upper"], case["single"]) or case["lower"] > proved.upper
        return f"{case['verdict']} (proved)" if apart else "oracles disagree"
    except Exception:
        return f"{case['verdict']} (one oracle)"


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


def kind(terms: list[dict[str, Any]]) -> str:
    """The class of a case, by what decides the route: its leaves."""
    leaves = {t["leaf"] for t in terms}
    sampled = ", sampled" if any("rate" in t for t in terms) else ""
    if "exponential" in leaves:
        return "bounded range" + sampled
    if leaves <= LATTICES:
        return ("one discrete" if len(terms) == 1 else "several discrete") + sampled
    if "laplace" in leaves:
        return "with Laplace" + sampled
    return ("Gaussian and discrete" if leaves & LATTICES else "Gaussian") + sampled


def steps(terms: list[dict[str, Any]]) -> str:
    number = sum(t["count"] for t in terms)
    return (
        "1"
        if number == 1
        else "2-9"
        if number < 10
        else "10-99"
        if number < 100
        else "100-9999"
        if number < 10_000
        else ">= 10^4"
    )


def found_only(seed_index: tuple[int, int]) -> Case:
    """``solve`` without judging: the truths can be found on one day and judged on another."""
    return solve(seed_index, lambda case: case.update(verdict=PENDING, seconds=0.0))


def solve(seed_index: tuple[int, int], judge: Callable[[Case], None] = judge) -> Case:
    """Case ``index`` of a seed, judged, with the classes of the draws that no oracle knew or on which two disagree."""
    seed, index = seed_index
    rng = random.Random(f"{seed}/{index}")
    unknown, disagree, trivial, spent = [], [], 0, 0.0
    while True:
        case = draw(rng)
        started = time.process_time()
        try:
            truth(case)
        except Trivial:
            trivial += 1
        except (*CANNOT, TooLong):
            unknown.append(f"{kind(case['terms'])} | {steps(case['terms'])}")
        spent += time.process_time() - started
        if "truth" not in case:
            continue
        judge(case)
        if case["verdict"] != "oracles disagree":
            case.update(index=index, unknown=unknown, disagree=disagree, trivial=trivial)
            case["oracle_seconds"] = round(spent, 4)
            return case
        disagree.append({key: case[key] for key in ("terms", "read", "at", "truth")})


def judged_again(case: Case) -> Case:
    """The same case and truth, with what tallystick says now."""
    case.pop("seconds", None)
    judge(case)
    return case


def warm_up() -> None:
    """Import every engine before processes are forked: one version of the code judges a whole run."""
    for leaf in ({"sigma": 1.0, "rate": 0.1}, {"sigma": 1.0}):
        for number in (1, 3, 1000):
            term = {"leaf": "gaussian", "count": number, **leaf}
            case = {"terms": [term, {**term, "leaf": "discrete_gaussian"}], "read": "epsilon", "at": "1e-6"}
            judge({**case, "truth": "nan", "error": 0.0, "route": ""})


# ------------------------------------------------------------------------------------------------------------- reports


def at(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


def tally(rows: list[Case]) -> dict[str, int]:
    return {
        "wrong": sum(r["verdict"].startswith("wrong") for r in rows),
        "disagree": sum(len(r.get("disagree", ())) + (r["verdict"] == "oracles disagree") for r in rows),
        "failed": sum(r["verdict"].startswith("failure") for r in rows),
        "timeout": sum(r["verdict"] == "timeout" for r in rows),
        "unknown": sum(len(r.get("unknown", ())) for r in rows),
        "trivial": sum(r.get("trivial", 0) for r in rows),
    }


def summary(rows: list[Case]) -> str:
    told = tally(rows)
    right = [r for r in rows if r["verdict"] == "right" and not only_an_upper_bound(r["terms"])]
    excess, width = [widths(r)[0] for r in right], [widths(r)[1] for r in right]
    seconds = [r["seconds"] for r in rows]
    return (
        f"{len(rows)} cases: {told['wrong']} bounds on the wrong side, {told['failed']} failures, {told['timeout']} timeouts\n"
        f"upper bound above the truth (relative): median {at(excess, 0.5):.1e}, 90 % {at(excess, 0.9):.1e}, "
        f"99 % {at(excess, 0.99):.1e}, worst {at(excess, 1):.1e}\n"
        f"width of the enclosure (relative): median {at(width, 0.5):.1e}, 90 % {at(width, 0.9):.1e}, "
        f"99 % {at(width, 0.99):.1e}, worst {at(width, 1):.1e}\n"
        f"our processor seconds: mean {sum(seconds) / max(len(seconds), 1):.3f}, median {at(seconds, 0.5):.3f}, "
        f"99 % {at(seconds, 0.99):.2f}, worst {at(seconds, 1):.1f}\n"
        f"redrawn: {told['unknown']} draws that no oracle knew to {ENOUGH:g}, {told['disagree']} on which two oracles disagree, "
        f"{told['trivial']} with a trivial answer (0, infinite, below the range)"
    )


def page(rows: list[Case], seed: int) -> str:
    """The results page: what was found, then every class with its widths and times."""
    by_class: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for row in rows:
        by_class[kind(row["terms"]), steps(row["terms"])].append(row)
    unknown = Counter(u for r in rows for u in r.get("unknown", ()))
    lines = [
        "# Random compositions against the oracle",
        "",
        f"`make campaign-accounting`, seed {seed}, {platform.machine()}, Python {platform.python_version()}. Written by the script.",
        "",
        *(f"- {line}" for line in summary(rows).split("\n")),
        "",
        "Widths are relative to the truth. Bounded range has no single worst pair once composed: there the upper bound is held",
        "against the composed hull only from the other side, and widths say little. `unknown` counts the draws of a class that no",
        "oracle knew and that were redrawn.",
        "",
        "| class | steps | cases | wrong | failed | upper excess: median | 99 % | worst | width: median | 99 % | worst | > 1e-6 | seconds: median | 99 % | worst | unknown |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (name, number), part in sorted(by_class.items()):
        told = tally(part)
        good = [r for r in part if r["verdict"] == "right"]
        pairs = [widths(r) for r in good] or [(math.nan, math.nan)]
        excess, width = [p[0] for p in pairs], [p[1] for p in pairs]
        seconds = [r["seconds"] for r in part]
        cells = [name, number, len(part), told["wrong"], told["failed"] + told["timeout"]]
        cells += [f"{max(at(excess, s), 0.0):.0e}" for s in (0.5, 0.99, 1.0)]
        cells += [f"{at(width, s):.0e}" for s in (0.5, 0.99, 1.0)]
        cells += [sum(w > 1e-6 for w in width)]
        cells += [f"{at(seconds, s):.3f}" for s in (0.5, 0.99, 1.0)]
        cells += [unknown.get(f"{name} | {number}", 0)]
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
    bad = [r for r in rows if r["verdict"] != "right"]
    if bad:
        lines += ["", "## Not right", ""]
        lines += [
            f"- {r['verdict']}: `{json.dumps({k: r.get(k) for k in ('terms', 'read', 'at', 'truth', 'lower', 'upper', 'single')})}`"
            for r in bad[:40]
        ]
    return "\n".join(lines) + "\n"


def show(case: Case, done: int, total: int, started: float) -> None:
    if case["verdict"] not in ("right", PENDING):
        print("\r" + json.dumps(case), flush=True)
    if sys.stderr.isatty() or done % 100 == 0:
        bar = "#" * (30 * done // total)
        print(
            f"\r[{bar:<30}] {done}/{total} {time.perf_counter() - started:.0f} s", end="", file=sys.stderr, flush=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", type=Path, help="store the cases and their truths as a test file")
    parser.add_argument("--again", action="store_true", help="judge the stored cases of this seed again, truths kept")
    parser.add_argument("--truths", action="store_true", help="only ask the oracles; a later run judges")
    parser.add_argument("--page", type=Path, default=None, help="where the results page goes")
    options = parser.parse_args()
    log = ROOT / "build" / f"sweep-{options.seed}.jsonl"
    log.parent.mkdir(exist_ok=True)
    # A case may have several lines; the last one counts.
    lines = log.read_text().splitlines() if log.exists() else []
    latest: dict[int, Case] = {case["index"]: case for case in map(json.loads, lines)}
    rows = [r for r in latest.values() if r["index"] < options.cases and r["verdict"] != "oracles disagree"]
    started = time.perf_counter()
    warm_up()
    stale = [] if options.truths else [r for r in rows if options.again or r["verdict"] == PENDING]
    known = {r["index"]: r for r in rows}
    wanted = [i for i in range(options.cases) if i not in known]
    solver = found_only if options.truths else solve
    for case in stale:
        del known[case["index"]]
    with multiprocessing.Pool(options.workers, maxtasksperchild=500) as pool, log.open("a") as out:

        def keep(cases: Iterable[Case]) -> None:
            for case in cases:
                known[case["index"]] = case
                out.write(json.dumps(case) + "\n")
                out.flush()
                show(case, len(known), options.cases, started)

        keep(pool.imap_unordered(judged_again, stale))
        keep(pool.imap_unordered(solver, [(options.seed, i) for i in wanted]))
        unclear = [i for i, case in known.items() if case["verdict"] == "oracles disagree"]
        keep(pool.imap_unordered(solver, [(options.seed, i) for i in unclear]))
    rows = sorted(known.values(), key=lambda r: r["index"])
    if options.truths:
        return 0
    print(f"\n{summary(rows)}")
    target = options.page or (RESULTS if options.cases >= 10_000 else log.with_suffix(".md"))
    target.write_text(page(rows, options.seed))
    if options.write:
        kept = ("terms", "read", "at", "truth", "error")
        # The slowest would take the test suite's time; the campaign has them.
        lines = [json.dumps({k: r[k] for k in kept}) for r in rows if r["seconds"] < 1][:300]
        options.write.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return 1 if any(r["verdict"] != "right" for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
