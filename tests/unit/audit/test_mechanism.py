"""Two-sample audits: the level holds, broken mechanisms are caught, and every trap that others fell into is a test."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

import tallystick as ts
from tallystick.audit.curves import ceiling, ceiling_and_slope, least_alarm, tangents
from tallystick.audit.events import low_bits, name_of, numbers_of
from tallystick.audit.two_sample import epsilon_refuted, judged, mechanism, mu_refuted, upper_limit
from tallystick.errors import InvalidInput, NotComputable


def test_limits_are_clopper_and_pearson() -> None:
    for successes, trials, level in ((0, 1000, 0.025), (3, 50, 0.01), (50, 50, 0.01), (999, 1000, 1e-6)):
        truth = 1.0 if successes == trials else beta.ppf(1 - level, successes + 1, trials - successes)
        assert upper_limit(successes, trials, level) == pytest.approx(truth, rel=1e-8)
        assert upper_limit(successes, trials, level) >= truth * (1 - 1e-12)


def test_the_ceilings_of_the_design() -> None:
    # zero errors at 95 %: what N draws can show at most
    for draws, shown in ((1_000, 5.60), (10_000, 7.90), (100_000, 10.21)):
        none = upper_limit(0, draws, 0.025)
        assert epsilon_refuted(none, none, 0.0) == pytest.approx(shown, abs=0.01)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0, 2.0])
def test_an_exact_gaussian_is_seldom_refuted(mu: float) -> None:
    # 1,000 audits of a fixed event, and no absolute value: at mu = 0 half of all differences are negative.
    rng = np.random.default_rng(int(10 * mu) + 1)
    audits, draws, level = 1000, 400, 0.05
    alarm, miss = norm.sf(mu / 2), norm.cdf(-mu / 2)
    above = 0
    for _ in range(audits):
        a, b = (upper_limit(int(rng.binomial(draws, p)), draws, level / 2) for p in (alarm, miss))
        above += mu_refuted(a, b) > mu
    assert above <= binom.ppf(1 - 1e-6, audits, level)


def rounded(x: float) -> float:
    """On a lattice: the low bits of naive floating-point noise tell which data set it was added to."""
    return float(np.round(x * 64) / 64)


def test_the_whole_audit_holds_its_level_with_events_chosen_from_the_draws() -> None:
    rng = np.random.default_rng(3)
    claim = ts.gdp(mu=0.5)
    refuted = sum(
        mechanism(lambda x: rounded(x + rng.normal()), neighbours=(0.0, 0.5), claim=claim, draws=400).falsified
        for _ in range(60)
    )
    assert refuted <= binom.ppf(1 - 1e-6, 60, 0.05)


def test_choosing_the_event_on_the_same_draws_would_break_the_level() -> None:
    # the trap: the best of four hundred columns of pure noise, certified by the draws that chose it
    rng = np.random.default_rng(4)
    audits, draws, refuted = 100, 200, 0
    for _ in range(audits):
        alarms, misses = (rng.binomial(draws, 0.5, size=400) for _ in range(2))
        refuted += any(
            mu_refuted(upper_limit(int(a), draws, 0.025), upper_limit(int(b), draws, 0.025)) > 0
            for a, b in zip(alarms, misses, strict=True)
        )
    assert refuted > binom.ppf(1 - 1e-6, audits, 0.05)


TWINS: dict[str, tuple[Any, tuple[Any, Any], ts.PrivacyLoss]] = {}


def twin(name: str, neighbours: tuple[Any, Any], claim: ts.PrivacyLoss) -> Any:
    def keep(make: Any) -> Any:
        TWINS[name] = (make(np.random.default_rng(sum(map(ord, name)))), neighbours, claim)
        return make

    return keep


twin("half the noise", (0.0, 1.0), ts.pure_dp(epsilon=1))(lambda rng: lambda x: x + rng.laplace(scale=0.5))
twin("epsilon for epsilon/2", (3.0, 4.0), ts.pure_dp(epsilon=0.5))(lambda rng: lambda x: x + rng.laplace(scale=1))
twin("unclamped sum", ([1.0] * 5, [*[1.0] * 5, 8.0]), ts.pure_dp(epsilon=1))(
    lambda rng: lambda data: sum(data) + rng.laplace(scale=1)
)
twin("forgotten count", ([1.0] * 9, [1.0] * 10), ts.pure_dp(epsilon=1))(
    lambda rng: lambda data: (sum(data) + rng.laplace(scale=1), len(data))
)
twin("low bits", (0.0, 1.0), ts.pure_dp(epsilon=1))(lambda rng: lambda x: x + rng.laplace(scale=1))
twin("fails on the data", ([1], [2]), ts.pure_dp(epsilon=1))(
    lambda rng: lambda data: None if data == [2] and rng.random() < 0.3 else 1
)


@pytest.mark.parametrize("name", TWINS)
def test_broken_mechanisms_are_caught(name: str) -> None:
    f, neighbours, claim = TWINS[name]
    found = mechanism(f, neighbours=neighbours, claim=claim, draws=12_000)
    assert found.falsified, str(found)
    assert found.refutes == "the claimed curve"


def test_reused_noise_is_caught_although_each_answer_alone_is_fine() -> None:
    rng = np.random.default_rng(5)

    def reused(data: tuple[float, float]) -> tuple[float, float]:
        noise = rng.laplace(scale=1)
        return data[0] + noise, data[1] + noise

    claim = 2 * ts.laplace(scale=1)
    assert mechanism(reused, neighbours=((0.0, 0.0), (1.0, 0.0)), claim=claim, draws=3000).falsified
    alone = mechanism(
        lambda x: rounded(x + rng.laplace()),
        neighbours=(0.0, 1.0),
        claim=ts.laplace(scale=1),
        draws=3000,
    )
    assert not alone.falsified


def test_our_own_mechanisms_are_not_falsified_and_bring_their_claim() -> None:
    for release, pair in (
        (ts.noise.add_laplace(epsilon=1, sensitivity=1), (0.0, 1.0)),
        (ts.noise.add_discrete_gaussian(sigma=2), (3, 4)),
        (ts.response.randomize(epsilon=1), ([1], [0])),
    ):
        found = mechanism(release, neighbours=pair, draws=4000, significance=1e-6)
        assert not found.falsified
        assert "Can catch  at best" in str(found)


def test_the_worst_of_several_neighbours_is_found() -> None:
    rng = np.random.default_rng(6)
    pairs = [([0.0], [0.1]), ([0.0], [3.0]), ([1.0], [1.0])]
    found = mechanism(
        lambda data: sum(data) + rng.laplace(scale=1), neighbours=pairs, claim=ts.pure_dp(epsilon=1), draws=12_000
    )
    assert found.falsified


def test_an_event_of_the_caller_is_tested_with_all_draws() -> None:
    rng = np.random.default_rng(7)
    found = mechanism(
        lambda x: x + rng.laplace(scale=0.4),
        neighbours=(1, 0),
        claim=ts.pure_dp(epsilon=1),
        draws=3000,
        event=lambda y: y > 0.5,
    )
    assert found.draws == 3000
    assert found.falsified
    assert found.to_dict()["event"] == "<lambda>"


def test_evidence_about_epsilon_and_delta_is_direct() -> None:
    found = judged(ts.approx_dp(epsilon=1, delta=1e-6), "x", 10_000, 100, 100, 0.05)
    a, b = found.limits
    assert found.epsilon_at_least(delta=0.01) == pytest.approx(math.log((1 - 0.01 - max(a, b)) / min(a, b)), rel=1e-9)
    assert found.epsilon_at_least(delta=1.0) == 0.0


def test_an_asymmetric_claim_is_tested_by_its_symmetrised_curve() -> None:
    claim = ts.gaussian(sigma=1).sampled(rate=0.1)
    lines = tangents(claim)
    for alarm in (1e-4, 0.01, 0.2, 0.7):
        assert ceiling(lines, alarm) >= 1 - claim.tradeoff(alpha=alarm) - 1e-3
        assert least_alarm(lines, ceiling(lines, alarm)) == pytest.approx(alarm, rel=1e-6)
        values, slopes = ceiling_and_slope(lines, np.array([alarm]))
        assert values[0] == pytest.approx(ceiling(lines, alarm), rel=1e-12)
        assert slopes[0] > 0


def test_outputs_of_any_shape_have_numbers_and_names() -> None:
    assert numbers_of(np.array([[1, 2], [3, 4]])) == [1.0, 2.0, 3.0, 4.0]
    assert numbers_of("b") > numbers_of("a")
    assert numbers_of("3.5") == [3.5]
    assert numbers_of(10**401) > numbers_of(10**400) > numbers_of(1e299)
    assert name_of({2, 1}) == name_of({1, 2})
    assert name_of(np.array([1.0])) != name_of(np.array([[1.0]]))
    assert low_bits(np.array([0.1, 0.5, 3.0])).tolist() == [52.0, 1.0, 2.0]
    for out in ("a", None, [], {}, {"x": [1, None]}, np.array(["a"]), math.nan, math.inf):
        found = mechanism(lambda _, out=out: out, neighbours=(0, 1), claim=ts.pure_dp(epsilon=1), draws=60)
        assert not found.falsified


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"f": 3}, "f"),
        ({"neighbours": [1, 2]}, "neighbours"),
        ({"neighbours": (1, 2, 3)}, "neighbours"),
        ({"claim": None}, "claim"),
        ({"claim": 1.0}, "claim"),
        ({"draws": 3}, "draws"),
        ({"significance": 0}, "significance"),
        ({"event": 3}, "event"),
    ],
)
def test_bad_input_is_named(changed: dict[str, Any], argument: str) -> None:
    given: dict[str, Any] = {"f": lambda x: x, "neighbours": (0, 1), "claim": ts.pure_dp(epsilon=1), **changed}
    with pytest.raises(InvalidInput) as refused:
        mechanism(given.pop("f"), **given)
    assert refused.value.argument == argument


def test_a_failure_that_depends_on_the_data_is_an_output() -> None:
    def fails(data: list[int]) -> int:
        if data == [2]:
            raise KeyError("not in the list")
        return 1

    assert mechanism(fails, neighbours=([1], [2]), claim=ts.pure_dp(epsilon=1), draws=2000).falsified
    found = mechanism(fails, neighbours=([1], [2]), claim=ts.pure_dp(epsilon=1), draws=2000)
    assert found.event.startswith("the function fails")
    assert "fails more often" in str(found)
    with pytest.raises(InvalidInput, match=r"fails in every draw .KeyError"):  # that is a mistake of the caller
        mechanism(lambda data: {}[data], neighbours=(1, 2), claim=ts.pure_dp(epsilon=1), draws=60)
    with pytest.raises(InvalidInput, match="the same dataset twice"):
        mechanism(fails, neighbours=([2], [2]), claim=ts.pure_dp(epsilon=1), draws=60)


def _leaky(kind: str, x: int, noise: int) -> Any:
    return {
        "fraction": Fraction(x) + Fraction(noise, 10**8),
        "decimal": Decimal(x) + Decimal(noise).scaleb(-8),
        "huge": 10**400 * (1 + x) + noise,
        "date": datetime.date(2000 + x, 1, 1) + datetime.timedelta(days=noise % 100),
        "moment": np.datetime64(10**9 * (1 + x) + noise, "s"),
        "span": datetime.timedelta(seconds=10**7 * x + noise),
        "bytes": bytes([65 + x]) + str(noise).encode(),
        "text": f"{'ab'[x]}{noise}",
        "number as text": str(x + noise / 1e8),
        "pair": ("a", str(x), noise),
        "complex": complex(noise, x + noise / 1e8),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["fraction", "decimal", "huge", "date", "moment", "span", "bytes", "text", "number as text", "pair", "complex"],
)
def test_a_total_leak_is_seen_in_outputs_of_every_kind(kind: str) -> None:
    """Found from outside: what was no float was left out, and the evidence still said what it could have caught."""
    rng = np.random.default_rng(0)
    found = mechanism(
        lambda x: _leaky(kind, x, int(rng.integers(10**6))), neighbours=(0, 1), claim=ts.pure_dp(epsilon=1), draws=400
    )
    assert found.falsified


def test_outputs_without_any_order_are_refused() -> None:
    with pytest.raises(NotComputable, match="all different"):
        mechanism(lambda x: object(), neighbours=(0, 1), claim=ts.pure_dp(epsilon=1), draws=60)


def test_naive_floating_point_noise_is_named_as_such() -> None:
    rng = np.random.default_rng(5)
    found = mechanism(lambda x: x + rng.normal(), neighbours=(0.0, 1.0), claim=ts.gaussian(sigma=1), draws=4000)
    assert found.falsified
    assert "binary digits" in found.event
    assert "round releases to one" in str(found)
    assert not mechanism(
        lambda x: rounded(x + rng.normal()),
        neighbours=(0.0, 1.0),
        claim=ts.gaussian(sigma=1),
        draws=4000,
        significance=1e-6,
    ).falsified
