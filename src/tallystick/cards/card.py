"""The privacy card: what was released, what was promised, to whom, how wrong it is, and how to check it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick import strict_json
from tallystick.cards.contents import SCHEMA, VERSION, Subject, contents
from tallystick.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release

_OPENING = '<script type="application/json" id="tallystick-card">'
_CLOSING = "</script>"
LONGEST = 200_000_000  # characters; a plan may list a million public groups


@dataclass(frozen=True, slots=True)
class Card:
    """A card as data; ``to_html`` is one file for the screen and for paper, ``to_json`` the same for machines."""

    facts: Mapping[str, Any]

    def to_json(self) -> str:
        """The card as JSON text."""
        return json.dumps(self.facts, indent=1, ensure_ascii=False, sort_keys=True) + "\n"

    def to_html(self) -> str:
        """The card as one HTML file that loads nothing and runs nothing; it carries its JSON inside."""
        from tallystick.cards.page import page

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


def card(release: Release, *, dataset: str | None = None, about: Mapping[str, str] | None = None) -> Card:
    """The card of a release: the purpose comes from the ledger, the decisions from ``about`` (see ``FIELDS``)."""
    account, receipt = release.plan.account, release.receipt
    if account is None or receipt is None:
        raise Refused("this release was not paid by an account, so there is nothing that a card could promise")
    _, entry = account.ledger.charge_row(receipt.charge)
    name = dataset or release.plan.query.table.name
    subject = Subject(release.plan, account, account.limit, receipt, entry["why"], name, dict(about or {}))
    return card_of(subject)


def preview(plan: Plan, account: Account, *, why: str, dataset: str | None = None) -> Card:
    """The card that a plan would get, before anything is charged."""
    paid = plan.with_account(account)
    name = dataset or plan.query.table.name
    return card_of(Subject(paid, account, account.limit, None, why, name))


def card_of(subject: Subject) -> Card:
    """The card of a subject, with what is needed to make it again: plan and decisions."""
    again = {"plan": json.loads(subject.plan.to_json()), "about": dict(subject.about)}
    del again["plan"]["query"]["table"]["source"]  # where the data lies is nobody's business
    return Card({**contents(subject), "again": again})


def read_card(path: str | Path) -> tuple[Card, str]:
    """A card from its HTML or JSON file, and the file's text."""
    try:
        text = Path(path).read_text(encoding="utf-8")
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
        raise InvalidInput("card", str(path), f"a privacy card ({SCHEMA}, version {VERSION})") from None
    return Card(facts), text


def _embedded(facts: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can mistake for the end of its element."""
    body = json.dumps(facts, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    for character in "<>&":
        body = body.replace(character, f"\\u{ord(character):04x}")
    return _OPENING + body + _CLOSING
