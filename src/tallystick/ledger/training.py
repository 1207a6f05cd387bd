"""A run of many steps on an account: paid before it starts, or block by block, each before its first step.

    with account.training(step_loss, steps=1000, block=100, why="...") as run:
        for batch in loader:
            run.step()             # ends the block of code, quietly, when the steps or the budget end
            ...                    # one step of the priced mechanism

Each block of steps is an entry of the chain under a key of its own, written before its first step is drawn. That is
the run's high-water mark: whoever starts the same run again, from a copied checkpoint too, gets only the blocks that
nobody has taken. A block that was begun is gone, whether its steps were drawn or not.
"""

from __future__ import annotations

import os
import threading
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tallystick.accounting import check
from tallystick.accounting.leaf import all_inside
from tallystick.accounting.losses import no_loss
from tallystick.errors import BudgetExceeded, IdempotencyConflict, InvalidInput, Refused
from tallystick.ledger.chain import NAME_LENGTH, WHY_LENGTH, checked
from tallystick.ledger.pay import settle

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt

BLOCKS = 10


class RunEnded(BudgetExceeded):
    """There is no further step: the plan is done, or the account cannot pay for the next block."""


class Run:
    """Steps of one priced mechanism, each drawn at most once in the life of the ledger.

    Get one from ``account.training(...)``. Blocks of ``block`` steps (default: a tenth) are charged before their first
    step, so that a run that stops early pays for no further block; ``whole`` charges all of them at the start, which an
    (epsilon, delta) account prices lower. ``key`` names the run: started again under its key it gets only blocks that
    nobody has taken. Where nobody takes part more than once in ``turn`` steps, ``loss`` is that of a turn.

    ``taken`` counts the steps handed out here, ``stopped`` says whether the budget ended it early, ``receipts`` prove
    what was paid.
    """

    def __init__(
        self,
        account: Account,
        loss: PrivacyLoss,
        *,
        steps: int,
        why: str,
        block: int | None = None,
        whole: bool = False,
        key: str | None = None,
        delta: float | None = None,
        request: str = "",
        turn: int = 1,
    ) -> None:
        self.account, self.loss, self.whole, self.delta, self.request = account, loss, whole, delta, request
        if any(leaf.only_the_last for leaf in all_inside(loss.terms)):
            allowed = "the loss of a step whose iterate is seen; a run of which only the end is seen is one charge"
            raise InvalidInput("loss", str(loss), f"{allowed}: account.pay(loss, why=...)")
        self.steps = check.count("steps", steps, least=1)
        self.turn = check.count("turn", turn, least=1)
        size = check.count("block", -(-self.steps // BLOCKS) if block is None else block, least=1)
        self.block = -(-size // self.turn) * self.turn  # whole turns: a part of one costs as much
        self.why = checked("why", why, WHY_LENGTH)
        self.key = uuid.uuid4().hex if key is None else checked("key", key)
        if len(self.key) > NAME_LENGTH - 20:
            raise InvalidInput("key", f"{len(self.key)} characters", f"at most {NAME_LENGTH - 20} characters")
        self.receipts: list[Receipt] = []
        self.taken, self.stopped = 0, False
        self._next = self._end = 0  # the first step that is not yet tried; the end of the block in hand
        self._open = False
        self._process, self._lock = os.getpid(), threading.Lock()

    def __reduce_ex__(self, protocol: Any) -> Any:  # copy, deepcopy and pickle all ask here
        raise Refused("a run cannot be copied or stored: works: account.training(...) with the same key, elsewhere too")

    @property
    def privacy(self) -> PrivacyLoss:
        """The most the run can lose: all its steps."""
        return self._of(self.steps)

    def _of(self, steps: int) -> PrivacyLoss:
        return -(-steps // self.turn) * self.loss

    def start(self) -> Self:
        """Pay for the whole run where that was asked for, and for nothing otherwise; the same key pays once."""
        if self.whole and not self.receipts:
            self._pay(self.privacy, self.key, self.delta, f"{self.steps} steps {self.request}")
        self._open = True
        return self

    def step(self) -> int:
        """Take the next step and say which it is, counted from 0; charges its block first."""
        if not self._open:
            raise Refused("this run was not started; works: with account.training(...) as run")
        if os.getpid() != self._process:  # a forked child: the block in hand stays with the parent
            self._process, self._lock, self._next = os.getpid(), threading.Lock(), self._end
        with self._lock:
            while self._next >= self._end:
                self._claim()
            self._next += 1
            self.taken += 1
            return self._next - 1

    def _claim(self) -> None:
        """Take the next block that nobody has: paid now, or marked as taken where the whole run is paid."""
        first, last = self._end, min(self._end + self.block, self.steps)
        if first >= self.steps:
            self._open = False
            raise RunEnded(f"all {self.steps} steps of run {self.key!r} are taken")
        share = None if self.delta is None or self.whole else self.delta * (last - first) / self.steps
        try:
            loss = no_loss() if self.whole else self._of(last - first)
            mine = self._pay(loss, f"{self.key}/{first}", share, f"steps {first} to {last} {self.request}", once=True)
        except BudgetExceeded:
            self._open, self.stopped = False, True
            raise RunEnded(f"the account cannot pay for steps {first} to {last}; {self.taken} were taken") from None
        self._end = last
        self._next = first if mine else last

    def _pay(self, loss: PrivacyLoss, key: str, delta: float | None, request: str, *, once: bool = False) -> bool:
        """Charge and commit at once: it stays paid whatever happens. False if somebody has taken this key before."""
        charge = self.account.charge(loss, why=self.why, key=key, delta=delta, request=request)
        charge.stored()  # a key that was used for another request is refused here
        try:
            paid = settle(charge, {"run": self.key, "request": request})
        except IdempotencyConflict:
            if not once:
                raise
            return False  # another worker has begun it, and has no answer
        self.receipts.append(paid.receipt)
        return paid.fresh or not once

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self._open = False
        return isinstance(error, RunEnded)  # the end of the run ends the block of code, and nothing else

    def __repr__(self) -> str:
        return f"<Run {self.key!r}: {self.taken} of {self.steps} steps taken, paid by {self.account.name!r}>"
