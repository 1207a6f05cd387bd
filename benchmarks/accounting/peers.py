"""One row by one peer, in the peers' own environment.  Run: python peers.py "PEER" ROW"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measure import measured

POISSON: dict[str, tuple[float, float, int, float]] = {  # sigma, rate, steps, delta
    "W1": (1.0, 0.01, 10_000, 1e-5), "W2": (0.8, 0.001, 10**6, 1e-6), "W3a": (2.0, 0.01, 1000, 1e-12),
    "W3b": (2.0, 0.01, 1000, 1e-15), "W3c": (2.0, 0.01, 1000, 1e-20), "W3d": (2.0, 0.01, 1000, 1e-30),
    "W3h": (2.0, 0.01, 1000, 1e-100), "W3e": (1.0, 0.01, 10_000, 1e-10), "W3f": (1.0, 0.01, 10_000, 1e-12),
    "W3g": (1.0, 0.01, 10_000, 1e-14), "W12": (1.1, 256 / 60_000, 14_062, 1e-5), "W13": (1.0, 1e-4, 10**6, 1e-6),
    "W4a": (10.0, 1.0, 100, 1e-5), "W4b": (10.0, 1.0, 100, 1e-30), "W10": (0.3, 1.0, 50, 1e-5),
}  # fmt: skip


def google(kind: str, row: str) -> None:
    import dp_accounting as dpa
    from dp_accounting import pld, rdp

    replace = row in ("W8", "W9")
    relation = dpa.NeighboringRelation.REPLACE_ONE if replace else dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
    relation = dpa.NeighboringRelation.REPLACE_SPECIAL if row == "W15" else relation
    parameters = pld.common.DifferentialPrivacyParameters
    pure_law = pld.privacy_loss_distribution.from_privacy_parameters

    def accountant() -> Any:
        if kind == "RDP":
            return rdp.RdpAccountant(neighboring_relation=relation)
        return pld.PLDAccountant(neighboring_relation=relation)

    def event() -> tuple[Any, int, float]:
        if row in POISSON:
            sigma, rate, steps, delta = POISSON[row]
            gaussian = dpa.GaussianDpEvent(sigma)
            return (gaussian if rate == 1.0 else dpa.PoissonSampledDpEvent(rate, gaussian)), steps, delta
        if row == "W7":
            return dpa.LaplaceDpEvent(20.0), 1000, 1e-6
        if row == "W8":
            return dpa.RandomizedResponseDpEvent(2 / (1 + math.exp(0.1)), 2), 1000, 1e-6
        if row == "W9":
            return dpa.SampledWithoutReplacementDpEvent(10_000, 100, dpa.GaussianDpEvent(0.5)), 1000, 1e-5
        if row == "W14":
            one = dpa.dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2])
            two = dpa.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 2.0, 3.0], [0.33, 0.34, 0.33])
            parts = [dpa.SelfComposedDpEvent(one, 3), dpa.SelfComposedDpEvent(two, 2)]
            return dpa.ComposedDpEvent(parts), 1, 1e-6
        if row == "W15":
            return dpa.SingleEpochTreeAggregationDpEvent(1.13, 1600), 1, 1e-6
        if row == "W16":
            return dpa.dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(1.0), 10, 1), 1, 1e-6
        if row == "W18":
            parts = [dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(b), n) for b, n in ((1.0, 3), (2.0, 2))]
            return dpa.ComposedDpEvent(parts), 1, 1e-14
        raise KeyError(row)

    def quiet_queries() -> float:
        def make(scale: float) -> Any:
            return dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(scale), 20)

        bracket = dpa.ExplicitBracketInterval(1.0, 64.0)
        return float(dpa.calibrate_dp_mechanism(accountant, make, 1.0, 1e-4, bracket, tol=1e-4))

    def epsilon() -> float:
        if kind == "pure":
            return float(pure_law(parameters(0.1, 0.0)).self_compose(1000).get_epsilon_for_delta(1e-6))
        what, times, delta = event()
        return float(accountant().compose(what, times).get_epsilon(delta))

    def two_hundred() -> float:
        plds = pld.privacy_loss_distribution
        total = None
        for i in range(50):
            sampled = plds.from_gaussian_mechanism(1 + 0.02 * i, sampling_prob=0.001 + 0.0005 * i)
            for law in (plds.from_gaussian_mechanism(20.0 + i), plds.from_laplace_mechanism(30.0 + i),
                        pure_law(parameters(0.02 + 0.001 * i, 0.0)), sampled):  # fmt: skip
                total = law if total is None else total.compose(law)
        return float(total.get_epsilon_for_delta(1e-6))

    def calibrated() -> float:
        def make(sigma: float) -> Any:
            return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.004, dpa.GaussianDpEvent(sigma)), 20_000)

        bracket = dpa.ExplicitBracketInterval(0.8, 3.0)
        return float(dpa.calibrate_dp_mechanism(accountant, make, 2.0, 1e-5, bracket, tol=1e-4))

    pld.privacy_loss_distribution.from_gaussian_mechanism(3.0).get_epsilon_for_delta(1e-5)  # warm up
    measured({"W5": two_hundred, "W6": calibrated, "W19": quiet_queries}.get(row, epsilon))


def microsoft(row: str) -> None:
    import prv_accountant as prv

    def poisson() -> float:
        sigma, rate, steps, delta = POISSON[row]
        law = prv.PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
        found = prv.PRVAccountant(prvs=[law], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000)
        return float(found.compute_epsilon(delta, [steps])[2])

    def two_hundred() -> float:
        laws: list[Any] = []
        for i in range(50):
            laws += [prv.GaussianMechanism(20.0 + i), prv.LaplaceMechanism(mu=1 / (30.0 + i))]
            laws += [prv.PureDPMechanism(0.02 + 0.001 * i)]
            laws += [prv.PoissonSubsampledGaussianMechanism(noise_multiplier=1 + 0.02 * i,
                                                            sampling_probability=0.001 + 0.0005 * i)]  # fmt: skip
        ones = [1] * len(laws)
        found = prv.PRVAccountant(prvs=laws, max_self_compositions=ones, eps_error=0.01, delta_error=1e-9)
        return float(found.compute_epsilon(1e-6, ones)[2])

    measured(two_hundred if row == "W5" else poisson)


def meta(kind: str, row: str) -> None:
    from opacus import accountants

    def make() -> Any:
        return {
            "PRV": accountants.PRVAccountant,
            "RDP": accountants.RDPAccountant,
            "GDP": accountants.GaussianAccountant,
        }[kind]()

    def epsilon() -> float:
        sigma, rate, steps, delta = POISSON[row]
        found = make()
        found.history = [(sigma, rate, steps)]
        return float(found.get_epsilon(delta=delta))

    def calibrated() -> float:
        from opacus.accountants.utils import get_noise_multiplier

        return float(get_noise_multiplier(target_epsilon=2.0, target_delta=1e-5, sample_rate=0.004, steps=20_000,
                                          accountant=kind.lower(), epsilon_tolerance=1e-4))  # fmt: skip

    def online() -> float:
        found, last = make(), 0.0
        for _ in range(50):
            found.step(noise_multiplier=1.0, sample_rate=0.01)
            last = float(found.get_epsilon(delta=1e-5))
        return last

    if row == "W11":
        measured(online, per=50)
    else:
        measured(calibrated if row == "W6" else epsilon)


def wang(row: str) -> None:
    """autodp's analytical Renyi accountant."""
    from autodp import rdp_acct, rdp_bank

    def epsilon() -> float:
        found = rdp_acct.anaRDPacct()
        if row == "W7":
            found.compose_mechanism(lambda order: rdp_bank.RDP_laplace({"b": 20.0}, order), coeff=1000)
            return float(found.get_eps(1e-6))
        sigma, rate, steps, delta = POISSON[row]

        def curve(order: float) -> Any:
            return rdp_bank.RDP_gaussian({"sigma": sigma}, order)

        if rate == 1.0:
            found.compose_mechanism(curve, coeff=steps)
        else:
            found.compose_poisson_subsampled_mechanisms(curve, rate, coeff=steps)
        return float(found.get_eps(delta))

    measured(epsilon)


def main(peer: str, row: str) -> None:
    library, _, kind = peer.partition(" ")
    if library == "dp_accounting":
        google("RR" if kind.startswith("RR") else kind, row)
    elif library == "prv_accountant":
        microsoft(row)
    elif library == "autodp":
        wang(row)
    else:
        meta(kind, row)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
