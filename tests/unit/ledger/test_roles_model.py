"""Random people request, approve, raise, revoke and pay: a model of a hundred lines says what may happen."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from crash.roles_model import Machine

SHARED = {"deadline": None, "stateful_step_count": 40}


def test_a_ledger_with_roles_does_what_the_model_says():
    run_state_machine_as_test(Machine, settings=settings(max_examples=25, **SHARED))
