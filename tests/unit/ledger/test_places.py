"""A ledger that was deleted or exchanged at its place is noticed, and its owner can start again with a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from crash.stores import entries_of, spend
from tallystick.errors import InvalidInput, LedgerIntegrity, TallystickError, Unavailable
from tallystick.ledger import Ledger, places
from tallystick.ledger.book import opened_if_there
from tallystick.ledger.budget import Budget


def spent(place, config, **options):
    """Spend 1 of 100 in the ledger at a place; return its identifier and what is used."""
    with Ledger(place, config=config, **options) as ledger:
        account = ledger.open("people", budget=Budget.zcdp(100), unit="person")
        with spend(account, 1):
            pass
        return ledger.id, ledger.open("people").used.a0


@pytest.fixture
def file(tmp_path):
    return tmp_path / "budget.db"


def remove(path):
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def test_a_deleted_ledger_is_not_made_again_without_a_reason(file, config):
    first, _ = spent(file, config)
    remove(file)
    with pytest.raises(LedgerIntegrity, match=f"knows ledger {first[:8]} .* no ledger is there"):
        Ledger(file, config=config)
    assert not file.exists()  # nothing was made
    second, used = spent(file, config, first_use="the first ledger was a trial")
    assert (second != first, used) == (True, 1)
    assert spent(file, config) == (second, 2)  # once is enough


def test_the_reason_to_start_again_is_an_entry(file, config):
    spent(file, config)
    remove(file)
    with Ledger(file, config=config, first_use="the first ledger was a trial") as ledger:
        assert entries_of(ledger)[1]["why"] == "the first ledger was a trial"
        assert ledger.verify().problems == ()


def test_a_ledger_that_this_host_has_seen_elsewhere_does_not_replace_another(file, tmp_path, config):
    own, _ = spent(tmp_path / "own.db", config)
    first, _ = spent(file, config)
    remove(file)
    shutil.copy(tmp_path / "own.db", file)
    message = f"knows ledger {first[:8]} .* it holds ledger {own[:8]}"
    for create in (False, True):  # a caller who only reads gets the same error
        with pytest.raises(LedgerIntegrity, match=message) as caught:
            Ledger(file, config=config, create=create)
        assert caught.value.code == "ledger_exchanged"
        assert [remedy.kind for remedy in caught.value.remedies] == ["accept_head", "accept_first_use"]
    with Ledger(file, config=config, inspect=True) as ledger:
        assert [message for message in ledger.verify().problems if first[:8] in message]
        with pytest.raises(LedgerIntegrity, match=message):
            ledger.open("others", budget=Budget.zcdp(1))
        known = ledger.head().hash
    assert spent(file, config, expect_head=known) == (own, 2)
    assert spent(file, config) == (own, 3)


def test_a_link_to_another_ledger_in_place_of_the_file_is_noticed(file, tmp_path, config):
    spent(tmp_path / "own.db", config)
    spent(file, config)
    remove(file)
    os.symlink(tmp_path / "own.db", file)
    with pytest.raises(LedgerIntegrity, match="What was spent before would be forgotten"):
        spent(file, config)


def test_a_link_is_remembered_although_the_file_was_used_before(file, tmp_path, config):
    first, _ = spent(file, config)
    link = tmp_path / "link.db"
    link.symlink_to(file)
    assert spent(link, config) == (first, 2)
    link.unlink()
    with pytest.raises(LedgerIntegrity, match="no ledger is there"):
        Ledger(link, config=config)


def test_a_record_of_a_place_is_written_as_a_whole(file, config, monkeypatch):
    spent(file, config)
    before = {path: path.read_bytes() for path in (config / "places").iterdir()}
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    remove(file)
    with pytest.raises(Unavailable, match="No space left"):
        spent(file, config, first_use="again")
    assert {path: path.read_bytes() for path in (config / "places").iterdir()} == before


def test_a_ledger_may_move_and_come_back(file, tmp_path, config):
    first, _ = spent(file, config)
    moved = tmp_path / "archive.db"
    shutil.move(file, moved)
    assert spent(moved, config) == (first, 2)
    shutil.move(moved, file)
    assert spent(file, config) == (first, 3)


def test_another_schema_or_table_of_the_same_name_is_noticed(place, config):
    """Both stores: the rows are those of another ledger, with its own anchor on this host."""
    if str(place).startswith("postgresql"):
        import psycopg

        spent(place, config)
        with psycopg.connect(str(place), autocommit=True) as connection:
            [[schema]] = connection.execute("SELECT current_schema()").fetchall()
            connection.execute(f"DROP SCHEMA {schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {schema}")
        with pytest.raises(LedgerIntegrity, match="no ledger is there"):
            Ledger(place, config=config)
        assert spent(place, config, first_use="dropped by mistake")[1] == 1


def test_a_damaged_record_of_a_place_is_an_error(file, config):
    spent(file, config)
    for record in (config / "places").iterdir():
        record.write_bytes(b"x")
    with pytest.raises(LedgerIntegrity, match="is damaged"):
        Ledger(file, config=config)


def test_a_reader_gets_the_same_error_for_a_ledger_that_is_gone(file, config):
    first, _ = spent(file, config)
    remove(file)
    for options in ({"create": False}, {"inspect": True}, {"expect_head": "0" * 64}):
        with pytest.raises(LedgerIntegrity, match=f"knows ledger {first[:8]} .* no ledger is there") as caught:
            Ledger(file, config=config, **options)
        assert [remedy.kind for remedy in caught.value.remedies] == ["start_again"]
        assert not file.exists()


def test_a_host_that_has_never_seen_the_place_may_read(file, tmp_path, config):
    spent(file, config)
    with Ledger(file, config=tmp_path / "other") as ledger:
        assert ledger.open("people").used.a0 == 1


def test_a_record_that_cannot_be_read_refuses_writes_alone(file, config, monkeypatch):
    spent(file, config)
    monkeypatch.setattr(places, "own_file", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with Ledger(file, config=config) as ledger:
        account = ledger.open("people")
        with pytest.raises(LedgerIntegrity, match="its record cannot be read"), spend(account, 1):
            pass


def test_a_child_process_reads_the_ledger_that_was_opened(file, tmp_path, config):
    """A child opens the file again. By then another ledger may have its name."""
    own = tmp_path / "own.db"
    spent(own, config)
    spent(file, config)
    with Ledger(file, config=config) as ledger:
        shutil.move(file, tmp_path / "moved.db")
        shutil.copy(own, file)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, str(ledger.head().seq).encode())
            except LedgerIntegrity:
                os.write(writing, b"refused")
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
    assert answer == b"refused"


def test_a_ledger_that_does_not_exist_is_still_a_plain_error(file, config):
    with pytest.raises(InvalidInput, match="there is no ledger at"):
        Ledger(file, config=config, create=False)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", ".gate", ".sync"])
def test_a_ledger_with_a_file_that_is_mounted_alone_is_refused(file, tmp_path, config, ending):
    """All processes must share the ledger and the files beside it: else two would both spend the last of a budget."""
    with Ledger(file, config=config) as ledger:
        box = tmp_path / "box with space"
        shutil.copytree(tmp_path, box, ignore=lambda *_: ["config"])
        done = opened_with_a_mount(f"{file}{ending}", f"{box}/budget.db{ending}", f"{box}/budget.db")
        assert ledger.head().seq == 1
    if done.returncode:
        pytest.skip("this user may not mount a file")
    assert f"budget.db{ending} is mounted as a single file" in done.stdout
    assert "Mount the folder of the ledger instead" in done.stdout


def opened_with_a_mount(source, target, ledger):
    """Open a ledger in another process that sees one file at the place of another."""
    code = "import sys, tallystick as ts\ntry: ts.Ledger(sys.argv[1])\nexcept ts.errors.LedgerIntegrity as e: print(e)"
    mounted = f"mount --bind '{source}' '{target}' && exec '{sys.executable}' -c '{code}' '{ledger}'"
    return subprocess.run(["unshare", "-Urm", "sh", "-c", mounted], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seconds", [-5.0, float("nan"), float("inf"), 1e30])
def test_a_clock_that_is_wrong_writes_nothing(file, config, seconds):
    with Ledger(file, config=config) as ledger:
        before = ledger.head()
    with Ledger(file, config=config, clock=lambda: seconds) as ledger:
        with pytest.raises(InvalidInput, match="clock"):
            ledger.open("people", budget=Budget.zcdp(100), unit="person")
        assert ledger.head() == before


def test_a_user_without_a_home_is_told_which_variable_helps(monkeypatch, file):
    monkeypatch.delenv("TALLYSTICK_CONFIG_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(Unavailable, match="Set TALLYSTICK_CONFIG_DIR"):
        Ledger(file)


def test_the_folder_of_a_user_may_be_a_text(file, tmp_path):
    folder = tmp_path / "state"
    spent(file, str(folder))
    assert list((folder / "anchors").iterdir())
    with pytest.raises(InvalidInput, match="give a folder"):
        Ledger(tmp_path / "c.db", config=3)


@pytest.mark.parametrize("instead", ["folder", "pipe", "link to a device", "link to nothing"])
def test_what_is_no_ledger_at_a_known_place_does_not_switch_recognition_off(
    instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise registered files would be read as if nothing were registered."""
    place = tmp_path / "budget.db"
    monkeypatch.setenv("TALLYSTICK_LEDGER", str(place))
    assert opened_if_there(None) is None
    with Ledger(place) as ledger:
        ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
    for each in tmp_path.glob("budget.db*"):
        each.unlink()
    make = {"folder": place.mkdir, "pipe": lambda: os.mkfifo(place)}
    targets = {"link to a device": "/dev/null", "link to nothing": "nowhere"}
    make.get(instead, lambda: place.symlink_to(targets[instead]))()
    with pytest.raises(TallystickError):
        opened_if_there(None)


_SPEND = """
import sys
from pathlib import Path
import tallystick as ts
place, config = sys.argv[1:3]
first = sys.stdin.readline().strip()
ledger = ts.Ledger(place, config=Path(config), expect_head=first or None)
account = ledger.open("clinic")
print("open", flush=True)
for line in sys.stdin:
    try:
        with ledger.charge(ts.zcdp(rho=float(line)), accounts=[account], why="a test") as charge:
            charge.commit({"n": 1})
        print("granted", flush=True)
    except Exception as problem:
        print(type(problem).__name__, flush=True)
"""


def test_an_index_of_the_log_that_is_exchanged_for_a_moment_spends_nothing_twice(tmp_path: Path) -> None:
    """Each process finds its own index at the name whenever it looks."""
    place, index = tmp_path / "budget.db", tmp_path / "budget.db-shm"
    ledger = Ledger(place, config=tmp_path / "first")
    account = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
    _spend(ledger, account, 0.1)
    head = ledger.head()[1]
    index.rename(tmp_path / "first-index")
    shutil.copy(tmp_path / "first-index", index)
    command = [sys.executable, "-c", _SPEND, str(place), str(tmp_path / "second")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        print(head, file=other.stdin, flush=True)
        assert other.stdout.readline() == "open\n"
        print("0.7", file=other.stdin, flush=True)
        assert other.stdout.readline() == "granted\n"
        index.rename(tmp_path / "second-index")
        (tmp_path / "first-index").rename(index)
        with pytest.raises(LedgerIntegrity, match="exchanged"):
            _spend(ledger, account, 0.7)
        other.stdin.close()
    ledger.close()


def _spend(ledger: Ledger, account: Any, rho: float) -> None:
    with ledger.charge(ts.zcdp(rho=rho), accounts=[account], why="a test") as charge:
        charge.commit({"n": 1})


@pytest.mark.parametrize("name", ["a\nb.db", "\n.db", "a\\nb.db", "a\r\nb.db"])
def test_a_line_feed_in_the_path_is_not_taken_for_the_end_of_the_name(tmp_path, config, name):
    """The record was read as one of another schema, so the ledger was refused for ever after its first write."""
    place = tmp_path / name
    first, _ = spent(place, config)
    assert spent(place, config) == (first, 2)
    remove(place)
    with pytest.raises(LedgerIntegrity, match=f"knows ledger {first[:8]} .* no ledger is there"):
        Ledger(place, config=config)


@pytest.mark.parametrize("schema", ["", "clinic"])
@pytest.mark.parametrize("name", ["file /data/a\nb.db", "file /data/b.db"])
def test_records_of_version_0_1_0_are_read(tmp_path, name, schema):
    """They have line feeds in names as they are."""
    known = places.KnownPlaces([name], tmp_path, inside=schema)
    records = known.write("0" * 32)
    [file] = (tmp_path / "places").iterdir()
    file.write_text(f"{'0' * 32} {name}\n{schema}")
    assert known.read() == records


def test_a_name_of_a_ledger_that_cannot_be_resolved_is_an_error_in_words(tmp_path, config, monkeypatch):
    """Python's own function fails where a link is replaced at that moment, or may not be read."""
    (tmp_path / "link.db").symlink_to(tmp_path / "budget.db")
    real, calls = os.path.realpath, iter(range(100))

    def flipping(path, **options):
        if next(calls) % 2 == 0:
            raise FileNotFoundError(2, "No such file or directory")
        return real(path, **options)

    monkeypatch.setattr(os.path, "realpath", flipping)
    with Ledger(tmp_path / "link.db", config=config) as ledger:
        assert ledger.store.path == tmp_path / "budget.db"


def test_a_ledger_is_opened_at_the_place_whose_name_is_remembered(tmp_path, config, monkeypatch):
    """The links of its name are resolved once."""
    for name in ("one", "two"):
        Ledger(tmp_path / f"{name}.db", config=tmp_path / name).close()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "one.db")
    real = os.path.realpath

    def switched(path, **options):
        found = real(path, **options)
        if Path(path) == link:
            link.unlink()
            link.symlink_to(tmp_path / "two.db")
        return found

    monkeypatch.setattr(os.path, "realpath", switched)
    with Ledger(link, config=config, create=False) as ledger:
        assert ledger.store.names()[1] == f"file {ledger.store.path}"


@pytest.mark.parametrize("name", ["\ud800.db", "a\udcff.db"])
def test_a_name_that_is_not_utf_8_is_no_ledger(tmp_path, config, name):
    with pytest.raises(InvalidInput, match="in UTF-8"):
        Ledger(tmp_path / name, config=config)


def test_a_ledger_is_not_opened_from_a_folder_that_is_gone(tmp_path, config, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(Unavailable, match="working folder is gone"):
        Ledger("budget.db", config=config)
