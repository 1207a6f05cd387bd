"""The referee's own arithmetic, against lists of outcomes in exact fractions, quadrature, and simulated neighbours."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from flint import arb

from referee import brackets, chains, epochs, lines, readouts, worlds
from referee.balls import ball, near
from referee.binomials import Repeated
from referee.expressions import leaf
from referee.finite import Finite, chained, corners, group_of, hull
from referee.lattice import DiscreteGaussian, DiscreteLaplace
from referee.mixtures import GaussianMixture
from referee.pairs import Better
from referee.sides import BoundedRange, Gaussian, Laplace, Sampled, Smooth, gauss_nodes
from referee.splines import TiltedUniformSum
from referee.worlds import Part, resolved

P, Q = (
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4), Fraction(0)),
    (Fraction(1, 8), Fraction(1, 2), Fraction(1, 4), Fraction(1, 8)),
)
LEVELS = (Fraction(1, 3), Fraction(1), Fraction(3, 2), Fraction(5))


def stick(p: list[Fraction], q: list[Fraction], a: Fraction) -> Fraction:
    return sum((max(Fraction(0), x - a * y) for x, y in zip(p, q, strict=True)), Fraction(0))


def product_of(laws: list[tuple[Fraction, ...]]) -> list[Fraction]:
    return [math.prod(outcome, start=Fraction(1)) for outcome in itertools.product(*laws)]


def agree(found: object, true: Fraction) -> bool:
    return abs(found - ball(true)) < 1e-60


@pytest.mark.parametrize("count", [1, 2, 5])
def test_compositions_are_lists_of_all_outcomes(count: int) -> None:
    whole = Finite.of(P, Q).power_of(count)
    for a in LEVELS:
        assert agree(whole.profile(ball(a)), stick(product_of([P] * count), product_of([Q] * count), a))


def test_samples_are_mixtures() -> None:
    rate = Fraction(1, 10)
    mixed = [(1 - rate) * y + rate * x for x, y in zip(P, Q, strict=True)]
    remove, add = Finite.of(P, Q).sampled(ball(rate), adding=False), Finite.of(Q, P).sampled(ball(rate), adding=True)
    for a in LEVELS:
        assert agree(remove.profile(ball(a)), stick(mixed, list(Q), a))
        assert agree(add.profile(ball(a)), stick(list(Q), mixed, a))


def test_an_epoch_is_a_mixture_over_the_step_of_the_unit() -> None:
    steps = 3
    mixed = [Fraction(0)] * len(P) ** steps
    for i in range(steps):
        law = product_of([P if j == i else Q for j in range(steps)])
        mixed = [x + y / steps for x, y in zip(mixed, law, strict=True)]
    whole = Finite.of(P, Q).allocated(steps)
    for a in LEVELS:
        assert agree(whole.profile(ball(a)), stick(mixed, product_of([Q] * steps), a))


def test_power_is_the_best_of_all_tests() -> None:
    pair = Finite.of(P, Q)
    for alpha in (Fraction(0), Fraction(1, 20), Fraction(1, 4), Fraction(9, 10)):
        best = min(
            stick(list(P), list(Q), a) + a * alpha
            for a in [x / y for x, y in zip(P, Q, strict=True) if y] + [Fraction(0)]
        )
        assert agree(pair.power(ball(alpha)), best)


def test_a_chain_of_neighbours_is_a_mechanism_with_that_pair() -> None:
    """Three laws on one line, cut at all corners: neighbours are exactly (P, Q), the ends are the chain."""
    pair = Finite.of(P, Q)
    ends = chained(pair, pair)
    edges = sorted({near(x): x for x, _ in corners(ends)}.values(), key=near)
    first = [b - a for a, b in itertools.pairwise(edges)]
    second = [pair.power(b) - pair.power(a) for a, b in itertools.pairwise(edges)]
    third = [pair.power(pair.power(b)) - pair.power(pair.power(a)) for a, b in itertools.pairwise(edges)]
    start = pair.infinite()
    laws = [[ball(0), *first], [start, *second], [pair.power(start), *third]]
    for one, two in itertools.pairwise(laws):
        for a in LEVELS:
            link = sum(((x - ball(a) * y).nonnegative_part() for x, y in zip(two, one, strict=True)), ball(0))
            assert near(link) <= near(pair.profile(ball(a))) + 1e-30
    for a in LEVELS:
        whole = sum(((x - ball(a) * y).nonnegative_part() for x, y in zip(laws[2], laws[0], strict=True)), ball(0))
        assert abs(whole - ends.profile(ball(a))) < 1e-60


def test_groups_of_known_mechanisms() -> None:
    assert near(group_of(Finite.of([0.25, 0.75, 0], [0, 0.75, 0.25]), 2).profile(ball(1))) == 0.5
    three = group_of(Finite.of([0.75, 0.25], [0.25, 0.75]), 3)  # randomized response: odds 3 become 27
    assert abs(three.outcomes[0][0] / three.outcomes[0][1] - 27) < 1e-60


def test_a_hull_is_the_largest_profile() -> None:
    one, two = Finite.of([0.5, 0.5, 0], [0.25, 0.5, 0.25]), Finite.of([0.75, 0.25], [0.5, 0.5])
    both = hull(one, two)
    for a in LEVELS:
        assert abs(both.profile(ball(a)) - one.profile(ball(a)).max(two.profile(ball(a)))) < 1e-60


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 4), (1.0, 9)])
def test_bounded_range_and_laplace_sums_agree_with_quadrature(epsilon: float, count: int) -> None:
    for base in (BoundedRange(ball(epsilon)), Laplace(ball(1 / epsilon))):
        one = TiltedUniformSum.of(base, 1)
        for a in (0.8, 1.0, 1.4):
            assert abs(one.profile(ball(a)) - base.profile(ball(a))) < 1e-50
        many = TiltedUniformSum.of(base, count)
        p, q = many.tails(ball(1e-30))
        assert abs(p - 1) < 1e-40
        assert abs(q - 1) < 1e-40
        assert abs(many.profile(ball(1.3)) - (1 - ball(1.3) + ball(1.3) * many.profile(1 / ball(1.3)))) < 1e-40


def test_gaussian_and_sampled_gaussian_agree_with_quadrature() -> None:
    mpmath.mp.dps = 30
    mu, rate, a = mpmath.mpf("0.75"), mpmath.mpf("0.125"), mpmath.e ** mpmath.mpf("0.25")

    def phi(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.npdf(x)

    def mixed(x: mpmath.mpf) -> mpmath.mpf:
        return (1 - rate) * phi(x) + rate * phi(x - mu)

    x = (mpmath.log((a - 1 + rate) / rate) + mu**2 / 2) / mu
    true = mpmath.quad(lambda t: mixed(t) - a * phi(t), [x, x + 2, x + 6, x + 20])
    side = Sampled(Gaussian(ball(0.75)), ball(0.125), adding=False)
    assert abs(side.profile(ball(0.25).exp()) - ball(str(true))) < 1e-25
    order = mpmath.mpf(3)
    true = mpmath.log(mpmath.quad(lambda t: mixed(t) ** order * phi(t) ** (1 - order), [-12, -4, 0, 4, 8, 16])) / 2
    found = side.renyi(3.0)
    assert found is not None
    assert abs(found - ball(str(true))) < 1e-10


@pytest.mark.parametrize(("sigma", "shift"), [(0.5, 1), (3.0, 2), (80.0, 100)])
def test_lattice_tails_are_sums(sigma: float, shift: int) -> None:
    law = DiscreteGaussian(ball(sigma), shift)
    weights = {x: (-(ball(x) ** 2) / (2 * ball(sigma) ** 2)).exp() for x in range(-2000, 2001)}
    norm = sum(weights.values(), ball(0))
    for k in (-3, 0, 1, 7, 60):
        assert abs(law.tail(k) - sum((w for x, w in weights.items() if x >= k), ball(0)) / norm) < 1e-40
    order = (
        sum(((weights[x - shift] / weights[x]) ** 2 * weights[x - shift] for x in range(-1500, 1500)), ball(0)) / norm
    )
    found = law.renyi(3.0)
    assert found is not None
    assert abs(found - order.log() / 2) < 1e-30


def test_two_sided_geometric_noise_is_the_same_listed_and_in_closed_form() -> None:
    law, listed = DiscreteLaplace(ball(1.5), 3), leaf("discrete_laplace", scale=1.5, sensitivity=3).truth.low()[0]
    for a in (0.3, 0.9, 1.1, 3.0):
        assert abs(law.profile(ball(a)) - listed.profile(ball(a))) < 1e-60
    for order in (1.0, 2.5, 40.0):
        one, two = law.renyi(order), listed.renyi(order)
        assert one is not None
        assert two is not None
        assert abs(one - two) < 1e-50


def test_two_orders_of_a_pair_obey_the_swap() -> None:
    for made in (
        leaf("gaussian", sigma=0.7).sampled(0.3),
        leaf("discrete_pair", [0.5, 0.5, 0], [0.25, 0.25, 0.5]).sampled(0.25),
    ):
        remove, add = made.truth.low()
        for a in (0.6, 1.0, 1.7):
            assert abs(add.profile(ball(a)) - (1 - ball(a) + ball(a) * remove.profile(1 / ball(a)))) < 1e-50


def test_replacing_under_sampling_is_at_least_removing() -> None:
    step = leaf("gaussian", sigma=1.0).sampled(0.1)
    for a in (1.0, 1.2, 2.0):
        replaced = max(near(s.profile(ball(a))) for s in chains.replaced(step.truth).low())
        assert replaced > max(near(s.profile(ball(a))) for s in step.truth.low())


def test_a_sampled_gaussian_has_the_divergence_of_its_binomial_sum() -> None:
    rate, mu, order = ball(0.1), ball(0.5), 30
    terms = (
        ball(math.comb(order, k)) * (1 - rate) ** (order - k) * rate**k * (ball(k * (k - 1)) * mu**2 / 2).exp()
        for k in range(order + 1)
    )
    found = Sampled(Gaussian(mu), rate, adding=False).renyi(float(order))
    assert found is not None
    assert abs(found - sum(terms, ball(0)).log() / (order - 1)) < 1e-20


def test_merged_outcomes_have_no_larger_divergence() -> None:
    for base in (Gaussian(ball(0.5)), Laplace(ball(0.5)), DiscreteGaussian(ball(2.0), 1)):
        for adding in (False, True):
            side = Sampled(base, ball(0.1), adding)
            for order in (1.0, 1.5, 16.0):
                fine, merged = side.renyi(order), readouts.merged_renyi(side, order)
                assert fine is not None
                assert merged <= fine
                assert near(merged) > 0.5 * near(fine)


def test_moments_of_laplace_noise_agree_with_quadrature() -> None:
    side = Laplace(ball(0.7))
    listed = side.fine(1.0)
    assert listed is not None
    mean = sum((p * (p / q).log() for p, q in listed), ball(0))
    variance = sum((p * ((p / q).log() - mean) ** 2 for p, q in listed), ball(0))
    assert all(abs(x - y) < 1e-25 for x, y in zip(side.moments() or (), (mean, variance), strict=True))


def test_sums_of_lattice_noise_are_lists_of_all_outcomes() -> None:
    law = DiscreteGaussian(ball(1.5), 2)
    points = [(x, y) for x in range(-30, 31) for y in range(-30, 31)]
    pairs = [(law._mass(x - 2) * law._mass(y - 2), law._mass(x) * law._mass(y)) for x, y in points]
    whole = law.added(2)
    assert whole is not None
    assert whole.top() is None
    for a in (0.4, 1.0, 3.0):
        true = sum(((p - ball(a) * q).nonnegative_part() for p, q in pairs), ball(0))
        assert abs(whole.profile(ball(a)) - true) < 1e-60


def test_what_a_long_composition_leaks_is_at_infinity() -> None:
    """0.875 to the power of a billion is nothing: the mass of infinite losses is one, not zero."""
    truth = leaf("approx_dp", epsilon=0.25, delta=0.125).times(10**9).truth
    assert all(near(side.infinite()) == 1.0 for side in truth.low())
    assert readouts.epsilon_lower(truth, 0.999, math.inf).verdict == "ok"


def test_the_rest_of_a_population_may_be_like_either_of_two_units() -> None:
    """A third of the time (P, Q) decides: mixed with Q and with P alike, whichever the other units resemble."""
    made = leaf("discrete_pair", [0.640625, 0.046875, 0.3125], [0.46875, 0.453125, 0.078125], replaced=True)
    truth = made.subset(1, 3).truth
    most = max(near(side.top()) for side in truth.low())
    assert most == pytest.approx(math.log(2 / 3 + 0.453125 / 0.046875 / 3), rel=1e-12)
    assert readouts.epsilon_lower(truth, 1e-30, 1.358123).verdict == "ok"
    infinite = leaf("from_tradeoff", [(0.0, 0.859375), (0.859375, 0.046875), (1.0, 0.0)], replaced=True).subset(1, 2)
    assert readouts.epsilon_lower(infinite.truth, 0.0, 0.69314).verdict == "ok"


def test_each_point_of_a_bounded_range_is_attained() -> None:
    truth = leaf("exponential", epsilon=2.0).truth
    side = BoundedRange(ball(2.0))
    for epsilon in (0.1, 1.3):
        lower = math.nextafter(near(side.profile(ball(epsilon).exp())), 0)
        assert readouts.delta_lower(truth, epsilon, lower).verdict == "ok"


@pytest.mark.parametrize("base", [Gaussian(ball(1.0)), Gaussian(ball(0.1)), Laplace(ball(0.5)), Laplace(ball(2.0))])
def test_two_steps_lie_between_merged_and_pulled_outcomes(base: Gaussian | Laplace) -> None:
    merged, pulled = (make(base, 40).allocated(2) for make in (brackets.coarse, brackets.dilated))
    for a in (ball(0.4), ball(1.0), ball(1.1)):
        remove, add = epochs.removing(base, a), epochs.adding(base, a)
        assert not merged.profile(a) > remove
        assert not remove > pulled.profile(a)
        assert not merged.swapped().profile(a) > add
        assert not add > pulled.swapped().profile(a)
        assert near(pulled.profile(a) - merged.profile(a)) < 0.02
        assert abs(add - (1 - a + a * epochs.removing(base, 1 / a))) < 1e-11
    if isinstance(base, Gaussian):
        assert epochs.roughly(base, 1e-3) == pytest.approx(1 - 1e-3, rel=1e-6)
        assert epochs.roughly(base, 1.1) == pytest.approx(near(epochs.removing(base, ball(1.1))), rel=1e-9)


def test_a_sampled_lattice_beside_a_gaussian_is_a_list() -> None:
    """It has no nodes, only outcomes: the sum over none of them was nothing, and right answers were called wrong."""
    law, inner, rate = DiscreteGaussian(ball(0.5), 1), Gaussian(ball(0.5)), ball(0.25)
    draws = [Part(Sampled(law, rate, adding=False)), Part(inner)]
    side, a, true = worlds.joined_pair(draws), ball(1.0).exp(), ball(0)
    for x in range(-25, 27):
        p, q = (1 - rate) * law._mass(x) + rate * law._mass(x - 1), law._mass(x)
        true += p * inner.profile(a * q / p)
    assert side is not None
    assert abs(side.profile(a) - true) < 1e-18
    assert true > 0.07
    assert worlds.joined_pair([Part(Sampled(law, ball(1e-30), adding=False)), Part(inner)]) is None


def test_two_steps_end_where_one_does() -> None:
    """e is not a double, and H one unit below it is 1e-17: a right epsilon of 1 was called wrong."""
    for world in worlds.two_steps(Laplace(ball(1.0))):
        (part,) = world
        assert not part.side.profile(ball(1.0).exp()) > 0
        assert part.side.profile(ball(math.nextafter(1.0, 0.0)).exp()) > 0


def test_two_steps_of_lattice_noise_are_a_list() -> None:
    law = DiscreteGaussian(ball(1.0), 1)
    points = range(-25, 27)
    for a in (ball(0.4), ball(1.1)):
        true = ball(0)
        for x in points:
            for y in points:
                p = (law._mass(x - 1) * law._mass(y) + law._mass(x) * law._mass(y - 1)) / 2
                true += (p - a * law._mass(x) * law._mass(y)).nonnegative_part()
        assert abs(epochs.removing(law, a) - true) < 1e-18


def test_merged_outcomes_have_no_infinite_loss_of_their_own() -> None:
    """Masses below the precision are merged, not dropped: dropping them made infinite losses out of nothing."""
    law = DiscreteLaplace(ball(100.0), 100_000)
    merged = brackets.coarse(law, 16)
    assert merged.infinite().is_zero()
    assert merged.swapped().infinite().is_zero()
    total = sum((p for p, _ in merged.outcomes), ball(0))
    assert abs(total - 1) < 1e-60


def test_far_out_a_gaussian_profile_is_known() -> None:
    side = Gaussian(ball(5e5))
    middle = side.profile(ball(1.25e11).exp())
    assert abs(middle - ball(0.5)) < 1e-5
    assert Gaussian(ball(40.0)).profile(ball(800.0).exp()) > 0.4


def test_infinite_is_true_at_the_edge_of_an_unbounded_loss() -> None:
    """A Gaussian beside a leak: no epsilon serves the mass at infinity itself, and each larger delta has one."""
    truth = leaf("zcdp", rho=0.01).plus(leaf("approx_dp", epsilon=1.0, delta=1e-5)).truth
    assert readouts.epsilon_upper(truth, 1e-5, math.inf).verdict == "ok"
    assert readouts.epsilon_upper(truth, 2e-5, math.inf).verdict == "infinite"


def test_a_tiny_bounded_range_is_known() -> None:
    for side in (BoundedRange(ball(1e-300)), leaf("exponential", epsilon=1e-300).truth.low()[0]):
        assert abs(side.profile(ball(1))) < 1e-70
        assert abs(side.power(ball(0.25)) - 0.25) < 1e-15


def test_a_sampled_profile_far_out_is_known() -> None:
    side = Sampled(Gaussian(ball(1e6)), ball(0.1), adding=False)
    assert abs(side.profile(ball(5e11).exp()) - ball(0.05)) < 1e-6


def test_a_list_that_was_cut_says_nothing_below_its_cut() -> None:
    truth = leaf("discrete_gaussian", sigma=2.0, sensitivity=1).times(2).sampled(0.999999).truth
    assert readouts.delta_lower(truth, 21.25, 2.4e-198).verdict == "undecided"
    assert readouts.delta_upper(truth, 0.0, 0.1).verdict == "WRONG"


def test_a_chain_keeps_masses_that_no_difference_from_one_holds() -> None:
    """e^-200000 beside 1: the ends of the chain differ by odds of e^400000 once in a while, and not always."""
    truth = leaf("discrete_laplace", scale=1e-5).times(2).as_replace().truth
    tops = [side.top() for side in truth.low()]
    assert all(top is not None and abs(top - 400_000) < 1e-9 for top in tops)
    assert readouts.epsilon_lower(truth, 0.0, 399_999.99).verdict == "ok"
    assert readouts.epsilon_lower(truth, 0.0, 400_000.01).verdict == "WRONG"
    assert readouts.epsilon_lower(truth, 0.1, 399_999.8946394617).verdict == "ok"


def test_what_cannot_be_told_from_zero_is_not_called_zero() -> None:
    tiny = ball(-300_000).exp()
    both = hull(Finite(((1 - tiny, tiny), (tiny, 1 - tiny))), Finite(((ball(1), ball(1)),)))
    assert not both.infinite() > 0
    assert abs(both.profile(ball(299_999).exp()) - (1 - ball(-1).exp())) < 1e-60
    assert both.swapped().outcomes[0][1].overlaps(tiny)


# ---- sums of mixtures by contours: integrals over one draw, closed forms, finite pairs on both sides ----


def mixture(shifts: list[float], shares: list[float], adding: bool = False) -> GaussianMixture:
    return GaussianMixture(tuple(map(ball, shifts)), tuple(map(ball, shares)), adding)


def two_draws(law: GaussianMixture, a: arb) -> arb:
    """The integral over x of one draw's curve at a over the ratio of the other: panels that narrow towards its end."""
    most = a if not law.adding else 1 / a
    ends = {-14.0, 22.0, *(k / 2 for k in range(-28, 44))}
    if law.absent > 0 and most > law.absent**2:
        edge = near(law.where(most / law.absent))
        ends |= {edge, *(edge + sign * 2.0**-k for k in range(45) for sign in (-1, 1))}
    total, points = ball(0), sorted(ends)
    for low, high in itertools.pairwise(points):
        half = (ball(high) - ball(low)) / 2
        for node, weight in gauss_nodes():
            x = ball(low) + half * (1 + node)
            q = (-(x * x) / 2).exp() / (2 * arb.pi()).sqrt()
            p = q * law.ratio(x)
            p, q = (q, p) if law.adding else (p, q)
            total += weight * half * p * law.profile(a * q / p)
    return total


@pytest.mark.parametrize("adding", [False, True])
@pytest.mark.parametrize(("shifts", "shares"), [([0.25, 1.0], [0.5, 0.5]), ([0.0, 1.0, 2.0], [0.25, 0.5, 0.25])])
def test_two_mixtures_are_an_integral_over_one(shifts: list[float], shares: list[float], adding: bool) -> None:
    law = mixture(shifts, shares, adding)
    side = lines.summed([(law, 2)])
    assert side is not None
    for a in (ball(-0.5).exp(), ball(1.5).exp()):
        found, true = side.profile(a), two_draws(law, a)
        assert abs(found.mid() - true) < found.rad() + 1e-15
        assert found.rad() < 1e-11


def test_a_steep_bend_is_not_missed_by_both_halves_of_the_points() -> None:
    """0.6820714 +- 7.8e-8 was said of 0.68207127790: every other point gave the same wrong number."""
    mu, rate, a = ball(20).sqrt() / ball(1.3020631011226458), ball(0.1), ball(-1.0).exp()
    true = two_draws(GaussianMixture((ball(0), mu), (1 - rate, rate), adding=True), a)
    assert abs(true - ball("0.68207127789759620730062010874")) < 1e-14  # by mpmath, in 30 digits
    step = Part(Sampled(Gaussian(mu), rate, adding=True), 2)
    for side in (worlds.joined_pair([step]), worlds.resolved((step,), False, "add")):
        assert isinstance(side, Smooth)
        found = side.profile(a)
        assert found.contains(ball("0.68207127789759620730062010874"))
    assert found.rad() < 1e-11


@pytest.mark.parametrize("count", [2, 50, 10**6])
def test_sums_of_one_shift_are_gaussian(count: int) -> None:
    mu, slack = (0.75, 1e-10) if count < 100 else (1e-3, 1e-6)
    true = Gaussian(ball(mu) * ball(count).sqrt())
    for adding in (False, True):
        side = lines.summed([(mixture([mu], [1.0], adding), count)])
        assert side is not None
        for epsilon in (-2.0, 0.0, 1.0, 12.0 if count < 100 else 2.0):
            a = ball(epsilon).exp()
            assert side.profile(a).contains(true.profile(a))
            assert side.profile(a).rad() < slack * true.profile(a)
            for one, two in zip(side.tails(a), true.tails(a), strict=True):
                assert one.contains(two)
                assert one.rad() < slack
        for alpha in (1e-9, 0.05, 0.5):
            assert side.power(ball(alpha)).overlaps(true.power(ball(alpha)))
            assert side.power(ball(alpha)).rad() < slack


@pytest.mark.parametrize("adding", [False, True])
def test_three_mixtures_lie_between_merged_and_pulled_outcomes(adding: bool) -> None:
    law = mixture([0.0, 0.5, 1.0], [0.25, 0.25, 0.5], adding)
    side = lines.summed([(law, 3)])
    assert side is not None
    below, above = (make(law, 24).power_of(3) for make in (brackets.coarse, brackets.dilated))
    for a in (ball(0.4), ball(1.0), ball(3.0)):
        assert below.profile(a) <= side.profile(a)
        assert side.profile(a) <= above.profile(a)
        assert near(above.profile(a) - below.profile(a)) < 0.05


def test_unlike_draws_and_both_orders_obey_the_swap() -> None:
    draws = [
        [(mixture([0.5, 2.0], [0.5, 0.5], adding), 2), (Sampled(Gaussian(ball(1.5)), ball(0.25), adding), 3)]
        for adding in (False, True)
    ]
    remove, add = (lines.summed(listed) for listed in draws)
    assert remove is not None
    assert add is not None
    for a in (ball(0.5), ball(1.0), ball(4.0)):
        assert add.profile(a).overlaps(1 - a + a * remove.profile(1 / a))
        p, q = remove.tails(a)
        assert (p - a * q).overlaps(remove.profile(a))
    assert lines.summed([draws[0][0], draws[1][1]]) is None  # two orders in one world


def test_a_sum_that_never_exceeds_its_end_is_nothing_there() -> None:
    side = lines.summed([(mixture([0.0, 1.0], [0.5, 0.5], adding=True), 2)])
    assert side is not None
    assert abs(side.top() - 2 * ball(2).log()) < 1e-60
    assert side.profile(ball(4.0)).abs_upper() < 1e-70
    assert side.profile(ball(4.1)).is_zero()
    assert side.profile(ball(3.9)) > 0


def test_no_line_says_more_than_it_knows() -> None:
    """Losses next to nothing, nearly an atom, far out: whatever is said contains what the closed form says."""
    for mu, count in ((1e-9, 2), (40.0, 2), (0.3, 10**9)):
        side, true = lines.summed([(mixture([mu], [1.0]), count)]), Gaussian(ball(mu) * ball(count).sqrt())
        assert side is not None
        for epsilon in (0.0, mu, 5.0, 800.0):
            a = ball(epsilon).exp()
            assert side.profile(a).overlaps(true.profile(a))
            assert side.power(ball(0.01)).overlaps(true.power(ball(0.01)))


@pytest.mark.parametrize("adding", [False, True])
def test_the_power_of_a_mixture_is_that_of_halving(adding: bool) -> None:
    law = mixture([0.0, 0.5, 2.0], [0.25, 0.25, 0.5], adding)
    for alpha in (1e-12, 1e-3, 0.3, 0.999):
        found, halved = law.power(ball(alpha)), Smooth.power(law, ball(alpha))
        assert found.overlaps(halved)
        assert found.rad() < 1e-40
        assert law.rough_power(alpha) == pytest.approx(near(found), rel=1e-10)


def test_a_chain_of_one_shift_is_a_gaussian_of_as_many() -> None:
    for size in (2, 3, 5):
        chain, true = chains.group_side(mixture([0.5], [1.0]), size), Gaussian(ball(0.5) * size)
        for epsilon in (0.0, 1.0, 9.0):
            found, exact = chain.profile(ball(epsilon).exp()), true.profile(ball(epsilon).exp())
            assert found.contains(exact)
            assert found.rad() < 1e-7 * exact
        assert chain.power(ball(0.01)).overlaps(true.power(ball(0.01)))


def test_a_risk_of_nothing_is_never_too_large() -> None:
    truth = leaf("gaussian_mixture", sigma=1.0, sensitivities=[0.5, 1.0], probabilities=[0.5, 0.5]).times(10**9).truth
    assert readouts.bayes_lower(truth, 0.5, 0.0).verdict == "ok"
    assert readouts.bayes_lower(truth, 0.5, 1e-9).verdict == "WRONG"


def test_a_chain_told_in_few_outcomes_is_below_it() -> None:
    """Of a chain the divergences are not known, nor its sums: of outcomes that are merged they are."""
    made = leaf("gaussian_mixture", sigma=0.9, sensitivities=[0.45, 0.9], probabilities=[0.5, 0.5]).for_groups(2)
    chain, _, told, _ = made.truth.low()
    for epsilon in (-1.0, 0.0, 2.0):
        a = ball(epsilon).exp()
        assert told.profile(a) < chain.profile(a)
        assert near(told.profile(a)) > 0.9 * near(chain.profile(a))
    assert near(chain.power(ball(1.0))) == pytest.approx(1.0)
    below, above = (Gaussian(ball(mu)).renyi(2.0) for mu in (1.0, 2.0))  # both units move by a half, both by one
    found = told.renyi(2.0)
    assert below < found < above
    twice = leaf("gaussian_mixture", sigma=1.0, sensitivities=[0.5, 1.0], probabilities=[0.5, 0.5]).times(2)
    assert readouts.delta_upper(twice.for_groups(2).truth, 0.5, near(told.profile(ball(0.5).exp()))).verdict == "WRONG"


def test_a_transform_that_neither_dies_away_nor_turns_says_what_it_misses() -> None:
    """A contour said .0036 +- .00014 for .00387: most of the sum is one loss next to the level that was asked."""
    made = leaf("gaussian", sigma=0.13419).sampled(0.0019388196718495116).times(2)
    side = resolved(made.truth.variants[0][0], False, "remove")
    assert isinstance(side, Better)
    for epsilon in (0.0, 0.01, 0.1, 1.0):
        a = ball(epsilon).exp()
        assert side.first.profile(a).overlaps(side.second.profile(a))


def test_very_many_draws_of_two_outcomes_are_binomials() -> None:
    """Beside every joint outcome of few draws, with and without mass at infinity, in both orders."""
    for pair in (
        Finite.of([0.75, 0.25], [0.25, 0.75]),
        Finite.of([0.5, 0.25, 0.25, 0], [0.25, 0.5, 0, 0.25]),
        Finite.of([0.125, 0.875], [0.5, 0.5]),
    ):
        for side in (pair, pair.swapped()):
            listed, found = side.power_of(9), Repeated(side, 9)
            assert abs(found.infinite() - listed.infinite()) < 1e-60
            assert abs(found.top() - listed.top()) < 1e-60
            for loss in (-3.3, -0.7, 0.1, 1.3, 4.4, 7.7):
                a = ball(loss).exp()
                assert abs(found.profile(a) - listed.profile(a)) < 1e-50
                for one, other in zip(found.cdf(ball(loss)), listed.cdf(ball(loss)), strict=True):
                    assert abs(one - other) < 1e-50
            assert abs(found.power(ball(0.3)) - listed.power(ball(0.3))) < 1e-12


def test_a_billion_draws_are_not_listed_and_convict_a_distribution_that_is_off() -> None:
    made = leaf("discrete_pair", [1 - 2e-9, 2e-9], [1 - 1e-12, 1e-12]).times(10**9)
    for x in (0.0, 10.0, 14.0):
        printed = made.loss.privacy_loss().cdf(x)
        assert readouts.cdf_near(made.truth, 0, x, printed).verdict == "ok"
        assert readouts.cdf_near(made.truth, 0, x, printed + 0.01).verdict == "WRONG"
    response = leaf("pure_dp", epsilon=1e-4).times(10**9)
    assert readouts.delta_upper(response.truth, 3.0, response.loss.delta(epsilon=3.0)).verdict == "ok"
    assert readouts.delta_upper(response.truth, 3.0, 0.99 * response.loss.delta(epsilon=3.0)).verdict == "WRONG"
