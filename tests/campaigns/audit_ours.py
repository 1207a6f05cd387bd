"""Every mechanism, estimator and table plan of ours attacked by our own auditor with many draws: make campaign-audit

Writes benchmarks/results/audit-ours.md. Exit 1 when something of ours is falsified at significance 1e-9.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tallystick.audit.two_sample import mechanism
from unit.audit.ours import estimators, mechanisms, plans

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "audit-ours.md"
NEVER = 1e-9
HEAD = """# Ours, attacked by our own auditor

Written by `make campaign-audit` (`tests/campaigns/audit_ours.py`). Neighbours are in `tests/unit/audit/ours.py`; half
of the draws choose an event, the other half test it, at significance 1e-9. *Shown* is the epsilon (at delta 0) that
these draws refute, a lower bound of the truth. `make test` makes fewer draws of the same attacks.

| what | claim | draws | shown | verdict |
|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for one attack, about")
    options = parser.parse_args()
    lines, falsified = [], 0
    for attack in [*plans(), *estimators(), *mechanisms()]:
        draws = 400
        while True:
            start = time.process_time()
            found = mechanism(
                attack.f, neighbours=attack.neighbours, claim=attack.claim, draws=draws, significance=NEVER
            )
            took = time.process_time() - start
            if draws >= options.draws or took > options.seconds / 10:
                break
            draws = min(options.draws, draws * 10)
        falsified += found.falsified
        shown = found.epsilon_at_least(delta=0.0)
        lines.append(f"| {attack.name} | `{found.claim}` | {draws:,} | {shown:.3f} | {found.verdict.lower()} |")
        print(lines[-1], flush=True)
    RESULT.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return 1 if falsified else 0


if __name__ == "__main__":
    sys.exit(main())
