"""jax-privacy's auditor on scores from a file, in its own environment: prints one JSON object. Called by run.py."""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version

import numpy as np
from jax_privacy.auditing import Bonferroni, CanaryScoreAuditor, Split

METHODS = {
    "epsilon_one_run, Bonferroni": lambda a, s, d: a.epsilon_one_run(significance=s, delta=d, threshold_strategy=Bonferroni()),
    "epsilon_one_run, Split": lambda a, s, d: a.epsilon_one_run(significance=s, delta=d, threshold_strategy=Split(seed=0)),
    "epsilon_one_run_fdp, Bonferroni": lambda a, s, d: a.epsilon_one_run_fdp(significance=s, delta=d, threshold_strategy=Bonferroni()),
    "epsilon_one_run_fdp, Split": lambda a, s, d: a.epsilon_one_run_fdp(significance=s, delta=d, threshold_strategy=Split(seed=0)),
}  # fmt: skip


def main(path: str, significance: float, delta: float, plays: int) -> None:
    kept = np.load(path)
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for scores, included in zip(kept["scores"][:plays], kept["included"][:plays], strict=True):
        auditor = CanaryScoreAuditor(scores[included], scores[~included])
        for name, method in METHODS.items():
            start = time.process_time()
            found[name].append(float(method(auditor, significance, delta)))
            seconds[name] += time.process_time() - start
    print(json.dumps({"version": version("jax-privacy"), "found": found, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
