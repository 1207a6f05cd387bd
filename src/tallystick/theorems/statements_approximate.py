"""Statements of chapters 9 to 12: the privacy loss, composition, DP-SGD, Renyi DP."""

from __future__ import annotations

import math
from fractions import Fraction

from tallystick.theorems import (
    amplification,
    basics,
    composition,
    conversions,
    gaussian,
    moments,
    optimal,
    plrv,
    renyi,
)
from tallystick.theorems.game import FinitePair, worst_delta
from tallystick.theorems.statement import Statement, show

_P, _Q = (0.75, 0.25), (0.25, 0.75)
_GAUSS = "tests/unit/theorems/test_gaussian.py"
_COMPOSITION = "tests/unit/theorems/test_composition.py"
_MOMENTS = "tests/unit/theorems/test_moments.py"
_AMPLIFY = "tests/unit/theorems/test_amplification.py"
_RENYI = "tests/unit/theorems/test_renyi.py"
_PLRV = "tests/unit/theorems/test_plrv.py"

APPROXIMATE = (
    Statement(
        "theorem 9.1",
        "Hockey-stick divergence",
        "M is (epsilon, delta)-DP iff H_{e^eps} <= delta for all neighbours, both ways round.",
        "lecture notes, Definition 9.1 and Theorem 9.1",
        "theory/hockey-stick.md",
        ("hockey_stick",),
        _PLRV,
        lambda: f"RR(log 3): delta(0.5) = {plrv.hockey_stick(_P, _Q, epsilon=0.5):.6f}",
        erratum="the printed Q-expectation drops P-mass where Q = 0; use E_P[(1 - e^(eps - L))_+]",
    ),
    Statement(
        "remark 9.1",
        "The divergence is a function of the loss",
        "dM'/dM = exp(+L_{M'||M}).",
        "lecture notes, Remark 9.1",
        "theory/hockey-stick.md",
        ("DiscreteLoss",),
        _PLRV,
        lambda: f"RR(log 3): losses {', '.join(f'{x:.4f}' for x in plrv.DiscreteLoss.of_pair(_P, _Q).losses)}",
        erratum="28: the sign in the exponent is printed as minus",
    ),
    Statement(
        "lemma 6",
        "A tail bound on the loss gives (epsilon, delta)",
        "If P[L >= eps] <= delta for all neighbours then M is (eps, delta)-DP. Not tight (Remark 9.2).",
        "lecture notes, Lemma 6",
        "theory/loss-tail.md",
        ("loss_tail_delta", "loss_tail_epsilon"),
        _PLRV,
        lambda: (
            f"RR(log 3) at 0.5: tail {plrv.loss_tail_delta(_P, _Q, epsilon=0.5):.4f}, "
            f"exact {plrv.hockey_stick(_P, _Q, epsilon=0.5):.4f}"
        ),
    ),
    Statement(
        "theorem 9.3",
        "Gaussian mechanism, classical",
        "sigma >= c Delta/eps with c^2 > 2 log(1.32/delta), c >= 3/2, is (eps, delta)-DP for eps <= 1.",
        "lecture notes, Theorem 9.3 and Remark 9.3 (1.25: Dwork, Roth 2014)",
        "theory/gaussian-mechanism.md",
        ("classical_gaussian_sigma", "analytic_gaussian_sigma"),
        _GAUSS,
        lambda: (
            f"(1, 1e-5): 1.32 {gaussian.classical_gaussian_sigma(epsilon=1, delta=1e-5, constant=1.32):.4f}, "
            f"1.25 {gaussian.classical_gaussian_sigma(epsilon=1, delta=1e-5):.4f}, "
            f"exact {gaussian.analytic_gaussian_sigma(epsilon=1, delta=1e-5):.4f}"
        ),
        erratum="27: c^2 >= 3/2 should be c >= 3/2; false for large epsilon (145 times delta at epsilon = 20)",
    ),
    Statement(
        "remark 9.4",
        "A false step in the literature",
        "c^2 - eps + eps^2/(4c^2) >= c^2 - 8/9 fails at c = 100, eps = 1.",
        "lecture notes, Remark 9.4",
        "theory/gaussian-mechanism.md",
        ("classical_gaussian_sigma",),
        _GAUSS,
        lambda: f"c = 100, eps = 1: left minus right = {-1 + 1 / (4 * 100**2) + 8 / 9:.6f}",
    ),
    Statement(
        "example 9.1",
        "Laplace against Gaussian noise on d counts",
        "Order d/eps against sqrt(d log(1/delta))/eps per coordinate.",
        "lecture notes, Example 9.1",
        "theory/gaussian-mechanism.md",
        ("count_vector_noise",),
        _GAUSS,
        lambda: "d = 100, (1, 1e-6): Laplace {:.2f}, Gaussian {:.2f}".format(
            *gaussian.count_vector_noise(dimension=100, epsilon=1, delta=1e-6)
        ),
    ),
    Statement(
        "algorithm 5",
        "The adaptive composition game",
        (
            "The adversary picks neighbours, mechanism and parameters from the outputs so far; its view is "
            "what is private."
        ),
        "lecture notes, Algorithm 5 and Definition 10.1",
        "theory/adaptive-game.md",
        ("play", "worst_delta", "FinitePair", "Outcome"),
        "tests/unit/theorems/test_game.py",
        lambda: show(
            "two adaptive RR(log 3), e^eps = 3: worst delta = {}",
            worst_delta([FinitePair.randomized_response(ratio=Fraction(3))], rounds=2, ratio=Fraction(3)),
        ),
    ),
    Statement(
        "example 10.1",
        "Marginals under pure and approximate DP",
        "n of order d/(alpha eps) under pure DP, sqrt(d log(1/delta))/(alpha eps) under approximate DP.",
        "lecture notes, Example 10.1 (Steinke, Ullman 2016)",
        "theory/minimax-rates.md",
        ("marginal_records",),
        "tests/unit/theorems/test_basics.py",
        lambda: show(
            "d = 10^4, alpha = .1, eps = 1: order {:.0f}, at delta = 1e-6 order {:.0f}",
            basics.marginal_records(dimension=10_000, accuracy=0.1, epsilon=1),
            basics.marginal_records(dimension=10_000, accuracy=0.1, epsilon=1, delta=1e-6),
        ),
    ),
    Statement(
        "theorem 10.1",
        "Advanced composition",
        "k adaptive (eps, delta) steps are (eps sqrt(2k log(1/d')) + k eps (e^eps - 1), k delta + d')-DP.",
        "lecture notes, Theorem 10.1 (Dwork, Rothblum, Vadhan 2010)",
        "theory/advanced-composition.md",
        ("advanced_composition", "advanced_composition_quadratic", "advanced_composition_tight_mean"),
        _COMPOSITION,
        lambda: show(
            "100 steps of 0.1, d' = 1e-6: {:.4f}",
            composition.advanced_composition(epsilon=0.1, steps=100, delta_slack=1e-06)[0],
        ),
    ),
    Statement(
        "corollary 10.1",
        "Step size for a total",
        "eps = eps'/(2 sqrt(2k log(1/d'))) suffices for a total eps' < 1.",
        "lecture notes, Corollary 10.1",
        "theory/advanced-composition.md",
        ("step_epsilon_printed", "step_epsilon"),
        _COMPOSITION,
        lambda: (
            "total 0.5, k = 100, 1e-6: "
            f"{composition.step_epsilon_printed(total_epsilon=0.5, steps=100, delta_slack=1e-6):.6f}, largest "
            f"{composition.step_epsilon(total_epsilon=0.5, steps=100, delta_slack=1e-6):.6f}"
        ),
    ),
    Statement(
        "theorem 10.2",
        "Optimal composition",
        "Equal (eps, delta) steps: a binomial sum. Unlike steps: #P-complete, so an enclosure.",
        "lecture notes, Theorem 10.2 (Murtagh, Vadhan 2016); Kairouz, Oh, Viswanath 2015",
        "theory/optimal-composition.md",
        (
            "optimal_composition_epsilon",
            "optimal_composition_delta",
            "optimal_composition_points",
            "heterogeneous_optimal_composition",
        ),
        "tests/unit/theorems/test_optimal.py",
        lambda: show(
            "1000 steps of 0.1 at 1e-6: {:.6f}",
            optimal.optimal_composition_epsilon(epsilon=0.1, steps=1000, total_delta=1e-06),
        ),
    ),
    Statement(
        "proposition 11.1",
        "Amplification by Poisson sampling",
        "A 1-DP mechanism on a sample of rate q is log(1 + (e-1) q) <= (e-1) q <= 2q-DP, under add/remove.",
        "lecture notes, Proposition 11.1 and Algorithm 6",
        "theory/amplification.md",
        ("amplified", "amplified_one_dp"),
        _AMPLIFY,
        lambda: "q = 0.1: {:.6f} <= {:.6f} <= {:.6f}".format(*amplification.amplified_one_dp(rate=0.1)),
    ),
    Statement(
        "remark 11.1",
        "The rate for a target",
        "A c-DP mechanism becomes eps-DP at rate (e^eps - 1)/(e^c - 1), at least eps e^-c.",
        "lecture notes, Remark 11.1",
        "theory/amplification.md",
        ("sampling_rate_for", "base_epsilon_for"),
        _AMPLIFY,
        lambda: (
            f"c = 2, eps = 0.1: {amplification.sampling_rate_for(epsilon=0.1, base_epsilon=2):.6f} "
            f"(eps e^-c = {0.1 * math.exp(-2):.6f})"
        ),
    ),
    Statement(
        "theorem 11.2",
        "Moments accountant",
        "Log moments of the loss add over adaptive steps; delta <= min over lambda of exp(alpha(lambda) - lambda eps).",
        "lecture notes, Definition 11.1 and Theorem 11.2 (Abadi et al. 2016)",
        "theory/moments-accountant.md",
        ("log_moment", "gaussian_log_moment", "sampled_gaussian_log_moment", "moments_delta", "moments_epsilon"),
        _MOMENTS,
        lambda: show(
            "Gaussian sigma = 1 at 1e-5: {:.6f}",
            moments.moments_epsilon(lambda lam: moments.gaussian_log_moment(moment=lam, sigma=1), delta=1e-05),
        ),
    ),
    Statement(
        "lemma 7",
        "Log moment of the sampled Gaussian, asymptotic",
        (
            "alpha(lambda) <= q^2 lambda (lambda + 1)/((1 - q) sigma^2) + O(q^3 lambda^3/sigma^3): not a "
            "bound to compute with."
        ),
        "lecture notes, Lemma 7",
        "theory/moments-accountant.md",
        ("sampled_gaussian_log_moment",),
        _MOMENTS,
        lambda: show(
            "exact, lambda = 1, q = 0.01, sigma = 1: {:.6e}",
            moments.sampled_gaussian_log_moment(moment=1, rate=0.01, sigma=1),
        ),
        erratum="40: has an O(.) remainder; never an accountant",
    ),
    Statement(
        "theorem 11.3",
        "Noise for DP-SGD",
        "sigma >= c2 q sqrt(T log(1/delta))/eps suffices for eps < c1 q^2 T.",
        "lecture notes, Theorem 11.3 (Abadi et al. 2016)",
        "theory/moments-accountant.md",
        ("moments_noise",),
        _MOMENTS,
        lambda: "q = 0.01, T = 10^4, (1, 1e-5): sigma = {:.3f}, c2 = {:.3f}".format(
            *moments.moments_noise(rate=0.01, steps=10_000, epsilon=1, delta=1e-5)
        ),
    ),
    Statement(
        "remark 11.6",
        "Pairs of the sampled Gaussian",
        "add (P, (1-g)P + gQ), remove ((1-g)P + gQ, P), with P = N(0, s^2), Q = N(1, s^2).",
        "lecture notes, Remarks 11.5 and 11.6",
        "theory/poisson-sampling.md",
        ("poisson_pairs",),
        _AMPLIFY,
        lambda: "see theorem 14.3",
        erratum="3: the printed remove pair ((1-g)P + gQ, Q) loses the amplification",
    ),
    Statement(
        "remark 12.1",
        "Renyi divergence at orders 1 and infinity",
        "D_1 = E_P[log p/q]; D_inf = sup over the support of P of log p/q; increasing in the order (Remark 12.2).",
        "lecture notes, Definition 12.1, Remarks 12.1 and 12.2; seed 001",
        "theory/renyi-divergence.md",
        ("renyi_divergence",),
        _RENYI,
        lambda: (
            "RR(log 3): "
            + ", ".join(f"D_{a:g} = {renyi.renyi_divergence(_P, _Q, order=a):.4f}" for a in (1.0, 2.0, math.inf))
        ),
        erratum="15: printed E_P[p/q] and the support of Q; P-mass where Q = 0 is then missed",
    ),
    Statement(
        "proposition 12.1",
        "Events under Renyi DP",
        "e^-eps P'(S)^(a/(a-1)) <= P(S) <= (e^eps P'(S))^((a-1)/a).",
        "lecture notes, Proposition 12.1",
        "theory/renyi-event.md",
        ("event_probability_bounds",),
        _RENYI,
        lambda: "p = 0.1, (2, 0.5)-RDP: [{:.6f}, {:.6f}]".format(
            *renyi.event_probability_bounds(probability=0.1, order=2, epsilon=0.5)
        ),
    ),
    Statement(
        "theorem 12.1",
        "From pure DP to Renyi DP",
        "eps-DP is (a, a eps^2/2)-RDP; exactly, log(cosh((a - 1/2) eps)/cosh(eps/2))/(a - 1).",
        "lecture notes, Theorem 12.1 (suspected, and cleared)",
        "theory/pure-to-renyi.md",
        ("pure_to_renyi_printed", "randomized_response_renyi"),
        _RENYI,
        lambda: (
            f"a = 2, eps = 1: {renyi.pure_to_renyi_printed(order=2, epsilon=1):.4f}, "
            f"exact {renyi.randomized_response_renyi(order=2, epsilon=1):.4f}"
        ),
    ),
    Statement(
        "theorem 12.2",
        "From Renyi DP to (epsilon, delta)",
        "(a, xi)-RDP is (xi + log(1/delta)/(a - 1), delta)-DP, and the better "
        "xi + log((a-1)/a) - (log delta + log a)/(a-1).",
        "lecture notes, Theorem 12.2 (Mironov 2017); Canonne, Kamath, Steinke 2020",
        "theory/rdp-to-dp.md",
        ("rdp_to_approx_printed", "rdp_to_approx", "rdp_to_delta", "best_rdp_to_approx"),
        "tests/unit/theorems/test_conversions.py",
        lambda: (
            f"(10, 1)-RDP at 1e-5: {conversions.rdp_to_approx_printed(order=10, epsilon=1, delta=1e-5):.4f}, "
            f"better {conversions.rdp_to_approx(order=10, epsilon=1, delta=1e-5):.4f}"
        ),
    ),
    Statement(
        "theorem 12.3",
        "Composition of Renyi DP",
        "At one order the epsilons of adaptive steps add.",
        "lecture notes, Theorem 12.3",
        "theory/rdp-composition.md",
        ("rdp_composition",),
        _COMPOSITION,
        lambda: f"0.25 and 0.5: {composition.rdp_composition(epsilons=[0.25, 0.5]):.6f}",
    ),
    Statement(
        "proposition 12.2",
        "Renyi divergence of Gaussians",
        "D_a(N(0, s^2)||N(m, s^2)) = a m^2/(2 s^2).",
        "lecture notes, Proposition 12.2",
        "theory/gaussian-renyi.md",
        ("gaussian_renyi",),
        _RENYI,
        lambda: f"a = 4, s = 2, m = 1: {renyi.gaussian_renyi(order=4, sigma=2):.6f}",
    ),
)
