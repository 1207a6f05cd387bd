"""Statements of chapter 14: privacy loss variables and dominating pairs."""

from __future__ import annotations

from tallystick.theorems import amplification, duality, normal, piecewise, plrv
from tallystick.theorems.piecewise import PiecewiseTradeoff
from tallystick.theorems.plrv import DiscreteLoss
from tallystick.theorems.statement import Statement, show

_P, _Q = (0.75, 0.25), (0.25, 0.75)
_ONE = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
_PLRV = "tests/unit/theorems/test_plrv.py"
_PIECEWISE = "tests/unit/theorems/test_piecewise.py"
_DUALITY = "tests/unit/theorems/test_duality.py"
_AMPLIFY = "tests/unit/theorems/test_amplification.py"
_LOSS = "theory/privacy-loss-variable.md"

PAIRS = (
    Statement(
        "definition 14.1",
        "Privacy loss random variable",
        "PLRV(P|Q) = log p/q under P; it is sufficient: T(P,Q) = T(-PLRV(P|Q), PLRV(Q|P)) (Lemma 13).",
        "lecture notes, Definition 14.1 and Lemma 13",
        _LOSS,
        ("DiscreteLoss",),
        _PLRV,
        lambda: f"RR(log 3): {DiscreteLoss.of_pair(_P, _Q).masses}",
    ),
    Statement(
        "corollary 14.1",
        "Trade-off function from the loss cdfs",
        "T(a) = G(-F^-1(a)), F the cdf of PLRV(P|Q), G of PLRV(Q|P), both continuous.",
        "lecture notes, Corollary 14.1 and Remark 14.1",
        _LOSS,
        ("tradeoff_of_loss_cdfs",),
        _PLRV,
        lambda: show(
            "Gaussian mu = 1, a = .05: {:.4f}",
            plrv.tradeoff_of_loss_cdfs(lambda a: 0.5 + normal.quantile(a), lambda x: normal.cdf(x - 0.5), alpha=0.05),
        ),
        erratum="5: printed G(F^-1(1 - a)), which is 1 - a: perfect privacy for everything",
    ),
    Statement(
        "lemma 14",
        "The other loss from this one",
        "G(x) = integral over t >= -x of e^-t dF(t), for pairs with equal support.",
        "lecture notes, Lemma 14",
        _LOSS,
        ("DiscreteLoss",),
        _PLRV,
        lambda: f"RR(log 3): G(0) = {DiscreteLoss.of_pair(_P, _Q).reversed_cdf(0):.6f}",
        erratum="5: printed integral of e^t dF up to x has total mass 2.718",
    ),
    Statement(
        "lemma 15",
        "The loss from the trade-off function",
        "F(x) = the abscissa where f has slope -e^-x.",
        "lecture notes, Lemma 15 and Remark 14.2",
        _LOSS,
        ("loss_cdf_of_tradeoff",),
        _PLRV,
        lambda: f"f_(1,0): F(0) = {plrv.loss_cdf_of_tradeoff(_ONE, x=0):.6f}",
        erratum="5: printed 1 minus the abscissa at slope -e^x, .500 for .159",
    ),
    Statement(
        "corollary 14.2",
        "Symmetry",
        "f symmetric iff PLRV(P|Q) and PLRV(Q|P) have one law.",
        "lecture notes, Corollary 14.2",
        _LOSS,
        ("DiscreteLoss",),
        _PLRV,
        lambda: f"RR(log 3): {DiscreteLoss.of_pair(_P, _Q) == DiscreteLoss.of_pair(_Q, _P)}",
    ),
    Statement(
        "proposition 14.1",
        "Losses add",
        "PLRV of independent releases is the sum of their PLRVs (Remark 14.3: convolution = tensor product).",
        "lecture notes, Proposition 14.1 and Remark 14.3",
        "theory/characteristic-functions.md",
        ("composed_characteristic_function",),
        _PLRV,
        lambda: f"f_(1,0) twice: beta(0.1) = {float(piecewise.tensor_product(_ONE, _ONE)(0.1)):.6f}",
    ),
    Statement(
        "remark 14.4",
        "delta in three ways",
        "1 + f*(-e^eps); 1 - F(eps) - e^eps G((-eps)-); H_{e^eps}.",
        "lecture notes, Remark 14.4",
        "theory/delta-three-ways.md",
        ("profile_of_tradeoff", "delta_of_loss_cdfs", "hockey_stick"),
        _PLRV,
        lambda: "RR(log 3) at 0.5: {:.6f}, {:.6f}, {:.6f}".format(
            duality.profile_of_tradeoff(PiecewiseTradeoff.of_pair(_Q, _P)).delta(epsilon=0.5),
            plrv.delta_of_loss_cdfs(
                DiscreteLoss.of_pair(_P, _Q).cdf, DiscreteLoss.of_pair(_Q, _P).cdf_left, epsilon=0.5
            ),
            plrv.hockey_stick(_P, _Q, epsilon=0.5),
        ),
        erratum="6: (2) is printed 1 - e^eps + e^eps F(eps), .1756 for .2384 at eps = .5",
    ),
    Statement(
        "proposition 14.2",
        "Characteristic functions",
        "The loss of a composition has the product of the characteristic functions E[e^{+itL}].",
        "lecture notes, section 14.2, Remark 14.5 and Proposition 14.2",
        "theory/characteristic-functions.md",
        ("composed_characteristic_function", "gaussian_characteristic_function"),
        _PLRV,
        lambda: show(
            "RR(log 3) twice, t = 1: {:.4f}",
            plrv.composed_characteristic_function([DiscreteLoss.of_pair(_P, _Q)] * 2, t=1.0),
        ),
        erratum="32: the integral is printed with e^-itx",
    ),
    Statement(
        "theorem 14.1",
        "Composition of dominating pairs",
        "(P x P', Q x Q') dominates the composition, adaptive or not (also stated as Theorem 14.2).",
        "lecture notes, Definition 14.2, Theorems 14.1 and 14.2 (Zhu, Dong, Wang 2022)",
        "theory/tensor-product.md",
        ("tensor_product", "worst_delta"),
        "tests/unit/theorems/test_game.py",
        lambda: "the adaptive game never exceeds the product: see algorithm 5",
    ),
    Statement(
        "proposition 14.3",
        "Every mechanism has a tight dominating pair",
        "The supremum of all lower bounds is a trade-off function, and each one is realised by a pair.",
        "lecture notes, Proposition 14.3",
        "theory/tradeoff-functions.md",
        ("PiecewiseTradeoff",),
        _PIECEWISE,
        lambda: f"pair of f_(1,0): P = {[round(x, 4) for x in _ONE.pair()[0].tolist()]}",
    ),
    Statement(
        "example 14.1",
        "A pair for a trade-off function",
        "P uniform on (0,1), Q with cdf f(1 - x), that is density -f'(1 - x) and an atom 1 - f(0) at 1.",
        "lecture notes, Example 14.1",
        "theory/tradeoff-functions.md",
        ("PiecewiseTradeoff",),
        _PIECEWISE,
        lambda: f"f_(1,0): Q = {[round(x, 4) for x in _ONE.pair()[1].tolist()]}",
        erratum="33: printed as density f(1 - x)",
    ),
    Statement(
        "lemma 16",
        "Which functions are profiles",
        "H convex, decreasing, H(0) = 1, H(a) >= (1 - a)_+.",
        "lecture notes, Lemma 16",
        "theory/profile-duality.md",
        ("PiecewiseProfile",),
        _DUALITY,
        lambda: show(
            "from (1, 0) alone: delta(0) = {:.6f}", duality.PiecewiseProfile.of_points([(1.0, 0.0)]).delta(epsilon=0)
        ),
    ),
    Statement(
        "theorem 14.3",
        "Sampled pairs",
        "With W without the record and V with it: remove ((1-g)W + gV, W), add (W, (1-g)W + gV).",
        "lecture notes, Theorem 14.3 and Remark 14.6",
        "theory/poisson-sampling.md",
        ("poisson_pairs", "subset_pairs"),
        _AMPLIFY,
        lambda: show(
            "W = (1,0), V = (.5,.5), g = .1: remove delta(.5) = {:.4f}",
            plrv.hockey_stick(*amplification.poisson_pairs([1, 0], [0.5, 0.5], rate=0.1)[0], epsilon=0.5),
        ),
        erratum="2: the printed remove pair is wrong for asymmetric pairs (0 for .05); 34: n is the larger data set",
    ),
    Statement(
        "section 14.5",
        "The worse of two directions",
        "For add/remove compose each direction, then take the maximum; for subset sampling under replace compose "
        "C_g(f), the hull per step.",
        "lecture notes, end of section 14.5",
        "theory/subset-sampling.md",
        ("composed_directions_delta", "subsampling_operator"),
        _AMPLIFY,
        lambda: "one step, W = (1/4,3/4), V = (3/4,1/4), g = 1/2, eps = .1: {:.4f}".format(
            amplification.composed_directions_delta(
                amplification.poisson_pairs([0.25, 0.75], [0.75, 0.25], rate=0.5), epsilon=0.1
            )
        ),
        erratum="4: the maximum after composition is proved for add/remove only (k = 100: .206 against .340)",
    ),
)
