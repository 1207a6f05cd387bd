"""Contents of a card, section by section, as plain data. All of it is public: plan, account, receipt, decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tallystick.cards.fits import FitPlan
from tallystick.cards.linear import CLAMPED_MODEL, LinearForm
from tallystick.cards.meaning import is_somebody, meaning
from tallystick.digits import ACCOUNTANT, moment, plural, typed, up
from tallystick.errors import InvalidInput
from tallystick.ledger.filters import WHAT_RHO_IS, Amount, quoted_delta
from tallystick.printing import escaped, one_of
from tallystick.tables.aggregates import public_bounds
from tallystick.tables.output import LIMITED
from tallystick.tables.reporting.registered import other_people
from tallystick.tables.reporting.words import rule_of_limits, too_noisy_to_use

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt
    from tallystick.ledger.registry import Registered
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release

SCHEMA, VERSION = "tallystick/card", 1
_POINTS = 81


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a card. ``limit`` is the account's limit when the card was made; no receipt means a preview."""

    plan: Plan | FitPlan
    account: Account
    limit: Amount
    receipt: Receipt | None
    purpose: str
    dataset: str
    about: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None
    """The text of a certificate about the plan's loss."""
    release: Release | None = None
    """What was released, where it is a table."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What columns are called that the plan calls otherwise: those of a statement in SQL."""
    shown_at: float | None = None
    """The delta at which an earlier version showed epsilon; None for the rule of this version."""
    as_table: bool = False
    """True for the form of earlier versions, which show a linear model as a table of its sums."""

    @property
    def called(self) -> dict[str, str]:
        """Names of columns for readers: those of a statement; one that limits per person touch says so."""
        is_model = isinstance(self.plan, FitPlan) or LinearForm.of(self.plan) is not None
        limited = frozenset[str]() if self.release is None or is_model else self.release.limited
        return dict(self.names) | {name: f"{self.names.get(name, name)}{LIMITED}" for name in limited}

    @property
    def price(self) -> Amount:
        """The charge of this table; for a preview, the charge that it would have."""
        from tallystick.ledger.pay import charged_delta

        if self.receipt is None:
            return self.account.price(self.plan.privacy, delta=charged_delta(self.account, self.plan.delta))
        return self.account.paid(self.receipt)

    def loss_of(self, amount: Amount) -> PrivacyLoss:
        """The promise that goes with an amount of this account's currency."""
        return amount.filter.guarantee(amount.a0, amount.a1, self.account.protects)

    @property
    def quoted_delta(self) -> float:
        """The delta at which the account's epsilon is shown."""
        return quoted_delta(self.limit) if self.shown_at is None else self.shown_at


def contents(subject: Subject) -> dict[str, Any]:
    """The whole card as data; the same subject gives the same card."""
    plan, account, receipt = subject.plan, subject.account, subject.receipt
    facts = plan.facts()
    form = None if isinstance(plan, FitPlan) or subject.as_table else LinearForm.of(plan)
    if form is not None:
        facts |= _facts_of_model(form, plan)
    limit, table = subject.loss_of(subject.limit), subject.loss_of(subject.price)
    words = {
        "limit": _legal(meaning(limit, delta=subject.quoted_delta).to_dict()),
        "table": _legal(meaning(table, delta=subject.quoted_delta).to_dict()),
    }
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "released": _released(subject, facts),
        "promise": _promise(subject, words, limit, table),
        "protected": _protected(subject, facts, words["limit"]),
        "not_protected": [
            *_others(subject),
            *not_protected(facts, population=account.name, unit=account.unit),
        ],
        "trust": list(TRUST),
        "accounting": {
            "filter": account.currency.title,
            "filter_name": account.filter,
            "theorem": account.currency.rule.theorem,
            "plan_hash": plan.hash,
            "plan_privacy": facts["privacy"],
            "split": facts["split"],
            "software": f"tallystick {facts['version']}",
        },
        "mechanisms": {
            "parts": facts["parts"],
            "randomness": facts["randomness"],
            "rules": facts["rules"],
            "bounds_from": subject.about.get("bounds_from", NOT_STATED),
        },
        "error": {
            "confidence": 0.95,
            "columns": _renamed(_errors(plan, is_model=form is not None), "column", subject.called),
            "released": _renamed(_widths(subject.release), "column", subject.called),
            "intervals": facts["intervals"],
            "rows_that_count": _rows_that_count(plan, account.unit),
            "clamping": facts.get("clamping", ""),
        },
        "left_out": _left_out(subject, facts),
        "too_noisy": _too_noisy(subject),
        "chart": [] if subject.release is None else _chart(subject, subject.release),
        "evidence": _evidence(receipt) | _certified(subject.certificate),
        "words": words,
        "decisions": {
            "purpose": subject.purpose,
            **{name: subject.about.get(name, NOT_STATED) for name in FIELDS if name not in SHOWN_ELSEWHERE},
        },
        **_approvals(subject),
        **({} if form is None else {"model": form.facts(subject.release, facts["max_rows_per_group"])}),
    }


def _approvals(subject: Subject) -> dict[str, Any]:
    """Who raised the limit by requests, and approvers who were added without approvals; nothing without either.

    People are shown by their ids: names can be erased, and the card must agree with the ledger after that.
    """
    account, team = subject.account, subject.account.ledger.team
    limit = (subject.limit.a0, subject.limit.a1)
    raises = [
        {
            "entry": each.seq,
            "at": each.at,
            "was": str(Amount(account.currency, *each.was)),
            "limit": str(Amount(account.currency, *each.limit)),
            "asked_by": each.asked_by,
            "approved_by": list(each.approved_by),
        }
        for each in team.approved_raises(account.id)
        if each.limit <= limit
    ]
    newest = 0 if subject.receipt is None else subject.receipt.seq
    population = account.path[-1][0]
    glass = [{"entry": seq, "at": at} for seq, at in team.glass_broken(population) if seq <= newest]
    return {"approvals": {"raises": raises, "without_approval": glass}} if raises or glass else {}


def _facts_of_model(form: LinearForm, plan: Plan | FitPlan) -> dict[str, Any]:
    """Return the facts of a plan of sums that is a linear model: the sums are a means to it, not a table."""
    assert not isinstance(plan, FitPlan)
    steps = plan.query.table.steps[: -form.steps]
    return {
        "keys": {"kind": "model", "count": 1},
        "steps": [step.kind for step in steps],
        "clamping": CLAMPED_MODEL,
    }


def _too_noisy(subject: Subject) -> str:
    """Return which means and quantiles are too noisy to use, by the names on the card; empty if none."""
    release = subject.release
    if release is None:
        return ""
    bounds = public_bounds(release.plan.query.fields)
    data = {group: release.data[group] for group in release.groups}
    limits = {}
    for name, ends in bounds.items():
        called = subject.called.get(name, name)
        limits[called] = ends
        for end in ("", "_lower", "_upper"):
            data[f"{called}{end}"] = release.data[f"{name}{end}"]
    return too_noisy_to_use(data, limits, release.groups)


def _released(subject: Subject, facts: Mapping[str, Any]) -> dict[str, Any]:
    receipt, names = subject.receipt, subject.called
    return {
        "dataset": subject.dataset,
        "population": subject.account.name,
        "group_by": [names.get(column, column) for column in facts["group_by"]],
        "groups": facts["keys"],
        "steps": facts["steps"],
        "measures": _renamed(facts["measures"], "name", names),
        "at": None if receipt is None else moment(receipt.at) + " UTC",
        **({"place": UNREGISTERED} if is_elsewhere(subject) else {}),
    }


UNREGISTERED: Final = (
    "The rows came from a place that is not registered for this dataset, so it is not checked that they are its rows."
)


def is_elsewhere(subject: Subject) -> bool:
    """True if a table was made from rows at a place that is not registered for the dataset of that name.

    The name is then the word of the person who ran it.
    """
    if subject.receipt is None or isinstance(subject.plan, FitPlan):
        return False
    ledger = subject.account.ledger
    dataset = ledger.datasets().get(subject.dataset)
    _, entry = ledger.charge_row(subject.receipt.charge)
    return dataset is not None and is_read_elsewhere(dataset, entry)


def is_read_elsewhere(dataset: Registered, entry: Mapping[str, Any]) -> bool:
    """True if the source of a charge is not one of the registered places of a dataset that has some."""
    return bool(dataset.sources) and entry["source"] not in dataset.sources


def _chart(subject: Subject, release: Release) -> list[dict[str, Any]]:
    """Return the bars of a release, under the names that people see."""
    names = {escaped(header): subject.called.get(name, name) for name, header in release.headers.items()}
    return _renamed(release.bars(), "field", names)


def _renamed(lines: Sequence[Mapping[str, Any]], word: str, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Lines about columns, under the names that people see; what is said of a column is the plan's own."""
    return [{**line, word: names.get(line[word], line[word])} for line in lines]


def _promise(
    subject: Subject, words: Mapping[str, Mapping[str, Any]], limit: PrivacyLoss, table: PrivacyLoss
) -> dict[str, Any]:
    price = subject.price
    alpha = np.unique(np.concatenate([np.linspace(0, 1, _POINTS), np.geomspace(1e-3, 0.1, 12)]))
    return {
        "notion": subject.account.currency.rule.title,
        "what_rho_is": WHAT_RHO_IS if subject.account.currency.kind == "zcdp" else "",
        "limit": str(subject.limit),
        "limit_amount": [subject.limit.a0, subject.limit.a1],
        "price": str(price),
        "price_amount": [price.a0, price.a1],
        "share_of_limit": price.a0 / subject.limit.a0,
        "epsilon": words["limit"]["epsilon"],
        "delta": words["limit"]["delta"],
        "table_epsilon": _table_epsilon(subject, price, words["table"]["epsilon"]),
        "tradeoff": {
            "alpha": _down(alpha),
            "limit": _down(limit.tradeoff(alpha=alpha)),
            "table": _down(table.tradeoff(alpha=alpha)),
        },
    }


def _table_epsilon(subject: Subject, price: Amount, converted: Any) -> Any:
    """Return the epsilon of this table as screens show it: read from its loss, not converted from its cost."""
    from tallystick.ledger.release_epsilon import release_epsilon  # start-up: it loads the accountant

    said = release_epsilon(subject.plan.privacy, price, subject.quoted_delta).split()
    return float(said[1].replace(",", "")) if said else converted


def _protected(subject: Subject, facts: Mapping[str, Any], promised: Mapping[str, Any]) -> dict[str, Any]:
    account, parent = subject.account, subject.account.parent
    lifetime = f"the account {account.name}, for as long as it is used: at most {subject.limit} in all"
    if account.currency.kind != "approx" and promised["epsilon"] != "inf":
        lifetime += f" (epsilon {up(promised['epsilon'])} at delta {typed(promised['delta'])})"
    if parent is not None:
        lifetime += f"; with all its other blocks, at most {parent.limit} ({parent.name})"
    return {
        "unit": account.unit,
        "spoken_of": _spoken_of(account.unit),
        "unit_column": facts["unit"],
        "row_level": facts["row_level"],
        "adjacency": facts["adjacency"],
        "neighbours": _neighbours(facts, account.unit),
        "max_groups": facts["max_groups"],
        "max_rows_per_group": facts["max_rows_per_group"],
        **({"max_rows_in_all": facts["max_rows_in_all"]} if "max_rows_in_all" in facts else {}),
        "counts": _counts(subject, facts),
        "window": subject.about.get("window", NOT_STATED),
        "lifetime": lifetime,
    }


def _neighbours(facts: Mapping[str, Any], unit: str) -> str:
    """Return which datasets are compared, in words."""
    if facts["row_level"]:
        return ROW_NEIGHBOURS[facts["adjacency"]]
    return NEIGHBOURS[facts["adjacency"]].format(unit=unit)


def _counts(subject: Subject, facts: Mapping[str, Any]) -> str:
    """Return how much of one unit counts, in words."""
    from tallystick.tables.reporting.columns import capped

    if not isinstance(subject.plan, FitPlan):
        return capped(subject.plan.query, subject.account.unit)
    rows, unit = facts["max_rows_per_group"], subject.account.unit
    return one_each("row", unit) if facts["row_level"] else f"rows of one {unit} beyond {rows:,} are left out"


def one_each(part: str, unit: str) -> str:
    """Say whom an account protects if the owner of each row or example was not named.

    >>> one_each("row", "patient")
    'the account protects each patient. It was not checked that each patient has only one row'
    """
    if unit == part:
        return f"the account protects each {unit}"
    return f"the account protects each {unit}. It was not checked that each {unit} has only one {part}"


def _spoken_of(unit: str) -> dict[str, str]:
    """Return the words for one unit: "you" for a person, and the name of anything else."""
    if is_somebody(unit):
        return {"one": "You", "is": "are", "it": "you", "with": "with you", "out": "without you", "them": "people"}
    one = {"one": f"One {unit}", "is": "is", "it": "it", "with": f"with one {unit}", "out": "without it"}
    return {**one, "them": plural(unit)}


def _errors(plan: Plan | FitPlan, *, is_model: bool) -> list[dict[str, Any]]:
    if isinstance(plan, FitPlan):  # coefficients have no error that is known beforehand
        return []
    errors, by_size = plan.error(), plan.error_by_size()
    lines: list[dict[str, Any]] = []
    for name, measure in plan.query.measures:
        if name in by_size:  # how many rows a group has is not known beforehand, so no size is assumed
            sizes = by_size[name].items()
            lines += [{"column": name, "error": e, "holds": f"in a group of {size:,g} rows"} for size, e in sizes]
        else:
            lines.append(
                {"column": name, "error": errors[name], "holds": "" if is_model else _where(measure, plan.threshold)}
            )
    return lines


def _widths(release: Release | None) -> list[dict[str, Any]]:
    """Return half widths of the released intervals: in the middle group, and the largest."""
    errors = {} if release is None else release.errors()
    return [{"column": name, "middle": each["median"], "largest": each["largest"]} for name, each in errors.items()]


def _where(measure: Measure, threshold: int | None) -> str:
    """The groups in which the error of a measure is what is said."""
    from tallystick.tables.parts import Units

    if threshold is None:
        return "in every group"
    return f"well above the threshold {threshold:,}" if Units() in measure.parts() else "in every group that is shown"


def _left_out(subject: Subject, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the reports on limits and bounds: their errors, and the released numbers."""
    told = [dict(each) for each in facts.get("removed", ())]
    if subject.release is None:
        return told
    removed = {each.what: each.to_data() for each in subject.release.removed()}  # totals are shown with their parts
    return [line | removed[line["what"]] for line in told if line["what"] in removed]


def _rows_that_count(plan: Plan | FitPlan, unit: str) -> str:
    """Return the meaning of "rows that count" if the card uses these words."""
    from tallystick.tables.reporting.columns import limit_in_all, limits_of
    from tallystick.tables.reporting.totals import RowsCounted
    from tallystick.tables.steps import EachRow

    if isinstance(plan, FitPlan) or RowsCounted() not in plan.query.removed:
        return ""
    if isinstance(plan.query.table.unit, EachRow):
        return '"Rows that count" are all rows in a group of the table: each counts as 1.'
    groups, rows = limits_of(plan.query)
    rule = rule_of_limits(unit, groups=groups, rows=rows, in_all=limit_in_all(plan.query))
    return f'"Rows that count" are rows after the limits. A row counts as 1. {rule}'


def _evidence(receipt: Receipt | None) -> dict[str, Any]:
    if receipt is None:
        return {"receipt": None, "verify": "nothing has been released or charged yet"}
    return {
        "receipt": receipt.to_json(),
        "ledger": receipt.ledger,
        "charge": receipt.charge,
        "entry": receipt.seq,
        "head": receipt.head,
        "answer_hash": receipt.answer_hash,
        "verify": "tallystick card verify CARD --ledger LEDGER",
    }


def _certified(text: str | None) -> dict[str, Any]:
    """Return the claim of a certificate and its text; empty without a certificate."""
    if text is None:
        return {}
    from tallystick.accounting.certificate import Certificate

    proof = Certificate(text)
    claim = f"epsilon {up(proof.epsilon, ACCOUNTANT)} at delta {typed(proof.delta)} of {proof.about}"
    return {"certificate": {"claim": claim, "hash": proof.hash, "text": text}}


def _down(values: Any) -> list[float]:
    """Six decimals, rounded down: misses are a lower bound."""
    return [float(value) for value in np.floor(np.asarray(values, dtype=float) * 1e6) / 1e6]


def _legal(numbers: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: it is written as text."""
    return {name: "inf" if value == math.inf else value for name, value in numbers.items()}


# The sentences of a card that do not depend on numbers: who is trusted, and what is not protected.

NEIGHBOURS: Final = {
    "add_remove": "with and without all rows of one {unit}",
    "replace": "with all rows of one {unit} replaced by any others",
}

ROW_NEIGHBOURS: Final = {
    "add_remove": "with and without one row",
    "replace": "with one row replaced by any other",
}

TRUST: Final = (
    "The owner of the data and the person who runs tallystick see the original data.",
    (
        "You do not have to trust the readers. The guarantee holds against every reader, with everything they know and "
        "can compute, and with all other publications from the same account."
    ),
    "The ledger must be the latest copy. Anyone who keeps a receipt can check that.",
    "The computer's random numbers must be secret.",
)

FIELDS: Final = {
    "window": "which period the data covers",
    "bounds_from": "where the clipping bounds came from",
    "limit_reason": "why the limit is what it is",
    "decided_by": "who decided on limit and unit",
    "contact": "whom to ask",
    "title": "what the table is called on its card",
    "curators": "who publishes it; several with semicolons",
    "region": "which region the data are about, or whose laws apply",
    "product_type": "what it is: Summary statistics, Dataset, Synthetic data, Machine learning model, ...",
    "identifies": "which columns identify other people, who are not protected; several with semicolons",
    "invariants": "what is published about these data without noise",
    "release_type": "One release or Many releases",
    "refresh": "how often it is released again, and when the budget begins anew",
    "looked_before": "whether a person looked at the data to plan this, and whether the budget counts that look",
    "timing": "what is done against an attacker who measures how long an answer takes",
    "adversarial_tests": "which attacks were tried on it",
    "re_evaluation": "on which date limit and unit are looked at again",
}
SHOWN_ELSEWHERE: Final = ("window", "bounds_from", "identifies")
"""Statements that other blocks of the card show."""
CHOICES: Final = {
    "product_type": (
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries",
    ),
    "release_type": ("One release", "Many releases"),
}  # fmt: skip
"""The answers that the registry of deployments knows; other fields are free text."""


def check_answers(answers: Mapping[str, str], *, option: str = "about") -> None:
    """Raise an error for a decision with an unknown name or an answer that is not allowed."""
    for name, text in answers.items():
        if name not in FIELDS:
            raise InvalidInput(option, name, f"one of: {one_of(name, FIELDS, most=len(FIELDS))}")
        if text not in CHOICES.get(name, (text,)):
            raise InvalidInput(f"{option} {name}", text, f"one of: {one_of(text, CHOICES[name])}")


NOT_STATED: Final = "not stated"

GROUPS: Final = (
    "Families and other groups. Several together are protected less than one. For a family of four, odds that double "
    "for one person can grow sixteenfold or more."
)
TIMING: Final = "Timing. Someone who watches the computer may see when it worked and for how long."


def _others(subject: Subject) -> list[str]:
    """Return that people are not protected whom the groups of a table identify."""
    if isinstance(subject.plan, FitPlan):
        return []
    return [f"Other people. {text}." for text in other_people(subject.plan.query, subject.about, subject.account.unit)]


def not_protected(facts: Mapping[str, Any], *, population: str, unit: str) -> tuple[str, ...]:
    """Return what the guarantee leaves open, in sentences; there is always something.

    >>> facts = {"keys": {"kind": "public", "count": 4}, "row_level": False, "adjacency": "add_remove"}
    >>> len(not_protected(facts, population="clinic", unit="patient"))
    6
    """
    sentences = []
    product = "model" if facts["keys"]["kind"] == "model" else "table"
    if facts["row_level"]:
        sentences.append("People. Each row is protected by itself. A person with several rows is protected less.")
    sentences += [
        _facts_about_everyone(unit, product, replaced=facts["adjacency"] == "replace"),
        _about_groups(facts["keys"]),
        (
            f"Other publications. Only releases charged to {population} are counted. Anything published elsewhere adds "
            "to what is known."
        ),
        (
            f"Public settings. The {product}'s columns, limits, bounds, filters, purpose and cost are public, and so "
            "is its existence."
        ),
        GROUPS,
        TIMING,
    ]
    if facts["adjacency"] == "replace":
        sentences.append(f"The number of {unit} records. The guarantee is about replacing one, not about its presence.")
    return tuple(sentences)


def _facts_about_everyone(unit: str, product: str, *, replaced: bool) -> str:
    if is_somebody(unit):
        adds = "a change of your data changes" if replaced else "your data adds"
        whom = "you too, whether or not you are in the data"
    else:
        adds = f"a change in the data of one {unit} changes" if replaced else f"the data of one {unit} adds"
        whom = f"every {unit}, whether or not it is in the data"
    return (
        f"Facts about everyone. If the {product} shows that two things go together, that is known about {whom}. "
        f"The guarantee is about what {adds}."
    )


def _about_groups(keys: Mapping[str, Any]) -> str:
    if keys["kind"] == "private":
        return (
            f"Which groups are large. A group appears if its noisy number of units reaches {keys['threshold']:,}. A "
            f"group of a single unit appears with probability {up(keys['reached'], 2)} at most "
            f"(allowed: {typed(keys['delta'])})."
        )
    if keys["kind"] == "model":
        return "The rows that the model was fitted to. The purpose describes them."
    if keys["kind"] == "total":
        return "The rows that were counted. The table is one total, and its filter is public."
    return (
        f"The list of groups. Its {keys['count']:,} groups were public before. Each one appears, even if it has no "
        "data."
    )
