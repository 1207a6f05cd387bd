"""Group commit: nothing is handed out before a sync that began after its commit has ended, and syncs are shared."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import stat
import time
import zlib
from functools import partial

import pytest

from crash.power import cut
from crash.stores import raised, spend
from tallystick.errors import Unavailable
from tallystick.ledger import Budget, Filter, Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 10_000, 0), unit="person")


class Disk:
    """Stands where fdatasync is: writes down when each sync began and ended, waits, or fails."""

    def __init__(self, trace, *, wait=0.0, fail=False):
        self.trace, self.wait, self.fail, self.real = trace, wait, fail, os.fdatasync

    def __call__(self, descriptor):
        self.trace.append("sync begins")
        time.sleep(self.wait)
        if self.fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.real(descriptor)
        self.trace.append("sync ends")


def unsynced(trace):
    """Events that left the ledger although no sync had begun and ended since the last commit."""
    found, state = [], "synced"
    for event in trace:
        if event.endswith("after COMMIT"):
            state = "committed"
        elif event == "sync begins" and state == "committed":
            state = "syncing"
        elif event == "sync ends" and state == "syncing":
            state = "synced"
        elif event in ("data opened", "answer returned") and state != "synced":
            found.append(event)
    return found


def traced_release(path, monkeypatch, *, durable=True):
    trace = []
    monkeypatch.setattr(os, "fdatasync", Disk(trace))
    with Ledger(path, probe=trace.append) as ledger:
        account = people(ledger)
        if not durable:
            ledger.store._durability = None
        with spend(account, 1, key="k") as charge:
            trace.append("data opened")
            charge.answer = 42
        trace.append("answer returned")
    return trace


def test_data_is_opened_and_answers_returned_only_after_a_sync_of_their_commit(path, monkeypatch):
    trace = traced_release(path, monkeypatch)
    assert unsynced(trace) == []
    assert trace.count("data opened") == trace.count("answer returned") == 1
    assert trace.index("begin: after COMMIT") < trace.index("begin: after sync") < trace.index("data opened")


def test_a_store_that_does_not_sync_would_be_caught(path, monkeypatch):
    assert unsynced(traced_release(path, monkeypatch, durable=False)) == ["data opened", "answer returned"]


def test_a_new_ledger_syncs_the_folder_that_names_it(path, monkeypatch):
    folders, real = [], os.fsync

    def record(descriptor):
        folders.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    Ledger(path).close()
    assert True in folders


@pytest.mark.parametrize("problem", [errno.EINVAL, errno.EIO])
def test_a_file_system_that_cannot_sync_folders_is_not_a_failed_disk(path, monkeypatch, problem):
    real = os.fsync

    def refuse(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(problem, os.strerror(problem))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    assert raised(lambda: Ledger(path).close()) == ("ok" if problem == errno.EINVAL else "Unavailable")


def test_a_failed_sync_before_data_is_read_delivers_nothing_and_stops_every_process(path, monkeypatch):
    with Ledger(path) as ledger, Ledger(path) as other:
        account, opened = people(ledger), []

        def use(key):
            with spend(account, 1, key=key):
                opened.append(key)

        disk = Disk([], fail=True)
        monkeypatch.setattr(os, "fdatasync", disk)
        with pytest.raises(Unavailable, match="did not confirm"):
            use("k")
        disk.fail = False  # the kernel reports a failed write once: the next sync is a lie
        assert raised(partial(use, "k2")) == "Unavailable"
        assert raised(lambda: spend(people(other), 1).reserve()) == "Unavailable"
        assert opened == []
    with Ledger(path) as ledger:  # the last to close moved the log into the file, and that was synced
        assert [event.state for event in people(ledger).history()] == ["EXECUTING"]
        assert people(ledger).used.a0 == 1
        assert ledger.verify().problems == ()


def test_a_failed_sync_of_the_answer_delivers_nothing_and_never_another_answer(path, monkeypatch):
    disk = Disk([])
    monkeypatch.setattr(os, "fdatasync", disk)
    drawn = []

    def ask():
        with Ledger(path) as ledger, spend(people(ledger), 1, key="k") as charge:
            disk.fail = not drawn
            drawn.append("noise")
            charge.answer = len(drawn)
        return charge.answer

    with pytest.raises(Unavailable):
        ask()
    disk.fail = False
    assert raised(ask) == "AlreadyCommitted"
    assert drawn == ["noise"]


def test_a_commit_that_was_never_synced_is_synced_before_it_is_shown(path, config, monkeypatch):
    trace = []
    with Ledger(path, config=config) as ledger:
        account = people(ledger)
        child = os.fork()
        if child == 0:
            spend(account, 1, key="first").reserve()
            os.fdatasync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
            spend(account, 1, key="second").reserve()
            os._exit(70)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        monkeypatch.setattr(os, "fdatasync", Disk(trace))
        assert account.used.a0 == 2
        assert trace == ["sync begins", "sync ends"]
        assert account.used.a0 == 2
        assert len(trace) == 2, "what is on the disk is not synced again"


def test_many_writers_share_syncs_and_each_waits_for_one_that_began_after_its_commit(path, config):
    """Times of one clock from all processes: operations (commits, returns) and syncs (begins, ends)."""
    writers, each = 8, 6
    with Ledger(path, config=config) as ledger:
        people(ledger)
    reader, writer = os.pipe()
    ready_reader, ready_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    children = []
    for _ in range(writers):
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.close(go_writer)
                write(path, config, each, (ready_writer, go_reader, writer))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(writer)
    for _ in children:
        os.read(ready_reader, 1)
    os.close(go_writer)
    with os.fdopen(reader) as pipe:
        lines = [line.split() for line in pipe]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * writers
    syncs = [(float(a), float(b)) for kind, a, b in lines if kind == "sync"]
    operations = [(float(a), float(b)) for kind, a, b in lines if kind == "operation"]
    assert len(operations) == writers * each
    for committed, returned in operations:
        assert any(committed <= began and ended <= returned for began, ended in syncs), (committed, returned, syncs)
    assert len(syncs) < len(operations), "no sync was shared"


def write(path, config, each, pipes):
    ready, go, out = pipes
    committed, real = [], os.fdatasync

    def slow(descriptor):
        began = time.monotonic()
        time.sleep(0.01)
        real(descriptor)
        os.write(out, f"sync {began} {time.monotonic()}\n".encode())

    def probe(point):
        if point == "reserve: before COMMIT":  # others can see the commit before this process knows that it is done
            committed[:] = [time.monotonic()]

    with Ledger(path, config=config, probe=probe) as ledger:
        account = people(ledger)
        os.write(ready, b"r")
        os.read(go, 1)
        os.fdatasync = slow
        for _ in range(each):
            spend(account, 1).reserve()
            os.write(out, f"operation {committed[0]} {time.monotonic()}\n".encode())


@pytest.mark.parametrize("workers", [1, 4])
def test_a_power_cut_takes_back_nothing_that_was_delivered(tmp_path, workers):
    draw, delivered = random.Random(7), 0
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        answers, complaints = cut(folder, draw, workers=workers)
        assert complaints == []
        delivered += answers
    assert delivered > 0


def test_a_power_cut_would_show_a_store_that_does_not_sync(tmp_path):
    _, complaints = cut(tmp_path, random.Random(1), workers=2, durable=False)
    assert any("data was opened without a charge" in text for text in complaints)
    assert any("released but uncharged" in text for text in complaints)
    assert "the anchor leads the ledger" in complaints


def forged(durability, seq):
    body = durability._about + b"%020d" % seq
    return body + b" %08x\n" % zlib.crc32(body)


def test_a_record_this_process_has_not_taken_part_in_is_not_believed(path, monkeypatch):
    trace = []
    with Ledger(path) as ledger:
        people(ledger)
        (path.parent / "budget.db.sync").write_bytes(forged(ledger.store._durability, 10**9))
        monkeypatch.setattr(os, "fdatasync", Disk(trace))
        with Ledger(path) as newcomer:
            assert trace == ["sync begins", "sync ends"]
            assert newcomer.store._durability.settled() < 10**9


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff" * 300, b"1 2 3 00000000000000000009 00000000\n", b"failed\n"])
def test_a_damaged_record_means_sync_again(path, monkeypatch, content):
    trace = []
    with Ledger(path) as ledger:
        account = people(ledger)
        monkeypatch.setattr(os, "fdatasync", Disk(trace))
        (path.parent / "budget.db.sync").write_bytes(content)
        spend(account, 1).reserve()
        assert trace == ["sync begins", "sync ends"]


def test_a_record_about_another_file_of_the_same_name_is_not_believed(path, config, monkeypatch):
    """Process one still has the file that was there before; what it syncs says nothing about the new file."""
    trace, kept = [], path.parent / "kept.db"
    with Ledger(path, config=config) as before:
        people(before)
    shutil.copyfile(path, kept)
    own = config / "its own"  # with one anchor for both, either would refuse
    with Ledger(path, config=own, first_use="another host") as old:
        account = people(old)
        for name in (path, f"{path}-wal", f"{path}-shm"):
            os.unlink(name)
        os.rename(kept, path)
        with Ledger(path, config=config) as new:
            renewed = people(new)
            assert raised(spend(account, 1).reserve) == "LedgerIntegrity"  # and yet:
            monkeypatch.setattr(old.store, "_sole_name", lambda: old.store._file)
            monkeypatch.setattr(old.store._durability, "require_log", lambda: None)
            for _ in range(5):
                spend(account, 1).reserve()
            monkeypatch.setattr(os, "fdatasync", Disk(trace))
            spend(renewed, 1).reserve()
            assert trace == ["sync begins", "sync ends"]


def test_threads_of_one_process_wait_for_their_own_commits(path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    with Ledger(path) as ledger:
        account = people(ledger)
        disk = Disk([], wait=0.002)
        monkeypatch.setattr(os, "fdatasync", disk)
        before = ledger.store._durability.syncs
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: spend(account, 1).reserve(), range(40)))
        assert account.used.a0 == 40
        assert 0 < ledger.store._durability.syncs - before < 40
        assert ledger.store._durability.settled() == ledger.head().seq


def test_a_ledger_behind_a_link_syncs_the_log_of_the_file_itself(path, monkeypatch):
    trace = []
    with Ledger(path) as ledger:
        people(ledger)
    link = path.parent / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    monkeypatch.setattr(os, "fdatasync", Disk(trace))
    with Ledger(link) as ledger:
        spend(people(ledger), 1).reserve()
        assert trace[-2:] == ["sync begins", "sync ends"]
        assert os.listdir(link.parent) == ["link.db"]


def test_where_nothing_can_be_shared_every_commit_is_synced_by_its_own_process(path, monkeypatch):
    """A folder in which only the ledger itself may be written: no gate and no record, but no less durable."""
    trace, real = [], os.open

    def refusing(name, *given, **options):
        if str(name).endswith((".gate", ".sync")):
            raise PermissionError(errno.EACCES, "no new files here")
        return real(name, *given, **options)

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(os, "fdatasync", Disk(trace))
    with Ledger(path, probe=trace.append) as ledger:
        account = people(ledger)
        trace.clear()
        spend(account, 1).reserve()
        assert trace[trace.index("reserve: after COMMIT") + 1 :] == ["sync begins", "sync ends", "reserve: after sync"]
        os.fdatasync.fail = True
        assert raised(lambda: spend(account, 1).reserve()) == "Unavailable"
        os.fdatasync.fail = False
        assert raised(lambda: account.used) == "Unavailable"
    assert sorted(os.listdir(path.parent)) == ["budget.db", "config"]
