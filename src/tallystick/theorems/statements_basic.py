"""Statements of chapters 3 and 4: definitions, randomized response, Laplace, adjacency, local DP."""

from __future__ import annotations

import math

from tallystick.accounting.adjacency import Adjacency
from tallystick.theorems import basics, composition, groups, parallel, plrv, renyi, testing
from tallystick.theorems.piecewise import PiecewiseTradeoff
from tallystick.theorems.statement import Statement, show

_BASICS = "tests/unit/theorems/test_basics.py"
_GROUPS = "tests/unit/theorems/test_groups.py"
_HALF = PiecewiseTradeoff.of_approx_dp(epsilon=0.5)

BASIC = (
    Statement(
        "remark 3.1",
        "The special cases of (epsilon, delta)-DP",
        (
            "delta = 0 is pure DP; at epsilon = 0, delta is the total variation distance; epsilon = "
            "infinity is no privacy."
        ),
        "lecture notes, Remark 3.1",
        "theory/hockey-stick.md",
        ("hockey_stick",),
        "tests/unit/theorems/test_plrv.py",
        lambda: f"TV of (.75,.25) and (.25,.75): {plrv.hockey_stick([0.75, 0.25], [0.25, 0.75], epsilon=0):.6f}",
    ),
    Statement(
        "theorem 3.1",
        "Randomized response",
        "Answering by a fair coin with probability p is epsilon-DP with epsilon = log((2 - p)/p).",
        "lecture notes, Theorem 3.1",
        "theory/randomized-response.md",
        ("randomized_response_epsilon",),
        _BASICS,
        lambda: f"p = 0.5: epsilon = {basics.randomized_response_epsilon(coin=0.5):.6f}",
    ),
    Statement(
        "remark 3.2",
        "The coin for a given epsilon",
        "p = 2/(1 + e^epsilon); p = 1 is perfect privacy, p = 0 none.",
        "lecture notes, Remark 3.2",
        "theory/randomized-response.md",
        ("randomized_response_coin",),
        _BASICS,
        lambda: f"epsilon = 1: p = {basics.randomized_response_coin(epsilon=1):.6f}",
    ),
    Statement(
        "example 3.2",
        "Variance of randomized response",
        "The unbiased estimate of a proportion t has variance (e^eps/(e^eps - 1)^2 + t(1 - t))/n.",
        "lecture notes, Example 3.2",
        "theory/randomized-response.md",
        ("randomized_response_variance",),
        _BASICS,
        lambda: (
            "epsilon = 1, n = 100, t = 1/2: "
            f"{basics.randomized_response_variance(epsilon=1, people=100, proportion=0.5):.6f}"
        ),
    ),
    Statement(
        "lemma 1",
        "A bounded density ratio is pure DP",
        "If f_X(t) <= e^eps f_X'(t) for all t then M is epsilon-DP: epsilon is the max-divergence.",
        "lecture notes, Lemma 1 and Remark 3.3",
        "theory/renyi-divergence.md",
        ("renyi_divergence",),
        "tests/unit/theorems/test_renyi.py",
        lambda: (
            f"D_inf((.75,.25)||(.25,.75)) = {renyi.renyi_divergence([0.75, 0.25], [0.25, 0.75], order=math.inf):.6f}"
        ),
    ),
    Statement(
        "theorem 3.2",
        "Laplace mechanism",
        "Noise Lap(Delta/epsilon) on every coordinate, Delta the l1-sensitivity, is epsilon-DP.",
        "lecture notes, Theorem 3.2",
        "theory/laplace-mechanism.md",
        ("laplace_scale",),
        _BASICS,
        lambda: f"epsilon = 0.5, sensitivity 2: scale {basics.laplace_scale(epsilon=0.5, sensitivity=2):.6f}",
    ),
    Statement(
        "example 3.3",
        "Counting queries",
        "m counting queries have l1-sensitivity at most m.",
        "lecture notes, Example 3.3",
        "theory/laplace-mechanism.md",
        ("counts_sensitivity",),
        _BASICS,
        lambda: f"7 queries: {basics.counts_sensitivity(queries=7):g}",
    ),
    Statement(
        "example 3.4",
        "Histograms",
        "A histogram has l1-sensitivity 2 under replace (1 under add/remove), however many cells it has.",
        "lecture notes, Example 3.4",
        "theory/laplace-mechanism.md",
        ("histogram_sensitivity",),
        _BASICS,
        lambda: (
            f"replace {basics.histogram_sensitivity():g}, "
            f"add/remove {basics.histogram_sensitivity(adjacency=Adjacency.ADD_REMOVE):g}"
        ),
    ),
    Statement(
        "example 3.5",
        "A proportion with Laplace noise",
        "Variance t(1 - t)/n + 2/(n eps)^2, against 1/(n eps^2) more for randomized response.",
        "lecture notes, Example 3.5",
        "theory/laplace-mechanism.md",
        ("laplace_proportion_variance",),
        _BASICS,
        lambda: (
            "epsilon = 1, n = 100, t = 1/2: "
            f"{basics.laplace_proportion_variance(epsilon=1, people=100, proportion=0.5):.6f}"
        ),
    ),
    Statement(
        "proposition 3.1",
        "Post-processing",
        "If M is (epsilon, delta)-DP then so is any function of its output, randomized or not.",
        "lecture notes, Proposition 3.1 and Remark 3.8; composition notes (seed 000)",
        "theory/post-processing.md",
        (),
        "tests/unit/theorems/test_postprocessing.py",
        lambda: "nothing to compute: charging for post-processing would be a bug, so it appears nowhere in the code",
    ),
    Statement(
        "theorem 3.3",
        "Basic composition",
        "(sum epsilon_i, sum delta_i), for adaptively chosen mechanisms too.",
        "lecture notes, Theorem 3.3 and Remark 10.1",
        "theory/basic-composition.md",
        ("basic_composition",),
        "tests/unit/theorems/test_composition.py",
        lambda: f"100 steps of 0.1: epsilon = {composition.basic_composition(epsilons=[0.1] * 100)[0]:.6f}",
    ),
    Statement(
        "proposition 3.2",
        "Group privacy for pure DP",
        "epsilon-DP is k epsilon-DP for groups of k.",
        "lecture notes, Proposition 3.2",
        "theory/group-privacy.md",
        ("group_pure",),
        _GROUPS,
        lambda: f"epsilon = 0.5, k = 4: {groups.group_pure(epsilon=0.5, size=4):.6f}",
    ),
    Statement(
        "theorem 3.4",
        "Hypothesis testing",
        "M is (epsilon, delta)-DP iff every test at level a has power at most "
        "min(1, e^eps a + delta, 1 - e^-eps (1 - delta - a)).",
        "lecture notes, Theorem 3.4",
        "theory/hypothesis-testing.md",
        ("power_bound", "least_type_two_error"),
        "tests/unit/theorems/test_testing.py",
        lambda: f"level 0.05, (1, 1e-5)-DP: power <= {testing.power_bound(alpha=0.05, epsilon=1, delta=1e-5):.6f}",
    ),
    Statement(
        "section 3.8",
        "Private linear regression",
        "With p covariates and an intercept 3p + C(p,2) + 1 sums are released, each of sensitivity 1.",
        "lecture notes, section 3.8",
        "theory/laplace-mechanism.md",
        ("regression_statistics",),
        _BASICS,
        lambda: f"p = 3: {basics.regression_statistics(covariates=3)} sums",
        erratum="35: the sum of y is missing from the printed list and from its budget",
    ),
    Statement(
        "remark 3.9",
        "Clamping",
        "A sum of values clamped to [L, U] has sensitivity U - L under replace, max(|L|,|U|) under add/remove.",
        "lecture notes, Remark 3.9",
        "theory/adjacency.md",
        ("clamped_sum_sensitivity",),
        _BASICS,
        lambda: f"[10, 50]: replace {basics.clamped_sum_sensitivity(lower=10, upper=50):.6f}",
    ),
    Statement(
        "proposition 4.1",
        "From add/remove to replace",
        "epsilon-DP for add/remove is 2 epsilon-DP for replace; (epsilon, delta) becomes (2 eps, (1 + e^eps) delta).",
        "lecture notes, Proposition 4.1",
        "theory/adjacency.md",
        ("replace_from_add_remove",),
        _GROUPS,
        lambda: "(0.5, 1e-6): ({:.6f}, {:.3e})".format(*groups.replace_from_add_remove(epsilon=0.5, delta=1e-6)),
        erratum="19: the list in section 4.1 swaps the names; bounded means replace, unbounded add/remove",
    ),
    Statement(
        "proposition 4.2",
        "From add/remove to replace, trade-off functions",
        "f_ADD(1 - f_REM(alpha)), composition of functions; f(1 - f) with one f only if f is symmetric.",
        "lecture notes, Proposition 4.2",
        "theory/adjacency.md",
        ("replace_tradeoff", "chained"),
        _GROUPS,
        lambda: f"f_(.5,0): beta(0.05) = {float(groups.replace_tradeoff(_HALF, _HALF)(0.05)):.6f}",
        erratum="20: 'f(1-f)' reads as a product; it is f composed with 1 - f",
    ),
    Statement(
        "proposition 4.3",
        "Parallel composition",
        (
            "Mechanisms on disjoint parts cost the worst part, under add/remove, if the split looks at one "
            "record at a time."
        ),
        "lecture notes, Proposition 4.3",
        "theory/parallel-composition.md",
        ("parallel_composition",),
        "tests/unit/theorems/test_parallel.py",
        lambda: show(
            "parts 0.5 and 1: epsilon = {:.6f}",
            parallel.parallel_composition(epsilons=[0.5, 1.0], split_by_record=True)[0],
        ),
        erratum="49: not any partitioning function of the database; a median split breaks it",
    ),
    Statement(
        "remark 4.2",
        "Parallel composition of trade-off functions",
        "hull(min_i f_i).",
        "lecture notes, Remark 4.2",
        "theory/parallel-composition.md",
        ("parallel_tradeoff", "hull_of_min"),
        "tests/unit/theorems/test_parallel.py",
        lambda: f"f_(.5,0) beside nothing: beta(0.05) = {float(parallel.parallel_tradeoff([_HALF])(0.05)):.6f}",
    ),
    Statement(
        "remark 4.3",
        "Bounded DP has no parallel composition",
        "Releasing n is 0-DP under replace, releasing the size of every part is not DP at all.",
        "lecture notes, Remark 4.3",
        "theory/parallel-composition.md",
        ("parallel_composition",),
        "tests/unit/theorems/test_parallel.py",
        lambda: (
            "sizes of two parts, one record moved: delta = 1 at every epsilon; parallel_composition refuses replace"
        ),
    ),
    Statement(
        "example 4.2",
        "Local mechanisms",
        "Randomized response on {0, 1} and Laplace noise of scale (b - a)/epsilon on [a, b] are epsilon-LDP.",
        "lecture notes, Example 4.2 and Remark 4.4",
        "theory/randomized-response.md",
        ("randomized_response_coin", "laplace_scale"),
        _BASICS,
        lambda: f"epsilon = 1 on [0, 10]: scale {basics.laplace_scale(epsilon=1, sensitivity=10):.6f}",
        erratum="36: X in [0,1] should be {0,1}",
    ),
    Statement(
        "theorem 4.1",
        "Minimax rate, local DP",
        "Mean estimation with k moments: order (1/(n eps^2))^((k-1)/k).",
        "lecture notes, Theorem 4.1 (Duchi, Jordan, Wainwright 2013)",
        "theory/minimax-rates.md",
        ("local_rate",),
        _BASICS,
        lambda: f"n = 10^4, eps = 1, k = 2: order {basics.local_rate(people=10_000, epsilon=1, moments=2):.6f}",
    ),
    Statement(
        "theorem 4.2",
        "Minimax rate, central DP",
        "Mean estimation with k moments: order 1/n + (1/(n eps)^2)^((k-1)/k).",
        "lecture notes, Theorem 4.2 (Barber, Duchi 2014)",
        "theory/minimax-rates.md",
        ("central_rate",),
        _BASICS,
        lambda: f"n = 10^4, eps = 1, k = 2: order {basics.central_rate(people=10_000, epsilon=1, moments=2):.6f}",
    ),
)
