"""The page of an audit: what was attacked, the verdict, and what the attack could not have seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.cards.card import template
from tallystick.drawing import css_variables

if TYPE_CHECKING:
    from tallystick.audit.canaries import CanaryReport
    from tallystick.audit.evidence import Evidence

MEANING = {
    True: "A claim that holds is falsified this strongly with at most the probability given as significance.",
    False: "This is no guarantee: it says that this attack, with so much data, did not refute the claim.",
}


def page(found: Evidence | CanaryReport) -> str:
    """One HTML page that loads nothing and runs nothing; every value is escaped. Controls stand with their run."""
    from markupsafe import Markup

    evidence: Evidence = getattr(found, "evidence", found)  # type: ignore[arg-type]
    facts = evidence.to_dict()
    shown = {"verdict", "falsified", "claim", "assumes", "detects"}
    rows = [(name.replace("_", " "), value) for name, value in facts.items() if name not in shown and value is not None]
    return template("evidence.html.j2").render(
        look=Markup(css_variables()), facts=facts, rows=rows, meaning=MEANING[evidence.falsified],
        controls=getattr(found, "controls", ()),
    )  # fmt: skip
