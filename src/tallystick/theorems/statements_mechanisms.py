"""Statements of chapters 4, 5, 7 and 8 about mechanisms, for ``tallystick theorem``; functions by full name."""

from __future__ import annotations

from tallystick.accounting.adjacency import Adjacency
from tallystick.mechanisms.aggregate import subsample, winsorized
from tallystick.mechanisms.aggregate.winsorized import unbounded_winsorized_mean
from tallystick.mechanisms.response import interactive
from tallystick.mechanisms.response.choices import randomize
from tallystick.mechanisms.select import accuracy, candidates, order_statistics
from tallystick.theorems.statement import Statement, show

_SELECTION = "tests/unit/mechanisms/select/test_candidates.py"
_ACCURACY = "tests/unit/mechanisms/select/test_accuracy.py"
_QUANTILE = "tests/unit/mechanisms/select/test_order_statistics.py"
_AGGREGATE = "tests/unit/mechanisms/aggregate/test_aggregate.py"

MECHANISMS = (
    Statement(
        "example 4.1",
        "Privacy for graphs",
        "Neighbouring graphs differ in one edge (edge-DP) or in one person and all their edges (node-DP).",
        "lecture notes, Example 4.1",
        "guides/graph-privacy.md",
        (),
        "tests/reference/test_graph_projection.py",
        lambda: "a count of edges among n people changes by 1 (edge) or by up to n - 1 (node)",
    ),
    Statement(
        "definition 4.1",
        "Interactive local privacy",
        "Each person's report is epsilon-DP in their answer, given all earlier reports, however questions are chosen.",
        "lecture notes, Definition 4.1; Duchi, Jordan and Wainwright 2018",
        "theory/local-response.md",
        ("mechanisms.response.interactive.protocol", "mechanisms.response.interactive.in_turn"),
        "tests/unit/mechanisms/response/test_response.py",
        lambda: show(
            "two people asked in turn at epsilon 1: {} reports",
            len(interactive.in_turn([0, 1], lambda seen: randomize(epsilon=1.0), epsilon=1.0).transcript),
        ),
    ),
    Statement(
        "proposition 5.1",
        "Report noisy max",
        "The index of the largest score + Lap(2 D / epsilon) is epsilon-DP; D / epsilon if scores are monotone.",
        "lecture notes, Proposition 5.1",
        "theory/selection-noisy-max.md",
        ("mechanisms.select.candidates.noisy_max",),
        _SELECTION,
        lambda: show("epsilon = 1: noise of scale {:g}", float(1 / candidates.noisy_max(epsilon=1.0).rate)),
    ),
    Statement(
        "lemma 2",
        "Noisy max with any symmetric noise",
        "The expected loss of score is at most E|r_1| + E max_{2..k} |r_i|.",
        "lecture notes, Lemma 2",
        "theory/selection-noisy-max.md",
        ("mechanisms.select.accuracy.noisy_max_gap",),
        _ACCURACY,
        lambda: show("E|r| = 2, E max = 5: {:g}", accuracy.noisy_max_gap(mean_size=2, mean_largest=5)),
    ),
    Statement(
        "lemma 3",
        "Expected maximum from moments",
        "E max of k variables <= (ln k + ln M(t)) / t for every t > 0.",
        "lecture notes, Lemma 3",
        "theory/selection-noisy-max.md",
        ("mechanisms.select.accuracy.mean_largest",),
        _ACCURACY,
        lambda: show("100 standard normals: {:.4f}", accuracy.mean_largest(count=100, log_moments=lambda t: t * t / 2)),
    ),
    Statement(
        "proposition 5.2",
        "Accuracy of report noisy max",
        "The expected loss is at most (2 D / epsilon)(1 + 2 ln(k - 1) + 2 ln 2); also (2 D / epsilon)(1 + H_{k-1}).",
        "lecture notes, Proposition 5.2",
        "theory/selection-noisy-max.md",
        ("mechanisms.select.accuracy.laplace_max_gap", "mechanisms.select.accuracy.laplace_max_gap_sharp"),
        _ACCURACY,
        lambda: show(
            "k = 1000, epsilon = 1: {:.2f}, sharper {:.2f}",
            accuracy.laplace_max_gap(candidates=1000, epsilon=1.0),
            accuracy.laplace_max_gap_sharp(candidates=1000, epsilon=1.0),
        ),
    ),
    Statement(
        "theorem 7.1",
        "Exponential mechanism",
        "Density proportional to exp(epsilon u / (2 D)) with respect to any base measure is epsilon-DP.",
        "McSherry and Talwar 2007; bounded range: Dong, Durfee and Rogers 2020",
        "theory/selection-exponential.md",
        (
            "mechanisms.select.candidates.exponential",
            "mechanisms.select.continuum.on_line",
            "mechanisms.select.continuum.by_rejection",
        ),
        _SELECTION,
        lambda: show("scores 0, 2 at epsilon 1: {:.4f}", candidates.exponential(epsilon=1.0).probabilities([0, 2])[1]),
    ),
    Statement(
        "theorem 7.2",
        "Accuracy of the exponential mechanism",
        "It loses more than (2 D / epsilon)(ln(|Y| / |Y_best|) + t) with probability at most e^-t.",
        "lecture notes, Theorem 7.2",
        "theory/selection-exponential.md",
        ("mechanisms.select.accuracy.exponential_gap",),
        _ACCURACY,
        lambda: show(
            "100 candidates, 5 best, 95 %: {:.3f}",
            accuracy.exponential_gap(candidates=100, epsilon=1.0, confidence=0.95, optimal=5),
        ),
    ),
    Statement(
        "corollary 7.1",
        "The same with one best candidate",
        "It loses more than (2 D / epsilon)(ln |Y| + t) with probability at most e^-t.",
        "lecture notes, Corollary 7.1",
        "theory/selection-exponential.md",
        ("mechanisms.select.accuracy.exponential_gap",),
        _ACCURACY,
        lambda: show(
            "100 candidates, 95 %: {:.3f}", accuracy.exponential_gap(candidates=100, epsilon=1.0, confidence=0.95)
        ),
    ),
    Statement(
        "example 7.1",
        "Selling pumpkins",
        "Three buyers at 1 and one at 4.01: noise falls off a cliff, the exponential mechanism does not.",
        "lecture notes, Example 7.1",
        "theory/selection-exponential.md",
        ("mechanisms.select.continuum.on_line",),
        "tests/unit/mechanisms/select/test_continuum.py",
        lambda: "revenue 4.01 at 4.01, 4.00 at 1.00, 1.01 at 1.01, 0 at 4.02",
    ),
    Statement(
        "example 7.2",
        "Two conditions",
        "The less common one is chosen with probability 1 / (1 + e^{epsilon gap / 2}) <= 2 e^{-epsilon gap / 2}.",
        "lecture notes, Example 7.2",
        "theory/selection-exponential.md",
        ("mechanisms.select.accuracy.wrong_choice",),
        _ACCURACY,
        lambda: show("gap 10, epsilon 1: {:.6f}", accuracy.wrong_choice(gap=10, epsilon=1.0)),
    ),
    Statement(
        "proposition 7.1",
        "The Gumbel-max trick",
        "The largest of z_k + Gumbel noise is k with probability proportional to e^{z_k}.",
        "lecture notes, Proposition 7.1",
        "theory/selection-noisy-max.md",
        ("mechanisms.select.candidates.noisy_max",),
        _SELECTION,
        lambda: "noisy_max(noise='gumbel') has the law and the price of exponential()",
        "31: signs in the printed proof",
    ),
    Statement(
        "theorem 7.6",
        "Accuracy of the private quantile",
        "Its rank is off by at most (2 / epsilon)(ln(lattice points) + t) with probability 1 - e^-t.",
        "lecture notes, Theorem 7.6",
        "theory/quantile.md",
        ("mechanisms.select.accuracy.quantile_rank_error", "mechanisms.select.accuracy.quantile_error"),
        _QUANTILE,
        lambda: show(
            "1000 points, 95 %: {:.2f} records",
            accuracy.quantile_rank_error(points=1000, epsilon=1.0, confidence=0.95),
        ),
        "30: the utility is minus the distance",
    ),
    Statement(
        "algorithm 4",
        "Sampling a private quantile",
        "Gap i of the sorted data has weight length * exp(-(epsilon / 2) |i - alpha k|).",
        "Smith 2011; lecture notes, Algorithms 3 and 4",
        "theory/quantile.md",
        ("mechanisms.select.order_statistics.quantile", "mechanisms.select.order_statistics.quantiles"),
        _QUANTILE,
        lambda: show(
            "median, epsilon 1, REPLACE: exponent {:g} per record",
            float(order_statistics.median(epsilon=1.0, bounds=(0, 1), adjacency=Adjacency.REPLACE).rate),
        ),
        "1: the notes print exp(-epsilon ...), which is 2 epsilon-DP",
    ),
    Statement(
        "theorem 8.2",
        "Subsample and aggregate",
        "A statistic on random blocks, averaged by the noisy widened winsorised mean, is private whatever it is.",
        "Smith 2011; lecture notes, Theorem 8.2",
        "theory/winsorized-mean.md",
        ("mechanisms.aggregate.subsample.subsample_and_aggregate", "mechanisms.aggregate.winsorized.winsorized_mean"),
        _AGGREGATE,
        lambda: show("a million records: {} blocks", subsample.blocks_for(10**6)),
    ),
    Statement(
        "algorithm 2",
        "The noisy widened winsorised mean",
        "Two private quartiles with epsilon/4 each, clamping to a widened range, Laplace noise with epsilon/2.",
        "Smith 2011; lecture notes, Algorithm 2",
        "theory/winsorized-mean.md",
        ("mechanisms.aggregate.winsorized.winsorized_mean",),
        _AGGREGATE,
        lambda: show(
            "total at delta 0: epsilon = {:g}",
            float(winsorized.winsorized_mean(bounds=(0, 1), epsilon=1.0).privacy.epsilon(delta=0.0)),
        ),
        "26: one range convention, [-L/2, L/2]",
    ),
    Statement(
        "remark 8.3",
        "Unknown range",
        "Without public bounds the range is found by two stable histograms, for (epsilon, delta).",
        "lecture notes, Remark 8.3; Dwork and Lei 2009",
        "theory/winsorized-mean.md",
        ("mechanisms.aggregate.winsorized.unbounded_winsorized_mean",),
        _AGGREGATE,
        lambda: show(
            "epsilon 1, delta 1e-6: a bin is used from {} noisy members on",
            unbounded_winsorized_mean(epsilon=1.0, delta=1e-6).histogram.threshold,
        ),
    ),
    Statement(
        "remark 8.4",
        "How slowly the noise falls",
        "The noise of subsample-and-aggregate is of order n^-0.5267, barely below n^-0.5.",
        "lecture notes, Remark 8.4",
        "theory/winsorized-mean.md",
        ("mechanisms.aggregate.subsample.blocks_for",),
        _AGGREGATE,
        lambda: show("k = n^0.4, exponent {:.4f}", 0.4 * (1 / 3 + 0.1 - 1) + (0.4 - 1) / 2),
        "25: the notes print n^-0.57",
    ),
)
