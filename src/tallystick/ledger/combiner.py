"""Combined transactions: charges of several threads share one transaction of the store, one seal and one sync.

A service has one process that writes, and a thread for each client. Opening, checking, sealing and syncing a
transaction takes longer than the block of a charge inside it. So blocks of several threads run in one transaction:

    leader    opens the transaction (queue, anchor, seal of the newest entry), runs its block, waits for the others,
              seals, commits, syncs
    block     runs in its own thread when it has the turn, inside a savepoint and with its own notes (``Turn``)
    failure   a block that raises is undone back to its savepoint; the other blocks are not affected

Only one block runs at a time, and each sees what the blocks before it wrote. No ``with`` statement ends before the
whole transaction is durable. If it fails, it fails for all. A block that fails waits as well: its error can rest on
entries that are not durable yet. Reasons: docs/decisions/0027-combined-transactions.md.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from tallystick.errors import LedgerIntegrity, Remedy, TallystickError, Unavailable
from tallystick.ledger.journal import Position, Turn
from tallystick.ledger.store import Row, Store, Transaction, elapsed
from tallystick.ledger.texts import Tags

if TYPE_CHECKING:
    from tallystick.ledger.governance import Writer

OPERATIONS: Final = frozenset(("begin", "reserve", "start", "commit", "burn", "refund", "renew"))
"""Writes about one charge, which are combined. Every other write has a transaction for itself."""
MOST: Final = 64
"""Blocks of one transaction. PostgreSQL keeps that many savepoints of a transaction in memory."""
LONGEST: Final = 0.1
"""Seconds after which a transaction takes no further block. Readers wait for its end that much longer, at most."""
PATIENCE: Final = 1.0
"""Seconds after which a waiting thread looks for itself. It matters only if an interruption has lost its signal."""


def combined(store: Store, writer: Writer) -> Store:
    """The store, whose writes about charges are combined. Every other attribute is that of the store."""
    return cast(Store, Combiner(store, writer))


class Combiner:
    """A store that runs blocks of several threads in one transaction of another store."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self.store = store
        self._writer = writer
        self._lock = threading.Lock()  # of the five fields below; held for a moment
        self._waiting: deque[_Block] = deque()
        self._leader: _Block | None = None
        self._group: _Group | None = None  # the transaction whose blocks run
        self._turn: _Block | None = None  # the block that runs, or may run now
        self._user: int | None = None  # the thread that has the connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A consistent snapshot."""
        self._require_outside()
        with self.store.read() as transaction, self._used():
            yield transaction

    def seconds(self) -> float:
        """Seconds since 1970. A block may not ask the server: its leader has the connection."""
        group = self._group
        if group is not None and self._user == threading.get_ident():
            return group.seconds + (elapsed() - group.elapsed)
        return self.store.seconds()

    @contextmanager
    def write(self, operation: str) -> Iterator[Transaction]:
        """A transaction that is durable when the block ends and absent when the block raises."""
        self._require_outside()
        if operation not in OPERATIONS:
            with self.store.write(operation) as transaction, self._used():
                yield transaction
            return
        block = _Block()
        try:
            self._wait_for_turn(block)
            with self._follow(block) if self._turn is block else self._lead(block) as transaction:
                yield transaction
        finally:
            _surely(lambda: self._leave(block))

    # -- one thread at a time

    def _require_outside(self) -> None:
        """Refuse a read or a write inside another one of this thread, which would wait for itself."""
        if self._user == threading.get_ident():
            raise Unavailable(
                f"the ledger {self.store.place} cannot be used now: this thread has begun another transaction and has "
                "not ended it; nothing was granted"
            )

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Note which thread has the connection."""
        self._user = threading.get_ident()
        try:
            yield
        finally:
            self._user = None

    # -- the queue. One assignment hands over the turn or the lead, so an interruption finds it here or there

    def _wait_for_turn(self, block: _Block) -> None:
        """Return when this block has the turn in a transaction, or when its thread is to lead one."""
        with self._lock:
            self._waiting.append(block)
            if self._leader is None:
                self._leader = self._waiting[0]
        while self._turn is not block and self._leader is not block:
            block.wait()
        with self._lock:
            self._waiting.remove(block)

    def _leave(self, block: _Block) -> None:
        """Give up what a thread still has, if it was interrupted: its place, the lead or the turn."""
        with self._lock:
            if block in self._waiting:
                self._waiting.remove(block)
        self._pass_lead(block)
        self._pass_turn(block)

    def _pass_lead(self, block: _Block) -> None:
        """Let the next thread lead a transaction."""
        with self._lock:
            if self._leader is not block:
                return
            following = self._leader = self._waiting[0] if self._waiting else None
        if following is not None:
            following.wake()

    def _pass_turn(self, block: _Block) -> None:
        """Let the next block run, or the leader end the transaction."""
        with self._lock:
            group = self._group
            if self._turn is not block or group is None:
                return
            following = self._turn = self._waiting[0] if self._waiting and group.has_room() else None
        (following or group.leader).wake()

    # -- a transaction

    @contextmanager
    def _lead(self, block: _Block) -> Iterator[Transaction]:
        """Run a block in a new transaction, let others join, and end it."""
        group = None
        error: BaseException | None = None
        try:
            with self.store.write("combined") as whole:
                group = self._opened(whole, block)
                with self.store.pipelined(whole):
                    try:
                        with self._run(group) as part:
                            yield part
                    except BaseException as problem:
                        error = problem  # it is raised once the other blocks are durable
                    error = _surely(lambda: self._close(group, block)) or error
                group.require_whole()
        except BaseException as problem:
            if group is not None:
                group.problem = problem
            if error is None:
                raise
        finally:
            if group is not None:
                group.end()
        if error is not None:
            raise error

    def _opened(self, whole: Transaction, block: _Block) -> _Group:
        """A transaction that others may join, once the first block has run."""
        group = _Group(whole, block, self.store.seconds())
        with self._lock:
            self._group, self._turn = group, block
        return group

    def _close(self, group: _Group, block: _Block) -> None:
        """Let the waiting blocks run; return when the last one has ended, and another thread may lead."""
        self._pass_turn(block)
        while self._turn is not None:
            block.wait()
        self._group = None
        self._pass_lead(block)

    @contextmanager
    def _follow(self, block: _Block) -> Iterator[Transaction]:
        """Run a block in the transaction of another thread; return or raise when that has ended."""
        group = self._group
        assert group is not None
        error: Exception | None = None
        rests_on_others = group.has_entries
        try:
            with self._run(group) as part:
                yield part
        except Exception as problem:
            error = problem
        finally:
            group.blocks.append(block)
            _surely(lambda: self._pass_turn(block))
        while not group.is_over:
            block.wait()
        if group.problem is not None and (error is None or rests_on_others):
            raise _failure(group.problem) from None
        if error is not None:
            raise error

    @contextmanager
    def _run(self, group: _Group) -> Iterator[Transaction]:
        """One block inside a savepoint. It is kept as a whole, with what it noted, or undone as a whole."""
        whole = group.whole
        group.count += 1
        with self._used(), self.store.translated():
            try:
                whole.run("savepoint")  # if this fails there is none to go back to, and nothing of all blocks is kept
                part = group.part()
                yield part
                self._writer.end_block(part)
                whole.run("savepoint_release")
                group.keep(part)
            except BaseException:
                group.undo()
                raise


class _Block:
    """A block that waits: for its turn, and then for the end of the transaction."""

    __slots__ = ("_signal",)

    def __init__(self) -> None:
        self._signal = threading.Lock()
        self._signal.acquire()

    def wait(self) -> None:
        """Wait for a signal. The caller looks at what it waits for again: a signal can be late or lost."""
        self._signal.acquire(timeout=PATIENCE)

    def wake(self) -> None:
        """Give the signal."""
        with suppress(RuntimeError):  # it was given already
            self._signal.release()


class _Part:
    """The transaction as one block sees it: common statements, but its own notes."""

    __slots__ = ("latest", "row", "rows", "run", "seen", "tags", "turn")

    def __init__(self, whole: Transaction, turn: Turn) -> None:
        self.run: Callable[..., int] = whole.run
        self.rows: Callable[..., list[Row]] = whole.rows
        self.row: Callable[..., Row | None] = whole.row
        self.latest: tuple[int, str] | None = whole.latest
        self.tags: Tags | None = whole.tags
        self.turn: Any = turn
        self.seen: Any = None


class _Group:
    """A transaction of several blocks, and its outcome."""

    def __init__(self, whole: Transaction, leader: _Block, seconds: float) -> None:
        self.whole = whole
        self.leader = leader
        self.seconds, self.elapsed = seconds, elapsed()
        self.count = 0
        self.blocks: list[_Block] = []  # of other threads, that wait for the end
        self.is_over = False
        self.problem: BaseException | None = None
        self._is_broken = False
        self._until = time.monotonic() + LONGEST

    @property
    def has_entries(self) -> bool:
        """True if a block has written."""
        return tuple(self.whole.latest or ()) != tuple(self.whole.turn.first)

    def has_room(self) -> bool:
        """True if another block may join. The first write of a ledger of format 2 changes the format, and is alone."""
        is_full = self.count >= MOST or time.monotonic() >= self._until
        has_failed = self._is_broken or self.problem is not None
        return not is_full and not has_failed and self.whole.tags is not None

    def part(self) -> Transaction:
        """The transaction for the next block. Its turn begins where the block before it ended."""
        whole: Turn = self.whole.turn
        turn = Turn(Position(*(self.whole.latest or whole.first)), whole.newest_at, whole.ledger, whole.governed)
        turn.signer, turn.upgrade = whole.signer, whole.upgrade
        turn.sealed = whole.first if self.has_entries else None
        return cast(Transaction, _Part(self.whole, turn))

    def keep(self, part: Transaction) -> None:
        """Take over the notes of a block that has ended well."""
        self.whole.latest = part.latest
        whole: Turn = self.whole.turn
        whole.newest_at = part.turn.newest_at
        whole.started += part.turn.started
        whole.beside |= part.turn.beside

    def undo(self) -> None:
        """Undo what a block wrote. If that fails, the transaction cannot be kept."""
        was_broken, self._is_broken = self._is_broken, True  # until both statements have succeeded
        with suppress(Exception):  # the block has its own error
            self.whole.run("savepoint_undo")
            self.whole.run("savepoint_release")
            self._is_broken = was_broken

    def require_whole(self) -> None:
        """Raise unless the entries in the store are those that the blocks kept. The seal is made after that."""
        if self._is_broken:
            raise Unavailable("a block of a combined transaction could not be undone; nothing was granted")
        found = self.whole.row("head")
        if found is None or tuple(found) != tuple(self.whole.latest or ()):
            altered = "the entries of a combined transaction do not end where its last block ended"
            raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])

    def end(self) -> None:
        """Tell all blocks that the transaction is durable, or has failed."""
        self.is_over = True
        for block in self.blocks:
            block.wake()


def _failure(problem: BaseException) -> TallystickError:
    """The error of a block whose transaction has failed in another thread. Each thread has its own error object."""
    if isinstance(problem, TallystickError):
        return copy.copy(problem)
    return Unavailable(
        f"the transaction that this write shared with others did not end ({type(problem).__name__}); nothing was "
        "delivered. Ask again with the same key"
    )


def _surely(action: Callable[[], None]) -> KeyboardInterrupt | None:
    """Carry out an action also if it is interrupted; return the interruption. Carried out twice, it does the same."""
    interruption = None
    while True:
        try:
            action()
        except KeyboardInterrupt as problem:
            interruption = problem
        else:
            return interruption
