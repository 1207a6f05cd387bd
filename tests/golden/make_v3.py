"""Make the golden ledgers of format 3: ``python tests/golden/make_v3.py`` from the top of the checkout.

Made once, with format 3 ("tallystick/ledger/3"). Never rerun it to make a test pass: the files in ``v3/`` are what
users of that format have, and a later version must read them as they are.

There are four ledgers: in SQLite and in PostgreSQL, governed and open.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import tallystick as ts
from golden import asked, format3
from golden.format3 import CANARY, DELTA, QUERY, ROOT, SCHEMA, STATEMENT, STORED
from golden.maker import Maker, commit, pack, plain
from tallystick.errors import Refused, TallystickError, Unavailable
from tallystick.ledger import Ledger, Partition, Signer
from tallystick.ledger.chain import canonical, digest, encode_answer
from tallystick.ledger.replay import FORMAT_3
from tallystick.ledger.store import migrations
from tallystick.printing import json_text

YEAR = 366 * 24 * 3600.0
TABLES = (
    "migration", "entry", "account", "charge", "line", "answer", "dataset", "quarantine",
    "entry_text", "tag", "secret", "seal", "checkpoint", "failure",
)  # fmt: skip
BUDGETS: dict[str, dict[str, Any]] = {
    "zcdp": {"budget": ts.zcdp(rho=100, delta=1e-3), "milestones": (1, 5, 20)},
    "approx": {"budget": ts.approx_dp(epsilon=200, delta=1e-3)},
    "gdp": {"budget": ts.gdp(mu=30)},
    "rdp": {"budget": ts.renyi_dp({8: 900})},
}


def open_accounts(maker: Maker) -> None:
    """Accounts in every currency and both adjacencies, a signed raise, and a closed account."""
    with maker.book() as book:
        for name, about in BUDGETS.items():
            book.open(name, unit="person", **about)
        book.open("replace", budget=ts.approx_dp(epsilon=200, delta=1e-3, adjacency="replace"), unit="person")
        raised = book.open("raised", budget=ts.zcdp(rho=0.5), unit="Bürgerin")
        raised.raise_limit(ts.zcdp(rho=0.7, delta=1e-6), why="für ein zweites Jahr")
        closed = book.open("closed", budget=ts.zcdp(rho=1), unit="person")
        commit(closed, ts.zcdp(rho=0.1), "before the end", answer=1)
        closed.close(why="the study is over")


def open_blocks(maker: Maker) -> None:
    """Blocks whose charges add up, blocks of partitions with and without a predicate, and a block of a block."""
    with maker.book() as book:
        parent = book.open("hospital", budget=ts.zcdp(rho=10), unit="person")
        limit = ts.zcdp(rho=5)
        for name in ("study a", "study b"):
            book.open(name, budget=limit, parent=parent)
        for name in ("ward 1", "ward 2"):
            cut = Partition("ward", by="unit id", one_block_per_unit=True)
            book.open(name, budget=limit, parent=parent, partition=cut)
        for values in (("north",), ("east", "south")):
            cut = Partition("area", "public attribute", True, "region", values)
            book.open(f"area {values[0]}", budget=limit, parent=parent, partition=cut)
        book.open("ward 1 nights", budget=limit, parent="ward 1")
        for number, name in enumerate(("study a", "study b", "ward 1", "ward 2", "area north", "ward 1 nights"), 1):
            commit(book.open(name), ts.zcdp(rho=number / 10), f"block {name}", answer=number)
        book.open("ward 2").reserve(ts.zcdp(rho=1), why="not needed", key="back").refund()


def govern(maker: Maker) -> None:
    """Begin governance, with a second key that signs an answer and is retired."""
    with maker.book() as book:
        book.govern(why="a team uses it")
        second = Signer(format3.SECOND)
        book.add_key(second.public, why="a second host")
    with maker.book() as book:
        book.writer.signer = second
        maker.keep("second key", commit(book.open("zcdp"), ts.zcdp(rho=0.01), "second key", answer="by the second key"))
    with maker.book() as book:
        book.retire_key(second.public, why="the host is gone", distrusted_from=book.head().seq + 1)


def charge_losses(maker: Maker) -> None:
    """One charge or more for every kind of loss, in one of the currencies that has a price for it."""
    with maker.book() as book:
        for name, loss in asked.losses().items():
            turn = format3.payers()[name]
            turns = ["replace"] if loss.adjacency == "replace" else [turn, "approx", "zcdp"]
            for payer in turns:
                account = book.open(payer)
                with contextlib.suppress(Refused):
                    commit(account, loss, name, answer={"loss": name})
                    maker.note("losses", name, account.name)
                    break
    assert set(maker.expected["losses"]) == set(asked.losses()) - {"not_private"}


def charge_answers(maker: Maker) -> None:
    """Answers of every type, a charge of two accounts, another principal, and mechanisms."""
    with maker.book() as book:
        account = book.open("zcdp")
        for name, answer in asked.answers().items():
            commit(account, ts.zcdp(rho=0.001), f"answer {name}", answer=answer)
        with account.charge(ts.gdp(mu=0.1), why="both pay", key="both", also=[book.open("gdp")]) as charge:
            charge.answer = "paid by two"
        maker.keep("two accounts", charge.receipt)
        for name, (mechanism, value) in asked.mechanisms().items():
            payer = book.open("replace" if mechanism.privacy.adjacency == "replace" else "approx")
            answer = payer.release(mechanism, value, why="golden", key=f"mechanism/{name}", delta=DELTA)
            maker.note("mechanisms", name, plain(answer))
    with maker.book(principal="analyst-2") as book:
        maker.keep("another principal", commit(book.open("zcdp"), ts.zcdp(rho=0.002), "answer int", answer=7))


def charge_states(maker: Maker) -> None:
    """Charges that end in every way, and charges that are still held."""
    loss = ts.zcdp(rho=0.01)
    with maker.book() as book:
        account = book.open("zcdp")
        account.charge(loss, why="burned", key="state/burned").begin().burn()
        account.reserve(loss, why="given back", key="state/refunded").refund()
        renewed = account.reserve(loss, why="slow", key="state/renewed", lease=60)
        renewed.renew(lease=120)
        renewed.start()
        maker.keep("renewed", renewed.commit("late"))
        account.reserve(loss, why="held", key="state/reserved", lease=YEAR)
        account.charge(loss, why="held", key="state/executing", lease=YEAR).begin()


def use_streams(maker: Maker) -> None:
    """Streams that are paid as a whole and item by item, and a training run."""
    with maker.book() as book:
        account = book.open("zcdp")
        for whole in (True, False):
            found = format3.stream(account, whole=whole)
            for number in (0, 1, 5):
                found.answer(number, lambda number=number: f"item {number}")
        with account.training(format3.STEP, why="golden", key="run", **format3.RUN) as run:
            for _ in range(4):
                run.step()


def register_data(maker: Maker) -> None:
    """A registered file with an update, data of a program, retired data, and a registration that was removed."""
    bounds = ("--bounds", "age=0:110", "--type", "age=integer")
    limit = ("--limit", "rho=40,delta=1e-3", "--max-groups", "2", "--max-rows-per-group", "3")
    add = ("dataset", "add", str(ROOT / "visits.csv"), "--population", "patients", "--unit", "patient_id")
    maker.tool(*add, *bounds, *limit)
    maker.tool(*add, "--update", "--least-price", "rho=0.001")
    with maker.book() as book:
        account = book.open("zcdp")
        account.register("program", source="warehouse.example/1", note="an extract", fixed={"unit": "person"})
        account.register("program", source="warehouse.example/2", note="a later extract", fixed={"unit": "person"},
                         update=True, marks=["oid 7", "oid 8"])  # fmt: skip
        account.register("ended", source="warehouse.example/3", fixed={"unit": "person"}, marks=["oid 9"])
        account.retire("ended", why="replaced by another")
        other = book.open("typing errors", budget=ts.zcdp(rho=1), unit="person")
        other.register("a typing error", source="warehouse.example/4", fixed={"unit": "person"})
        other.remove("a typing error")


def publish(maker: Maker) -> None:
    """A published table with its card, and a statement in SQL."""
    card, table = maker.file("card.html"), maker.file("table.csv")
    found = maker.tool(*QUERY, "--key", "table", "--card", str(card), "--out", str(table))
    maker.note("table", "charge", found["charge"])
    with maker.book() as book:
        answer = ts.sql(STATEMENT, ledger=book, why="golden", key="statement", rho=0.05)
        maker.file("statement.csv").write_text(answer.to_csv(), newline="")
        maker.note("statement", "charge", answer.release.receipt.charge)
        maker.keep("statement", answer.release.receipt)


def close_data(maker: Maker) -> None:
    """One population that is closed while an outcome is withheld, and one that its owner has opened again."""
    with maker.book() as book:
        for name in ("cleared", "shut"):
            account = book.open(name, budget=ts.zcdp(rho=1), unit="person")
            first, second = (
                account.charge(ts.zcdp(rho=0.1), why="golden", key=f"{name}/{key}", source=f"warehouse.example/{name}")
                for key in ("fails", "succeeds")
            )
            first.begin()
            second.begin()
            first.burn()
            second.commit("an outcome that was withheld")
            if name == "cleared":
                assert account.clear(why="the disk was full") == [first.id]


def erase(maker: Maker) -> None:
    """Texts and answers with a name, which are erased; one answer stays."""
    with maker.book() as book:
        account = book.open("zcdp")
        receipts = [
            commit(account, ts.zcdp(rho=0.01), f"{number} {CANARY}", answer=answer, why=f"about {CANARY}")
            for number, answer in enumerate(("stays", f"{CANARY} is well"))
        ]
        book.erase(receipts[0].charge, why="a name was in it")
        book.erase(receipts[1].charge, why="a name was in it", answers=True)
        book.purge()
        maker.expected["erased"] = [receipt.charge for receipt in receipts]
        book.make_checkpoint()
        maker.keep("after the checkpoint", commit(account, ts.zcdp(rho=0.01), "after the checkpoint", answer="last"))


def freeze(maker: Maker) -> None:
    """Write the expected numbers and the exports."""
    with maker.book() as book:
        report = book.verify().require()
        assert book.underpriced() == []
        facts = {
            "format": FORMAT_3,
            "made_at": book.now(),
            "ledger": book.id,
            "entries": report.entries,
            "head": report.head,
            "key": book.signer().public,
            "charges": report.charges,
            "accounts": {account.name: account_facts(account) for account in book.accounts()},
            "states": [state for number in range(1, report.entries + 1) if (state := state_of(book, number))],
            "datasets": {name: dataset_facts(each) for name, each in book.datasets().items()},
        }
        level = format3.EXPORTS.get(maker.folder.name)
        if level is not None:
            lines = "".join(line + "\n" for line in book.export(level=level, withheld=True))
            pack(maker.file(f"{level}.jsonl.gz"), lines.encode("ascii"))
    text = json_text(canonical({**facts, **maker.expected}))
    pack(maker.file("expected.json.gz"), text.encode("ascii"))


def account_facts(account: Any) -> list[Any]:
    """Limit, used amounts and state of an account, in integers of its currency."""
    limit, used = account.limit, account.used
    return [account.filter, limit.a0, limit.a1, used.a0, used.a1, account.closed, account.failures()]


def state_of(book: Ledger, number: int) -> list[Any]:
    """Number, state, key, and digest of the answer of a charge; nothing for another entry."""
    try:
        row, _ = book.charge_row(number)
    except TallystickError:
        return []
    answer = ""
    with contextlib.suppress(Refused, Unavailable):
        answer = digest(encode_answer(book.stored_answer(row)[0])) if row.state == "COMMITTED" else ""
    return [row.id, row.state, row.principal, row.key, answer]


def dataset_facts(dataset: Any) -> list[Any]:
    """A registration with every note that it has had."""
    return [dataset.account, sorted(dataset.sources), dataset.least_price.a0, list(dataset.notes), dataset.retired]


STEPS = (
    open_accounts, open_blocks, govern, charge_losses, charge_answers, charge_states, use_streams, register_data,
    publish, close_data, erase, freeze,
)  # fmt: skip
LONG = (charge_losses, charge_answers)
"""Steps with many charges. One ledger has them, so that the files stay small."""


def make(ledger: str, folder: Path, flavour: str) -> None:
    """One ledger and everything beside it."""
    folder.mkdir(parents=True)
    os.environ["TALLYSTICK_CONFIG_DIR"] = str(folder / "config")
    maker = Maker(ledger, folder)
    left_out = [*([] if flavour == "governed" else [govern]), *([] if folder.name == format3.FULL else LONG)]
    for step in STEPS:
        if step not in left_out:
            step(maker)
    pack(folder / "card.json.gz", (folder / "card.json").read_bytes())
    for name in ("card.html", "card.json", "table.about.csv"):
        (folder / name).unlink(missing_ok=True)
    for name in ("places", "copies"):
        shutil.rmtree(folder / "config" / name)


def make_sqlite(folder: Path, flavour: str) -> None:
    """The ledger in a file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "budget.db"
        make(str(path), folder, flavour)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pack(folder / "budget.db.gz", path.read_bytes())


def make_postgres(url: str, folder: Path, flavour: str) -> None:
    """The ledger in a schema, dumped as SQL."""
    import psycopg

    name = f"{SCHEMA}_{flavour}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    ledger = f"{url}&options=-csearch_path%3D{name}"
    make(ledger, folder, flavour)
    pack(folder / "ledger.sql.gz", dumped(ledger, name).encode())


def dumped(ledger: str, name: str) -> str:
    """The schema as its migrations make it, and every row. The rows come in while the triggers are off."""
    import psycopg

    steps = [step.sql for step in migrations("postgres")]
    lines = [f"CREATE SCHEMA {name};", f"SET search_path = {name};", *steps, "SET session_replication_role = replica;"]
    with psycopg.connect(ledger, autocommit=True) as connection:
        for table in TABLES:
            lines += inserts(connection, table)
    lines.append("SET session_replication_role = origin;")
    return "\n".join(lines).replace(name, SCHEMA) + "\n"


def inserts(connection: Any, table: str) -> list[str]:
    """One statement for every row of a table."""
    from psycopg.sql import Literal

    lines = []
    for row in connection.execute(f"SELECT * FROM {table} AS one ORDER BY one").fetchall():
        values = ", ".join(Literal(value).as_string(connection) for value in row)
        lines.append(f"INSERT INTO {table} VALUES ({values});")
    return lines


def main() -> None:
    """Make all four ledgers."""
    from crash.stores import postgres_server

    if STORED.exists() and "--again" not in sys.argv:
        raise SystemExit(f"{STORED} exists: golden data is made once")
    warnings.simplefilter("ignore")
    shutil.rmtree(STORED, ignore_errors=True)
    with postgres_server() as server, format3.registered_file():
        for flavour in format3.FLAVOURS:
            make_sqlite(STORED / f"sqlite-{flavour}", flavour)
            make_postgres(server.url, STORED / f"postgres-{flavour}", flavour)


if __name__ == "__main__":
    main()
