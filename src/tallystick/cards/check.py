"""``card verify``: is what a card says what the ledger says?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.cards.card import Card, card_of, uncertified
from tallystick.cards.contents import Subject
from tallystick.cards.fits import FORMAT as FIT
from tallystick.cards.fits import FitPlan
from tallystick.errors import InvalidInput, TallystickError
from tallystick.ledger.filters import Amount
from tallystick.ledger.pay import Receipt, request_digest
from tallystick.tables.sources import request

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.registry import Registered
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; ``problem`` is empty when it holds."""

    what: str
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether the card and the ledger agree on it."""
        return not self.problem


def check_card(card: Card, ledger: Ledger, *, page: str | None = None, table: str | None = None) -> tuple[Finding, ...]:
    """Compare a card with the record: chain and receipt, charge, plan, limit, every number, and the page's text.

    The card is made again from the ledger's own facts and must come out the same, so a changed number is found
    wherever it stands. ``page`` is the HTML text, when there is one, and ``table`` the CSV text that was published with
    the card: the stored answer must give the same. What people said (the data set's name, period,
    reasons, contact) is taken from the card, unless the ledger has it: a registered name must be that of the data,
    with the decisions that were registered.
    """
    try:
        return tuple(_findings(card, ledger, page, table))
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        lacks = f"it lacks something that this version writes ({type(error).__name__}); where another made it, ask that"
        return (Finding("the card can be read", lacks),)


def _findings(card: Card, ledger: Ledger, page: str | None, table: str | None) -> Iterator[Finding]:
    facts = card.facts
    if facts["evidence"]["receipt"] is None:
        yield Finding("the card is of a release", "it is a preview: nothing was released or charged")
        return
    receipt = Receipt.from_json(facts["evidence"]["receipt"])
    evidence = (receipt.ledger, receipt.charge, receipt.seq, receipt.head, receipt.answer_hash)
    shown = tuple(facts["evidence"][name] for name in ("ledger", "charge", "entry", "head", "answer_hash"))
    yield Finding("the card shows its own receipt", "" if evidence == shown else "it shows another head or charge")
    problems = ledger.verify(receipts=[receipt]).problems
    yield Finding("ledger intact, head known, charge committed", "; ".join(problems[:3]))
    if problems:
        return
    account = ledger.account_by_id(receipt.lines[0][0])
    row, entry = ledger.charge_row(receipt.charge)
    answer, _ = ledger.stored_answer(row)
    yield Finding("the charge paid for this plan", _about_plan(facts, answer, entry))
    yield Finding("the charge was for this dataset and whom it protects", _about_data(facts, ledger, account, entry))
    promised = Amount(account.currency, *facts["promise"]["limit_amount"])
    yield Finding("the limit still stands", _about_limit(account.limit, promised))
    purpose = entry["why"]
    numbers = "every number follows from plan and ledger"
    if facts["again"].get("names"):
        numbers += " (what its columns are called is the card's own word: no record has it)"
    yield Finding(numbers, _made_again(facts, account, receipt, purpose, promised, answer))
    if "certificate" in facts["evidence"]:
        yield Finding("the certificate is proved, and about this plan", _about_certificate(facts, entry))
    if page is not None:
        yield Finding("the page shows what its data says", _page_problem(card, page))
    if table is not None:
        yield Finding("the table is the one that was released", _about_rows(facts, account, answer, table))


def _about_rows(facts: Mapping[str, Any], account: Account, answer: Any, table: str) -> str:
    """Whether the stored answer is this table, whatever ends its lines."""
    if _is_fit(facts):
        return "the card is that of a fit, which has no table"
    if facts["again"].get("names"):  # HAVING, arithmetic and names came after it, and are not in the record
        return "the card is that of a statement in SQL: its table was made of the release, and is not in the record"
    from tallystick.tables.release import Release

    released = Release(_planned(facts, account), answer).to_csv()
    return "" if released.splitlines() == table.splitlines() else "the ledger's answer is another one: it was changed"


def _planned(facts: Mapping[str, Any], account: Account) -> Plan:
    from tallystick.tables.plan import Plan

    content = json.loads(json.dumps(facts["again"]["plan"]))
    content["query"]["table"]["source"] = {"kind": "memory", "place": "memory"}
    return Plan.from_json(json.dumps(content), account=account)


def _about_plan(facts: Mapping[str, Any], answer: Any, entry: Mapping[str, Any]) -> str:
    """Whether the plan, or the fit, on the card is what was paid for."""
    if _is_fit(facts):
        try:
            fit = FitPlan.from_data(facts["again"]["plan"])
            request, price = fit.request, fit.privacy.to_json()
        except TallystickError as error:
            return f"its fit cannot be built again: {error}"
        paid = request_digest(entry["lines"], entry["plan"], request) == entry["request"]
        if not paid or fit.hash != facts["accounting"]["plan_hash"]:
            return "the charge was for another fit"
        return "" if price == entry["plan"] else "the fit has another price today"
    planned = answer.get("plan") if isinstance(answer, dict) else None
    return "" if planned == facts["accounting"]["plan_hash"] else "the stored answer belongs to another plan"


def _is_fit(facts: Mapping[str, Any]) -> bool:
    return bool(facts["again"]["plan"]["format"] == FIT)


def _about_data(facts: Mapping[str, Any], ledger: Ledger, account: Account, entry: Mapping[str, Any]) -> str:
    """Whether the ledger knows the data that were paid for by the name on the card."""
    name, plan = facts["released"]["dataset"], facts["again"]["plan"]
    known = ledger.datasets()
    if not _is_fit(facts):
        return _about_table(facts, known, plan["query"]["table"], account, entry)
    if plan["rows"] is None:
        return "these were rows in memory, and the ledger knows another dataset by this name" * (name in known)
    if not (plan["rows"]["dataset"] == name in known and entry["source"] in known[name].sources):
        return "the charge was for other data"
    return _as_registered(facts, known[name], plan["rows"]["plan"]["query"]["table"], account)


def _about_table(
    facts: Mapping[str, Any],
    known: Mapping[str, Registered],
    table: Mapping[str, Any],
    account: Account,
    entry: Mapping[str, Any],
) -> str:
    name = facts["released"]["dataset"]
    others = [other for other, dataset in known.items() if entry["source"] in dataset.sources]
    if others and name not in others:
        return f"the charge was for other data: the ledger has them as {', '.join(others)}"
    if name not in known:  # a name people gave
        return ""
    dataset = known[name]
    if problem := _as_registered(facts, dataset, table, account):
        return problem
    request_text = request(facts["accounting"]["plan_hash"], table["name"], f"dataset {name}")
    by_name = entry["request"] == request_digest(entry["lines"], entry["plan"], request_text)
    same = by_name or not dataset.sources or entry["source"] in dataset.sources
    return "" if same else "the charge was for other data"


def _as_registered(facts: Mapping[str, Any], dataset: Registered, table: Mapping[str, Any], account: Account) -> str:
    """Whether payer, unit and decisions are those that were registered."""
    if dataset.account not in _payers(account):
        return f"the ledger has this dataset under {dataset.account}"
    if any(table[field] != value for field, value in dataset.fixed.items()):
        return f"the ledger has registered whom it protects: {dict(dataset.fixed)}"
    said = [about for _, about in dataset.described() if about is not None]
    if said and facts["again"]["about"] not in said:
        return "the ledger has registered other decisions about it"
    return ""


def _payers(account: Account) -> list[str]:
    """Names of an account and of every account above it: a charge to a block is a charge to all of them."""
    names = [account.name]
    above = account.parent
    while above is not None:
        names.append(above.name)
        above = above.parent
    return names


def _about_certificate(facts: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    from tallystick.accounting.certificate import Certificate
    from tallystick.accounting.loss import PrivacyLoss

    return uncertified(Certificate(facts["evidence"]["certificate"]["text"]), PrivacyLoss.from_json(entry["plan"]))


def _about_limit(now: Amount, promised: Amount) -> str:
    if (now.a0, now.a1) == (promised.a0, promised.a1):
        return ""
    return f"the account's limit is now {now}, the card promises {promised}"


def _made_again(
    facts: Mapping[str, Any], account: Account, receipt: Receipt, purpose: str, limit: Amount, answer: Any
) -> str:
    from tallystick.tables.release import Release

    plan: Plan | FitPlan
    made: Release | None = None
    try:
        if _is_fit(facts):
            plan = FitPlan.from_data(json.loads(json.dumps(facts["again"]["plan"])))
        else:
            plan = _planned(facts, account)
            made = Release(plan, answer)
    except (TallystickError, InvalidInput) as error:
        return f"its plan cannot be priced again: {error}"
    proof = facts["evidence"].get("certificate", {}).get("text")
    named = facts["released"]["dataset"]
    names = facts["again"].get("names", {})
    subject = Subject(plan, account, limit, receipt, purpose, named, facts["again"]["about"], proof, made, names)
    fresh = json.loads(card_of(subject).to_json())
    if made is not None and not _has_noise_flags(facts):
        fresh["left_out"] = _without_noise_flags(fresh["left_out"], made)
    different = [name for name in fresh if not _same(fresh[name], facts.get(name))]
    extra = sorted(set(facts) - set(fresh))
    return f"changed: {', '.join(different + extra)}; {_OTHER_VERSION}" if different or extra else ""


def _has_noise_flags(facts: Mapping[str, Any]) -> bool:
    """True if the lines about caps and bounds say whether they are too noisy. Older cards do not."""
    return any("too_noisy" in line for line in facts["left_out"])


def _without_noise_flags(lines: list[dict[str, Any]], made: Release) -> list[dict[str, Any]]:
    """Return the lines about caps and bounds as older cards have them: always with numbers, without the flag."""
    sentences = {each.what: each.with_numbers() for each in made.removed()}
    older = []
    for line in lines:
        kept = {name: value for name, value in line.items() if name != "too_noisy"}
        older.append(kept | {"said": sentences[line["what"]]})
    return older


_OTHER_VERSION = (
    "or another version of tallystick made this card, and says it in other words: run the same publish with the same "
    "key again, which charges nothing, and verify the card that this version makes"
)


def _same(fresh: Any, stated: Any) -> bool:
    """Equal, up to what two machines' arithmetic may differ by: relative, because a delta may be tiny."""
    if isinstance(fresh, dict) and isinstance(stated, dict):
        return fresh.keys() == stated.keys() and all(_same(fresh[name], stated[name]) for name in fresh)
    if isinstance(fresh, list) and isinstance(stated, list):
        return len(fresh) == len(stated) and all(map(_same, fresh, stated))
    if isinstance(fresh, float) and isinstance(stated, float):
        return math.isclose(fresh, stated, rel_tol=1e-6)
    return bool(fresh == stated)


def _page_problem(card: Card, page: str) -> str:
    if page == card.to_html():
        return ""
    return "its text differs from what its data gives (edited, or made by another version of tallystick)"
