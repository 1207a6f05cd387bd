"""The page of an audit: whether the claim is false, by which attack, and how to repeat it."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick import __version__
from tallystick.cards.charts import Curve, tradeoff
from tallystick.cards.page import People, style, template
from tallystick.digits import down, nearest, percent_up, up
from tallystick.errors import TallystickError

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.audit.canaries import CanaryReport
    from tallystick.audit.evidence import Evidence

FALSE = "The claim is false: this attack succeeds more often than it allows"
NO_EVIDENCE = "No evidence against the claim"
MEANING = {
    True: "A true claim fails this test with probability {significance} at most.",
    False: "This is not a guarantee. This attack, with this much data, did not refute the claim.",
}
SHOWN_ABOVE = frozenset(("verdict", "falsified", "claim", "assumes", "detects", "significance"))
"""Facts that the page shows elsewhere than in the table of the attack."""
ALPHAS = tuple(np.linspace(0.0, 1.0, 81).tolist())


def page(found: Evidence | CanaryReport, *, command: str = "") -> str:
    """Return one HTML page that loads nothing and runs nothing; every value is escaped.

    ``command`` repeats the audit. The controls of a training run stand beside its verdict.
    """
    evidence: Evidence = getattr(found, "evidence", found)  # type: ignore[arg-type]
    facts = evidence.to_dict()
    rendered = template("evidence.html.j2").render(
        style=style(),
        facts=facts,
        view=_view(facts),
        controls=getattr(found, "controls", ()),
        command=command,
    )
    return str(rendered)


def _view(facts: dict[str, Any]) -> dict[str, Any]:
    today = datetime.datetime.now(datetime.UTC).date()
    is_false = facts["falsified"]
    detects = facts["detects"]
    return {
        "sentence": FALSE if is_false else NO_EVIDENCE,
        "made": f"Tested {today.day} {today:%B %Y}.",
        "meaning": MEANING[is_false].format(significance=nearest(facts["significance"])),
        "rows": _rows(facts),
        "detects": f"{detects[:1].upper()}{detects[1:]}." if detects and not is_false else "",
        "curve": _curve(facts),
        "finding": "The attack gets below the claimed line" if is_false else "The attack stays above the claimed line",
        "axes": People("person", "", True, False, False).axes,
        "software": f"tallystick {__version__}",
    }


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of the attack; numbers have three digits, those of the record are in the JSON."""
    rows = []
    for name, value in facts.items():
        if name in SHOWN_ABOVE or value is None:
            continue
        words = {"p_value": "p value", "mu_at_least": "mu is at least"}.get(name, name.replace("_", " "))
        rows.append((words, _number(name, value)))
    return rows


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return up(value) if name == "p_value" else down(value)


def _curve(facts: dict[str, Any]) -> Any:
    """Draw the claimed curve and the attack as a point; None if the claim has no curve or the attack no errors."""
    from markupsafe import Markup

    claim = _claimed(facts["claim"])
    if claim is None or "misses" not in facts or "draws" not in facts:
        return None
    point = facts["false_alarms"] / facts["draws"], facts["misses"] / facts["draws"]
    misses = np.asarray(claim.tradeoff(alpha=np.array(ALPHAS)), dtype=float).tolist()
    about = (
        f"The attack has {percent_up(point[0])} false accusations and {percent_up(point[1])} misses. "
        "The line shows the fewest misses that the claim allows."
    )
    return Markup(tradeoff(ALPHAS, [Curve("claimed", misses, is_limit=True)], about=about, point=point))


def _claimed(text: str) -> PrivacyLoss | None:
    from tallystick.accounting.expression import read_loss

    try:
        return read_loss(text)
    except TallystickError:
        return None
