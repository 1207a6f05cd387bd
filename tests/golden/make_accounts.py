"""Accounts, blocks and plain charges of the golden ledgers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import tallystick as ts
from golden import asked
from golden.asked import DELTA
from golden.maker import Maker, commit, given, plain
from tallystick.accounting.leaf import KINDS
from tallystick.errors import Refused

YESTERDAY = 2 * 24 * 3600.0
YEAR = 366 * 24 * 3600.0

LIMITS = {
    "zcdp": ({"rho": 100, "delta": 1e-3}, {"rho": 120, "delta": 1e-3}),
    "approx": ({"epsilon": 200, "delta": 1e-3}, {"epsilon": 250, "delta": 2e-3}),
    "gdp": ({"mu": 30}, {"mu": 40}),
}


def budget(currency: str, which: int, **about: Any) -> ts.PrivacyLoss:
    """The first or the raised limit of an account in a currency."""
    if currency == "rdp":
        return ts.renyi_dp({8: (900, 1000)[which]}, **about)
    make = {"zcdp": ts.zcdp, "approx": ts.approx_dp, "gdp": ts.gdp}[currency]
    return make(**LIMITS[currency][which], **about)


def open_accounts(maker: Maker) -> None:
    """Accounts in every currency and both adjacencies, some raised, some closed, some empty."""
    with maker.book(ago=YESTERDAY) as book:
        for currency in ("zcdp", "approx", "gdp", "rdp"):
            first = book.open(currency, budget=budget(currency, 0), unit="person", milestones=(1, 5, 20))
            first.raise_limit(budget(currency, 1), why="a second year")
            book.open(f"{currency} replace", budget=budget(currency, 0, adjacency="replace"), unit="person")
            closed = book.open(f"{currency} closed", budget=budget(currency, 0), unit="person")
            commit(closed, ts.gaussian(sigma=9), "before the end", answer=1)
            closed.close(why="the study is over")
        book.open("pure", budget=ts.pure_dp(epsilon=3), unit="household")
        book.open("order 2.5", budget=ts.renyi_dp({2.5: 3}), unit="person")
        twice = book.open("raised twice", budget=ts.zcdp(rho=0.5), unit="person", milestones=(0.1, 0.25))
        twice.raise_limit(ts.zcdp(rho=0.6), why="first")
        twice.raise_limit(ts.zcdp(rho=0.7, delta=1e-6), why="second")
        commit(twice, ts.zcdp(rho=0.2), "past a milestone", answer=2)
        other = book.open("Kinderstation Süd", budget=ts.zcdp(rho=1), unit="Bürgerin")
        commit(other, ts.zcdp(rho=0.1), "größer", answer="ja", why="für den Bericht")
        empty = book.open("empty", budget=ts.zcdp(rho=0.05), unit="person")
        commit(empty, ts.zcdp(rho=0.05), "all of it", answer=3)


def open_blocks(maker: Maker) -> None:
    """Blocks whose charges add up, blocks of a partition with and without a predicate, and a block of a block."""
    with maker.book(ago=YESTERDAY) as book:
        for currency in ("zcdp", "approx"):
            parent = book.open(f"hospital {currency}", budget=budget(currency, 0), unit="person")
            limit = budget(currency, 0)
            for name in ("a", "b"):
                book.open(f"study {name} {currency}", budget=limit, parent=parent)
            by_id = ts.Partition("ward", by="unit id", one_block_per_unit=True)
            for name in ("1", "2", "3"):
                book.open(f"ward {name} {currency}", budget=limit, parent=parent, partition=by_id)
            for values in (("north",), ("east", "south")):
                cut = ts.Partition("area", "public attribute", True, "region", values)
                book.open(f"area {values[0]} {currency}", budget=limit, parent=parent, partition=cut)
            for year in (2025, 2026):
                cut = ts.Partition("year", "unit id", True, "year", (year,))
                book.open(f"year {year} {currency}", budget=limit, parent=parent, partition=cut)
            book.open(f"ward 1 nights {currency}", budget=limit, parent=f"ward 1 {currency}")
            spend_on_blocks(book, currency)


def spend_on_blocks(book: ts.Ledger, currency: str) -> None:
    """Different amounts in every block, one of them given back."""
    blocks = ("study a", "study b", "ward 1", "ward 2", "area north", "area east", "year 2026", "ward 1 nights")
    for number, name in enumerate(blocks, 1):
        loss = ts.gaussian(sigma=20 - number)
        commit(book.open(f"{name} {currency}"), loss, f"block {name}", answer=number)
    options = {"why": "not needed", "key": f"back {currency}", **given(currency)}
    book.open(f"ward 2 {currency}").reserve(ts.gaussian(sigma=2), **options).refund()
    book.open(f"ward 3 {currency}").close(why="the ward is gone")


def charge_losses(maker: Maker) -> None:
    """Every loss in every currency that has a price for it; the others are recorded as refused."""
    refused, charged = [], []
    with maker.book(ago=YESTERDAY) as book:
        for name, loss in asked.losses().items():
            ending = " replace" if loss.adjacency == "replace" else ""
            for currency in ("zcdp", "approx", "gdp", "rdp"):
                account = book.open(f"{currency}{ending}")
                try:
                    commit(account, loss, name, answer={"loss": name})
                except Refused:
                    refused.append([account.name, name])
                else:
                    charged.append([account.name, name])
    maker.expected["losses"] = {"charged": charged, "refused": refused}
    kinds = {kind for _, name in charged for kind in kinds_in(json.loads(asked.losses()[name].to_json()))}
    assert kinds == set(KINDS) - {"not_private"}, set(KINDS) - kinds


def kinds_in(record: Any) -> Iterator[str]:
    """Every kind that the record of a loss names."""
    if isinstance(record, dict):
        yield from [record["kind"]] if "kind" in record else []
        record = list(record.values())
    if isinstance(record, list):
        for part in record:
            yield from kinds_in(part)


def charge_answers(maker: Maker) -> None:
    """Answers of every type, and several accounts that pay one charge."""
    with maker.book(ago=YESTERDAY) as book:
        account = book.open("zcdp")
        for name, answer in asked.answers().items():
            commit(account, ts.zcdp(rho=0.001), f"answer {name}", answer=answer)
        with account.charge(ts.gdp(mu=0.1), why="both pay", key="both", also=[book.open("gdp")]) as charge:
            charge.answer = "paid by two"
        maker.keep("two accounts", charge.receipt)
        options = {"key": "with a request", "request": "SELECT 1", "source": "warehouse.example/other"}
        with account.charge(ts.zcdp(rho=0.02), why="a text that tells requests apart", **options) as charge:
            charge.answer = "with a request"
        maker.keep("with a request", charge.receipt)
    with maker.book(ago=YESTERDAY, principal="analyst-2") as book:
        maker.keep("another principal", commit(book.open("zcdp"), ts.zcdp(rho=0.002), "answer int", answer=7))


def charge_states(maker: Maker) -> None:
    """Charges that end in every way: burned, refunded, renewed, taken over, expired and swept."""
    loss = ts.zcdp(rho=0.01)
    with maker.book(ago=YESTERDAY) as book:
        account = book.open("zcdp")
        with contextlib.suppress(ZeroDivisionError), account.charge(loss, why="fails", key="state/burned by an error"):
            _ = 1 / 0
        account.charge(loss, why="burned", key="state/burned").begin().burn()
        account.reserve(loss, why="given back", key="state/refunded").refund()
        renewed = account.reserve(loss, why="slow", key="state/renewed", lease=60)
        renewed.renew(lease=120)
        renewed.start()
        maker.keep("renewed", renewed.commit("late"))
        account.reserve(loss, why="forgotten", key="state/expired reservation", lease=60)
        account.charge(loss, why="killed", key="state/expired execution", lease=60).begin()
        account.reserve(loss, why="first holder", key="state/taken over", lease=60)
    with maker.book(ago=YESTERDAY - 3600) as book:
        taken = book.open("zcdp").reserve(loss, why="first holder", key="state/taken over", lease=600)
        taken.start()
        taken.commit("by the second holder")
        assert book.recover() == (1, 1)


def leave_open(maker: Maker) -> None:
    """The last charges: two that are still held, and two whose lease runs out after a minute."""
    loss = ts.zcdp(rho=0.01)
    with maker.book() as book:
        account = book.open("zcdp")
        account.reserve(loss, why="held", key="state/reserved", lease=YEAR)
        account.charge(loss, why="held", key="state/executing", lease=YEAR).begin()
        account.reserve(loss, why="short", key="state/reserved for a minute", lease=60)
        account.charge(loss, why="short", key="state/executing for a minute", lease=60).begin()


def release_mechanisms(maker: Maker) -> None:
    """Every mechanism, released through the account of its adjacency in (epsilon, delta)."""
    with maker.book() as book:
        for name, (mechanism, value) in asked.mechanisms().items():
            ending = " replace" if mechanism.privacy.adjacency == "replace" else ""
            account = book.open(f"approx{ending}")
            answer = account.release(mechanism, value, why="golden", key=f"mechanism/{name}", delta=DELTA)
            maker.note("mechanisms", name, plain(answer))
