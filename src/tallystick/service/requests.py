"""Which requests a service takes from its clients: about registered datasets, and naming no place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.book import Ledger
from tallystick.publish import datasets
from tallystick.publish.request import Request

KINDS: Final = ("statement", "question", "caps", "linear")
"""Kinds of requests whose answer comes from one plan. A worker draws it."""
LONGEST_STATEMENT: Final = 64 << 10
"""Characters of a statement."""


def check_served(request: Mapping[str, Any], view: Ledger) -> dict[str, Any]:
    """Return a request as it is run here, with places put in; refuse one that a service does not take.

    A client names datasets. Where their rows are is the business of the operator, so a plan from a client has no place,
    or any: the registered one is put in its stead.
    """
    what = request.get("what")
    if not isinstance(what, dict):
        raise InvalidInput("what", type(what).__name__, "an object with a kind")
    kind = what.get("kind")
    if kind not in KINDS:
        raise Refused(f"a service answers requests of these kinds: {', '.join(KINDS)}", code="not_served")
    if kind == "statement" and len(str(what.get("text"))) > LONGEST_STATEMENT:
        raise InvalidInput(
            "text", f"{len(str(what.get('text')))} characters", f"at most {LONGEST_STATEMENT} characters"
        )
    served = {**request, "what": dict(what)}
    if kind == "question":
        served["what"] = _question(what, view)
    Request.from_data(served).check()
    return served


def _question(what: Mapping[str, Any], view: Ledger) -> dict[str, Any]:
    """Return a question with the registered place of its dataset in its plan."""
    if what.get("source") is not None:
        raise InvalidInput("source", "a place", "no place: the service knows where its datasets are")
    name, plan = what.get("dataset"), what.get("plan")
    if not isinstance(name, str) or not isinstance(plan, dict):
        raise InvalidInput("question", type(plan).__name__, "a dataset and a plan")
    registered = datasets.find(name, view).table["source"]
    return {**what, "plan": _placed(plan, registered)}


def _placed(plan: Mapping[str, Any], source: Any) -> dict[str, Any]:
    """Return a plan about another place."""
    query = plan.get("query")
    table = query.get("table") if isinstance(query, dict) else None
    if not isinstance(query, dict) or not isinstance(table, dict):
        raise InvalidInput("plan", type(query).__name__, "a plan as plan.to_json() writes it")
    return {**plan, "query": {**query, "table": {**table, "source": source}}}
