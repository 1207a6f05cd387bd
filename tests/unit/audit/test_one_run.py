"""One-run audits: the recursion is the optimum of its linear programme, the level holds, and the strength is there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import binom

import tallystick as ts
from tallystick.audit.evidence import epsilon_of_mu
from tallystick.audit.guesses import (
    BOTH,
    IN,
    OneRun,
    approximate_inverse,
    claim_inverse,
    gaussian_inverse,
    one_run,
    plan_one_run,
    refuted,
    sided,
)
from tallystick.audit.inclusion import Coins, coins
from tallystick.errors import ClaimFalsified, InvalidInput


def programme(mu: float, m: int, k: int, v: int) -> float:
    """max Pr[W >= v] under all constraints, tangents in place of g: a relaxation, so slightly above the recursion."""
    w, rows, sides = np.arange(k + 1), [], []
    for c in range(1, k + 1):
        right, wrong = np.where(w >= c, w / m, 0.0), np.where(w >= c - 1, (k - w) / m, 0.0)
        for x in np.r_[np.geomspace(1e-12, 0.5, 160), np.linspace(0.51, 0.999, 40)]:
            z = ndtri(x)
            slope = math.exp(-0.5 * ((z + mu) ** 2 - z * z))
            rows.append(right - slope * wrong)
            sides.append(ndtr(z + mu) - slope * x)
    found = linprog(
        -(w >= v).astype(float), A_ub=np.array(rows), b_ub=sides, A_eq=np.ones((1, k + 1)), b_eq=[1.0], bounds=(0, 1)
    )
    return float(-found.fun)


def p_value(mu: float, m: int, k: int, v: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(m, k, v, middle, gaussian_inverse(mu)) else (middle, high)
    return high


@pytest.mark.parametrize(
    ("mu", "m", "k", "v", "known"),
    [(1, 8, 4, 4, 0.455024), (0.5, 20, 10, 9, 0.157056), (2, 20, 10, 10, 0.721513), (1, 40, 20, 18, 0.398580)],
)
def test_the_recursion_is_the_optimum_of_the_programme(mu: float, m: int, k: int, v: int, known: float) -> None:
    found = p_value(mu, m, k, v)
    assert found == pytest.approx(known, abs=2e-6)
    assert found <= programme(mu, m, k, v) <= found + 3e-4


def test_every_mechanism_of_two_canaries_stays_under_the_level() -> None:
    # All mechanisms with few outputs for m = 2 coins that are f-DP in each coin: Pr[W >= v] by linear programming.
    for epsilon in (0.3, 1.0):
        m = k = 2
        outputs = [(a, b) for a in (1, -1) for b in (1, -1)]  # an output is its guesses
        coins_ = [(a, b) for a in (1, -1) for b in (1, -1)]
        index = {(o, s): i for i, (o, s) in enumerate((o, s) for o in outputs for s in coins_)}
        rows, sides = [], []
        for s in coins_:
            for flip in range(m):
                t = tuple(-x if i == flip else x for i, x in enumerate(s))
                for o in outputs:
                    row = np.zeros(len(index))
                    row[index[o, s]], row[index[o, t]] = 1.0, -math.exp(epsilon)
                    rows.append(row)
                    sides.append(0.0)
        total = np.array([[1.0 if s == t else 0.0 for (_, s) in index] for t in coins_])
        for v in (1, 2):
            aim = np.array(
                [-(sum(a == b for a, b in zip(o, s, strict=True)) >= v) / 4 for (o, s) in index], dtype=float
            )
            best = -linprog(aim, A_ub=rows, b_ub=sides, A_eq=total, b_eq=np.ones(4), bounds=(0, 1)).fun
            assert not refuted(m, k, v, best * (1 - 1e-6), approximate_inverse(epsilon, 0.0))
            if v == 2:
                exact = (math.exp(epsilon) / (1 + math.exp(epsilon))) ** 2
                assert best == pytest.approx(exact, rel=1e-6)


def play(mu: float, m: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    included = rng.random(m) < 0.5
    return np.where(included, mu / 2, -mu / 2) + rng.normal(size=m), included


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_a_true_claim_is_seldom_refuted(mu: float) -> None:
    rng = np.random.default_rng(int(10 * mu))
    m, k, level, plays = 1000, 60, 0.05, 1000
    inverse = gaussian_inverse(mu)
    critical = next(v for v in range(k + 2) if v > k or refuted(m, k, v, level, inverse))
    hits = 0
    for _ in range(plays):
        scores, included = play(mu, m, rng)
        moved = scores - np.median(scores)
        chosen = np.argsort(-np.abs(moved))[:k]
        hits += int((included[chosen] == (moved[chosen] > 0)).sum()) >= critical
    assert hits <= binom.ppf(1 - 1e-6, plays, level)


def test_a_mechanism_that_leaks_seldom_but_all_at_once_is_refuted_no_more_often() -> None:
    # With probability p all guesses are right more often: exactly mu-GDP for each canary, far from independent.
    rng = np.random.default_rng(5)
    mu, m, k, level, n = 0.74, 10_000, 300, 0.05, 100_000
    critical = next(v for v in range(k // 2, k + 1) if refuted(m, k, v, level, gaussian_inverse(mu)))
    for p in (0.05, 0.055, 0.06):
        low, high = 1e-9, 0.02
        for _ in range(80):
            a = (low + high) / 2
            low, high = (a, high) if ndtr(ndtri(p * a) + mu) / p + a < k / m else (low, a)
        right = (k / m - low) / (k / m)
        leaked = (rng.random(n) < p) & (rng.binomial(k, right, n) >= critical)
        assert leaked.mean() <= level


@pytest.mark.parametrize(("runs", "least"), [(1, 2.8), (2, 3.3)])
def test_strength_at_a_true_epsilon_of_4_4(runs: int, least: float) -> None:
    rng = np.random.default_rng(9)
    found = []
    for _ in range(12):
        games = [play(1.0, 10_000, rng) for _ in range(runs)]
        evidence = one_run([g[0] for g in games], [g[1] for g in games], claim=ts.gdp(mu=1), guesses=300)
        assert not evidence.falsified
        found.append(epsilon_of_mu(evidence.mu_at_least, delta=1e-5))
    assert np.mean(found) > least
    assert max(found) < 4.377


def test_epsilon_and_delta_are_refuted_directly() -> None:
    rng = np.random.default_rng(3)
    found = [
        one_run(*play(1.0, 10_000, rng), claim=ts.gdp(mu=1), guesses=200).epsilon_at_least(delta=1e-5)
        for _ in range(12)
    ]
    assert 2.2 < np.mean(found) < 4.377


def test_a_leak_is_falsified_and_named() -> None:
    rng = np.random.default_rng(4)
    evidence = one_run(*play(3.0, 10_000, rng), claim=ts.gdp(mu=1))
    assert evidence.falsified
    assert evidence.refutes == "the claimed curve"
    assert evidence.mu_at_least > 1
    assert evidence.p_value < 0.05
    assert str(evidence).startswith("The claim is false: gdp(mu=1)")
    assert evidence.to_dict()["falsified"] is True
    with pytest.raises(ClaimFalsified):
        evidence.raise_if_falsified()
    quiet = one_run(*play(0.0, 1000, rng), claim=ts.gdp(mu=1))
    assert (quiet.falsified, quiet.refutes) == (False, None)
    assert "Can catch  at best a run that leaks like mu = " in str(quiet)
    quiet.raise_if_falsified()


def test_evidence_is_no_guarantee() -> None:
    rng = np.random.default_rng(4)
    evidence = one_run(*play(1.0, 100, rng), claim=ts.gdp(mu=1))
    assert not isinstance(evidence, ts.PrivacyLoss)
    for use in (
        lambda: ts.gdp(mu=1) + evidence,  # type: ignore[operator]
        lambda: ts.gdp(mu=1) <= evidence,
        lambda: one_run([1.0], np.array([True]), claim=evidence),  # type: ignore[arg-type]
    ):
        with pytest.raises((TypeError, InvalidInput)):
            use()


def test_a_claim_is_tested_against_its_own_curve() -> None:
    for claim in (ts.gdp(mu=1), 100 * ts.gaussian(sigma=2).sampled(rate=0.05), ts.pure_dp(epsilon=2)):
        inverse = claim_inverse(claim)
        for h in (1e-6, 1e-3, 0.05, 0.4):
            g = 1 - claim.tradeoff(alpha=h)
            assert h * 0.98 <= inverse(g) <= h * 1.002  # read-outs of g are rounded up, too
    # the Gaussian's tangents are nearly the Gaussian
    for v in (280, 285, 290, 295):
        ours, closed = (refuted(10_000, 300, v, 0.05, f) for f in (claim_inverse(ts.gdp(mu=1)), gaussian_inverse(1.0)))
        assert ours <= closed


def test_one_sided_guesses_are_tested_by_the_stronger_curve() -> None:
    for mu in (0.5, 1.0):
        two, one = gaussian_inverse(mu), sided(gaussian_inverse(mu), IN)
        assert all(one(r) >= two(r) for r in (1e-4, 1e-3, 0.01, 0.1))
    rng = np.random.default_rng(6)
    evidence = one_run(*play(1.0, 10_000, rng), claim=ts.gdp(mu=1), guesses=300, side=IN)
    assert 2.2 < epsilon_of_mu(evidence.mu_at_least, delta=1e-5) < 4.377


def test_the_plan_looks_at_the_claim_only_and_is_near_the_best() -> None:
    plan = plan_one_run(ts.gdp(mu=1), canaries=10_000)
    assert 150 <= plan.guesses <= 600
    assert epsilon_of_mu(plan.expected, delta=1e-5) > 2.8
    assert plan_one_run(ts.gdp(mu=2), canaries=10_000).guesses > plan.guesses
    assert "guesses among 10000 canaries" in str(plan)


def test_coins_are_fair_kept_and_committed(tmp_path: object) -> None:
    drawn = ts.audit.coins(10_001)
    assert abs(int(drawn.included.sum()) - 5000) < 350
    assert not drawn.included.flags.writeable
    path = tmp_path / "coins.json"  # type: ignore[operator]
    drawn.save(path)
    again = Coins.load(path)
    assert again.commitment == drawn.commitment
    assert (again.included == drawn.included).all()
    (told,) = one_run(np.arange(10_001.0), again, claim=ts.gdp(mu=1), guesses=10).assumes
    assert f"the commitment {drawn.commitment} of the coins was published before" in told
    seeded = ts.audit.coins(100, seed=1)
    seeded.save(tmp_path / "seeded.json")  # type: ignore[operator]
    lie = (tmp_path / "seeded.json").read_text().replace('"seeded": true', '"seeded": false')  # type: ignore[operator]
    (tmp_path / "seeded.json").write_text(lie)  # type: ignore[operator]
    with pytest.raises(InvalidInput, match="unaltered"):
        Coins.load(tmp_path / "seeded.json")  # type: ignore[operator]
    path.write_text(path.read_text().replace('"salt": "', '"salt": "0'))
    with pytest.raises(InvalidInput, match="unaltered"):
        Coins.load(path)
    with pytest.raises(InvalidInput, match=r"ts\.audit\.coins"):
        Coins(None, drawn.included, "salt", seeded=False)


def test_what_cannot_be_seen_is_assumed_in_words() -> None:
    rng = np.random.default_rng(8)
    scores, included = play(1.0, 100, rng)
    assert "its own fair coin" in one_run(scores, included, claim=ts.gdp(mu=1)).assumes[0]
    half = np.arange(100) % 2 == 0
    assert "exactly half" in one_run(scores, half, claim=ts.gdp(mu=1)).assumes[0]
    assert one_run(scores, ts.audit.coins(100), claim=ts.gdp(mu=1)).assumes == ()
    assert "seed" in one_run(scores, ts.audit.coins(100, seed=1), claim=ts.gdp(mu=1)).assumes[0]


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"scores": [1.0, math.nan]}, "scores"),
        ({"scores": []}, "scores"),
        ({"scores": ["a", "b"]}, "scores"),
        ({"scores": [10**400, 0]}, "scores"),
        ({"coins": np.array([1, 0])}, "coins"),
        ({"coins": np.array([True])}, "coins"),
        ({"coins": np.array([True]), "guesses": 2, "scores": [1.0]}, "guesses"),
        ({"coins": ts.audit.coins(5), "guesses": 4}, "coins"),
        ({"guesses": 3}, "guesses"),
        ({"guesses": 0}, "guesses"),
        ({"significance": 0.0}, "significance"),
        ({"significance": 1.5}, "significance"),
        ({"side": "out"}, "side"),
        ({"claim": 1.0}, "claim"),
        ({"runs": 2}, "runs"),
    ],
)
def test_bad_input_is_named(changed: dict[str, object], argument: str) -> None:
    given = {"scores": [1.0, 2.0], "coins": np.array([True, False]), "claim": ts.gdp(mu=1), **changed}
    with pytest.raises(InvalidInput) as refused:
        one_run(given.pop("scores"), given.pop("coins"), **given)  # type: ignore[arg-type]
    assert refused.value.argument == argument


def test_the_same_coins_cannot_serve_two_runs() -> None:
    drawn = ts.audit.coins(50)
    with pytest.raises(InvalidInput, match="anew"):
        one_run([np.zeros(50), np.ones(50)], [drawn, drawn], claim=ts.gdp(mu=1))


def test_extreme_outcomes_have_answers() -> None:
    for scores, included in ((np.arange(40.0), np.arange(40) >= 20), (np.zeros(40), np.ones(40, dtype=bool))):
        for claim in (ts.gdp(mu=1e-3), ts.gdp(mu=20), ts.pure_dp(epsilon=1e-6), ts.approx_dp(epsilon=1, delta=0.3)):
            for side in (BOTH, IN):
                evidence = one_run(scores, included, claim=claim, guesses=40 if side == BOTH else 20, side=side)
                assert isinstance(evidence, OneRun)
                assert 0 <= evidence.p_value <= 1
                assert math.isfinite(evidence.mu_at_least)
                assert math.isfinite(evidence.epsilon_at_least(delta=1e-6))


def test_a_claim_about_replacing_is_audited_by_replacing() -> None:
    rng = np.random.default_rng(8)
    scores, included = play(1.0, 100, rng)
    assumed = one_run(scores, included, claim=ts.gdp(mu=1, adjacency="replace")).assumes
    assert "chose between two canaries" in assumed[0]
    assert not any("two canaries" in text for text in one_run(scores, included, claim=ts.gdp(mu=1)).assumes)


def test_the_plan_of_the_default_is_the_plan_for_this_level_and_these_runs() -> None:
    rng = np.random.default_rng(8)
    games = [play(1.0, 2000, rng) for _ in range(2)]
    found = one_run([g[0] for g in games], [g[1] for g in games], claim=ts.gdp(mu=1), significance=1e-12)
    plan = plan_one_run(ts.gdp(mu=1), canaries=2000, significance=1e-12, runs=2)
    assert found.guesses == plan.guesses
    assert plan.guesses > plan_one_run(ts.gdp(mu=1), canaries=2000).guesses


def test_a_plan_can_catch_what_its_number_of_guesses_says() -> None:
    """Found from outside: planned numbers of guesses with which nothing could be refuted, although others could."""
    for claim, m in ((ts.gdp(mu=1), 200), (ts.gdp(mu=0.1), 500), (ts.pure_dp(epsilon=1), 100), (ts.zcdp(rho=0.5), 200)):
        plan = plan_one_run(claim, canaries=m)
        drawn = coins(m, seed=7)
        assert plan.caught is not None
        assert one_run(1.0 * drawn.included, drawn, claim=claim).falsified
    nothing = plan_one_run(ts.pure_dp(epsilon=20), canaries=50)
    assert nothing.caught is None
    assert "catch nothing" in str(nothing)
    with pytest.raises(InvalidInput, match="claim"):
        plan_one_run(1.0, canaries=10)  # type: ignore[arg-type]


def test_a_plan_for_several_runs_counts_the_worst_of_them() -> None:
    """Found from outside: 9 guesses for 8 runs, said to refute mu = 1.18 of a run that leaks mu = 1."""
    plan = plan_one_run(ts.gdp(mu=1), canaries=1000, runs=8)
    assert plan.expected < 1.0
    assert plan.guesses > 50
    rng = np.random.default_rng(3)
    leaky = [play(1.5, 1000, rng) for _ in range(8)]
    assert one_run([s for s, _ in leaky], [c for _, c in leaky], claim=ts.gdp(mu=1)).falsified


def test_equal_scores_are_guessed_alike() -> None:
    for seed in range(2):
        drawn = coins(999, seed=seed)
        for scores in (1.0 * drawn.included, 1e308 * drawn.included, np.where(drawn.included, 1e308, -1e308)):
            assert one_run(scores, drawn, claim=ts.gdp(mu=1), guesses=999).correct == 999
    with pytest.raises(InvalidInput, match="complex"):
        one_run(np.ones(999) * 1j, drawn, claim=ts.gdp(mu=1))
