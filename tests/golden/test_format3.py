"""Data of format 3 opens, verifies, spends and replays: what a user keeps, a later version must still accept."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from crash.stores import postgres, tmp_path  # noqa: F401
from golden import asked, format3
from golden.conftest import Golden, restored
from golden.format3 import CANARY, DELTA, QUERY, STATEMENT
from golden.maker import commit, plain
from tallystick.errors import (
    AlreadyCommitted,
    BudgetExceeded,
    LedgerIntegrity,
    Quarantined,
    Refused,
    TallystickError,
    Unavailable,
)
from tallystick.ledger import Receipt, Signer, import_ledger
from tallystick.ledger.chain import digest, encode_answer
from tallystick.ledger.offline import verify_export

pytestmark = [pytest.mark.xdist_group("golden"), pytest.mark.filterwarnings("ignore")]
NAMES = [f"{store}-{flavour}" for store in format3.STORES for flavour in format3.FLAVOURS]


@pytest.fixture(scope="session")
def places() -> dict[str, Golden]:
    """The copies that tests read together, by name."""
    return {}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def golden(
    name: str,
    places: dict[str, Golden],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Golden:
    """A copy of a golden ledger. Tests that write come last, in one test for each ledger."""
    if name not in places:
        places[name] = copied(name, request, tmp_path_factory.mktemp("golden"))
    found = places[name]
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(found.folder / "config"))
    return found


def copied(name: str, request: pytest.FixtureRequest, folder: Path) -> Golden:
    """A copy of a ledger with everything beside it."""
    shutil.copytree(format3.STORED / name, folder / name)
    for packed in sorted((folder / name).glob("*.gz")):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    (folder / name / "config" / "signing_key").chmod(0o600)
    ledger = str(folder / name / "budget.db")
    if name.startswith("postgres"):
        dump = folder / name / "ledger.sql"
        dump.write_text(dump.read_text().replace(format3.SCHEMA, asked.SCHEMA))
        ledger = restored(dump, request.getfixturevalue("postgres"))
    else:
        Path(ledger).chmod(0o600)
    return Golden(ledger, folder / name, json.loads((folder / name / "expected.json").read_text()))


@pytest.fixture
def registered_file() -> Iterator[Path]:
    with format3.registered_file() as folder:
        yield folder


def facts(account: Any) -> list[Any]:
    limit, used = account.limit, account.used
    return [account.filter, limit.a0, limit.a1, used.a0, used.a1, account.closed, account.failures()]


def test_a_ledger_opens_and_verifies_with_its_receipts(golden: Golden, name: str) -> None:
    expected = golden.expected
    receipts = [Receipt.from_json(path.read_text()) for path in golden.files("receipts").values()]
    with golden.book() as book:
        assert (book.id, *book.head()) == (expected["ledger"], expected["entries"], expected["head"])
        report = book.verify(receipts=receipts)
        assert (report.problems, report.sealed) == ((), "governed" in name)
        assert report.charges == expected["charges"]
        assert book.verify(full=False).problems == ()  # its checkpoint lists no payers, so everything is read
        assert {account.name: facts(account) for account in book.accounts()} == expected["accounts"]
        found = {
            name: [each.account, sorted(each.sources), each.least_price.a0, list(each.notes), each.retired]
            for name, each in book.datasets().items()
        }
        assert found == expected["datasets"]
        keys = book.keys()
        assert [key.retired is None for key in keys] == ([True, False] if "governed" in name else [])
    with pytest.raises(LedgerIntegrity), golden.book(expect_head="0" * 64):
        pass


def test_every_charge_has_its_state_and_its_answer(golden: Golden) -> None:
    with golden.book() as book:
        for number, state, principal, key, answer in golden.expected["states"]:
            row, _ = book.charge_row(number)
            assert (row.state, row.principal, row.key) == (state, principal, key)
            if answer:
                assert digest(encode_answer(book.stored_answer(row)[0])) == answer
            else:
                with pytest.raises(TallystickError):
                    book.stored_answer(row)
    states = {state for _, state, *_ in golden.expected["states"]}
    assert states == {"COMMITTED", "BURNED", "REFUNDED", "RESERVED", "EXECUTING", "CLOSED"}


def test_questions_are_answered_again_without_a_charge(golden: Golden, name: str, registered_file: Path) -> None:
    before = golden.used()
    with golden.book() as book:
        if name == format3.FULL:
            for mechanism, (release, value) in format3.quick_mechanisms().items():
                key = f"mechanism/{mechanism}"
                payer = book.open("replace" if release.privacy.adjacency == "replace" else "approx")
                answer = payer.release(release, value, why="golden", key=key, delta=DELTA)
                assert plain(answer) == golden.expected["mechanisms"][mechanism], mechanism
            for loss, payer in golden.expected["losses"].items():
                if payer == "zcdp":
                    charge = book.open(payer).charge(asked.losses()[loss], why="golden", key=f"zcdp/{loss}")
                    assert charge.stored()[0] == {"loss": loss}
        answer = ts.sql(STATEMENT, ledger=book, why="golden", key="statement", rho=0.05)
        assert (answer.fresh, answer.release.receipt.charge) == (False, golden.expected["statement"]["charge"])
        assert answer.to_csv() == (golden.folder / "statement.csv").read_bytes().decode()
    table = golden.folder / "again.csv"
    found = golden.run(*QUERY, "--key", "table", "--out", str(table)).found
    assert found["charge"] == golden.expected["table"]["charge"]
    assert table.read_bytes() == (golden.folder / "table.csv").read_bytes()
    assert golden.run("card", "verify", str(golden.folder / "card.json"), "--data-only").found["agrees"] is True
    assert golden.used() == before


def test_what_was_erased_is_in_no_file(golden: Golden, name: str) -> None:
    stays, gone = golden.expected["erased"]
    with golden.book() as book:
        assert book.stored_answer(book.charge_row(stays)[0])[0] == "stays"
        with pytest.raises(Refused, match="was erased"):
            book.stored_answer(book.charge_row(gone)[0])
        assert CANARY not in "".join(book.export(withheld=True))
    stored = format3.STORED / name
    for path in stored.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert CANARY.encode() not in (gzip.decompress(content) if path.suffix == ".gz" else content), path


def test_exports_of_every_level_are_checked_without_the_ledger(golden: Golden, name: str, tmp_path: Path) -> None:  # noqa: F811
    expected = golden.expected
    level = format3.EXPORTS.get(name)
    stored = [] if level is None else (golden.folder / f"{level}.jsonl").read_text().splitlines()
    with golden.book() as book:
        exports = [list(book.export(level=each, withheld=True)) for each in ("chain", "record", "answers")]
    for lines in filter(None, (stored, *exports)):
        report = verify_export(lines, by=expected["key"])
        assert (report.problems, report.head) == ((), expected["head"])
    whole = stored if level == "answers" else exports[-1]
    with import_ledger(whole, tmp_path / "copy.db", by=expected["key"], expect_head=expected["head"]) as copy:
        assert {account.name: facts(account) for account in copy.accounts()} == expected["accounts"]
        assert copy.verify().problems == ()
    assert verify_export([*whole[:-2], whole[-1]]).problems


def test_it_can_be_spent_from_and_not_beyond_its_limits(golden: Golden, name: str) -> None:
    """Every write is in this test, which is the last of its ledger."""
    with golden.book() as book:
        for account in book.accounts():
            left = account.remaining.a0 / 1e12
            if account.currency.kind != "zcdp" or account.closed or account.kind == "block":
                continue
            with pytest.raises(BudgetExceeded):
                account.charge(ts.zcdp(rho=left + 1), why="too much").begin()
            commit(account, ts.zcdp(rho=0.001), "one more", answer="new")
        zcdp = book.open("zcdp")
        with pytest.raises(Refused, match="closed"):
            book.open("closed").charge(ts.zcdp(rho=0.1), why="golden").begin()
        shut = {"source": "warehouse.example/shut", "why": "golden"}
        with pytest.raises(Quarantined):
            book.open("shut").charge(ts.zcdp(rho=0.1), **shut).begin()
        with pytest.raises(Unavailable, match="withheld"):
            book.open("shut").charge(ts.zcdp(rho=0.1), key="shut/succeeds", **shut).begin()
        assert len(book.open("shut").clear(why="the disk was full")) == 1
        with pytest.raises(AlreadyCommitted) as earlier:
            book.open("shut").charge(ts.zcdp(rho=0.1), key="shut/succeeds", **shut).begin()
        assert earlier.value.answer == "an outcome that was withheld"
        with pytest.raises(Refused, match="retired"):
            zcdp.charge(ts.zcdp(rho=0.1), why="golden", source="warehouse.example/3").begin()
        go_on(zcdp)
        again = zcdp.charge(ts.zcdp(rho=0.01), why="golden", key=f"zcdp/0 {CANARY}").begin()
        again.commit("costs again")
        report = book.verify()
        assert (report.problems, report.sealed) == ((), "governed" in name)
    if "governed" in name:
        with golden.book() as book:
            book.writer.signer = Signer(format3.SECOND)  # it is retired
            zcdp = book.open("zcdp")
            with pytest.raises(Refused, match="only a holder of one of its keys"):
                zcdp.pay(ts.zcdp(rho=0.1), why="golden")


def go_on(account: Any) -> None:
    """Streams and the training run go on after what was used."""
    for whole in (True, False):
        used = account.used.a0
        stream = format3.stream(account, whole=whole)
        assert stream.answer(5, lambda: "drawn again").answer == "item 5"
        assert stream.answer(6, lambda: "item 6").answer == "item 6"
        assert (account.used.a0 > used) is not whole
    with account.training(format3.STEP, why="golden", key="run", **format3.RUN) as run:
        assert run.step() == 6
