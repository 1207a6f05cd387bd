"""The table of actions: which role may do what on a population.

The documentation, the tests and the checks of the ledger read this one table. A cell holds one word. These are the
words, with what a role with the cell may do:

- YES: do it.
- ALONE: do it while no approval is needed, and request it otherwise.
- ASK: request it.
- OWN: do it with what belongs to the principal.
- NO: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

OWNER: Final = "owner"
APPROVER: Final = "approver"
ANALYST: Final = "analyst"
AUDITOR: Final = "auditor"
OPERATOR: Final = "operator"
RUNNER: Final = "runner"
NOBODY: Final = "none"
"""Stands for a principal without any role on a population."""
ROLES: Final = (OWNER, APPROVER, ANALYST, AUDITOR, OPERATOR, RUNNER)
LEDGER_WIDE: Final = (AUDITOR, OPERATOR)
"""Roles that may be given for the whole ledger."""

YES: Final = "yes"
"""The role may do it."""
ALONE: Final = "alone"
"""The role may do it while no approval is needed, and may request it otherwise."""
ASK: Final = "ask"
"""The role may request it."""
OWN: Final = "own"
"""The role may do it with own things."""
NO: Final = "no"
"""The role may not do it."""
CELLS: Final = (YES, ALONE, ASK, OWN, NO)
"""Words of a cell, the strongest first."""

MONEY: Final = "money"
PEOPLE: Final = "people"
DATA: Final = "data"
ERASURE: Final = "erasure"
CLASSES: Final = (MONEY, PEOPLE, DATA, ERASURE)
"""Classes of actions. Each has its own number of approvals."""


class Action(NamedTuple):
    """A row of the table."""

    name: str
    words: str
    owner: str = NO
    approver: str = NO
    analyst: str = NO
    auditor: str = NO
    operator: str = NO
    runner: str = NO
    none: str = NO
    needs: str | None = None
    """The class of an action that may need approvals."""

    def cell(self, roles: Iterable[str]) -> str:
        """The strongest cell of these roles; that of ``none`` without a role.

        >>> ACTIONS["release"].cell(["auditor", "analyst"]), ACTIONS["release"].cell([])
        ('yes', 'no')
        """
        found: list[str] = [getattr(self, role) for role in (*roles, NOBODY)]
        return min(found, key=CELLS.index)


_TABLE: Final = (
    Action("see_population", "see the population, its datasets, limits per person and costs",
           YES, YES, YES, YES, YES, YES),
    Action("see_budget", "see the limit, what is used and the promise", YES, YES, YES, YES, YES, YES),
    Action("see_own", "see the own allowance and charges", OWN, OWN, OWN, NO, NO, OWN),
    Action("plan", "plan a release and see its cost", YES, YES, YES),
    Action("release", "release a table, ask in SQL, suggest limits", YES, NO, YES),
    Action("replay", "see stored answers and list releases", YES, YES, YES, YES),
    Action("see_reasons", "see who asked for other releases, and why", YES, YES, NO, YES),
    Action("cancel_job", "cancel a job that waits", YES, NO, OWN, NO, YES, OWN),
    Action("pay_elsewhere", "pay for a release that was made elsewhere", YES, NO, OWN, NO, NO, YES),
    Action("open_population", "open a population and name its first owner", NO, NO, NO, NO, YES),
    Action("register", "register or change a dataset, retire or remove it", ALONE, needs=DATA),
    Action("set_limit", "raise a limit or open an account", ALONE, ASK, ASK, needs=MONEY),
    Action("close_account", "close an account", ALONE, ASK, needs=MONEY),
    Action("give_allowance", "give, raise or close an allowance", YES, NO, ASK, needs=MONEY),
    Action("decide", "approve or reject the request of another person", NO, YES),
    Action("withdraw", "withdraw a request", OWN, OWN, OWN),
    Action("change_people", "change owners, approvers and how many must approve", ALONE, ASK, needs=PEOPLE),
    Action("change_members", "change analysts, runners, and auditors and operators of this population", YES),
    Action("end_principal", "end a principal in the whole ledger", NO, NO, NO, NO, YES),
    Action("clear", "open data again after a failure", ALONE, ASK, needs=DATA),
    Action("end_running", "end releases that run on closed data", YES),
    Action("read_failures", "read the log of failures", YES),
    Action("own_tokens", "make, list and end own tokens", OWN, OWN, OWN, OWN, OWN, OWN, OWN),
    Action("end_tokens", "end tokens of others", YES, NO, NO, NO, YES),
    Action("connections", "make connections to data", NO, NO, NO, NO, YES),
    Action("change_keys", "add and retire keys of the ledger", ALONE, ASK, NO, NO, ASK, needs=PEOPLE),
    Action("read_entries", "read and verify the entries", YES, YES, NO, YES, YES),
    Action("export_texts", "export texts and answers", YES, NO, NO, YES),
    Action("erase", "erase texts and answers", ALONE, ASK, needs=ERASURE),
    Action("see_cards", "see the card of a release", YES, YES, YES, YES),
    Action("stop_jobs", "stop and drain jobs", NO, NO, NO, NO, YES),
    Action("metrics", "read metrics and readiness", NO, NO, NO, NO, YES),
    Action("health", "ask if the service is up", YES, YES, YES, YES, YES, YES, YES),
    Action("break_glass", "make an approver without approvals, marked on every later card", NO, NO, NO, NO, YES),
)  # fmt: skip
ACTIONS: Final = {action.name: action for action in _TABLE}
"""The table, by name of the action."""


def default_needed(approvers: int) -> int:
    """Approvals that an action needs, if the number was not set: by the number of approvers.

    >>> [default_needed(approvers) for approvers in (0, 1, 2, 3, 4)]
    [0, 0, 1, 1, 2]
    """
    if approvers >= 4:
        return 2
    return 1 if approvers >= 2 else 0
