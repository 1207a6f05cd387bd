"""Statements of chapter 13: trade-off functions and f-DP."""

from __future__ import annotations

from tallystick.theorems import (
    amplification,
    clt,
    composition,
    conversions,
    divergences,
    duality,
    gaussian,
    groups,
    piecewise,
    stability,
    testing,
)
from tallystick.theorems.piecewise import PiecewiseTradeoff
from tallystick.theorems.statement import Statement, show

_F = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.05)
_ONE = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
_SKEW = PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])
_PIECEWISE = "tests/unit/theorems/test_piecewise.py"
_DUALITY = "tests/unit/theorems/test_duality.py"
_DIVERGENCES = "tests/unit/theorems/test_divergences.py"
_CLT = "tests/unit/theorems/test_clt.py"
_AMPLIFY = "tests/unit/theorems/test_amplification.py"
_GAUSS = "tests/unit/theorems/test_gaussian.py"


def _limit() -> clt.GaussianLimit:
    step = clt.tradeoff_moments(PiecewiseTradeoff.of_approx_dp(epsilon=0.1))
    return clt.gaussian_limit([step] * 400)


TRADEOFF = (
    Statement(
        "section 13.1",
        "The power bound, again",
        "min(1, e^eps a + delta, 1 + e^-eps (a - 1 + delta)).",
        "lecture notes, section 13.1",
        "theory/hypothesis-testing.md",
        ("power_bound",),
        "tests/unit/theorems/test_testing.py",
        lambda: f"a = 0.5, (1, 0.01): {testing.power_bound(alpha=0.5, epsilon=1, delta=0.01):.4f}",
        erratum="8: printed with e^-alpha for e^-eps, .7028 for .8197",
    ),
    Statement(
        "definition 13.1",
        "Trade-off function",
        (
            "T(P, Q)(a) = least type-II error of a test of P against Q at level a; 1 - a for equal P and Q, "
            "0 for disjoint."
        ),
        "lecture notes, Definition 13.1, Examples 13.1 and 13.2",
        "theory/tradeoff-functions.md",
        ("PiecewiseTradeoff",),
        _PIECEWISE,
        lambda: f"T((.9,.1),(.5,.5))(0.05) = {float(_SKEW(0.05)):.6f}",
    ),
    Statement(
        "example 13.3",
        "Gaussian trade-off function",
        "T(N(0,1), N(mu,1))(a) = Phi(Phi^-1(1 - a) - mu).",
        "lecture notes, Example 13.3 and section 13.3",
        "theory/gdp-profile.md",
        ("gaussian_tradeoff",),
        _GAUSS,
        lambda: f"mu = 1, a = 0.05: {gaussian.gaussian_tradeoff(mu=1, alpha=0.05):.6f}",
    ),
    Statement(
        "proposition 13.1",
        "Which functions are trade-off functions",
        "Convex, continuous, non-increasing, f(x) <= 1 - x; nothing else.",
        "lecture notes, Proposition 13.1",
        "theory/tradeoff-functions.md",
        ("PiecewiseTradeoff", "lower_hull"),
        _PIECEWISE,
        lambda: "a function above 1 - x is refused when it is constructed",
    ),
    Statement(
        "remark 13.1",
        "Maximum of trade-off functions",
        "max(f, g) is a trade-off function: two true claims make one stronger claim.",
        "lecture notes, Remark 13.1",
        "theory/tradeoff-functions.md",
        ("pointwise_max",),
        _PIECEWISE,
        lambda: show(
            "max of f_(1,0) and f_(0,.3) at 0.3: {:.6f}",
            float(piecewise.pointwise_max(_ONE, PiecewiseTradeoff.of_approx_dp(epsilon=0, delta=0.3))(0.3)),
        ),
    ),
    Statement(
        "proposition 13.2",
        "Symmetrisation",
        "f-DP for a symmetric adjacency is max(f, f^-1)-DP.",
        "lecture notes, Proposition 13.2 and Remark 13.2",
        "theory/symmetrisation.md",
        ("symmetrised",),
        _PIECEWISE,
        lambda: (
            f"f = T((.9,.1),(.5,.5)) at 0.05: {float(_SKEW(0.05)):.4f} becomes "
            f"{float(piecewise.symmetrised(_SKEW)(0.05)):.4f}"
        ),
    ),
    Statement(
        "remark 13.3",
        "(epsilon, delta)-DP as f-DP",
        "f_{eps,delta}(a) = max(0, 1 - delta - e^eps a, e^-eps (1 - delta - a)).",
        "lecture notes, Remark 13.3",
        "theory/tradeoff-functions.md",
        ("least_type_two_error", "PiecewiseTradeoff"),
        _PIECEWISE,
        lambda: f"f_(1,.05)(0.1) = {testing.least_type_two_error(alpha=0.1, epsilon=1, delta=0.05):.6f}",
    ),
    Statement(
        "theorem 13.1",
        "The Gaussian mechanism is GDP",
        "Noise N(0, Delta^2/mu^2) is mu-GDP, exactly.",
        "lecture notes, Theorem 13.1",
        "theory/gdp-profile.md",
        ("gaussian_mu",),
        _GAUSS,
        lambda: f"sigma = 4, Delta = 2: mu = {gaussian.gaussian_mu(sigma=4, sensitivity=2):.6f}",
    ),
    Statement(
        "proposition 13.3",
        "Post-processing for f-DP",
        "T(Proc(P), Proc(Q)) >= T(P, Q).",
        "lecture notes, Lemma 8 and Proposition 13.3",
        "theory/post-processing.md",
        (),
        "tests/unit/theorems/test_postprocessing.py",
        lambda: "nothing to compute",
    ),
    Statement(
        "theorem 13.2",
        "Blackwell",
        "T(P,Q) <= T(P',Q') iff some randomized function maps (P,Q) to (P',Q'): trade-off functions lose nothing.",
        "lecture notes, Theorem 13.2 (Blackwell 1951)",
        "theory/post-processing.md",
        (),
        "tests/unit/theorems/test_postprocessing.py",
        lambda: "the order behind `a <= b` on losses",
        erratum="14: section 13.5 prints the inclusion between the Renyi and the Blackwell order the wrong way round",
    ),
    Statement(
        "proposition 13.5",
        "Divergences from the trade-off function",
        "D_F = integral of F(1/|f'|)|f'| + F(0)(1 - f(0)) + tau_F (1 - z_f); every divergence with data processing is "
        "a function of f (Proposition 13.4, Lemma 9).",
        "lecture notes, Propositions 13.4 and 13.5, Lemma 9, Example 13.6",
        "theory/tradeoff-divergences.md",
        ("tradeoff_to_f_divergence",),
        _DIVERGENCES,
        lambda: show(
            "TV of f_(1,0): {:.6f}",
            divergences.tradeoff_to_f_divergence(_ONE, lambda t: abs(t - 1) / 2, at_zero=0.5, slope_at_infinity=0.5),
        ),
    ),
    Statement(
        "example 13.7",
        "TV, KL and Renyi from f",
        "TV = max(1 - a - f(a)); KL = -integral log|f'|; Renyi = log(integral |f'|^(1-a))/(a-1), infinite if z_f < 1.",
        "lecture notes, Example 13.7",
        "theory/tradeoff-divergences.md",
        ("tradeoff_to_tv", "tradeoff_to_kl", "tradeoff_to_renyi"),
        _DIVERGENCES,
        lambda: (
            f"f_(1,.05): TV {divergences.tradeoff_to_tv(_F):.6f}; f_(1,0): KL {divergences.tradeoff_to_kl(_ONE):.6f}"
        ),
        erratum="9: the printed l_TV misses (1 - f(0))/2, .10 for .20 on f_(0,.2)",
    ),
    Statement(
        "proposition 13.6",
        "From f-DP to Renyi DP",
        "f-DP is (a, l_a(f))-RDP.",
        "lecture notes, Proposition 13.6",
        "theory/tradeoff-divergences.md",
        ("tradeoff_to_renyi",),
        _DIVERGENCES,
        lambda: f"f_(1,0), a = 2: {divergences.tradeoff_to_renyi(_ONE, order=2):.6f}",
    ),
    Statement(
        "corollary 13.1",
        "From GDP to zCDP",
        "mu-GDP is mu^2/2-zCDP.",
        "lecture notes, Corollary 13.1",
        "theory/gaussian-renyi.md",
        ("gdp_to_zcdp",),
        "tests/unit/theorems/test_conversions.py",
        lambda: f"mu = 1: rho = {conversions.gdp_to_zcdp(mu=1):.6f}",
    ),
    Statement(
        "proposition 13.7",
        "Renyi order is not Blackwell order",
        "For some eps, every D_a(RR_eps) <= D_a(N(0,1)||N(eps,1)), and yet TV(RR_eps) > TV of the Gaussians.",
        "lecture notes, Proposition 13.7",
        "theory/renyi-not-blackwell.md",
        ("randomized_response_renyi", "gaussian_renyi", "normal_tv", "approx_to_tv"),
        "tests/unit/theorems/test_renyi_not_blackwell.py",
        lambda: f"eps = 1: TV {conversions.approx_to_tv(epsilon=1):.3f} > {stability.normal_tv(mu=1):.3f}",
    ),
    Statement(
        "proposition 13.8",
        "Dual to primal",
        "(eps_i, delta_i)-DP for all i is f-DP with f = sup_i f_{eps_i, delta_i}.",
        "lecture notes, Proposition 13.8",
        "theory/profile-duality.md",
        ("tradeoff_of_points", "tradeoff_of_profile", "PiecewiseProfile"),
        _DUALITY,
        lambda: f"(0, .3) and (1, 0): f(0.3) = {float(duality.tradeoff_of_points([(0, 0.3), (1, 0)])(0.3)):.6f}",
    ),
    Statement(
        "proposition 13.9",
        "Primal to dual",
        "delta(eps) = 1 + f*(-e^eps), f* the convex conjugate.",
        "lecture notes, Proposition 13.9",
        "theory/profile-duality.md",
        ("profile_of_tradeoff",),
        _DUALITY,
        lambda: f"f_(1,.05) at eps = 0.5: {duality.profile_of_tradeoff(_F).delta(epsilon=0.5):.6f}",
        erratum="7: part (c) prints f*(e^-eps), which gives delta = 1.607 for .2384",
    ),
    Statement(
        "lemma 10",
        "Chained trade-off functions",
        "g(1 - f) is a trade-off function with inverse f^-1(1 - g^-1); symmetric if f = g is.",
        "lecture notes, Lemma 10",
        "theory/chained.md",
        ("chained",),
        _PIECEWISE,
        lambda: f"f_(1,0) with itself at 0.1: {float(piecewise.chained(_ONE, _ONE)(0.1)):.6f}",
    ),
    Statement(
        "lemma 11",
        "Unlike trade-off functions in a chain",
        "T(P,Q) >= f and T(Q,R) >= g give T(P,R) >= g(1 - f).",
        "lecture notes, Lemma 11",
        "theory/chained.md",
        ("chained",),
        _PIECEWISE,
        lambda: f"f_(1,.05) then f_(1,0) at 0.1: {float(piecewise.chained(_ONE, _F)(0.1)):.6f}",
        erratum="38: the last line prints T(P,Q) for T(P,R)",
    ),
    Statement(
        "theorem 13.3",
        "Group privacy for f-DP and GDP",
        "f-DP is (1 - (1 - f)^(o k))-DP for groups of k; mu-GDP is k mu-GDP. Mixed additions and removals: use "
        "hull(min(f, f^-1)).",
        "lecture notes, Theorem 13.3 and Remark 13.7",
        "theory/group-privacy.md",
        ("group_tradeoff", "group_gdp"),
        "tests/unit/theorems/test_groups.py",
        lambda: (
            f"mu = 0.5, k = 4: {groups.group_gdp(mu=0.5, size=4):.6f}; f_(1,0), k = 2, a = 0.05: "
            f"{float(groups.group_tradeoff(_ONE, size=2)(0.05)):.6f}"
        ),
    ),
    Statement(
        "theorem 13.4",
        "Composition in f-DP",
        "f_1 (x) ... (x) f_k = T(P_1 x ... , Q_1 x ...), adaptive steps included; Gaussians: sqrt(sum mu_i^2).",
        "lecture notes, Definition 13.5, Lemma 12, Theorem 13.4",
        "theory/tensor-product.md",
        ("tensor_product", "gdp_composition"),
        _PIECEWISE,
        lambda: (
            f"mu = 3, 4: {composition.gdp_composition(mus=[3, 4]):.6f}; f_(1,0) twice at 0.1: "
            f"{float(piecewise.tensor_product(_ONE, _ONE)(0.1)):.6f}"
        ),
    ),
    Statement(
        "section 13.9",
        "Functionals of a trade-off function",
        "kl, k2, k3 and the centred k3_bar = integral |log|f'| + kl|^3.",
        "lecture notes, section 13.9",
        "theory/clt.md",
        ("tradeoff_moments", "gaussian_moments", "LossMoments"),
        _CLT,
        lambda: f"G_0.5: k3_bar = {clt.gaussian_moments(mu=0.5).k3_bar:.5f}",
        erratum="12: printed with -kl (.2758 for .1995)",
    ),
    Statement(
        "theorem 13.5",
        "Berry-Esseen band of the central limit theorem",
        "mu = 2|kl|_1/sqrt(|k2|_1 - |kl|_2^2), gamma = .56|k3_bar|_1/(...)^(3/2); "
        "G_mu(a + gamma) - gamma <= f <= G_mu(a - gamma) + gamma on [gamma, 1 - gamma], if gamma < 1/2.",
        "lecture notes, Theorem 13.5 (Dong, Roth, Su 2022)",
        "theory/clt.md",
        ("gaussian_limit", "GaussianLimit", "LossBand"),
        _CLT,
        lambda: f"400 RR(0.1): mu = {_limit().mu:.4f}, gamma = {_limit().gamma:.4f}",
        erratum="12: gamma uses k3_bar, not k3",
    ),
    Statement(
        "theorem 13.6",
        "Central limit theorem",
        "Many small steps tend to G_{2K/s}. An approximation, never a guarantee.",
        "lecture notes, Theorem 13.6 (called Berry-Esseen there; it is the limit)",
        "theory/clt.md",
        ("gaussian_limit", "sampled_gaussian_limit_mu"),
        _CLT,
        lambda: show(
            "q = 256/60000, sigma = 1.1, T = 14062, 1e-5: limit {:.4f}, truth 2.3817",
            gaussian.gdp_epsilon(
                mu=clt.sampled_gaussian_limit_mu(rate=256 / 60000, sigma=1.1, steps=14062), delta=1e-05
            ),
        ),
        erratum="12: Theorem 13.6 is the limit theorem, not Berry-Esseen",
    ),
    Statement(
        "theorem 13.7",
        "Subset sampling",
        "If M is f-DP on X^m under replace then M o Sample_m is C_{m/n}(f)-DP, C_p(f) = hull(min(f_p, f_p^-1)).",
        "lecture notes, Definition 13.6 and Theorem 13.7",
        "theory/subset-sampling.md",
        ("subsampling_operator", "mixed_with_identity"),
        _AMPLIFY,
        lambda: f"f_(1,0), p = 0.5, a = 0.1: {float(amplification.subsampling_operator(_ONE, rate=0.5)(0.1)):.6f}",
        erratum="13: f-DP on X^m, not X^n; replace adjacency",
    ),
    Statement(
        "corollary 13.2",
        "Subset sampling of (epsilon, delta)",
        (
            "max of f_{eps',p delta} and 1 - p delta - p (1 - delta)(e^eps - 1)/(e^eps + 1) - a; eps' = "
            "log(1 - p + p e^eps)."
        ),
        "lecture notes, Corollary 13.2",
        "theory/subset-sampling.md",
        ("subsampled_approx_tradeoff", "amplified"),
        _AMPLIFY,
        lambda: show(
            "a = 0.3, (1, .05), p = 0.3: {:.6f}",
            amplification.subsampled_approx_tradeoff(alpha=0.3, epsilon=1, delta=0.05, rate=0.3),
        ),
        erratum="10: the factor (1 - delta) is missing: safe, but not the equality claimed",
    ),
    Statement(
        "remark 13.10",
        "Sampling a 1-DP mechanism",
        "eps' = log(1 + p(e - 1)) <= (e - 1)p.",
        "lecture notes, Remark 13.10",
        "theory/amplification.md",
        ("amplified_one_dp",),
        _AMPLIFY,
        lambda: "p = 0.5: {:.4f} <= {:.4f}".format(*amplification.amplified_one_dp(rate=0.5)[:2]),
        erratum="11: printed with delta = 1 and log(1 - eps(1 + e)), the log of a negative number",
    ),
)
