"""Files of an answer: nothing is written over a ledger, over registered data or through a pipe."""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.models import OptionInfo

import tallystick as ts
from tallystick.cards import Card
from tallystick.cli.app import run
from tallystick.cli.question import Out
from tallystick.errors import InvalidInput
from tallystick.publish.export import TABLES, Files, _Table, write_result, write_text
from tallystick.publish.outcome import Offer, Outcome, Released
from tallystick.publish.plain import read


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ts.Ledger:
    monkeypatch.chdir(tmp_path)
    for name in ("program.csv", "old.csv"):
        Path(name).write_text("who\n1\n")
    ledger = ts.Ledger("tallystick.db")
    account = ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
    account.register("program", source="program.csv")
    account.register("moved", source="old.csv")
    return ledger


@pytest.mark.parametrize("name", ["program.csv", "tallystick.db", "tallystick.db-wal", "tallystick.db.gate"])
def test_a_file_in_use_is_not_written_to(book: ts.Ledger, name: str) -> None:
    Path("link.csv").symlink_to(name)
    with pytest.raises(InvalidInput, match="would be overwritten"):
        Files(out=Path("link.csv")).check_in(book)


@pytest.mark.parametrize("name", ["program.csv", "tallystick.db"])
def test_an_export_does_not_replace_a_file_in_use(book: ts.Ledger, name: str) -> None:
    before = Path(name).read_bytes()
    assert run(["ledger", "export", "--out", name]) == 2
    assert Path(name).read_bytes() == before


def test_a_training_plan_replaces_nothing_but_another_one(tmp_path: Path, book: ts.Ledger) -> None:
    words = "calibrate dpsgd --epsilon 8 --delta 1e-5 --examples 50000 --batch 1024 --epochs 1".split()
    assert run([*words, "--save", "program.csv"]) == 2
    assert Path("program.csv").read_text() == "who\n1\n"
    assert run([*words, "--save", "plan.json"]) == 0
    assert run([*words, "--save", "plan.json"]) == 0


def test_pipes_and_links_to_nothing_are_refused_before_the_charge(book: ts.Ledger) -> None:
    os.mkfifo("pipe.csv")
    Path("nowhere.csv").symlink_to("missing/file.csv")
    for name in ("pipe.csv", "nowhere.csv"):
        with pytest.raises(InvalidInput):
            Files(out=Path(name)).check_in(book)


def released(rows: int) -> Outcome:
    """A released table, as an outcome from a socket has it."""
    table = Released(
        columns=("ward", "n", "n_lower", "n_upper"),
        groups=("ward",),
        counts=("n",),
        dates=(),
        rows=tuple((2020 + number, 5.0, -1.0, 11.0) for number in range(rows)),
        about=f"field,rows\nn,{rows}\n",
        document={"rows": []},
    )
    return Outcome("k", table=table)


@contextmanager
def small_disk(size: int = 4_096) -> Iterator[None]:
    """Let no file grow beyond a size: writing stops in the middle, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("ending", TABLES)
def test_a_full_disk_leaves_the_earlier_table_and_its_about_file(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"t{ending}"
    write_result(out, released(1))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with small_disk(), pytest.raises(Exception, match=r"(?i)too large|IO Error|can be written"):
        write_result(out, released(20_000))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_full_disk_leaves_the_earlier_card(tmp_path: Path) -> None:
    class Fixed(Card):
        """A card whose page is larger than a small disk."""

        def to_html(self) -> str:
            return "x" * 100_000

    page, data = tmp_path / "c.html", tmp_path / "c.json"
    page.write_text("page")
    data.write_text("data")
    with small_disk(), pytest.raises(InvalidInput, match="can be written"):
        Fixed({}).save(page)
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ["data", "page"]


def test_a_table_that_is_written_again_keeps_its_rights(tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    write_result(out, released(1))
    umask = os.umask(0)
    os.umask(umask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask
    out.chmod(0o640)
    write_result(out, released(2))
    assert out.stat().st_mode & 0o777 == 0o640


def test_a_link_is_replaced_and_the_file_behind_it_stays(tmp_path: Path) -> None:
    other, out = tmp_path / "other.csv", tmp_path / "t.csv"
    other.write_text("mine")
    out.symlink_to(other)
    write_result(out, released(1))
    assert other.read_text() == "mine"
    assert not out.is_symlink()


def test_a_device_is_written_and_not_replaced() -> None:
    write_text(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("name", ["sub/../t.json", "here/t.json", "sub/../t.html", "t.json"])
def test_a_table_and_a_card_are_two_files_by_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "here").symlink_to(".")
    files = Files(out=tmp_path / name, card=tmp_path / "t.html", endings=(".json", ".html"))
    with pytest.raises(InvalidInput, match="another name than the card's files"):
        files.check()


def test_a_published_table_reads_like_the_one_in_the_terminal() -> None:
    table = released(1).table
    assert table is not None
    (_, line) = _Table(table).lines()
    assert line.split()[0] == "2020"
    assert _Table(table).for_readers["n_lower"] == [0]


@pytest.mark.parametrize("ending", TABLES)
def test_help_and_guide_name_every_format_of_a_table(ending: str) -> None:
    (option,) = (each for each in get_args(Out) if isinstance(each, OptionInfo))
    assert ending in (option.help or "")
    guide = Path(__file__).parents[3] / "docs" / "guides" / "publish-a-table.md"
    assert ending in guide.read_text(encoding="utf-8")


def test_a_pair_is_read_by_the_type_of_each_value() -> None:
    assert read("pair", ["age", 2.5], tuple[str, float]) == ("age", 2.5)
    with pytest.raises(InvalidInput):
        read("pair", ["age", "old"], tuple[str, float])


def test_the_doctor_shows_a_folder_without_a_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", "postgresql://ana:s3cret@db/x")
    run(["doctor"])
    run(["doctor", "--json"])
    text = "".join(capsys.readouterr())
    assert "self_check" in text
    assert "s3cret" not in text


def folder_at(name: str) -> None:
    Path(name).mkdir()


def dangling_link_at(name: str) -> None:
    Path(name).symlink_to("missing/file")


def nothing_at(name: str) -> None:
    """Leave the place empty: the name or its folder is the problem."""


UNWRITABLE: dict[str, tuple[Files, Callable[[str], None], str]] = {
    f"{what.__name__} {name}": (files, what, name)
    for what in (folder_at, dangling_link_at, os.mkfifo)
    for files, name in (
        (Files(out=Path("t.csv")), "t.csv"),
        (Files(out=Path("t.csv")), "t.about.csv"),
        (Files(card=Path("c.html")), "c.html"),
        (Files(card=Path("c.html")), "c.json"),
    )
} | {
    "name too long": (Files(out=Path("x" * 300 + ".csv")), nothing_at, ""),
    "name of the about file too long": (Files(out=Path("x" * 250 + ".csv")), nothing_at, ""),
    "name of the card's data too long": (Files(card=Path("y" * 251 + ".htm")), nothing_at, ""),
    "table in a folder without writers": (Files(out=Path("/proc/t.csv")), nothing_at, ""),
    "card in a folder without writers": (Files(card=Path("/proc/c.html")), nothing_at, ""),
    "missing folder": (Files(out=Path("missing/t.json")), nothing_at, ""),
    "empty name": (Files(out=Path()), nothing_at, ""),
    "empty name of a card": (Files(card=Path()), nothing_at, ""),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_every_file_that_would_be_written_is_checked_before_the_charge(book: ts.Ledger, case: str) -> None:
    files, make, name = UNWRITABLE[case]
    make(name)
    with pytest.raises(InvalidInput) as refused:
        files.check_in(book)
    assert refused.value.argument == ("card" if files.out is None else "out")
    assert len(str(refused.value)) < 700


def test_a_check_leaves_no_file_and_keeps_the_files_that_are_there(book: ts.Ledger) -> None:
    Path("t.csv").write_text("earlier")
    before = set(os.listdir())
    Files(out=Path("t.csv"), card=Path("c.html")).check_in(book)
    assert set(os.listdir()) == before
    assert Path("t.csv").read_text() == "earlier"


def test_a_file_in_a_folder_without_writers_is_written_directly(book: ts.Ledger, monkeypatch: Any) -> None:
    def refuse(new: Path) -> None:
        raise PermissionError(13, "Permission denied")

    Path("t.json").write_text("earlier")
    monkeypatch.setattr("tallystick.regular_file._create", refuse)
    Files(out=Path("t.json")).check()
    write_text(Path("t.json"), "new")
    assert Path("t.json").read_text() == "new"
    with pytest.raises(InvalidInput, match="Permission denied"):
        Files(out=Path("u.json")).check()


def test_an_empty_name_is_named_in_the_shell(book: ts.Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    words = "query program --measures count --rho 0.1 --why x --out".split()
    assert run([*words, ""]) == 2
    assert "--out is empty. Give a file name that ends in .csv" in capsys.readouterr().err


@pytest.mark.parametrize("cell", [["a"], "text", "half \ud800"])
@pytest.mark.parametrize("ending", TABLES)
def test_a_table_from_outside_that_a_format_cannot_hold_is_refused(tmp_path: Path, ending: str, cell: Any) -> None:
    outcome = released(2)
    assert outcome.table is not None
    table = replace(outcome.table, rows=((2020, 5.0, -1.0, 11.0), (2021, cell, -1.0, 11.0)))
    with suppress(InvalidInput):
        write_result(tmp_path / f"t{ending}", replace(outcome, table=table))
        return
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fact", [math.nan, math.inf, [[math.nan]], object()])
def test_facts_of_an_outcome_from_outside_are_plain_data(fact: Any) -> None:
    data = {**Outcome("k").to_data(), "facts": {"wide": fact}}
    with pytest.raises(InvalidInput, match="plain JSON data"):
        Outcome.from_data(data)


def test_an_error_of_an_offer_from_outside_is_a_number() -> None:
    words = dict.fromkeys(("population", "price", "price_epsilon", "left"), "x")
    offer = {**words, "price_amount": {}, "left_amount": {}, "fits": True}
    assert Offer.from_data({**offer, "error": {"n": "inf"}}).error["n"] == math.inf
    with pytest.raises(InvalidInput, match="a number"):
        Offer.from_data({**offer, "error": {"n": math.nan}})
