"""A release reads the file that it recognised, whatever happens to the path meanwhile."""

from __future__ import annotations

import errno
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused, TallystickError, Unavailable
from tallystick.ledger.account import Account
from tallystick.tables import files, identity, run, scratch, sources
from tallystick.tables.files import OpenFile
from tallystick.tables.plan import Plan

OWN, PRIVATE = 3, 40
KINDS = ("csv", "parquet", "duckdb")


def write(path: Path, people: int) -> Path:
    """A table of that many people, in a file of the kind that its name says."""
    who = list(range(people))
    if path.suffix == ".csv":
        path.write_text("who\n" + "".join(f"{each}\n" for each in who))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"who": who}), path)
    else:
        with duckdb.connect(path) as connection:
            connection.execute(f"create table t as select i as who from range({people}) r(i)")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[ts.Ledger]:
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config") as book:
        yield book


@pytest.fixture
def own(ledger: ts.Ledger) -> Account:
    return ledger.open("own", budget=ts.zcdp(rho=100), unit="who")


def registered(ledger: ts.Ledger, path: Path) -> Account:
    """The owner's account; the file is registered for it as ``dataset add`` would."""
    from tallystick.publish.datasets import Dataset, identified, register

    owner = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who")
    table = capped(path, owner)
    register(Dataset("people", "clinic", table.to_data(), identity=identified(table)), owner)
    return owner


def capped(path: Path | str, account: Account | None) -> Any:
    name = "t" if str(path).endswith(".duckdb") else None
    types = {"who": "integer"} if str(path).endswith(".csv") else None
    return ts.Private(path, account=account).table(name, unit="who", types=types).per_unit(max_rows_per_group=1)


def plan_of(path: Path | str, account: Account | None) -> Plan:
    return capped(path, account).agg(n=ts.count()).plan(rho=10)


def counted(release: Any) -> float:
    return round(release.rows[0]["n"])


# ---- a link that flips


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_flips_at_any_opening_gives_no_answer_about_registered_data(
    kind: str, tmp_path: Path, ledger: ts.Ledger, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = write(tmp_path / f"mine.{kind}", OWN)
    private = write(tmp_path / f"private.{kind}", PRIVATE)
    registered(ledger, private)
    link = tmp_path / f"link.{kind}"
    link.symlink_to(mine)
    plan = plan_of(link, own)
    answers = []
    for flip_at in range(12):
        point(link, mine)
        calls = iter(range(10**6))
        with monkeypatch.context() as patch:
            for owner, name in LOOKS:
                patch.setattr(owner, name, flipping(getattr(owner, name), calls, flip_at, link, private))
            try:
                answers.append(counted(plan.release(why="x", key=f"k{flip_at}")))
            except TallystickError:
                continue
    assert all(abs(answer - OWN) < 15 for answer in answers), answers
    assert len(answers) > 1  # the flip came late enough for an honest answer in some of them


LOOKS: list[tuple[Any, str]] = [
    (os.path, "realpath"), (os, "open"), (os, "stat"), (os, "readlink"), (os, "fstat"), (files, "file_id"),
]  # fmt: skip


def flipping(real: Callable[..., Any], calls: Iterator[int], at: int, link: Path, target: Path) -> Callable[..., Any]:
    """A look at the file system after whose n-th call the link leads elsewhere."""

    def look(*given: Any, **named: Any) -> Any:
        about_link = bool(given) and str(given[0]) in (str(link), str(os.fspath(link)))
        found = real(*given, **named)
        if about_link and next(calls) == at:
            point(link, target)
        return found

    return look


def point(link: Path, target: Path) -> None:
    """Make the link lead to the target in one step, as an attacker would."""
    fresh = link.with_name(f"fresh-{link.name}")
    os.symlink(target, fresh)
    os.replace(fresh, link)


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_reads_the_file_that_was_recognised(
    kind: str, tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between recognition and the charge the path is made to lead to another file: the answer is about the first."""
    mine = write(tmp_path / f"mine.{kind}", OWN)
    other = write(tmp_path / f"other.{kind}", PRIVATE)
    link = tmp_path / f"link.{kind}"
    link.symlink_to(mine)
    plan = plan_of(link, own)
    allowed = run.check_allowed

    def switch(*given: Any) -> None:
        allowed(*given)
        point(link, other)

    monkeypatch.setattr(run, "check_allowed", switch)
    assert abs(counted(plan.release(why="x")) - OWN) < 15


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_its_owner_replaces_after_the_charge_is_read_as_it_was(
    kind: str, tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / f"people.{kind}", OWN)
    plan = plan_of(path, own)
    integers = run._integers

    def replaced(*given: Any) -> Any:
        os.replace(write(tmp_path / f"new.{kind}", PRIVATE), path)
        return integers(*given)

    monkeypatch.setattr(run, "_integers", replaced)
    assert abs(counted(plan.release(why="x")) - OWN) < 15


# ---- other names of one file


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linked", ["soft", "hard", "hard after a rename"])
def test_every_link_to_a_registered_file_is_the_registered_file(
    kind: str, linked: str, tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    path = write(tmp_path / f"people.{kind}", PRIVATE)
    owner = registered(ledger, path)
    if linked == "hard after a rename":
        os.replace(write(tmp_path / f"new.{kind}", PRIVATE), path)  # the owner's next version has another inode
    second = tmp_path / f"second.{kind}"
    if linked == "soft":
        second.symlink_to(path)
    else:
        os.link(path, second)
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan_of(second, own).release(why="x")
    assert own.history() == []
    assert abs(counted(cheap(second, owner)) - PRIVATE) < 30


def cheap(path: Path, account: Account) -> Any:
    return capped(path, account).agg(n=ts.count()).plan(rho=0.5).release(why="x")


def test_a_failure_closes_a_file_under_all_its_names(
    tmp_path: Path, ledger: ts.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "people.csv", PRIVATE)
    owner = registered(ledger, path)
    os.link(path, tmp_path / "second.csv")

    def broken(*given: Any) -> Any:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(run, "_integers", broken)
        with pytest.raises(Unavailable):
            cheap(path, owner)
    with pytest.raises(TallystickError, match="closed"):
        cheap(tmp_path / "second.csv", owner)


def test_a_file_that_a_program_registered_by_its_path_has_no_second_name(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    path = write(tmp_path / "people.parquet", PRIVATE)
    ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who").register("people", source=str(path))
    os.link(path, tmp_path / "second.parquet")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan_of(tmp_path / "second.parquet", own).release(why="x")


def test_files_in_a_folder_that_a_program_registered_by_its_path_belong_to_its_population(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    """Also through a link, files that are new, and as a public file."""
    (tmp_path / "people" / "year=2024").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "people")
    path = write(tmp_path / "people" / "old.parquet", PRIVATE)
    clinic = ledger.open("clinic", budget=ts.zcdp(rho=100), unit="who")
    clinic.register("people", **as_table(tmp_path / "link"))
    new = write(tmp_path / "people" / "year=2024" / "new.csv", PRIVATE)
    for name in (path, new, tmp_path / "link" / "old.parquet"):
        with pytest.raises(Refused, match="belongs to population 'clinic'"):
            plan_of(name, own).release(why="x")
    assert plan_of(path, clinic).release(why="x").receipt is not None
    beside = write(tmp_path / "beside.csv", OWN)
    assert plan_of(beside, own).release(why="x").receipt is not None
    with pytest.raises(Refused, match="not public"):
        ts.Private(beside, account=own).table(unit="who").join(str(new), on="who")


def as_table(folder: Path) -> dict[str, Any]:
    """A registration that marks a folder, as that of a table of Spark does."""
    return {"source": "a table of files", "marks": [f"file {os.path.realpath(folder)}"]}


def test_files_of_a_registered_folder_are_known_under_every_name(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    """A hard link, also to a file that is new, and the target of a link in the folder."""
    folder = tmp_path / "people"
    (folder / "deep").mkdir(parents=True)
    outside = write(tmp_path / "outside.csv", PRIVATE)
    (folder / "link.csv").symlink_to(outside)
    old = write(folder / "old.parquet", PRIVATE)
    ledger.open("clinic", budget=ts.zcdp(rho=100), unit="who").register("people", **as_table(folder))
    new = write(folder / "deep" / "new.csv", PRIVATE)
    os.link(old, tmp_path / "hard.parquet")
    os.link(new, tmp_path / "hard.csv")
    for name in ("hard.parquet", "hard.csv", "outside.csv", "people/link.csv"):
        with pytest.raises(Refused, match="belongs to population 'clinic'"):
            plan_of(tmp_path / name, own).release(why="x")


def test_a_registered_folder_of_any_depth_is_looked_through(tmp_path: Path, ledger: ts.Ledger, own: Account) -> None:
    """Folders inside each other have no limit, and calls inside each other do."""
    deep = tmp_path / "people"
    for _ in range(150):
        deep /= "d"
    deep.mkdir(parents=True)
    new = write(deep / "new.csv", PRIVATE)
    clinic = ledger.open("clinic", budget=ts.zcdp(rho=100), unit="who")
    usual = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 120)
        clinic.register("people", **as_table(tmp_path / "people"))
        identity.known_to(ledger)
    finally:
        sys.setrecursionlimit(usual)
    os.link(new, tmp_path / "hard.csv")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan_of(tmp_path / "hard.csv", own).release(why="x")


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is reached by its descriptor")
def test_a_file_whose_path_is_too_long_is_refused_in_our_words(tmp_path: Path) -> None:
    """It can be opened from its folder, and the system does not tell its path."""
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=folder)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("a.csv", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    try:
        with pytest.raises(InvalidInput, match="not too long"):
            OpenFile(f"/proc/self/fd/{folder}/a.csv")
    finally:
        os.close(folder)


def test_a_link_that_may_not_be_read_stops_no_release(
    tmp_path: Path, ledger: ts.Ledger, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system does not tell users where ``/proc/1/cwd`` leads."""
    (tmp_path / "people").mkdir()
    hidden = tmp_path / "people" / "hidden.csv"
    hidden.symlink_to("elsewhere.csv")
    ledger.open("clinic", budget=ts.zcdp(rho=100), unit="who").register("people", **as_table(tmp_path / "people"))
    read = os.readlink

    def forbidden(path: Any, **options: Any) -> Any:
        if str(path) == str(hidden):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, **options)

    monkeypatch.setattr(os, "readlink", forbidden)
    assert plan_of(write(tmp_path / "beside.csv", OWN), own).release(why="x").receipt is not None


def test_a_registered_folder_that_is_not_read_for_want_of_descriptors_is_not_empty(
    tmp_path: Path, ledger: ts.Ledger, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "people"
    folder.mkdir()
    ledger.open("clinic", budget=ts.zcdp(rho=100), unit="who").register("people", **as_table(folder))
    os.link(write(folder / "new.csv", PRIVATE), tmp_path / "hard.csv")
    list_folder = os.scandir

    def short(path: Any) -> Any:
        if str(path) == str(folder):
            raise OSError(errno.EMFILE, "Too many open files")
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", short)
    with pytest.raises(Unavailable, match="too many files are open"):
        plan_of(tmp_path / "hard.csv", own).release(why="x")
    assert own.history() == []


def test_a_link_in_a_registered_folder_does_not_take_data_that_were_registered_before_it(
    tmp_path: Path, ledger: ts.Ledger
) -> None:
    path = write(tmp_path / "people.csv", PRIVATE)
    owner = registered(ledger, path)
    (tmp_path / "folder").mkdir()
    ledger.open("other", budget=ts.zcdp(rho=100), unit="who").register("folder", **as_table(tmp_path / "folder"))
    (tmp_path / "folder" / "link.csv").symlink_to(path)
    assert cheap(path, owner).receipt is not None


@pytest.mark.parametrize("source", [5, True, b"people.csv", ["people.csv"], {}])
def test_what_is_no_text_is_no_source_of_a_program(own: Account, source: Any) -> None:
    with pytest.raises(InvalidInput, match="a text that names the data"):
        own.register("people", source=source)


@pytest.mark.parametrize("marks", [5, [5], [None], ["a", 5], [b"x"], "file /data/people.csv"])
def test_what_is_no_list_of_texts_is_no_list_of_marks(tmp_path: Path, own: Account, marks: Any) -> None:
    (tmp_path / "people.csv").write_text("who\n1\n")
    for source in ("people", str(tmp_path / "people.csv")):
        with pytest.raises(InvalidInput, match="a list of texts"):
            own.register("people", source=source, marks=marks)


def test_a_source_that_was_registered_without_a_unit_is_not_registered_again_about_one(own: Account) -> None:
    own.register("one", source="people")
    with pytest.raises(Refused, match="about unit 'each row'"):
        own.register("two", source="people", fixed={"unit": "who"})


def test_a_program_registers_the_inode_of_the_path_that_it_registers(
    tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that is replaced gave the path of one file and the inode of another one."""
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for file in files:
        file.write_text("who\n1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(files[0])
    real = os.path.realpath

    def switched(path: Any, **options: Any) -> Any:
        found = real(path, **options)
        link.unlink()
        link.symlink_to(files[1])
        return found

    monkeypatch.setattr(os.path, "realpath", switched)
    own.register("people", source=link)
    monkeypatch.undo()
    status = files[0].stat()
    inode = f"inode {status.st_dev}:{status.st_ino}"
    marks = own.ledger.datasets()["people"].marks
    assert marks == {f"file {files[0]}", inode, f"{inode}@{status.st_mtime_ns}"}
    files[1].unlink()
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    with pytest.raises(Unavailable, match="was replaced while it was registered"):
        own.register("gone", source=files[1])


def test_a_program_may_register_a_path_that_is_not_there_yet(tmp_path: Path, own: Account) -> None:
    own.register("people", source=tmp_path / "people.csv")
    own.register("people", source=str(tmp_path / "people.csv"))  # it changes nothing
    assert len(own.ledger.datasets()) == 1


def test_a_folder_is_no_source_of_a_program(tmp_path: Path, own: Account) -> None:
    """Its files come and go between two looks, so a program registers each file."""
    with pytest.raises(InvalidInput, match="register each file"):
        own.register("people", source=str(tmp_path))


def test_a_file_of_two_populations_is_refused(tmp_path: Path, ledger: ts.Ledger) -> None:
    """Two registered paths that came to be one file: no account can pay for both."""
    one, two = write(tmp_path / "one.csv", 5), write(tmp_path / "two.csv", 6)
    first = ledger.open("first", budget=ts.zcdp(rho=1), unit="who")
    first.register("one", source=str(one))
    ledger.open("second", budget=ts.zcdp(rho=1), unit="who").register("two", source=str(two))
    two.unlink()
    os.link(one, two)
    with pytest.raises(Refused, match="several populations"):
        cheap(one, first)


@pytest.mark.parametrize("when", ["before the file", "before the link leads there", "afterwards", "as an update"])
@pytest.mark.parametrize("asked", ["by the link", "by its path"])
def test_a_later_registration_does_not_take_the_next_version_of_a_registered_link(
    when: str, asked: str, tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    """The link is registered as ``dataset add`` would. An analyst registers the file that it will lead to."""
    (tmp_path / "current.csv").symlink_to(write(tmp_path / "v1.csv", 5))
    owner = registered(ledger, tmp_path / "current.csv")
    new = tmp_path / "v2.csv"
    if when == "before the file":
        own.register("squatted", source=f"file {new}")
    if when == "as an update":
        own.register("squatted", source=str(write(tmp_path / "other.csv", 6)))
    write(new, PRIVATE)
    if when == "before the link leads there":
        own.register("squatted", source=str(new))
    point(tmp_path / "current.csv", new)
    if when in ("afterwards", "as an update"):
        own.register("squatted", source=str(new), update=True)
    for account in (own, owner):
        with pytest.raises(Refused, match="several populations"):
            cheap(tmp_path / "current.csv" if asked == "by the link" else new, account)
    assert own.history() == []


def test_a_registered_link_does_not_take_data_that_were_registered_before_it(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    mine = write(tmp_path / "mine.csv", 5)
    own.register("mine", source=str(mine))
    (tmp_path / "current.csv").symlink_to(write(tmp_path / "v1.csv", 6))
    owner = registered(ledger, tmp_path / "current.csv")
    point(tmp_path / "current.csv", mine)
    for path in (mine, tmp_path / "current.csv"):
        assert cheap(path, own).fresh
        with pytest.raises(Refused):
            cheap(path, owner)


def test_a_view_over_a_registered_table_of_a_database_file_is_refused(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    path = write(tmp_path / "clinic.duckdb", PRIVATE)
    with duckdb.connect(path) as connection:
        connection.execute("create view v as select who from t")
        connection.execute("create table other as select 1::bigint as who")
    registered(ledger, path)
    table = ts.Private(path, account=own).table("v", unit="who").per_unit(max_rows_per_group=1)
    with pytest.raises(Refused, match="'people', under another name"):
        table.agg(n=ts.count()).plan(rho=1).release(why="x")
    table = ts.Private(path, account=own).table("other", unit="who").per_unit(max_rows_per_group=1)
    assert table.agg(n=ts.count()).plan(rho=1).release(why="x").fresh


def test_a_registered_database_file_is_not_read_as_text(tmp_path: Path, ledger: ts.Ledger, own: Account) -> None:
    path = write(tmp_path / "clinic.duckdb", PRIVATE)
    registered(ledger, path)
    (tmp_path / "clinic.csv").write_text("who\n1\n")
    plan = plan_of(tmp_path / "clinic.csv", own)
    (tmp_path / "clinic.csv").unlink()
    (tmp_path / "clinic.csv").symlink_to(path)
    with pytest.raises(TallystickError):
        plan.release(why="x")
    assert own.history() == []


# ---- public files


@pytest.mark.parametrize("how", ["keys", "join", "sql"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_public_file_is_checked_and_read_through_one_descriptor(
    how: str, kind: str, tmp_path: Path, ledger: ts.Ledger, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path flips to the registered file right after the check: the rows that were checked are read."""
    if (how, kind) == ("keys", "parquet"):
        pytest.skip("lists of groups are CSV files")
    private, public = write(tmp_path / f"private.{kind}", PRIVATE), write(tmp_path / f"public.{kind}", OWN)
    registered(ledger, private)
    mine = write(tmp_path / "mine.csv", OWN)
    link = tmp_path / f"link.{kind}"
    link.symlink_to(public)
    table = capped(mine, own)
    check = sources.refuse_private_file

    def switch(*given: Any) -> None:
        check(*given)
        point(link, private)

    monkeypatch.setattr(sources, "refuse_private_file", switch)
    if how == "keys":
        found = len(table.group_by("who", keys=link).keys.rows)
    elif how == "join":
        found = len(table.join(link, on="who").steps[-1].public.rows)
    else:
        plan = ts.Private(mine, account=own).sql(
            "EXPLAIN SELECT COUNT(*) FROM table JOIN p ON table.who = p.who", table, public={"p": link}, rho=1
        )
        found = OWN if plan is not None else 0
    assert found == OWN


@pytest.mark.parametrize("linked", [os.symlink, os.link])
def test_a_registered_file_is_no_public_file_under_any_name(
    linked: Callable[..., None], tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    private = write(tmp_path / "private.csv", PRIVATE)
    registered(ledger, private)
    table = capped(write(tmp_path / "mine.csv", OWN), own)
    linked(private, tmp_path / "link.csv")
    with pytest.raises(Refused, match="registered dataset 'people'"):
        table.group_by("who", keys=tmp_path / "link.csv")
    with pytest.raises(Refused, match="registered dataset 'people'"):
        table.join(tmp_path / "link.csv", on="who")


# ---- snapshots


def test_a_file_that_another_user_owns_is_copied_before_the_charge(
    tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "people.parquet", OWN)
    plan = plan_of(path, own)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    monkeypatch.setattr(files, "_cloned", lambda *given: False)
    integers, seen = run._integers, []

    def watched(given: Plan, engine: Any, progress: Any) -> Any:
        seen.append(next(iter(engine.snapshots.values())).stat().st_ino)
        path.write_bytes(b"the owner writes into the file")
        return integers(given, engine, progress)

    monkeypatch.setattr(run, "_integers", watched)
    assert abs(counted(plan.release(why="x")) - OWN) < 15
    assert seen != [path.stat().st_ino]


def test_a_file_that_is_written_while_it_is_read_fails_and_says_nothing(
    tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "people.parquet", OWN)
    plan = plan_of(path, own)
    monkeypatch.setattr(files, "_cloned", lambda *given: False)
    integers = run._integers

    def written(*given: Any) -> Any:
        found = integers(*given)
        write(path, PRIVATE)  # in place: the hard link shows the new bytes
        return found

    monkeypatch.setattr(run, "_integers", written)
    with pytest.raises(Unavailable, match="stays spent"):
        plan.release(why="x")


def test_a_file_of_another_file_system_is_copied(tmp_path: Path) -> None:
    here = tmp_path.stat().st_dev
    others = [Path(name) for name in ("/dev/shm", "/tmp") if os.access(name, os.W_OK)]
    elsewhere = next((folder for folder in others if folder.stat().st_dev != here), None)
    if elsewhere is None:
        pytest.skip("no second file system here")
    path = write(tmp_path / "people.parquet", OWN)
    folder = Path(tempfile.mkdtemp(dir=elsewhere))
    try:
        with OpenFile(path) as file:
            snapshot = file.snapshot(folder, "rows.parquet")
            assert snapshot.parent == folder
            assert snapshot.read_bytes() == path.read_bytes()
    finally:
        shutil.rmtree(folder)
    assert [each.name for each in tmp_path.iterdir()] == ["people.parquet"]


def test_a_snapshot_that_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = write(tmp_path / "people.parquet", OWN)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from tallystick.tables.scratch import Scratch\n"
        "import tempfile; tempfile.tempdir = sys.argv[1]\n"
        "folder = Scratch()\n"
        "os.link(sys.argv[2], folder.path / 'rows.parquet')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(path)], check=False)
    assert path.stat().st_nlink == 2
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from tallystick.tables.scratch import Scratch; Scratch()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert path.stat().st_nlink == 1
    assert [each.name for each in tmp_path.iterdir()] == ["people.parquet"]


def test_a_database_file_with_rows_in_its_log_is_refused_before_the_charge(tmp_path: Path, own: Account) -> None:
    path = write(tmp_path / "clinic.duckdb", OWN)
    plan = plan_of(path, own)
    Path(f"{path}.wal").write_bytes(b"x")
    with pytest.raises(Unavailable, match="write-ahead log"):
        plan.release(why="x")
    assert own.history() == []


def test_a_database_file_that_another_process_writes_is_refused_before_the_charge(tmp_path: Path, own: Account) -> None:
    path = write(tmp_path / "clinic.duckdb", OWN)
    plan = plan_of(path, own)
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(Unavailable, match=r"open for writing elsewhere|write-ahead log"):
            plan.release(why="x")
        writer.communicate(b"")
    assert own.history() == []


WRITES = """
import duckdb, sys
try:
    duckdb.connect(sys.argv[1]).execute("insert into t values (1)")
except duckdb.IOException:
    sys.exit(7)
"""


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("linked", [False, True])
def test_a_database_that_this_process_has_open_keeps_its_lock(
    linked: bool, read_only: bool, tmp_path: Path, own: Account
) -> None:
    """The lock of a process goes when it closes any descriptor of the file: a second process could write then."""
    path = write(tmp_path / "clinic.duckdb", OWN)
    asked = tmp_path / "second.duckdb" if linked else path
    if linked:
        os.link(path, asked)
    plan = plan_of(asked, own)
    with duckdb.connect(path, read_only=read_only):
        with pytest.raises(Unavailable, match=r"connection.close\(\)"):
            plan.release(why="x")
        with pytest.raises(TallystickError):
            capped(write(tmp_path / "mine.csv", OWN), own).group_by("who", keys=path)
        writer = subprocess.run([sys.executable, "-c", WRITES, str(path)], check=False)
        assert writer.returncode == 7
    assert own.history() == []
    assert abs(counted(plan.release(why="x")) - OWN) < 15


def test_a_database_that_is_open_without_a_lock_is_read(tmp_path: Path, own: Account) -> None:
    """A release beside this one, or a program that reads the bytes, has no lock that could be lost."""
    path = write(tmp_path / "clinic.duckdb", OWN)
    with path.open("rb"), another_release(path):
        assert abs(counted(plan_of(path, own).release(why="x")) - OWN) < 15


def another_release(path: Path) -> Any:
    from tallystick.tables.reader import open_engine

    return open_engine(sources.source_of(path))


def test_a_file_that_is_replaced_while_it_is_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "people.csv", OWN)
    real = files._open

    def replaced(*given: Any) -> int:
        descriptor = real(*given)
        os.replace(write(tmp_path / "new.csv", PRIVATE), path)
        return descriptor

    monkeypatch.setattr(files, "_open", replaced)
    with pytest.raises(Unavailable, match="was replaced"):
        OpenFile(path)


def test_a_link_that_becomes_a_file_while_it_is_resolved_is_no_error(
    tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python looks at a link and then reads it. Its own error would show the path, and not what to do."""
    write(tmp_path / "people.csv", OWN)
    (tmp_path / "link.csv").symlink_to("people.csv")
    read = os.readlink

    def replaced(path: Any, **options: Any) -> Any:
        if str(path).endswith("link.csv"):
            (tmp_path / "people.csv").replace(path)
        return read(path, **options)

    monkeypatch.setattr(os, "readlink", replaced)
    assert plan_of(tmp_path / "link.csv", own).release(why="x").receipt is not None


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", tmp_path, tmp_path / "absent.csv", "/dev/null", "a\0b.csv"):
        with pytest.raises(InvalidInput, match="an existing file"):
            OpenFile(path)


def test_a_system_that_cannot_tell_which_file_was_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "people.csv", OWN)
    monkeypatch.setattr(files.sys, "platform", "freebsd")
    with pytest.raises(Refused, match="cannot tell which file was opened"):
        OpenFile(path)


# ---- snapshots of releases


def uses(link: Path, own: Account) -> dict[str, Callable[[], object]]:
    """Every use of a file: paid by an account, and read as public."""
    table = ts.Private(pa.table({"who": [1]}), account=own).table(unit="who").per_unit(max_groups=1)
    return {
        "source": lambda: plan_of(link, own).release(why="x"),
        "public table": lambda: table.join(link, on="who"),
        "list of groups": lambda: table.group_by("who", keys=link),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors have names on Linux alone")
@pytest.mark.parametrize("kind", KINDS)
def test_a_link_to_a_descriptor_does_not_lead_to_a_snapshot(
    kind: str, tmp_path: Path, ledger: ts.Ledger, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread of this process reads a registered file."""
    monkeypatch.setattr(OpenFile, "_link", lambda *_: None)  # so the snapshot is a copy
    private = write(tmp_path / f"private.{kind}", PRIVATE)
    registered(ledger, private)
    before = set(scratch.private_root().rglob("*"))
    with another_release(private) as engine:
        engine.schema("t" if kind == "duckdb" else "table")
        snapshots = [path for path in scratch.private_root().rglob("*") if path.is_file() and path not in before]
        assert snapshots
        for snapshot in snapshots:
            with snapshot.open("rb") as file:
                link = tmp_path / f"{snapshot.name}.{kind}"
                link.symlink_to(f"/proc/self/fd/{file.fileno()}")
                for name, use in uses(link, own).items():
                    with pytest.raises(Refused, match="private snapshot of a release"):
                        pytest.fail(f"{name}: {use()}")
    assert own.history() == []


HOLDER = """
import sys
from tallystick.tables.scratch import Scratch
copy = Scratch().path / "file0.csv"
copy.write_bytes(open(sys.argv[1], "rb").read())
file = copy.open("rb")
print(file.fileno(), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors have names on Linux alone")
def test_a_link_to_a_descriptor_of_another_process_does_not_lead_to_a_snapshot(tmp_path: Path, own: Account) -> None:
    command = [sys.executable, "-c", HOLDER, str(write(tmp_path / "private.csv", PRIVATE))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        link = tmp_path / "link.csv"
        link.symlink_to(f"/proc/{holder.pid}/fd/{int(holder.stdout.readline())}")
        for name, use in uses(link, own).items():
            with pytest.raises(Refused, match="private snapshot of a release"):
                pytest.fail(f"{name}: {use()}")
        holder.communicate("")
    assert own.history() == []


def test_a_folder_with_a_similar_name_is_an_ordinary_folder(tmp_path: Path, own: Account) -> None:
    folder = tmp_path / "tallystick-projects"
    folder.mkdir()
    assert abs(counted(plan_of(write(folder / "mine.csv", OWN), own).release(why="x")) - OWN) < 15


# ---- links and views that lead elsewhere


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_view_in_a_database_file_reads_no_other_file(
    kind: str, tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    private = write(tmp_path / f"private.{kind}", PRIVATE)
    registered(ledger, private)
    with duckdb.connect(tmp_path / "mine.duckdb") as connection:
        connection.execute(f"create view t as select * from read_{kind}('{private}')")
    with pytest.raises(TallystickError):
        plan_of(tmp_path / "mine.duckdb", own).release(why="x")
    assert own.history() == []


def register_as(ledger: ts.Ledger, name: str, path: Path, unit: str, population: str = "clinic") -> None:
    from tallystick.publish.datasets import Dataset, identified, register

    account = ledger.open(population, budget=ts.zcdp(rho=1), unit="who")
    types = {"who": "integer"} if path.suffix == ".csv" else None
    table = ts.Private(path, account=account).table(unit=unit, types=types).per_unit(max_rows_per_group=1)
    register(Dataset(name, population, table.to_data(), identity=identified(table)), account)


def two_columns(path: Path, people: int) -> Path:
    path.write_text("who,visit\n" + "".join(f"{each % 5},{each}\n" for each in range(people)))
    return path


def test_a_registered_link_that_is_pointed_at_other_registered_data_is_refused(
    tmp_path: Path, ledger: ts.Ledger
) -> None:
    """The link was registered with another unit: it must not lend that unit to the data of another dataset."""
    private = two_columns(tmp_path / "private.csv", PRIVATE)
    register_as(ledger, "people", private, "who")
    mine, link = two_columns(tmp_path / "mine.csv", OWN), tmp_path / "link.csv"
    link.symlink_to(mine)
    register_as(ledger, "aaa", link, "visit")
    point(link, private)
    owner = ledger.open("clinic")
    asked = ts.Private(link, account=owner).table(unit="visit").per_unit(max_rows_per_group=1)
    with pytest.raises(Refused, match="registered"):
        asked.agg(n=ts.count()).plan(rho=0.1).release(why="x", dataset="aaa")
    true = ts.Private(private, account=owner).table(unit="who", types={"who": "integer"})
    assert true.per_unit(max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.1).release(why="x").fresh


def test_a_hard_link_cannot_be_registered_with_another_unit(tmp_path: Path, ledger: ts.Ledger) -> None:
    path = two_columns(tmp_path / "people.csv", PRIVATE)
    register_as(ledger, "people", path, "who")
    os.link(path, tmp_path / "second.csv")
    with pytest.raises(Refused, match="whom they protect does not depend on the name"):
        register_as(ledger, "second", tmp_path / "second.csv", "visit")


def test_a_registered_file_that_this_user_may_not_look_at_is_known_by_its_inode(
    tmp_path: Path, ledger: ts.Ledger, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "people.csv", PRIVATE)
    registered(ledger, path)
    os.link(path, tmp_path / "second.csv")
    plan = plan_of(tmp_path / "second.csv", own)
    forbid(path, monkeypatch)
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan.release(why="x")


@pytest.mark.parametrize("by", ["dataset add", "a program"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_its_place", ["nothing", "a folder that may not be entered", "another file"])
def test_a_registered_file_that_was_moved_away_is_known_by_its_inode(
    at_its_place: str, kind: str, by: str, tmp_path: Path, ledger: ts.Ledger, own: Account,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data" / f"people.{kind}", PRIVATE)
    if by == "a program":
        ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who").register("people", source=str(path))
    else:
        registered(ledger, path)
    elsewhere = path.replace(tmp_path / f"elsewhere.{kind}")
    if at_its_place == "another file":
        write(path, OWN)
    elif at_its_place != "nothing":
        forbid(path, monkeypatch)
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan_of(elsewhere, own).release(why="x")
    if kind == "csv":
        with pytest.raises(Refused, match="registered dataset 'people'"):
            capped(write(tmp_path / "mine.csv", OWN), own).group_by("who", keys=elsewhere)
    assert own.history() == []


def forbid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make looking at a path fail, as a folder does that this user may not enter. Root may enter all of them."""
    stat = os.stat

    def forbidden(given: Any, *more: Any, **named: Any) -> Any:
        if str(given) == str(path):
            raise PermissionError
        return stat(given, *more, **named)

    monkeypatch.setattr(os, "stat", forbidden)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unrelated_file_with_the_inode_of_a_file_that_was_replaced_is_not_registered(
    kind: str, tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    """File systems use numbers of inodes again. Here the old file itself is rewritten, which keeps its inode."""
    path = write(tmp_path / f"people.{kind}", PRIVATE)
    registered(ledger, path)
    old = tmp_path / f"old.{kind}"
    os.link(path, old)
    os.replace(write(tmp_path / f"new.{kind}", PRIVATE), path)
    os.utime(old, ns=(10**18, 10**18))
    assert plan_of(old, own).release(why="x").fresh


@pytest.mark.parametrize("by", ["dataset add", "a program"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_unrelated_file_with_the_inode_of_a_file_that_was_deleted_is_not_registered(
    kind: str, by: str, tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    """The next new file often gets the inode. Here the old file itself is rewritten, which keeps it."""
    path = write(tmp_path / f"people.{kind}", PRIVATE)
    if by == "a program":
        ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who").register("people", source=str(path))
    else:
        registered(ledger, path)
    other = path.rename(tmp_path / f"other.{kind}")
    os.utime(other, ns=(10**18, 10**18))
    assert plan_of(other, own).release(why="x").fresh


def test_an_inode_that_was_registered_without_a_time_stands_for_a_file_that_is_gone(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    path = write(tmp_path / "people.csv", PRIVATE)
    status = path.stat()
    marks = [f"file {path}", f"inode {status.st_dev}:{status.st_ino}"]
    clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who")
    clinic.register("people", source=f"file {path}", marks=marks)
    other = path.rename(tmp_path / "other.csv")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan_of(other, own).release(why="x")


def test_the_inode_of_a_place_that_a_dataset_has_left_needs_the_time_of_its_last_write(
    tmp_path: Path, ledger: ts.Ledger, own: Account
) -> None:
    from tallystick.publish.datasets import Dataset, identified, register

    old = write(tmp_path / "old.csv", PRIVATE)
    owner = registered(ledger, old)
    table = capped(write(tmp_path / "new.csv", PRIVATE), owner)
    register(Dataset("people", "clinic", table.to_data(), identity=identified(table)), owner, update=True)
    elsewhere = old.replace(tmp_path / "elsewhere.csv")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        plan_of(elsewhere, own).release(why="x")
    os.utime(elsewhere, ns=(10**18, 10**18))
    assert plan_of(elsewhere, own).release(why="x").fresh


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_CPU"])
def test_a_limit_of_the_process_that_large_data_would_meet_is_refused_before_the_charge(
    name: str, tmp_path: Path, own: Account
) -> None:
    """The limit is far away: a smaller one is refused with the same words, whatever the data."""
    import resource

    plan, number = plan_of(write(tmp_path / "people.csv", OWN), own), getattr(resource, name)
    before = resource.getrlimit(number)
    resource.setrlimit(number, (1 << 46, before[1]))
    try:
        with pytest.raises(Unavailable, match=f"has a limit {name}, and"):
            plan.release(why="x")
    finally:
        resource.setrlimit(number, before)
    assert own.history() == []


# ---- rows that nobody pays for


def test_made_up_rows_of_an_audit_are_no_registered_file(
    tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan without an account asks the default ledger too."""
    from tallystick.audit.plans import made_up

    monkeypatch.setenv("TALLYSTICK_LEDGER", str(tmp_path / "budget.db"))
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "config"))
    private = write(tmp_path / "private.csv", PRIVATE)
    registered(own.ledger, private)
    os.link(private, tmp_path / "second.csv")
    plan = plan_of(write(tmp_path / "mine.csv", OWN), None)
    for path in (private, tmp_path / "second.csv", str(private)):
        with pytest.raises(Refused, match="registered dataset 'people'"):
            made_up(plan, path)
    write(tmp_path / "made-up.csv", 2)
    assert len(run.integers(plan.on(made_up(plan, tmp_path / "made-up.csv"))).numbers) == 1


@pytest.mark.parametrize("asked", ["no account", "an account of another ledger"])
def test_public_files_are_compared_with_the_default_ledger_too(
    asked: str, tmp_path: Path, own: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYSTICK_LEDGER", str(tmp_path / "budget.db"))
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "config"))
    private = write(tmp_path / "private.csv", PRIVATE)
    registered(own.ledger, private)
    mine = write(tmp_path / "mine.csv", OWN)
    with ts.Ledger(tmp_path / "other.db") as other:
        account = None if asked == "no account" else other.open("own", budget=ts.zcdp(rho=1), unit="who")
        table = capped(mine, account).per_unit(max_groups=1, max_rows_per_group=1)
        for path in (private, str(private)):
            with pytest.raises(Refused, match="registered dataset 'people'"):
                table.group_by("who", keys=path)
            with pytest.raises(Refused, match="registered dataset 'people'"):
                table.join(path, on="who")
            with pytest.raises(Refused, match="registered dataset 'people'"):
                ts.Private(mine, account=account).sql(
                    "EXPLAIN SELECT COUNT(*) FROM table JOIN p ON table.who = p.who", table, public={"p": path}, rho=1
                )
        assert len(table.group_by("who", keys=write(tmp_path / "public.csv", 2)).keys.rows) == 2


def test_seeded_noise_is_for_rows_in_memory_only(tmp_path: Path) -> None:
    class Frame:
        """What a Spark data frame looks like."""

        sparkSession = None

        def createOrReplaceGlobalTempView(self, name: str) -> None: ...

    source = sources.source_of(Frame())
    plan = plan_of(write(tmp_path / "mine.csv", OWN), None)
    asked = replace(plan, query=plan.query.about(replace(plan.query.table, source=source)))
    for refused in (plan, asked):
        with pytest.raises(InvalidInput, match="rows in memory"):
            ts.testing.released(refused, seed=1)
