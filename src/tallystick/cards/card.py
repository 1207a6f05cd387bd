"""The privacy card: what was released, what was promised, to whom, how wrong it is, and how to check it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick import strict_json
from tallystick.cards.contents import SCHEMA, VERSION, Subject, contents
from tallystick.cards.fits import FitPlan
from tallystick.cards.page import page
from tallystick.digits import nearest
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.place import shown
from tallystick.printing import json_text, visible
from tallystick.regular_file import read_text, write_whole, written_whole

if TYPE_CHECKING:
    from tallystick.accounting.certificate import Certificate
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.sql.answer import Answered

_OPENING = '<script type="application/json" id="tallystick-card">'
_CLOSING = "</script>"
TRAINING = "tallystick/training-card"
_TRAINING_PAGE = "<title>Training card: "
_HEAD = 5000
"""Characters of a page in which its title is."""
READ_TRAINING = "Its data are in the .json file beside the page, and the ledger checks its receipts"
_SHOWN = 40
"""Characters of the name of a dataset in the text of a card."""
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
            self._write(target, beside)
        except OSError as error:
            raise InvalidInput("card", str(path), f"a file that can be written ({error.strerror})") from None
        return tuple(written)

    def _write(self, target: Path, beside: Path) -> None:
        """Write the page and the JSON file: both, or neither."""
        with written_whole(beside) as data:
            data.write_text(self.to_json(), encoding="utf-8", newline="")
            if target != beside:
                write_whole(target, self.to_html())

    def __repr__(self) -> str:
        released, promise = self.facts["released"], self.facts["promise"]
        name = visible(str(released["dataset"]))[:_SHOWN]
        return f"<Card of {name}: {promise['price']}, {nearest(100 * promise['share_of_limit'])} % of its limit>"

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
    release = replace(release, is_joint=False)  # a card can be made again from the answer alone
    account, receipt = release.plan.account, release.receipt
    if account is None or receipt is None:
        raise Refused("this release was not paid by an account, so there is nothing that a card could promise")
    if not account.ledger.has_answer(receipt, release.answer):
        raise Refused("these are not the numbers that were paid for, so a card would promise something about others")
    account = account.promising
    _, entry = account.ledger.charge_row(receipt.charge)
    name = dataset or release.plan.query.table.name
    proof = None if certificate is None else certificate.text
    if certificate is not None and (problem := uncertified(certificate, release.plan.privacy)):
        raise Refused(problem)
    said = dict(about or {})
    subject = Subject(release.plan, account, account.limit, receipt, entry["why"], name, said, proof, release, names)
    return card_of(subject)


def _registered(account: Account | None, dataset: str | None) -> Mapping[str, str]:
    """Return what the owner of registered data has said about them."""
    known = {} if account is None or dataset is None else account.ledger.datasets()
    said = [about for _, about in known[dataset].described() if about is not None] if dataset in known else []
    return said[-1] if said else {}


def uncertified(certificate: Certificate, loss: PrivacyLoss) -> str:
    """Return the problem with a certificate of this loss; empty if there is no problem."""
    try:
        certificate.verify()
        return "" if certificate.loss == loss else "the certificate is about another loss"
    except TallystickError as problem:
        return str(problem)


def fit_card(model: Any, account: Account, *, dataset: str, about: Mapping[str, str] | None = None) -> Card:
    """The card of an estimator of ``ts.learn`` that ``account`` paid for; ``dataset`` is what its rows are called."""
    receipt = getattr(model, "receipt_", None)
    if hasattr(model, "best_estimator_"):
        raise Refused("a tuned model has no card: one charge paid for all runs. Try: its receipt_, ledger verify")
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
    account = account.promising
    _, entry = account.ledger.charge_row(receipt.charge)
    if account.ledger.is_about(receipt.charge, plan.request) is False:
        raise Refused("these are not the parameters that were paid for. Try: the model as it was when it was fitted")
    return card_of(Subject(plan, account, account.limit, receipt, entry["why"], dataset, dict(about or {})))


def preview(plan: Plan, account: Account, *, why: str, dataset: str | None = None) -> Card:
    """The card that a plan would get, before anything is charged."""
    account = account.promising
    paid = plan.with_account(account)
    name = dataset or plan.query.table.name
    return card_of(Subject(paid, account, account.limit, None, why, name))


def card_of(subject: Subject) -> Card:
    """The card of a subject, with what is needed to make it again: plan and decisions."""
    again: dict[str, Any] = {"plan": json.loads(subject.plan.to_json()), "about": dict(subject.about)}
    if not isinstance(subject.plan, FitPlan):
        del again["plan"]["query"]["table"]["source"]  # a card does not say where the data are
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
    if _TRAINING_PAGE in text[:_HEAD]:
        raise InvalidInput(
            "card", str(path), "", problem=f"{shown(path)} is the page of a training card. {READ_TRAINING}"
        )
    if _OPENING in text:
        body = text.split(_OPENING, 1)[1].split(_CLOSING, 1)[0]
    is_training = False
    try:
        facts = strict_json.read(body, name="card", allowed="a privacy card", longest=LONGEST)
        is_training = facts["schema"] == TRAINING
        if (facts["schema"], facts["version"]) != (SCHEMA, VERSION):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        if is_training:
            problem = f"{path} is a training card. {READ_TRAINING}"
            raise InvalidInput("card", str(path), "", problem=problem) from None
        allowed = f"a privacy card ({SCHEMA}, version {VERSION})"
        raise InvalidInput("card", str(path), allowed) from None
    return Card(facts), text


def is_page(text: str) -> bool:
    """True if the text of a card's file is its HTML page: the data are inside, in any page around them."""
    return _OPENING in text


def _embedded(facts: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can mistake for the end of its element."""
    body = json_text(json.dumps(facts, ensure_ascii=True, sort_keys=True, separators=(",", ":")))
    for character in "<>&":
        body = body.replace(character, f"\\u{ord(character):04x}")
    return _OPENING + body + _CLOSING
