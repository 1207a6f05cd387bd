"""``card verify``: is what a card says what the ledger says?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tallystick.cards.card import Card, card_of, uncertified
from tallystick.cards.contents import UNREGISTERED, Subject, is_read_elsewhere
from tallystick.cards.fits import FORMAT as FIT
from tallystick.cards.fits import FitPlan
from tallystick.cards.versions import (
    Compared,
    compare,
    compare_table,
    earlier_delta,
    earlier_parts,
    lines_of,
    other_version,
    same,
)
from tallystick.errors import InvalidInput, TallystickError
from tallystick.ledger.filters import Amount
from tallystick.ledger.pay import Receipt
from tallystick.tables.sources import request

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.registry import Registered
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of a card: what it was compared with, or why it was not checked.

    ``problem`` says what is wrong; it is empty if nothing is wrong or if the part was not checked.
    """

    what: str
    problem: str = ""
    against: str = ""
    """What the part was compared with."""
    not_checked: str = ""
    """Why the part could not be compared with anything; empty if it was checked."""
    outdated: str = ""
    """What was changed since, by an entry of the ledger; the card was right before."""
    is_required: bool = False
    """True if a part that could not be checked must not pass: it is what a reader sees."""
    is_of_table: bool = False
    """True if the part is in the file of a table, and not on the card."""

    @property
    def holds(self) -> bool:
        """False if the card and the ledger as it is now disagree on this part, or if a required part is unchecked."""
        return not self.problem and not self.outdated and not self.is_unverified

    @property
    def is_unverified(self) -> bool:
        """True if this part could not be compared with anything, and must be."""
        return self.is_required and not self.is_checked

    @property
    def is_checked(self) -> bool:
        """True if this part was compared with something."""
        return not self.not_checked

    def __str__(self) -> str:
        return f"{self.what}: {self.problem or self.outdated or self.not_checked or self.against}"


PAGE: Final = "text of the page (HTML)"
OTHER_TABLE: Final = "it differs from what was published"
"""Problem with a file of a table. It says nothing about the card."""


def check_card(card: Card, ledger: Ledger, *, page: str | None = None, table: str | None = None) -> tuple[Finding, ...]:
    """Compare a card with the record: chain and receipt, charge, plan, limit, every number, and the page's text.

    The card is made again from the ledger's own facts and must come out the same, so a changed number is found
    wherever it stands. ``page`` is the HTML text, when there is one, and ``table`` the CSV text that was published with
    the card: the stored answer must give the same. The ledger does not have everything that people say (the name of
    an unregistered dataset, period, reasons, contact). A part that cannot be compared is in the result, too: its
    ``not_checked`` says why. A ``page`` or a ``table`` that cannot be compared does not hold.
    """
    try:
        return tuple(_findings(card, ledger, page, table))
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        lacks = f"it lacks something that this version writes ({type(error).__name__}); where another made it, ask that"
        return (Finding("form of the card", lacks),)


def _findings(card: Card, ledger: Ledger, page: str | None, table: str | None) -> Iterator[Finding]:
    facts = card.facts
    if facts["evidence"]["receipt"] is None:
        yield Finding("receipt", "the card is a preview: nothing was released or charged")
        return
    receipt = Receipt.from_json(facts["evidence"]["receipt"])
    evidence = (receipt.ledger, receipt.charge, receipt.seq, receipt.head, receipt.answer_hash)
    shown = tuple(facts["evidence"][name] for name in ("ledger", "charge", "entry", "head", "answer_hash"))
    own = "" if evidence == shown else "the card shows another head or charge than its receipt"
    yield Finding("charge, entry and head on the card", own, "its receipt")
    problems = ledger.verify(receipts=[receipt]).problems
    yield Finding("receipt", "; ".join(problems[:3]), "the hash chain of the ledger, computed again")
    if problems:
        return
    account = ledger.account_by_id(receipt.lines[0][0]).promising
    row, entry = ledger.charge_row(receipt.charge)
    answer, _ = ledger.stored_answer(row)
    yield Finding("plan", _about_plan(facts, ledger, receipt.charge, answer), "the charge and its stored answer")
    yield from _dataset_findings(facts, ledger, account, entry, answer)
    promised = Amount(account.currency, *facts["promise"]["limit_amount"])
    yield _about_limit(account, promised, receipt.seq)
    yield from _made_again(facts, account, receipt, entry["why"], promised, answer)
    if not _is_fit(facts):
        yield _about_names(facts, answer)
    if "certificate" in facts["evidence"]:
        yield Finding("certificate", _about_certificate(facts, entry), "its own proof, and the plan that was paid for")
    yield _about_page(card, page)
    yield from _about_table_file(facts, account, answer, table)
    yield Finding("author of the card", not_checked="a card has no signature")


def _dataset_findings(
    facts: Mapping[str, Any], ledger: Ledger, account: Account, entry: Mapping[str, Any], answer: Any
) -> Iterator[Finding]:
    """Compare the name of the dataset, whom it protects, and what people decided about it."""
    problem = _about_data(facts, ledger, account, entry, answer)
    name, known = facts["released"]["dataset"], ledger.datasets()
    if not problem and name in known and is_read_elsewhere(known[name], entry):
        yield Finding("whom the dataset protects", "", "its registration in the ledger")
        yield Finding("rows of the dataset", not_checked="they were read from a place that is not registered")
    elif problem or name in known:
        yield Finding("dataset and whom it protects", problem, "its registration in the ledger")
    else:
        unregistered = "the ledger has no registration of this name"
        yield Finding("name of the dataset", not_checked=unregistered)
    part = "decisions people made (period, reasons, contact)"
    if name in known and any(about is not None for _, about in known[name].described()):
        yield Finding(part, "", "the registration of the dataset; whether they are true is not checked")
    else:
        yield Finding(part, not_checked="the ledger does not have them")


def _about_names(facts: Mapping[str, Any], answer: Any) -> Finding:
    """The column names of the card against those that were stored with the answer."""
    part, shown = "column names", facts["again"].get("names")
    if not shown:
        return Finding(part, "", "the plan")
    recorded = answer.get("names")
    if recorded is None:
        return Finding(part, not_checked="an earlier version stored this answer, without its column names")
    if shown == recorded:
        return Finding(part, "", "the names that were stored with the answer")
    if answer.get("shared"):
        others = "several statements share this answer, and it was stored with the names of another one"
        return Finding(part, not_checked=others)
    return Finding(part, "the statement that was paid for has other names", "the stored names")


def _about_page(card: Card, page: str | None) -> Finding:
    if page is None:
        return Finding(PAGE, not_checked="no page was given, only the data of the card")
    software = other_version(card.facts)
    if page != card.to_html() and software:
        return Finding(PAGE, not_checked=_made_by(software), is_required=True)
    return Finding(PAGE, _page_problem(card, page), "the data of the card")


def _about_table_file(facts: Mapping[str, Any], account: Account, answer: Any, table: str | None) -> Iterator[Finding]:
    part = "published table (CSV)"
    if table is None:
        yield Finding(part, not_checked="no table was given")
        return
    if facts["again"].get("names"):
        why = "the table of an SQL statement is made from the release; it is not in the record"
        yield Finding(part, not_checked=why, is_required=True, is_of_table=True)
        return
    problem = _about_rows(facts, account, answer, table)
    software = other_version(facts)
    if problem != OTHER_TABLE or not software:
        yield Finding(part, problem, "the stored answer")
        return
    from tallystick.tables.release import Release

    compared = compare_table(Release(_planned(facts, account), answer), table)
    yield Finding("groups and values of the published table (CSV)", problem * bool(compared.wrong), "the stored answer")
    if compared.intervals:
        part, why = "intervals of the published table (CSV)", _made_by(software)
        yield Finding(part, not_checked=why, is_required=True, is_of_table=True)


def _about_rows(facts: Mapping[str, Any], account: Account, answer: Any, table: str) -> str:
    """Return the problem with a table, if it is not the stored answer. Its lines may end with LF or with CRLF."""
    if _is_fit(facts):
        return "the card is that of a fit, which has no table"
    from tallystick.tables.release import Release

    release = Release(_planned(facts, account), answer)
    forms = [release, *([release.for_all_groups()] if release.plan.threshold is None else [])]
    return "" if any(lines_of(form.to_csv()) == lines_of(table) for form in forms) else OTHER_TABLE


def _planned(facts: Mapping[str, Any], account: Account) -> Plan:
    from tallystick.tables.plan import Plan

    content = json.loads(json.dumps(facts["again"]["plan"]))
    content["query"]["table"]["source"] = {"kind": "memory", "place": "memory"}
    return Plan.from_json(json.dumps(content), account=account)


def _about_plan(facts: Mapping[str, Any], ledger: Ledger, charge: int, answer: Any) -> str:
    """Compare the plan, or the fit, on the card with what was paid for."""
    if _is_fit(facts):
        try:
            fit = FitPlan.from_data(facts["again"]["plan"])
            request, price = fit.request, fit.privacy.to_json()
        except TallystickError as error:
            return f"its fit cannot be built again: {error}"
        _, entry = ledger.charge_row(charge)
        if ledger.is_about(charge, request) is False or fit.hash != facts["accounting"]["plan_hash"]:
            return "the charge was for another fit"
        return "" if price == entry["plan"] else "the fit has another cost today"
    planned = answer.get("plan") if isinstance(answer, dict) else None
    return "" if planned == facts["accounting"]["plan_hash"] else "the stored answer belongs to another plan"


def _is_fit(facts: Mapping[str, Any]) -> bool:
    return bool(facts["again"]["plan"]["format"] == FIT)


def _about_data(
    facts: Mapping[str, Any], ledger: Ledger, account: Account, entry: Mapping[str, Any], answer: Any
) -> str:
    """Compare the name on the card with the data that were paid for."""
    name, plan = facts["released"]["dataset"], facts["again"]["plan"]
    known = ledger.datasets()
    if not _is_fit(facts):
        return _about_table(facts, known, plan["query"]["table"], account, entry, answer)
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
    answer: Any,
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
    about = facts["accounting"]["plan_hash"], table["name"], f"dataset {name}"
    texts = request(*about), request(*about, answer.get("names"))  # an earlier rule had no names
    by_name = account.ledger.is_about(facts["evidence"]["charge"], *texts)
    same = by_name or not dataset.sources or entry["source"] in dataset.sources
    return "" if same else "the charge was for other data"


def _as_registered(facts: Mapping[str, Any], dataset: Registered, table: Mapping[str, Any], account: Account) -> str:
    """Compare payer, unit and decisions with those that were registered."""
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


def _about_limit(account: Account, promised: Amount, paid_at: int) -> Finding:
    """Compare the promise with the limit now, and then with those that the account had since the charge."""
    part, now = "limit of the account", account.limit
    if now == promised:
        return Finding(part, "", "its limit in the ledger now")
    if promised in account.limits_since(paid_at):
        raised = f"the limit was raised since, from {promised} to {now}: the card was right before that"
        return Finding(part, against="its limit when the card was made", outdated=raised)
    return Finding(part, f"the account's limit is now {now}, the card promises {promised}", "its limit in the ledger")


def _made_again(
    facts: Mapping[str, Any], account: Account, receipt: Receipt, purpose: str, limit: Amount, answer: Any
) -> Iterator[Finding]:
    """Compare the card with one that is made again; a card of this version must be the same to the letter."""
    against = "a card made again from plan and ledger"
    part = "every number, the chart and the sentences"
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
        yield Finding(part, f"the cost of its plan cannot be computed again: {error}", against)
        return
    proof = facts["evidence"].get("certificate", {}).get("text")
    named = facts["released"]["dataset"]
    names = facts["again"].get("names", {})
    software = other_version(facts)
    by_earlier_rule = bool(software) and facts["promise"]["delta"] == earlier_delta(limit)
    shown_at = earlier_delta(limit) if by_earlier_rule else None
    about = facts["again"]["about"]
    subject = Subject(plan, account, limit, receipt, purpose, named, about, proof, made, names, shown_at)
    if software and "model" not in facts:  # earlier versions show a model as a table of its sums
        subject = replace(subject, as_table=True)
    fresh = json.loads(card_of(subject).to_json())
    _take_place(fresh["released"], facts["released"])
    if made is not None and not _has_noise_flags(facts):
        fresh["left_out"] = _without_noise_flags(fresh["left_out"], made)
    if software and "too_noisy" not in facts:
        del fresh["too_noisy"]  # earlier versions do not have this fact
    parts = fresh["mechanisms"]["parts"]
    if software and parts and same(facts["mechanisms"]["parts"], earlier_parts(parts)):
        fresh["mechanisms"]["parts"] = facts["mechanisms"]["parts"]
    converted = fresh["words"]["table"]["epsilon"]
    if software and same(facts["promise"]["table_epsilon"], converted):
        fresh["promise"]["table_epsilon"] = converted  # earlier versions converted it from the cost
    different = [name for name in fresh if not same(fresh[name], facts.get(name))]
    different += sorted(set(facts) - set(fresh))
    if software and set(facts) == set(fresh):
        yield from _of_other_version(compare(fresh, facts, made), software, against)
        return
    yield Finding(part, f"changed: {', '.join(different)}; {_OTHER_VERSION}" if different else "", against)


def _take_place(fresh: dict[str, Any], stated: Mapping[str, Any]) -> None:
    """Take over from a card whether it says that its rows came from another place.

    Cards of earlier versions do not say it, and the owner may have registered the place since. What the ledger says now
    has a separate line.
    """
    fresh.pop("place", None)
    if "place" in stated:
        fresh["place"] = UNREGISTERED


def _of_other_version(compared: Compared, software: str, against: str) -> Iterator[Finding]:
    """Findings about a card of another version: numbers and names are checked, words and intervals are not.

    The version is what the card says, and so a forger's word. A card with parts that differ and cannot be compared is
    not verified.
    """
    problem = f"changed: {', '.join(sorted(compared.wrong))}; {_OTHER_VERSION}" if compared.wrong else ""
    yield Finding("released values, costs and names", problem, against)
    if compared.intervals:
        part = f"intervals and predicted errors ({', '.join(sorted(compared.intervals))})"
        yield Finding(part, not_checked=_made_by(software), is_required=True)
    if compared.words:
        part = f"sentences ({', '.join(sorted(compared.words))})"
        yield Finding(part, not_checked=_made_by(software), is_required=True)


def _made_by(software: str) -> str:
    return (
        f"made by another version ({software}). Run the same publish with the same key again, which charges nothing, "
        "and verify the new card"
    )


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


def _page_problem(card: Card, page: str) -> str:
    if page == card.to_html():
        return ""
    return "its text differs from what its data gives (edited, or made by another version of tallystick)"
