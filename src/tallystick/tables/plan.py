"""A plan: a question with its price and its error, frozen before any data is opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.accounting.adjacency import Protects
from tallystick.errors import AdjacencyMismatch, InvalidInput, Refused
from tallystick.mechanisms.base import confidence_level
from tallystick.strict_json import read, same
from tallystick.tables.asked import Query
from tallystick.tables.blocks import within_block
from tallystick.tables.budget import Noise, errors, for_gaussian_account, lone_probability, priced, threshold
from tallystick.tables.keyset import PrivateKeys
from tallystick.tables.sources import source_of
from tallystick.tables.table import LONGEST_TEXT, EachRow, written

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.tables.release import Release

FORMAT = "tallystick/plan/1"


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be asked, how it is bounded, which noise it gets, what it costs and how wrong it will be.

    Plans with the same hash ask the same question at the same price, on whatever engine.
    """

    query: Query
    budget: Mapping[str, Any]
    noises: tuple[Noise, ...]
    privacy: PrivacyLoss
    threshold: int | None
    account: Account | None = field(default=None, compare=False, repr=False)

    @property
    def hash(self) -> str:
        """SHA-256 over question, budget and noise; not over the place of the data."""
        asked = self.query.to_data()
        asked["table"] = {key: value for key, value in asked["table"].items() if key != "source"}
        told = {"format": FORMAT, "query": asked, "budget": dict(self.budget), "noise": self._noise_data()}
        return hashlib.sha256(_canonical(told).encode()).hexdigest()

    @property
    def salt(self) -> str:
        """The key of the hash that picks which groups of a unit count; public, and the same on every engine."""
        return self.hash[:32]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""
        return tuple(name for name, _ in self.query.measures)

    @property
    def delta(self) -> float | None:
        """The delta this plan spends: that of the budget, or of private keys."""
        if self.budget.get("delta"):
            return float(self.budget["delta"])
        return self.query.keys.delta if isinstance(self.query.keys, PrivateKeys) else None

    @property
    def lone_probability(self) -> float:
        """The chance that some group of one unit alone is shown: at most the delta of private keys."""
        return 0.0 if self.threshold is None else lone_probability(self.query, self.noises, self.threshold)

    def error(self, *, confidence: float = 0.95, group_size: float = 1000.0) -> dict[str, float]:
        """Half-width of the privacy noise of each measure, before any data is read.

        Exact for counts, sums and histograms. Means, variances and quantiles depend on how many rows a group has:
        ``group_size`` is what is assumed.
        """
        size = check.positive("group_size", group_size)
        return errors(self.query, self.noises, confidence_level(confidence), size)

    def explain(self) -> str:
        """Stages, sensitivities, noise and shares, in words."""
        from tallystick.tables.explain import explained

        return explained(self)

    def facts(self) -> dict[str, Any]:
        """Everything a privacy card says about this plan, as plain data."""
        from tallystick.tables.explain import facts

        return facts(self)

    def sql(self, *, dialect: str = "duckdb") -> str:
        """The SQL it runs: 'duckdb', 'spark' or 'postgres'."""
        from tallystick.tables.dialects import WORDS
        from tallystick.tables.program import text_of

        if dialect not in WORDS:
            raise InvalidInput("dialect", dialect, ", ".join(WORDS))
        return text_of(self.query, WORDS[dialect], self.salt)

    def on(self, source: Any) -> Plan:
        """The same plan, hash and all, with the table in another place."""
        return replace(self, query=self.query.about(replace(self.query.table, source=source_of(source))))

    def with_account(self, account: Account) -> Plan:
        """The same plan, paid by this account."""
        if account.adjacency != str(self.query.table.adjacency.value):
            raise AdjacencyMismatch(account.adjacency, self.query.table.adjacency.value)
        return replace(make_plan(self.query, self.budget, account=account), account=account)

    def release(
        self,
        *,
        why: str,
        key: str | None = None,
        progress: Callable[[str], None] | None = None,
        dataset: str | None = None,
    ) -> Release:
        """Reserve, start, compute, add noise, store the answer in the ledger, and hand it out.

        The same ``key`` again returns the stored answer, byte for byte, and charges nothing; asked of other data it is
        refused. Data are known by their place, or by the name they are registered under, ``dataset``, wherever they
        are. What can be checked without data is checked before the charge; after that every failure keeps the charge.
        ``progress`` is told the name of each stage as it begins; names and number of stages are public.
        """
        from tallystick.tables.run import release

        if self.account is None:
            raise Refused(
                "no account pays for this plan: ts.Private(source, account=...) or plan.with_account(account)"
            )
        return release(self, self.account, why=why, key=key, progress=progress, dataset=dataset)

    def to_json(self) -> str:
        """The plan as text. It holds the public keys, no data and no password."""
        told = {
            "format": FORMAT,
            "query": self.query.to_data(),
            "budget": dict(self.budget),
            "noise": self._noise_data(),
            "hash": self.hash,
        }
        return json.dumps(told, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, *, account: Account | None = None, source: Any = None) -> Plan:
        """The plan that ``to_json`` wrote. It is priced again, so an edited price or noise is found and refused."""
        with written("plan", FORMAT):
            told = read(text, name="plan", longest=LONGEST_TEXT)
            if told["format"] != FORMAT:
                raise InvalidInput("format", told["format"], FORMAT)
            query = Query.from_data(told["query"], account=account)
            plan = make_plan(query, told["budget"], account=account)
            unchanged = same(told, json.loads(plan.to_json()))
        if not unchanged:
            raise Refused("this plan was edited: its question and budget do not give what else it says")
        return plan if source is None else plan.on(source)

    def _noise_data(self) -> dict[str, Any]:
        return {
            "law": self.noises[0].law.name,
            "scales": [noise.scale for noise in self.noises],
            "threshold": self.threshold,
        }

    def __repr__(self) -> str:
        return f"<Plan {self.hash[:12]}: {', '.join(self.measures)}; {self.privacy}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.explain())}</pre>"


def make_plan(query: Query, budget: Mapping[str, Any], *, account: Account | None = None) -> Plan:
    """Price a question. The unit's name is that of the account, if there is one."""
    payer = account or query.table.account
    query = query if payer is None else within_block(query, payer)
    unit = None if payer is None else payer.unit
    if isinstance(query.table.unit, EachRow) and unit not in (None, "row"):
        assert payer is not None
        raise Refused(
            f"account {payer.name!r} promises something to each {unit}, and this plan protects single rows, of which a "
            f"{unit} may have many; name the column that says whose row it is, or pay from an account with unit='row'"
        )
    protects = Protects(query.table.adjacency, unit)
    found = priced(query, budget, protects)
    privacy = found.privacy
    if payer is not None and payer.currency.kind == "gdp":
        privacy = for_gaussian_account(query, found, protects)
    return Plan(query, found.budget, found.noises, privacy, threshold(query, found.noises), payer)


def _canonical(told: Any) -> str:
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
