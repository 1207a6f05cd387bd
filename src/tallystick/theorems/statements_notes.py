"""Statements of the composition notes (000), the RDP notes (001), the adaptive-analysis lecture (003), the
amplification note (004), and the theorems of the literature that complete them."""

from __future__ import annotations

from tallystick.theorems import (
    composition,
    conversions,
    gaussian,
    groups,
    noise,
    optimal,
    reduction,
    renyi,
    stability,
)
from tallystick.theorems.statement import Statement, show

_COMPOSITION = "tests/unit/theorems/test_composition.py"
_CONVERSIONS = "tests/unit/theorems/test_conversions.py"
_NOISE = "tests/unit/theorems/test_noise.py"
_RENYI = "tests/unit/theorems/test_renyi.py"
_STABILITY = "tests/unit/theorems/test_stability.py"

NOTES = (
    Statement(
        "000 gaussian",
        "Accuracy of the Gaussian mechanism",
        "The mean of K-dimensional points: expected l2 error of order K^(3/2)/(n eps) with Laplace, "
        "K sqrt(log(1/delta))/(n eps) with Gaussian noise.",
        "composition notes (seed 000), first page",
        "theory/noise-for-queries.md",
        ("mean_release_error",),
        _NOISE,
        lambda: "K = 100, n = 1000, (1, 1e-6): {:.4f} against {:.4f}".format(
            *noise.mean_release_error(dimension=100, records=1000, epsilon=1, delta=1e-6)
        ),
    ),
    Statement(
        "000 group",
        "Group privacy of approximate DP",
        "(k eps, delta (e^(k eps) - 1)/(e^eps - 1)); the notes' k e^((k-1) eps) delta is weaker.",
        "composition notes (seed 000)",
        "theory/group-privacy.md",
        ("group_approx", "group_approx_printed"),
        "tests/unit/theorems/test_groups.py",
        lambda: (
            f"(.5, 1e-3), k = 3: {groups.group_approx(epsilon=0.5, delta=1e-3, size=3)[1]:.6f} "
            f"<= {groups.group_approx_printed(epsilon=0.5, delta=1e-3, size=3)[1]:.6f}"
        ),
    ),
    Statement(
        "000 advanced",
        "Advanced composition, the other form",
        "k eps^2/2 + eps sqrt(2k log(1/d')), and k eps (e^eps - 1) + eps sqrt(2k log(1/d')).",
        "composition notes (seed 000)",
        "theory/advanced-composition.md",
        ("advanced_composition_quadratic", "advanced_composition"),
        _COMPOSITION,
        lambda: show(
            "100 steps of 0.1, 1e-6: {:.4f}",
            composition.advanced_composition_quadratic(epsilon=0.1, steps=100, delta_slack=1e-06)[0],
        ),
        erratum="17: the typed line has eps sqrt(k log(1/d)), which violates its own delta",
    ),
    Statement(
        "000 kl",
        "Kullback-Leibler divergence of pure DP",
        "D(P||Q) <= eps (e^eps - 1); exactly, <= eps tanh(eps/2).",
        "composition notes (seed 000), second lemma",
        "theory/kl-of-pure.md",
        ("pure_to_kl_printed", "pure_to_kl"),
        _CONVERSIONS,
        lambda: (
            f"eps = 1: {conversions.pure_to_kl_printed(epsilon=1):.4f}, exact {conversions.pure_to_kl(epsilon=1):.4f}"
        ),
    ),
    Statement(
        "000 noise",
        "Noise for k queries, basic against advanced",
        "Laplace variance 2k^2/eps^2 against order k log(1/delta)/eps^2.",
        "composition notes (seed 000)",
        "theory/noise-for-queries.md",
        (
            "laplace_variance_basic",
            "laplace_variance_advanced",
            "queries_where_advanced_wins",
            "gaussian_variance_tight",
            "step_epsilon",
        ),
        _NOISE,
        lambda: show(
            "k = 100, (1, 1e-6): {:.0f} against {:.0f}; from k = {} on",
            noise.laplace_variance_basic(epsilon=1, queries=100),
            noise.laplace_variance_advanced(epsilon=1, delta=1e-06, queries=100),
            noise.queries_where_advanced_wins(epsilon=1, delta=1e-06),
        ),
        erratum="18: 'ignore the first term' overspends; the whole equation is solved",
    ),
    Statement(
        "000 approximate",
        "Advanced composition of approximate DP",
        "k (eps, delta) steps: k delta + d'.",
        "composition notes (seed 000)",
        "theory/advanced-composition.md",
        ("advanced_composition_quadratic",),
        _COMPOSITION,
        lambda: "100 steps of (0.1, 1e-8), d' = 1e-6: ({:.4f}, {:.1e})".format(
            *composition.advanced_composition_quadratic(epsilon=0.1, delta=1e-8, steps=100, delta_slack=1e-6)
        ),
    ),
    Statement(
        "000 reduction",
        "From approximate to pure",
        "An (eps, delta)-close pair lies within delta/(1 + e^eps) in total variation of an eps-close pair.",
        "composition notes (seed 000), which state delta; Dwork, Rothblum, Vadhan 2010",
        "theory/approximate-to-pure.md",
        ("reduce_to_pure", "PureReduction"),
        "tests/unit/theorems/test_reduction.py",
        lambda: show(
            "(.9,.1,0) against (.1,.8,.1) at eps = 1: distance {:.4f}",
            reduction.reduce_to_pure([0.9, 0.1, 0.0], [0.1, 0.8, 0.1], epsilon=1).distance,
        ),
    ),
    Statement(
        "000 slack",
        "The best delta'",
        "delta' is a design parameter: choose it to make the noise least.",
        "composition notes (seed 000)",
        "theory/best-slack.md",
        ("best_delta_slack", "gaussian_variance_advanced"),
        _NOISE,
        lambda: "k = 100, (1, 1e-6): delta' = {:.3e}, variance {:.0f}".format(
            *noise.best_delta_slack(epsilon=1, delta=1e-6, queries=100)
        ),
    ),
    Statement(
        "001 composition",
        "Renyi and concentrated DP add",
        "(a, e1) and (a, e2) give (a, e1 + e2)-RDP; rho1 + rho2 for zCDP; adaptive.",
        "RDP notes (seed 001); seed 000; amplification note, Lemma 2.1 (seed 004)",
        "theory/rdp-composition.md",
        ("rdp_composition", "zcdp_composition"),
        _COMPOSITION,
        lambda: f"rho = 0.1 and 0.02: {composition.zcdp_composition(rhos=[0.1, 0.02]):.6f}",
        erratum="16: '(alpha, eps1 + eps2)-DP' should say RDP",
    ),
    Statement(
        "001 conversion",
        "From Renyi to approximate DP",
        "eps + log(1/delta)/(a - 1).",
        "RDP notes (seed 001); seed 000; amplification note, Lemma 1.1 (seed 004)",
        "theory/rdp-to-dp.md",
        ("rdp_to_approx_printed", "rdp_to_approx"),
        _CONVERSIONS,
        lambda: f"(10, 1)-RDP at 1e-5: {conversions.rdp_to_approx_printed(order=10, epsilon=1, delta=1e-5):.4f}",
    ),
    Statement(
        "001 gaussian",
        "Renyi DP of the Gaussian mechanism",
        "(a, a/(2 sigma^2))-RDP for every a, 1/(2 sigma^2)-zCDP.",
        "RDP notes (seed 001); amplification note, Definition 1.6 (seed 004)",
        "theory/gaussian-renyi.md",
        ("gaussian_renyi",),
        _RENYI,
        lambda: f"a = 4, sigma = 2: {renyi.gaussian_renyi(order=4, sigma=2):.4f}",
        erratum="16: printed eps/(2 sigma^2); 48: R_a(N, a) = alpha a^2/(2 sigma^2)",
    ),
    Statement(
        "001 zcdp",
        "From concentrated to approximate DP",
        "rho + 2 sqrt(rho log(1/delta)), or the better conversion over real orders.",
        "RDP notes (seed 001); Bun, Steinke 2016",
        "theory/zcdp-to-dp.md",
        ("zcdp_to_approx_printed", "zcdp_to_approx", "zcdp_to_delta"),
        _CONVERSIONS,
        lambda: (
            f"rho = 0.5 at 1e-5: {conversions.zcdp_to_approx_printed(rho=0.5, delta=1e-5):.4f}, "
            f"better {conversions.zcdp_to_approx(rho=0.5, delta=1e-5):.4f}"
        ),
    ),
    Statement(
        "003 0.1",
        "Total variation composes",
        "Adaptive e-TV stable steps are k e-TV stable; 1 - prod(1 - e_i) is exact.",
        "adaptive-analysis lecture (seed 003), Theorem 0.1",
        "theory/tv-composition.md",
        ("tv_composition",),
        _COMPOSITION,
        lambda: f"0.1 and 0.2: {composition.tv_composition(distances=[0.1, 0.2]):.6f}",
    ),
    Statement(
        "003 0.3",
        "Adaptive composition of pure DP",
        "(eps sqrt(2k log(1/d')) + k eps (e^eps - 1), d').",
        "adaptive-analysis lecture (seed 003), Theorem 0.3",
        "theory/advanced-composition.md",
        ("advanced_composition",),
        _COMPOSITION,
        lambda: show(
            "100 steps of 0.1, 1e-6: {:.4f}",
            composition.advanced_composition(epsilon=0.1, steps=100, delta_slack=1e-06)[0],
        ),
    ),
    Statement(
        "003 gaussian",
        "A Gaussian answer is TV stable",
        "2 Phi(1/(2 m sigma)) - 1 <= 1/(sqrt(2 pi) m sigma); k answers: sqrt(k)/(2 m sigma) in place of 1/(2 m sigma).",
        "adaptive-analysis lecture (seed 003)",
        "theory/tv-stability.md",
        ("gaussian_answer_tv", "gaussian_answers_tv", "gaussian_answers_tv_printed"),
        _STABILITY,
        lambda: f"m = 1000, sigma = .05: {stability.gaussian_answer_tv(samples=1000, sigma=0.05):.6f}",
        erratum="41: the printed root covers m and sigma, .0564 for .0080",
    ),
    Statement(
        "003 generalization",
        "Stable analyses generalise",
        "e + (2 e m + 1) sqrt(log(2/b)/(2m)) with probability 1 - b.",
        "adaptive-analysis lecture (seed 003)",
        "theory/tv-stability.md",
        ("generalization_error", "gaussian_answers_generalization"),
        _STABILITY,
        lambda: show(
            "e = .001, m = 10^4, b = .05: {:.6f}",
            stability.generalization_error(distance=0.001, samples=10000, failure=0.05),
        ),
        erratum="43, 44, 45: simplifications that need sigma <= k/sqrt(2 pi), and a missing 2 under the root",
    ),
    Statement(
        "003 tv",
        "From DP to total variation",
        "(e^eps - 1 + 2 delta)/(e^eps + 1), below the printed (e^eps - 1)/2 + delta.",
        "adaptive-analysis lecture (seed 003)",
        "theory/dp-to-tv.md",
        ("approx_to_tv", "approx_to_tv_printed", "small_epsilon_tv", "pure_answers_tv", "pure_answers_tv_advanced"),
        _CONVERSIONS,
        lambda: f"(1, .01): {conversions.approx_to_tv(epsilon=1, delta=0.01):.6f}",
        erratum="42: (e^x - 1)/2 <= x/2 is false, <= (e - 1)x/2 for x <= 1; 46: not tight",
    ),
    Statement(
        "004 1.5",
        "Shifted Renyi divergence",
        "D_a^(z)(mu||nu) = inf over mu' within z of mu of D_a(mu'||nu).",
        "amplification note (seed 004), Definition 1.5",
        "theory/gaussian-renyi.md",
        ("gaussian_renyi",),
        _RENYI,
        lambda: show(
            "Gaussians 1 apart, sigma = 1, a = 2, z = .4: {:.4f}",
            renyi.gaussian_renyi(order=2, sigma=1, sensitivity=0.6),
        ),
        erratum="47: printed as an infimum over nu', which is 0",
    ),
    Statement(
        "kov",
        "Optimal composition",
        "The exact k-fold composition of (eps, delta)-DP.",
        "Kairouz, Oh, Viswanath 2015, Theorem 3.3",
        "theory/optimal-composition.md",
        ("optimal_composition_epsilon",),
        "tests/unit/theorems/test_optimal.py",
        lambda: show(
            "1000 steps of 0.1 at 1e-6: {:.6f}",
            optimal.optimal_composition_epsilon(epsilon=0.1, steps=1000, total_delta=1e-06),
        ),
    ),
    Statement(
        "analytic gaussian",
        "The exact Gaussian noise",
        "delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), mu = Delta/sigma.",
        "Balle, Wang 2018",
        "theory/gaussian-mechanism.md",
        ("analytic_gaussian_sigma", "gdp_delta", "gdp_epsilon", "gdp_from_approx", "gaussian_mechanism_delta"),
        "tests/unit/theorems/test_gaussian.py",
        lambda: f"(1, 1e-5): sigma = {gaussian.analytic_gaussian_sigma(epsilon=1, delta=1e-5):.5f}",
    ),
    Statement(
        "bounded range",
        "Bounded range to zCDP",
        "Range eps (the exponential mechanism) is eps^2/8-zCDP.",
        "Cesar, Rogers 2021",
        "theory/bounded-range.md",
        ("bounded_range_to_zcdp",),
        _CONVERSIONS,
        lambda: f"eps = 1: rho = {conversions.bounded_range_to_zcdp(epsilon=1):.6f}",
    ),
    Statement(
        "pure zcdp",
        "Pure DP to zCDP and GDP",
        "rho = eps tanh(eps/2) <= eps^2/2; mu = -2 Phi^-1(1/(1 + e^eps)).",
        "Bun, Steinke 2016 (eps^2/2); the sharp forms are proved on their pages",
        "theory/pure-to-zcdp.md",
        ("pure_to_zcdp", "pure_to_zcdp_printed", "pure_to_gdp"),
        _CONVERSIONS,
        lambda: (
            f"eps = 1: rho = {conversions.pure_to_zcdp(epsilon=1):.6f}, mu = {conversions.pure_to_gdp(epsilon=1):.6f}"
        ),
    ),
    Statement(
        "group zcdp",
        "Group privacy of zCDP",
        "rho-zCDP is k^2 rho-zCDP for groups of k.",
        "Bun, Steinke 2016, Proposition 1.9",
        "theory/group-privacy.md",
        ("group_zcdp",),
        "tests/unit/theorems/test_groups.py",
        lambda: f"rho = .1, k = 3: {groups.group_zcdp(rho=0.1, size=3):.6f}",
    ),
)
