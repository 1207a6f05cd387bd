"""A registered file is read in its registered form, whatever its name here says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallystick as ts
from tallystick.errors import Refused
from tallystick.ledger import Account, Ledger
from tallystick.publish import datasets
from tallystick.publish.datasets import Dataset
from tallystick.tables import identity

LINES = 5_000
"""Line breaks inside one quoted cell: read with tabs, each of them ends a record."""


@pytest.fixture
def rows(tmp_path: Path) -> Account:
    book = Ledger(tmp_path / "rows.db")
    return book.open("rows", budget=ts.zcdp(rho=100, delta=1e-6), unit="row")


def registered(path: Path, account: Account, *, unit: str | None = None, name: str = "x", update: bool = False) -> None:
    table = datasets.read_table(str(path), None, unit, "add_remove", {}, {})
    dataset = Dataset(name, account.name, table.to_data())
    datasets.register(dataset, account, update=update)


def counted(source: Any, account: Account, *name: str) -> int:
    table = ts.Private(source, account=account).table(*name, unit=ts.each_row)
    answer = table.agg(n=ts.count()).plan(rho=1).release(why="a count of rows")
    return int(answer.rows[0]["n"])


def long_cell(path: Path, comma: str = ",") -> Path:
    body = "".join(f"{i}{comma}ok\n" for i in range(100))
    path.write_text(f'nr{comma}note\n{body}100{comma}"hello\n' + "x\n" * LINES + '"\n')
    return path


@pytest.mark.parametrize("ending", ["tsv", "TSV"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_does_not_move_the_row_boundaries_of_a_registered_file(
    tmp_path: Path, rows: Account, ending: str, link: Any
) -> None:
    """One record was 5,001 rows through a link x.tsv, at the price of one."""
    file = long_cell(tmp_path / "x.csv")
    registered(file, rows)
    link(file, tmp_path / f"y.{ending}")
    assert counted(file, rows) < LINES / 2
    used = rows.used
    with pytest.raises(Refused, match=r"registered as dataset 'x', as a \.csv file"):
        counted(tmp_path / f"y.{ending}", rows)
    with pytest.raises(Refused, match=r"as a \.csv file"):
        counted({"t": tmp_path / f"y.{ending}"}, rows, "t")
    assert rows.used == used


def test_a_plan_moved_to_another_form_is_refused(tmp_path: Path, rows: Account) -> None:
    """The only column has the same name in both readings; rows with commas were dropped in one of them alone."""
    file = tmp_path / "u.csv"
    file.write_text("who\n" + "1\n" * 100 + '7,"j"\n' * 3_000)
    registered(file, rows)
    (tmp_path / "u.tsv").symlink_to(file)
    plan = ts.Private(file, account=rows).table(unit=ts.each_row).agg(n=ts.count()).plan(rho=1)
    with pytest.raises(Refused, match=r"as a \.csv file"):
        plan.on(tmp_path / "u.tsv").release(why="a count of rows")


def test_a_registered_file_with_tabs_is_not_read_with_commas(tmp_path: Path, rows: Account) -> None:
    file = tmp_path / "u.tsv"
    file.write_text("who\n" + "1\n" * 100)
    registered(file, rows)
    (tmp_path / "u.csv").symlink_to(file)
    with pytest.raises(Refused, match=r"as a \.tsv file"):
        counted(tmp_path / "u.csv", rows)


def test_a_path_that_a_program_registered_has_the_form_of_its_ending(tmp_path: Path, rows: Account) -> None:
    file = long_cell(tmp_path / "x.csv")
    rows.register("x", source=str(file))
    (tmp_path / "x.tsv").symlink_to(file)
    counted(file, rows)
    with pytest.raises(Refused, match=r"as a \.csv file"):
        counted(tmp_path / "x.tsv", rows)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_that_is_newer_than_the_registration_by_a_program_is_not_read_with_tabs(
    tmp_path: Path, rows: Account, link: Any
) -> None:
    """It is new in a registered folder, or has taken the place of a registered file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "one.csv").write_text("nr,note\n1,ok\n")
    rows.register("folder", source="a table of files", marks=[f"file {tmp_path / 'folder'}"])
    rows.register("one", source=str(tmp_path / "one.csv"))
    long_cell(tmp_path / "new.csv").replace(tmp_path / "one.csv")
    for number, path in enumerate([tmp_path / "one.csv", long_cell(tmp_path / "folder" / "new.csv")]):
        link(path, tmp_path / f"{number}.tsv")
        link(path, tmp_path / f"{number}.csv")
        with pytest.raises(Refused, match="registered as dataset"):
            counted(tmp_path / f"{number}.tsv", rows)
        assert counted(tmp_path / f"{number}.csv", rows) < LINES / 2


def test_a_path_without_an_ending_has_commas(tmp_path: Path, rows: Account) -> None:
    file = long_cell(tmp_path / "x")
    rows.register("x", source=str(file))
    for ending in ("csv", "tsv"):
        (tmp_path / f"x.{ending}").symlink_to(file)
    counted(tmp_path / "x.csv", rows)
    with pytest.raises(Refused, match="another kind of source"):
        counted(tmp_path / "x.tsv", rows)


def test_a_second_registration_does_not_give_another_form(tmp_path: Path, rows: Account) -> None:
    file = long_cell(tmp_path / "x.csv")
    registered(file, rows)
    (tmp_path / "x.tsv").symlink_to(file)
    with pytest.raises(Refused, match=r"as a \.csv file"):
        registered(tmp_path / "x.tsv", rows, name="y")


def test_the_owner_can_correct_the_form_and_the_newest_one_counts(tmp_path: Path, rows: Account) -> None:
    file = tmp_path / "x.csv"
    file.write_text("nr\n" + "1\n" * 100)
    registered(file, rows)
    file.rename(tmp_path / "x.tsv")
    registered(tmp_path / "x.tsv", rows, update=True)
    assert abs(counted(tmp_path / "x.tsv", rows) - 100) < 50
    (tmp_path / "x.csv").symlink_to("x.tsv")
    with pytest.raises(Refused, match=r"as a \.tsv file"):
        counted(tmp_path / "x.csv", rows)


def test_links_with_the_same_ending_and_replaced_files_still_work(tmp_path: Path, rows: Account) -> None:
    file = long_cell(tmp_path / "x.csv")
    registered(file, rows)
    (tmp_path / "y.CSV").symlink_to(file)
    os.link(file, tmp_path / "z.csv")
    for name in ("y.CSV", "z.csv"):
        counted(tmp_path / name, rows)
    long_cell(tmp_path / "new.csv").replace(file)
    (tmp_path / "w.tsv").symlink_to(file)
    counted(file, rows)
    with pytest.raises(Refused, match=r"as a \.csv file"):
        counted(tmp_path / "w.tsv", rows)


def test_a_query_in_the_shell_refuses_another_form(tmp_path: Path) -> None:
    (tmp_path / "u.csv").write_text("who\n" + "1\n" * 100 + '7,"j"\n' * 3_000)
    (tmp_path / "u.tsv").symlink_to("u.csv")

    def shell(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tallystick", *words, "--ledger", "b.db"]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    added = shell(
        "dataset", "add", "u.csv", "--name", "u", "--population", "p", "--unit", "each-row", "--limit", "rho=10"
    )
    assert added.returncode == 0, added.stderr
    asked = shell("query", "u", "--measures", "count", "--rho", "0.5", "--why", "test", "--source", "u.tsv")
    assert asked.returncode != 0
    assert ".csv file" in asked.stderr


@pytest.mark.parametrize("is_moved", [False, True], ids=["registered later", "registered again at a new place"])
def test_a_link_that_was_registered_before_does_not_lend_its_form(
    tmp_path: Path, rows: Account, is_moved: bool
) -> None:
    """A decoy with tabs was registered first; the link then led to a file with commas."""
    if is_moved:
        registered(long_cell(tmp_path / "first.csv"), rows)
    decoy = tmp_path / "decoy.tsv"
    decoy.write_text("nr\tnote\n1\tok\n")
    link = tmp_path / "l.tsv"
    link.symlink_to(decoy)
    registered(link, rows, name="fake")
    file = long_cell(tmp_path / "x.csv")
    registered(file, rows, update=is_moved)
    link.unlink()
    link.symlink_to(file)
    used = rows.used
    with pytest.raises(Refused, match=r"registered as dataset 'x', as a \.csv file"):
        counted(link, rows)
    assert rows.used == used


def identified(path: Path, account: Account, *, update: bool = False) -> None:
    """Register a file as ``dataset add`` does, with its marks."""
    table = datasets.read_table(str(path), None, None, "add_remove", {}, {})
    dataset = Dataset("x", account.name, table.to_data(), identity=datasets.identified(table))
    datasets.register(dataset, account, update=update)


def test_a_file_to_which_a_registered_link_led_keeps_its_form(tmp_path: Path, rows: Account) -> None:
    """The link leads elsewhere, and the file was replaced: a hard link x.tsv was read with tabs."""
    old, new = long_cell(tmp_path / "old.csv"), long_cell(tmp_path / "new.csv")
    link = tmp_path / "current.csv"
    link.symlink_to(old)
    identified(link, rows)
    long_cell(tmp_path / "fresh.csv").replace(old)
    link.unlink()
    link.symlink_to(new)
    for number, path in enumerate([old, new]):
        os.link(path, tmp_path / f"{number}.tsv")
        os.link(path, tmp_path / f"{number}.csv")
        with pytest.raises(Refused, match=r"registered as dataset 'x', as a \.csv file"):
            counted(tmp_path / f"{number}.tsv", rows)
        assert counted(tmp_path / f"{number}.csv", rows) < LINES / 2


def test_files_in_a_folder_that_took_the_place_of_a_registered_file_keep_its_form(
    tmp_path: Path, rows: Account
) -> None:
    """Also those to which links in it lead."""
    file = long_cell(tmp_path / "x.csv")
    identified(file, rows)
    file.unlink()
    file.mkdir()
    inside, linked = long_cell(file / "a.csv"), long_cell(tmp_path / "far.csv")
    (file / "b.csv").symlink_to(linked)
    for number, path in enumerate([inside, linked]):
        os.link(path, tmp_path / f"{number}.tsv")
        with pytest.raises(Refused, match=r"as a \.csv file"):
            counted(tmp_path / f"{number}.tsv", rows)
    assert counted(inside, rows) < LINES / 2


def test_a_file_that_is_recognised_has_a_form_however_it_was_recognised(
    tmp_path: Path, rows: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the marks of no registration say which form is the file's, all of them must allow the one that is asked."""
    file = long_cell(tmp_path / "x.csv")
    identified(file, rows)
    os.link(file, tmp_path / "y.tsv")
    monkeypatch.setattr(identity, "_known_now", lambda *given: (set(), set()))
    with pytest.raises(Refused, match=r"as a \.csv file"):
        counted(tmp_path / "y.tsv", rows)
    assert counted(file, rows) < LINES / 2


@pytest.mark.parametrize("is_linked", [False, True], ids=["file", "link"])
def test_the_number_of_an_inode_does_not_lend_the_form_of_a_file_that_is_gone(
    tmp_path: Path, rows: Account, is_linked: bool
) -> None:
    """The owner went back to commas, and the new file got the inode of the one with tabs: one record was 5,001 rows."""
    file, gone = long_cell(tmp_path / "x.csv"), long_cell(tmp_path / "gone.tsv", "\t")
    identified(file, rows)
    link = tmp_path / "x.tsv"
    link.symlink_to(gone)
    identified(link if is_linked else gone, rows, update=True)
    long_cell(gone).replace(file)
    for ending in ("tsv", "csv"):
        os.link(file, tmp_path / f"y.{ending}")
    with pytest.raises(Refused, match=r"registered as dataset 'x', as a \.csv file"):
        counted(tmp_path / "y.tsv", rows)
    assert counted(tmp_path / "y.csv", rows) < LINES / 2


def test_a_link_that_replaced_the_place_of_a_dataset_does_not_lend_its_form_to_an_earlier_file(
    tmp_path: Path, rows: Account
) -> None:
    """Others may be able to replace the link: then it led to the earlier file, whose rows have commas."""
    file, decoy = long_cell(tmp_path / "x.csv"), long_cell(tmp_path / "decoy.tsv", "\t")
    identified(file, rows)
    link = tmp_path / "l.tsv"
    link.symlink_to(decoy)
    identified(link, rows, update=True)
    link.unlink()
    link.symlink_to(file)
    os.link(file, tmp_path / "y.tsv")
    for path in (link, tmp_path / "y.tsv"):
        with pytest.raises(Refused, match=r"registered as dataset 'x', as a \.csv file"):
            counted(path, rows)
    link.unlink()
    link.symlink_to(long_cell(tmp_path / "new.tsv", "\t"))
    assert counted(link, rows) < LINES / 2


def test_a_file_beside_a_registered_folder_does_not_give_its_form_to_the_files_inside(
    tmp_path: Path, rows: Account
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    tabs = long_cell(folder / "x.tsv", "\t")
    rows.register("x", source="a table of files", marks=[f"file {folder}", f"file {tabs}"])
    os.link(long_cell(folder / "new.csv"), tmp_path / "y.tsv")
    with pytest.raises(Refused, match="as another kind of source"):
        counted(tmp_path / "y.tsv", rows)
    assert counted(tabs, rows) < LINES / 2


def test_a_file_in_a_folder_that_took_the_place_of_a_database_is_recognised(tmp_path: Path, rows: Account) -> None:
    """Under its own name it was refused, and a hard link to it was answered."""
    file = tmp_path / "x.duckdb"

    def made() -> Path:
        with duckdb.connect(tmp_path / "new.duckdb") as connection:
            connection.execute("CREATE TABLE visits AS SELECT 1 AS nr FROM range(100)")
        return tmp_path / "new.duckdb"

    made().replace(file)
    table = datasets.read_table(str(file), "visits", None, "add_remove", (), {})
    dataset = Dataset("x", rows.name, table.to_data(), identity=datasets.identified(table))
    datasets.register(dataset, rows)
    file.unlink()
    file.mkdir()
    made().replace(file / "a.duckdb")
    long_cell(file / "b.csv")
    other = rows.ledger.open("other", budget=ts.zcdp(rho=100, delta=1e-6), unit="row")
    os.link(file / "a.duckdb", tmp_path / "y.duckdb")
    os.link(file / "b.csv", tmp_path / "y.csv")
    with pytest.raises(Refused, match="belongs to population 'rows'"):
        counted(tmp_path / "y.duckdb", other, "visits")
    with pytest.raises(Refused, match="registered as dataset 'x'"):
        counted(tmp_path / "y.csv", other)
