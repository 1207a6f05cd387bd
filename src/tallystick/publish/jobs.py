"""A job: a plan of a registered data set that is priced, paid for, and written to files with its card."""

from __future__ import annotations

import datetime
import json
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick import strict_json
from tallystick.errors import BudgetExceeded, InvalidInput, NotComputable, OtherReason, Refused, Unavailable
from tallystick.ledger.chain import digest
from tallystick.ledger.pay import Receipt, charged_delta
from tallystick.place import names_server
from tallystick.printing import given, json_text, up
from tallystick.publish.datasets import find, known, told_of_moves
from tallystick.rounding import as_written
from tallystick.tables.sources import NO_NAMES, Names, same_file

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger import Account, Amount
    from tallystick.ledger.book import Ledger
    from tallystick.publish.datasets import Dataset
    from tallystick.publish.models import LinearModel
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release
    from tallystick.tables.sql.answer import Answered
    from tallystick.tables.sql.statement import Statement
    from tallystick.tables.table import Table

SCHEMA, VERSION = "tallystick/publish-plan", 1
TABLES = (".csv", ".json", ".parquet", ".arrow")
CARDS = (".html", ".htm", ".json")
LONGEST = 200_000_000  # characters; a plan may list a million public groups


@dataclass(frozen=True, slots=True)
class Job:
    """A release to make and where its files go."""

    plan: Plan
    account: Account
    dataset: Dataset
    why: str
    key: str | None
    out: Path | None
    card: Path | None
    reader: Callable[[Release], LinearModel] | None = None
    """How the table is read where it holds the sums of a model."""
    anew: bool = False
    """Whether it is a release of its own where no key is given, under a key that the ledger makes up."""

    @property
    def name(self) -> str:
        """The key: given, or that of the plan and its data, so that running a plan twice by mistake charges once."""
        return self.key or f"plan-{digest(f'{self.plan.hash} {self.dataset.name}')[:24]}"

    @property
    def asked_with(self) -> str | None:
        """The key that the ledger is asked with; None leaves it to the ledger."""
        return None if self.anew and self.key is None else self.name


def price_of(plan: Plan, account: Account) -> Amount:
    """What the account would charge."""
    return account.price(plan.privacy, delta=charged_delta(account, plan.delta))


def alone(loss: PrivacyLoss, price: Amount, delta: float) -> str:
    """What a release is by itself, as epsilon: of its own loss, which may promise more than the price it is charged at.

    Empty where the price is an epsilon itself. ``delta`` is that at which the account's epsilon is shown.

    >>> from tallystick.accounting.losses import pure_dp, zcdp
    >>> from tallystick.ledger import Amount, Filter
    >>> alone(pure_dp(epsilon=0.1), Amount(Filter("zcdp"), 5_000_000_000), 1e-6)
    'epsilon 0.1'
    >>> alone(zcdp(rho=0.005), Amount(Filter("zcdp"), 5_000_000_000), 1e-6)
    'epsilon 0.43 at delta 1e-06'
    """
    charged = price.as_epsilon_at(delta)
    if not charged:
        return ""
    try:
        pure = loss.epsilon(delta=0.0)
        own = loss.epsilon(delta=delta)
    except NotComputable:
        return charged
    if pure < math.inf:
        return f"epsilon {up(as_written('epsilon', pure), 3)}"
    return min(charged, f"epsilon {up(own, 3)} at delta {given(delta)}", key=lambda said: float(said.split()[1]))


def shown_alone(loss: PrivacyLoss, price: Amount, account: Account) -> str:
    """``alone`` at the delta at which the account's epsilon is shown."""
    return alone(loss, price, account.quoted_delta(float(price.delta)))


def plan_facts(plan: Plan, account: Account, sizes: Sequence[int] = ()) -> dict[str, Any]:
    """Price, error and whether it fits, as plain data; ``sizes`` are rows in a group, if somebody knows them.

    The error of a measure that depends on the size is for the first of them, 1,000 rows where none is given, and
    ``error_by_size`` has it for all.
    """
    from tallystick.tables.plan import GROUP_SIZES

    price, left = price_of(plan, account), account.remaining
    denial, refusal = _denial(plan, price, account), _refusal(plan, price, account)
    return {
        "hash": plan.hash,
        "population": account.name,
        "price": str(price),
        "price_epsilon": shown_alone(plan.privacy, price, account),
        "price_amount": price.to_dict(),
        "left": left.text(upward=False),
        "left_amount": left.to_dict(),
        "fits": price.fits(left),
        "would_fit": None if denial is None else denial.to_data(),
        "refused": None if refusal is None else refusal.to_data(),
        "error": plan.error(group_size=sizes[0] if sizes else 1_000),
        "group_size": sizes[0] if sizes else 1_000,
        "error_by_size": plan.error_by_size(sizes or GROUP_SIZES),
        "confidence": 0.95,
        "groups": plan.facts()["keys"],
    }


def _denial(plan: Plan, price: Amount, account: Account) -> Refused | BudgetExceeded | None:
    """The denial that paying this price would meet, with the plans that fit."""
    from tallystick.tables.denial import with_plans

    try:
        account.rehearse(price)
    except BudgetExceeded as problem:
        return with_plans(plan, problem, account)
    except Refused as problem:
        return problem
    return None


def _refusal(plan: Plan, price: Amount, account: Account) -> Refused | None:
    """The refusal of this plan now: the data are closed after a failure, or the price is below the least one."""
    from tallystick.tables.sources import identity

    table = plan.query.table
    try:
        account.admit(price, source=identity(table.source, table.name))
    except Refused as problem:
        return problem
    return None


def saved(dataset: str, plan: Plan) -> str:
    """A plan and the data set it is about, as the text of a file."""
    data = {"schema": SCHEMA, "version": VERSION, "dataset": dataset, "plan": json.loads(plan.to_json())}
    return json_text(json.dumps(data, indent=1, sort_keys=True)) + "\n"


def read_saved(path: Path) -> tuple[str, str]:
    """The data set's name and the plan's text."""
    allowed = "a plan that 'tallystick publish plan --out' wrote"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("plan", str(path), f"a file that can be read ({error.strerror})") from None
    data = strict_json.read(text, name="plan", allowed=allowed, longest=LONGEST)
    try:
        if (data["schema"], data["version"]) != (SCHEMA, VERSION):
            raise ValueError
        return str(data["dataset"]), json.dumps(data["plan"])
    except (ValueError, KeyError, TypeError):
        raise InvalidInput("plan", str(path), allowed) from None


def plan_of(text: str, dataset: Dataset, account: Account, source: str | None) -> Plan:
    """A saved plan, priced again, for the data set it was made for and whom that protects."""
    from tallystick.tables.plan import Plan

    plan = Plan.from_json(text, account=account)
    known, table = dataset.opened(), plan.query.table
    same = (known.unit, known.adjacency, known.name, known.base, known.source) == (
        table.unit,
        table.adjacency,
        table.name,
        table.base,
        table.source,
    )
    if not same:
        raise Refused(
            f"this plan is about another table or unit than dataset {dataset.name!r} as it is registered; "
            "make the plan again: tallystick publish plan ..."
        )
    return moved(plan, source)


def _absolute(source: str) -> str:
    """A source as it is given, or the absolute path of a file."""
    return source if names_server(source) or "://" in source else str(Path(source).absolute())


def moved(plan: Plan, source: str | None) -> Plan:
    """The plan with its data at ``source``, where they moved there."""
    return plan if source is None else plan.on(_absolute(source))


def check_targets(out: Path | None, card: Path | None, *inputs: Path | str | None) -> None:
    """Files that cannot be written, and ``inputs`` that would be overwritten, are found before anything is charged."""
    read = [path for path in inputs if path is not None]
    about = _about(out) if out is not None and out.suffix.lower() != ".json" else None
    facts = card and card.with_suffix(".json")
    for option, path in (("--out", out), ("--out", about), ("--card", card), ("--card", facts)):
        if path is not None and any(same_file(path, each) for each in read):
            raise InvalidInput(option, str(path), "another name: this file is read, and would be overwritten")
    for option, path, endings in (("--out", out, TABLES), ("--card", card, CARDS)):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise InvalidInput(option, str(path), f"a file name that ends in {' or '.join(endings)}")
        if path.suffix.lower() in (".parquet", ".arrow") and find_spec("pyarrow") is None:
            raise Unavailable(f"{path.name} needs pyarrow: pip install pyarrow; without it works .csv or .json")
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise InvalidInput(option, str(path), "a file in a folder that exists")
        if path.exists() and not os.access(path, os.W_OK):
            raise InvalidInput(option, str(path), "a file that may be written")
    if (
        out is not None
        and card is not None
        and out.absolute() in (card.absolute(), card.with_suffix(".json").absolute())
    ):
        raise InvalidInput("--out", str(out), "another name than the card's files")


def check_plan_file(out: Path | None) -> None:
    """A plan is written to a new .json file, or over another plan; over nothing else."""
    if out is None:
        return
    if out.suffix.lower() != ".json" or out.is_dir() or not out.absolute().parent.is_dir():
        raise InvalidInput("--out", str(out), "a file name that ends in .json, in a folder that exists")
    if out.exists():
        try:
            read_saved(out)
        except InvalidInput:
            raise InvalidInput("--out", str(out), "another name: this file is no plan, and would be lost") from None


def _about(out: Path) -> Path:
    from tallystick.tables.release import beside

    return beside(out)


def check_files(out: Path | None, card: Path | None, table: Table, account: Account) -> None:
    """``check_targets`` for everything the release reads: its data, the ledger, and every registered file."""
    check_targets(out, card, *table.source.paths, *in_use(account.ledger))


def in_use(book: Ledger) -> list[str]:
    """The ledger's own file, and that of every registered data set: nothing may be written there."""
    own = [] if book.store.place.path is None else [str(book.store.place.path)]
    return [*own, *(str(each.table["source"]["place"]) for each in known(book).values())]


def dry(job: Job, names: Names = NO_NAMES) -> dict[str, Any]:
    """What the release itself would say: a refusal, a denial, the price, or that the key has its answer already.

    No row is read and nothing is charged; the source must be there, with the columns of the plan.
    """
    from tallystick.tables.run import rehearsed

    check_files(job.out, job.card, job.plan.query.table, job.account)
    try:
        with told_of_moves(job.account.ledger):
            earlier = rehearsed(
                job.plan, job.account, why=job.why, key=job.asked_with, dataset=job.dataset.name, names=names
            )
    except BudgetExceeded as problem:
        raise _told(job, problem) from None
    if earlier is not None:
        return {
            "dry_run": True,
            "key": job.name,
            "again": True,
            **paid_facts(job.account, earlier, job.plan.privacy, fresh=False),
        }
    return {"dry_run": True, "key": job.asked_with, "again": False, "plan": plan_facts(job.plan, job.account)}


def dry_statement(
    statement: Statement, book: Ledger, *, why: str | None, key: str | None, out: Path | None
) -> dict[str, Any]:
    """``dry`` for a statement in SQL."""
    from tallystick.tables.sql.answer import denied_statement, form_of, key_of, names_of, reason_of

    said, account, asked = statement.options.given, statement.plan.account, statement.released.known.dataset
    assert account is not None
    assert asked is not None  # every table of a ledger's catalogue is registered
    statement.released.rehearse()
    given = said.get("key", key)
    form = form_of(statement) if given is None else None
    name = given or (None if form is None else key_of(statement, form))
    plan = statement.plan if form is None else form.plan
    with warnings.catch_warnings():
        if form is not None:  # whoever asks the same has a reason of their own
            warnings.simplefilter("ignore", OtherReason)
        try:
            job = Job(plan, account, find(asked, book), reason_of(statement, why), name, out, None, anew=True)
            return dry(job, names_of(statement, form))
        except BudgetExceeded as problem:
            raise denied_statement(statement, problem, account, asked) from None


def _told(job: Job, problem: BudgetExceeded) -> BudgetExceeded:
    from tallystick.tables.denial import for_model

    return problem if job.reader is None else for_model(problem)


def release(job: Job, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Release the plan, write its files, and say what it did; ``progress`` is told each stage as it begins."""
    from tallystick.cards import card

    check_files(job.out, job.card, job.plan.query.table, job.account)
    try:
        with told_of_moves(job.account.ledger):
            made = job.plan.release(why=job.why, key=job.asked_with, progress=progress, dataset=job.dataset.name)
    except BudgetExceeded as problem:
        raise _told(job, problem) from None
    assert made.receipt is not None
    model = None if job.reader is None else job.reader(made)
    written: dict[str, Any] = {} if model is None else {"model": model.to_data()}
    if job.out is not None:
        written |= write_table(job.out, made, model)
    if job.card is not None:
        drawn = card(made, dataset=job.dataset.name, about=job.dataset.about)
        written["card"] = str(drawn.save(job.card)[0])
    return {
        "dry_run": False,
        "key": job.asked_with or job.account.ledger.charge_row(made.receipt.charge)[0].key,
        "plan_hash": job.plan.hash,
        **paid_facts(job.account, made.receipt, job.plan.privacy, fresh=made.fresh),
        "columns": list(made.columns),
        "groups": list(made.groups),
        "counts": list(made.counts),
        "rows": _rows(made),
        "holds": made.holds,
        "left_out": made.left_out,
        "wide": made.wide,
        "widths": made.widths(),
        "removed": [each.to_data() for each in made.removed()],
        **written,
    }


def write_table(out: Path, table: Release | Answered, model: LinearModel | None = None) -> dict[str, str]:
    """The table in the format that the file's name asks for, and beside it what is to be known of its release.

    JSON says that itself. Returns the paths.
    """
    ending = out.suffix.lower()
    if ending == ".json":
        return {"out": str(write(out, (model or table).to_json() + "\n"))}
    if ending == ".csv":
        write(out, table.to_csv())
    else:
        try:
            (table.to_parquet if ending == ".parquet" else table.to_arrow_file)(out)
        except OSError as error:
            raise InvalidInput("--out", str(out), f"a file that can be written ({error.strerror})") from None
    return {"out": str(out), "about": str(write(_about(out), table.about_csv()))}


def paid_facts(account: Account, receipt: Receipt, loss: PrivacyLoss, *, fresh: bool) -> dict[str, Any]:
    """What was paid for a release of this loss, as plain data."""
    return {
        "charge": receipt.charge,
        "again": not fresh,
        "price": str(account.paid(receipt)),
        "price_epsilon": shown_alone(loss, account.paid(receipt), account),
        "left": account.remaining.text(upward=False),
        "population": account.name,
        "head": receipt.head,
    }


def _rows(made: Release) -> list[list[Any]]:
    """The table's cells, dates as text."""
    return [[v.isoformat() if isinstance(v, datetime.date) else v for v in row.values()] for row in made.rows]


def write(path: Path, text: str) -> Path:
    """Write a text file as it is, newline for newline."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidInput("--out", str(path), f"a file that can be written ({error.strerror})") from None
    return path
