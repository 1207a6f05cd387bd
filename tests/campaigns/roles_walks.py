"""Ten thousand walks of people with roles: the ledger and a model say the same.   (make campaign-ledger)

    python tests/campaigns/roles_walks.py [--walks 10000]

Exit 1 when the ledger allows what the model refuses, or refuses what the model allows, or a number differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from crash.roles_model import Machine

WANTED = (
    *("EXECUTED", "VOID", "OPEN", "REJECTED", "done", "needs_approval", "own_request", "last_one"),
    *("too_few_approvers", "not_authorised", "needs_allowance", "known_role", "unknown_principal"),
)
"""Outcomes that must occur in a campaign."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=50)
    given = parser.parse_args()
    every = list(HealthCheck)
    shared = {"deadline": None, "database": None, "suppress_health_check": every, "derandomize": False}
    chosen = settings(max_examples=given.walks, stateful_step_count=given.steps, **shared)
    run_state_machine_as_test(Machine, settings=chosen)
    print(given.walks, dict(Machine.seen.most_common()))
    missing = [name for name in WANTED if not Machine.seen[name]]
    if missing:
        print(f"these outcomes never occurred: {', '.join(missing)}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
