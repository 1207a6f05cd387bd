"""Attacks on privacy claims: what they find is evidence at a stated confidence, never a guarantee.

    ts.audit.mechanism(f, neighbours=(a, b), claim=ts.pure_dp(epsilon=1))      is this mechanism what it says?

    drawn = ts.audit.coins(10_000)                    fair coins, committed to before the training
    found = ts.audit.one_run(scores, drawn, claim=plan.privacy)
    print(found)                                      the verdict, the attack, and what it can catch

Nothing in this room is trusted by the rest of the package.
"""

from __future__ import annotations

from tallystick import lazy

_HOMES: dict[str, str] = {
    "Band": "band",
    "CanaryReport": "canaries",
    "Coins": "inclusion",
    "Estimate": "evidence",
    "Evidence": "evidence",
    "SubsetSums": "reconstruction",
    "blatantly_non_private": "reconstruction",
    "assert_costs": "assertions",
    "assert_private": "assertions",
    "canary_run": "canaries",
    "claimed_epsilon": "recomputed",
    "coins": "inclusion",
    "differencing": "everyday",
    "epsilon_of_mu": "evidence",
    "hit_rate": "membership",
    "known_laws": "known",
    "likelihood_ratio": "membership",
    "linkage": "everyday",
    "loss_scores": "membership",
    "mechanism": "two_sample",
    "mislabelled": "canaries",
    "one_run": "guesses",
    "own_feature": "canaries",
    "plan_one_run": "guesses",
    "queries_at_frontier": "reconstruction",
    "reconstruct": "reconstruction",
    "tradeoff_band": "band",
    "trainer_recipe": "canaries",
    "uniqueness": "everyday",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy.names(__name__, _HOMES)
