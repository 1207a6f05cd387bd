"""The privacy card: what was released, what was promised, to whom, how wrong it is, and how to check it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick import strict_json
from tallystick.cards.contents import SCHEMA, VERSION, Subject, contents
from tallystick.cards.fits import FitPlan
from tallystick.digits import nearest, percent_up, typed, up
from tallystick.drawing import (
    BLUE,
    DASHED,
    DOTTED,
    LINE,
    PAPER,
    QUIET,
    SHARE_LABELS,
    SHARES,
    VERMILLION,
    bars,
    css_variables,
    stroke,
    svg,
    text,
)
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.ledger.chain import digest, encode_answer
from tallystick.ledger.journal import request_digest
from tallystick.printing import json_text, visible
from tallystick.regular_file import read_text
from tallystick.tables.reporting.words import TOO_NOISY

if TYPE_CHECKING:
    from jinja2 import Template

    from tallystick.accounting.certificate import Certificate
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.sql.answer import Answered

_OPENING = '<script type="application/json" id="tallystick-card">'
_CLOSING = "</script>"
LONGEST = 200_000_000  # characters; a plan may list a million public groups


@dataclass(frozen=True, slots=True)
class Card:
    """A card as data; ``to_html`` is one file for the screen and for paper, ``to_json`` the same for machines."""

    facts: Mapping[str, Any]

    def to_json(self) -> str:
        """The card as JSON text."""
        return json_text(json.dumps(self.facts, indent=1, ensure_ascii=False, sort_keys=True)) + "\n"

    def to_html(self) -> str:
        """The card as one HTML file that loads nothing and runs nothing; it carries its JSON inside."""
        return page(self.facts, _embedded(self.facts))

    def save(self, path: str | Path) -> tuple[Path, ...]:
        """Write ``card.html`` and, beside it, ``card.json``; a path that ends in .json writes only that."""
        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm", ".json"):
            raise InvalidInput("card", str(path), "a file name that ends in .html or .json")
        beside = target.with_suffix(".json")
        written = [beside] if target == beside else [target, beside]
        try:
            if target != beside:
                target.write_text(self.to_html(), encoding="utf-8", newline="")
            beside.write_text(self.to_json(), encoding="utf-8", newline="")
        except OSError as error:
            raise InvalidInput("card", str(path), f"a file that can be written ({error.strerror})") from None
        return tuple(written)

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:760px;border:0"></iframe>'


def card(
    release: Release | Answered,
    *,
    dataset: str | None = None,
    about: Mapping[str, str] | None = None,
    certificate: Certificate | None = None,
) -> Card:
    """The card of a release: the purpose comes from the ledger, the decisions from ``about`` (see ``FIELDS``).

    A ``certificate`` of the plan's loss (``release.plan.privacy.certificate(...)``) is shown and goes with the card.
    That of an answer in SQL has its names, and what was registered about its data.
    """
    from tallystick.tables.sql.answer import Answered

    names: Mapping[str, str] = {}
    if isinstance(release, Answered):
        names, known = release.called, release.statement.released.known
        release = release.release
        dataset = dataset or known.dataset
        about = _registered(release.plan.account, dataset) if about is None else about
    account, receipt = release.plan.account, release.receipt
    if account is None or receipt is None:
        raise Refused("this release was not paid by an account, so there is nothing that a card could promise")
    if digest(encode_answer(release.answer)) != receipt.answer_hash:
        raise Refused("these are not the numbers that were paid for, so a card would promise something about others")
    _, entry = account.ledger.charge_row(receipt.charge)
    name = dataset or release.plan.query.table.name
    proof = None if certificate is None else certificate.text
    if certificate is not None and (problem := uncertified(certificate, release.plan.privacy)):
        raise Refused(problem)
    said = dict(about or {})
    subject = Subject(release.plan, account, account.limit, receipt, entry["why"], name, said, proof, release, names)
    return card_of(subject)


def _registered(account: Account | None, dataset: str | None) -> Mapping[str, str]:
    """What the owner of registered data has said about them."""
    known = {} if account is None or dataset is None else account.ledger.datasets()
    said = [about for _, about in known[dataset].described() if about is not None] if dataset in known else []
    return said[-1] if said else {}


def uncertified(certificate: Certificate, loss: PrivacyLoss) -> str:
    """What is wrong with a certificate of this loss, or nothing."""
    try:
        certificate.verify()
        return "" if certificate.loss == loss else "the certificate is about another loss"
    except TallystickError as problem:
        return str(problem)


def fit_card(model: Any, account: Account, *, dataset: str, about: Mapping[str, str] | None = None) -> Card:
    """The card of an estimator of ``ts.learn`` that ``account`` paid for; ``dataset`` is what its rows are called."""
    receipt = getattr(model, "receipt_", None)
    if hasattr(model, "best_estimator_"):
        raise Refused("a tuned model has no card: one charge paid for all runs. Works: its receipt_, ledger verify")
    if receipt is None:
        raise Refused(
            "this fit itself was not paid by an account (a best_estimator_ is paid by its search), so there is nothing "
            "that a card could promise"
        )
    return paid_fit_card(FitPlan.of(model), receipt, account, dataset=dataset, about=about)


def paid_fit_card(
    plan: FitPlan, receipt: Receipt, account: Account, *, dataset: str, about: Mapping[str, str] | None = None
) -> Card:
    """The card of a fit, if it is the one that the receipt is for."""
    _, entry = account.ledger.charge_row(receipt.charge)
    if request_digest(entry["lines"], entry["plan"], plan.request) != entry["request"]:
        raise Refused("these are not the parameters that were paid for; works: the model as it was when it was fitted")
    return card_of(Subject(plan, account, account.limit, receipt, entry["why"], dataset, dict(about or {})))


def preview(plan: Plan, account: Account, *, why: str, dataset: str | None = None) -> Card:
    """The card that a plan would get, before anything is charged."""
    paid = plan.with_account(account)
    name = dataset or plan.query.table.name
    return card_of(Subject(paid, account, account.limit, None, why, name))


def card_of(subject: Subject) -> Card:
    """The card of a subject, with what is needed to make it again: plan and decisions."""
    again: dict[str, Any] = {"plan": json.loads(subject.plan.to_json()), "about": dict(subject.about)}
    if not isinstance(subject.plan, FitPlan):
        del again["plan"]["query"]["table"]["source"]  # where the data lies is nobody's business
    if subject.names:
        again["names"] = dict(subject.names)
    return Card({**contents(subject), "again": again})


def read_card(path: str | Path) -> tuple[Card, str]:
    """A card from its HTML or JSON file, and the file's text."""
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("card", str(path), "the HTML or JSON file of a privacy card") from None
    body = text
    if _OPENING in text:
        body = text.split(_OPENING, 1)[1].split(_CLOSING, 1)[0]
    try:
        facts = strict_json.read(body, name="card", allowed="a privacy card", longest=LONGEST)
        if (facts["schema"], facts["version"]) != (SCHEMA, VERSION):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        allowed = f"a privacy card ({SCHEMA}, version {VERSION}); of a training card, the ledger checks the receipts"
        raise InvalidInput("card", str(path), allowed) from None
    return Card(facts), text


def is_page(text: str) -> bool:
    """True if the text of a card's file is its HTML page: the data are inside, whatever is around them."""
    return _OPENING in text


def _embedded(facts: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can mistake for the end of its element."""
    body = json_text(json.dumps(facts, ensure_ascii=True, sort_keys=True, separators=(",", ":")))
    for character in "<>&":
        body = body.replace(character, f"\\u{ord(character):04x}")
    return _OPENING + body + _CLOSING


# A card's facts poured into its HTML template.


def page(facts: Mapping[str, Any], embedded: str) -> str:
    """One self-contained page. Every value is escaped by the template; only our own pictures and JSON are not."""
    from markupsafe import Markup

    limit, curve = facts["words"]["limit"], facts["promise"]["tradeoff"]
    people = facts["protected"]["spoken_of"]["it"] == "you"
    noisy = any(line.get("too_noisy") for line in facts["left_out"])
    replaced = facts["protected"]["adjacency"] == "replace"
    without, within = (min(100, max(0, round(100 * limit[name]))) for name in ("false_alarm", "hit"))
    return template("card.html.j2").render(
        look=Markup(css_variables()),
        card=facts,
        limit=limit,
        table=facts["words"]["table"],
        curve=Markup(tradeoff_svg(curve["alpha"], curve["limit"], curve["table"], replaced=replaced)),
        replaced=replaced,
        too_noisy=TOO_NOISY if noisy else "",
        without=Markup(icons_svg(without, label=f"{without} of 100 marked", people=people)),
        within=Markup(icons_svg(within, label=f"{within} of 100 marked", people=people)),
        who=facts["protected"]["spoken_of"],
        charts=[{**each, "drawn": Markup(bars(each))} for each in facts["chart"]],
        answers=[(label, facts["decisions"][name]) for name, label in LABELS.items()],
        counts={"without": without, "within": within},
        embedded=Markup(embedded),
    )


LABELS = {
    "purpose": "purpose",
    "limit_reason": "why this limit",
    "decided_by": "decided by",
    "contact": "contact",
    "curators": "published by",
    "region": "region",
    "product_type": "kind of product",
    "invariants": "published without noise",
    "release_type": "how often",
    "refresh": "released again",
    "looked_before": "looked at before",
    "timing": "against timing",
    "adversarial_tests": "attacks tried",
    "re_evaluation": "looked at again on",
}
"""What a card calls the answers of people, in its order."""


def _shown(value: Any) -> Any:
    """A value on its way into a page; our own markup stays, and other text has no character that is not printed."""
    return visible(value, lines=True) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _bound(value: float | str) -> str:
    """Return an upper bound of a card's facts; JSON has infinity as text."""
    return up(float(value))


@cache
def template(name: str) -> Template:
    """A page of ``cards/templates``: what is poured into it is escaped, and must be there."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    room = Environment(
        loader=PackageLoader("tallystick.cards", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    room.filters |= {"up": _bound, "percent_up": percent_up, "number": nearest, "given": typed}
    return room.get_template(name)


# The pictures of a card as inline SVG: the trade-off curve, and people as icons. Nothing is fetched, nothing runs.

_LEFT, _TOP, _SIDE = 62, 14, 300
_RIGHT, _BOTTOM = _LEFT + _SIDE, _TOP + _SIDE


def tradeoff_svg(
    alpha: Sequence[float], limit: Sequence[float], table: Sequence[float] | None, *, replaced: bool = False
) -> str:
    """Misses against false alarms: the account's limit shaded, this table alone dashed, guessing dotted.

    >>> tradeoff_svg([0, 1], [0.5, 0], None).startswith("<svg")
    True
    """
    lines = [
        ("everything, up to the limit", limit, BLUE, None),
        *([] if table is None else [("this table alone", table, VERMILLION, DASHED)]),
        ("guessing", [1 - share for share in alpha], QUIET, DOTTED),
    ]
    area = f"M{_x(0)},{_BOTTOM} L{_points(alpha, limit)} L{_RIGHT},{_BOTTOM} Z"
    parts = [*_grid(), f'<path d="{area}" fill="{BLUE}" fill-opacity="0.12"/>']
    for row, (words, misses, colour, dashes) in enumerate(lines):
        width, y = 2.0 if dashes else 2.6, _TOP + 18 + 19 * row
        parts.append(stroke(f"M{_points(alpha, misses)}", colour, width=width, dashes=dashes))
        parts.append(stroke(f"M{_RIGHT - 216},{y - 4} h24", colour, width=width, dashes=dashes))
        parts.append(text(_RIGHT - 186, y, words))
    return svg(
        [*parts, *_names_of_axes(replaced)],
        width=_RIGHT + 22,
        height=_BOTTOM + 52,
        kind="tradeoff",
        label="Trade-off curve: share of people missed against share of false alarms",
    )


def _names_of_axes(replaced: bool) -> list[str]:
    misses = "the other data, taken for the one" if replaced else "in the data, but not noticed"
    alarms = "the one, taken for the other" if replaced else "accused, though not in the data"
    upward = text(0, 0, f"misses: {misses}", anchor="middle")
    return [
        text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, f"false alarms: {alarms}", anchor="middle"),
        f'<g transform="translate(14 {(_TOP + _BOTTOM) / 2:.1f}) rotate(-90)">{upward}</g>',
    ]


def _grid() -> list[str]:
    parts = []
    for share, label in zip(SHARES, SHARE_LABELS, strict=True):
        parts.append(stroke(f"M{_LEFT},{_y(share)} H{_RIGHT} M{_x(share)},{_TOP} V{_BOTTOM}", LINE))
        parts.append(text(_LEFT - 8, _y(share) + 4, label, anchor="end"))
        parts.append(text(_x(share), _BOTTOM + 20, label, anchor="middle"))
    return parts


_PERSON = '<circle cx="10" cy="5.6" r="3.1"/><path d="M4.6 17.5 v-3.2 a4 4 0 0 1 4-4 h2.8 a4 4 0 0 1 4 4 v3.2 z"/>'
_THING = '<circle cx="10" cy="10" r="6.4"/>'


def icons_svg(marked: int, *, label: str, people: bool = True) -> str:
    """A hundred people, or dots, in ten rows, this many of them marked, by colour and by filling.

    >>> icons_svg(27, label="27 of 100").count('class="on"')
    27
    """
    step, icons = 21, []
    for index in range(100):
        x, y = step * (index % 10), step * (index // 10)
        inside = index < marked
        fill = f'fill="{VERMILLION}" stroke="{VERMILLION}"' if inside else f'fill="{PAPER}" stroke="{QUIET}"'
        icons.append(
            f'<g class="{"on" if inside else "off"}" transform="translate({x} {y})" {fill} stroke-width="1.1">'
            f"{_PERSON if people else _THING}</g>"
        )
    return svg(icons, width=10 * step, height=10 * step, kind="icons", label=label)


def _x(share: float) -> float:
    return round(_LEFT + _SIDE * share, 2)


def _y(share: float) -> float:
    return round(_TOP + _SIDE * (1 - share), 2)


def _points(across: Sequence[float], upward: Sequence[float]) -> str:
    return " ".join(f"{_x(a)},{_y(b)}" for a, b in zip(across, upward, strict=True))
