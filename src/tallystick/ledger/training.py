"""A run of many steps on an account. The whole plan is paid before the first step, or each block before its own.

    with account.training(step_loss, steps=1000, why="...") as run:
        while True:
            run.step()             # leaves the with statement after the last step
            ...                    # one step of the priced mechanism

``run.costs()`` says what the plan costs as a whole and in blocks. A run that ends early warns (``EndedEarly``).

Each block of steps is an entry of the chain under a key of its own, written before its first step is drawn. That is
the run's high-water mark: whoever starts the same run again, from a copied checkpoint too, gets only the blocks that
nobody has taken. A block that was begun is gone, whether its steps were drawn or not.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tallystick.accounting import check
from tallystick.accounting.leaf import all_inside
from tallystick.accounting.losses import no_loss
from tallystick.errors import BudgetExceeded, IdempotencyConflict, InvalidInput, Refused, TallystickError
from tallystick.ledger.chain import NAME_LENGTH, WHY_LENGTH, checked
from tallystick.ledger.filters import Amount
from tallystick.ledger.pay import settle

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt

BLOCKS = 10
LOG = logging.getLogger("tallystick.training")


class RunEnded(BudgetExceeded):
    """There is no further step: the plan is done, or the account cannot pay for the next block."""


class EndedEarly(UserWarning):
    """A training run ends, or will end, before all steps of its plan.

    ``taken`` and ``planned`` count steps, ``reason`` is a sentence.
    """

    def __init__(self, taken: int, planned: int, reason: str) -> None:
        self.taken, self.planned, self.reason = taken, planned, reason
        super().__init__(f"Training ends after {taken:,} of {planned:,} planned steps. {reason}")


@dataclass(frozen=True, slots=True)
class RunCosts:
    """Cost of a run, paid whole and paid in blocks, in the currency of its account.

    ``payable`` counts the steps that the account can pay in blocks, including steps that it has paid already.
    ``whole`` or ``blocks`` is None if the account has no finite price for it.
    """

    steps: int
    block: int
    whole: Amount | None
    blocks: Amount | None
    payable: int
    whole_fits: bool

    def __str__(self) -> str:
        fits = "can" if self.whole_fits else "cannot"
        return (
            f"The whole plan of {self.steps:,} steps costs {_priced(self.whole)}. "
            f"In blocks of {self.block:,} steps it costs {_priced(self.blocks)}. "
            f"The account {fits} pay the whole plan. In blocks it can pay {self.payable:,} of {self.steps:,} steps."
        )


def _priced(amount: Amount | None) -> str:
    return "more than any amount" if amount is None else str(amount)


class Run:
    """Steps of one priced mechanism, each drawn at most once in the life of the ledger.

    Get one from ``account.training(...)``. The whole plan is charged before the first step. With ``whole=False`` each
    block of ``block`` steps (default: a tenth) is charged before its first step, and a run that stops early does not
    pay for later blocks. An (epsilon, delta) account pays much more for blocks: ``costs()`` compares both.

    ``key`` names the run: a run that is started again under its key gets only the blocks that were not taken before.
    It goes on as it began: without ``whole``, a run that began in blocks pays for its next blocks.
    If every person takes part at most once in ``turn`` steps, ``loss`` is the loss of one turn.

    ``taken`` counts the steps taken here. ``stopped`` is True if the budget ended the run early. ``receipts`` prove
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
        whole: bool | None = None,
        key: str | None = None,
        delta: float | None = None,
        request: str = "",
        turn: int = 1,
    ) -> None:
        self.account, self.loss, self.delta, self.request = account, loss, delta, request
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
        self.whole = not self._began_in_blocks() if whole is None else whole
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

    def costs(self) -> RunCosts:
        """Compare the cost of the whole plan with its cost in blocks; charges nothing."""
        whole = self._price(self.privacy, self.delta)
        fits = whole is not None and (self._is_paid or self._fits(whole))
        starts = range(0, self.steps, self.block)
        blocks = self._price_of_blocks(len(starts))
        unpaid = self._unpaid(starts)
        count = self._payable(len(unpaid))
        payable = self.steps if count == len(unpaid) else unpaid[count]
        return RunCosts(self.steps, self.block, whole, blocks, payable, fits)

    @property
    def _is_paid(self) -> bool:
        return self.whole and bool(self.receipts)

    def _share(self, first: int, last: int) -> float | None:
        """Part of the run's delta that a block may use."""
        return None if self.delta is None else self.delta * (last - first) / self.steps

    def _price(self, loss: PrivacyLoss, delta: float | None) -> Amount | None:
        """Price in the account's currency, or None if it is not finite."""
        try:
            return self.account.price(loss, delta=delta)
        except Refused:
            return None

    def _fits(self, amount: Amount) -> bool:
        """True if the account, and every account above it, can pay the amount now."""
        try:
            self.account.rehearse(amount)
        except TallystickError:
            return False
        return True

    def _price_of_blocks(self, count: int) -> Amount | None:
        """Price of the last ``count`` blocks, of which the very last may be shorter."""
        full = min(self.block, self.steps)
        rest = self.steps - (self.steps - 1) // self.block * self.block
        each = self._price(self._of(full), self._share(0, full))
        last = self._price(self._of(rest), self._share(0, rest))
        if each is None or last is None:
            return None
        before = count - 1
        return Amount(each.filter, before * each.a0 + last.a0, before * each.a1 + last.a1)

    def _unpaid(self, starts: range) -> list[int]:
        """First steps of the blocks that were not charged yet."""
        prefix = f"{self.key}/"
        paid = {event.key for event in self.account.history() if event.paid and event.key.startswith(prefix)}
        return [first for first in starts if f"{prefix}{first}" not in paid]

    def _payable(self, unpaid: int) -> int:
        """How many of the unpaid blocks the account can pay, by bisection."""
        whole = self._price_of_blocks(unpaid) if unpaid else None
        if unpaid == 0 or (whole is not None and self._fits(whole)):
            return unpaid
        full = min(self.block, self.steps)
        each = self._price(self._of(full), self._share(0, full))
        if each is None:
            return 0
        low, high = 0, unpaid - 1
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._fits(Amount(each.filter, middle * each.a0, middle * each.a1))
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def start(self) -> Self:
        """Pay for the whole plan, or, with ``whole=False``, say what its blocks cost. The same key pays once."""
        if not self._open and self.taken == 0:
            self._announce()
        if self.whole and not self.receipts:
            self._refuse_to_pay_twice()
            self._pay(self.privacy, self.key, self.delta, f"{self.steps} steps {self.request}")
        self._open = True
        return self

    def _began_in_blocks(self) -> bool:
        """True if the ledger has a paid first block under this key. Blocks of a whole plan cost nothing."""
        ledger = self.account.ledger
        with ledger.store.read() as transaction:
            row = transaction.row("charge_by_key", ledger.principal, f"{self.key}/0")
        if row is None:
            return False
        _, entry = ledger.charge_row(row[0])
        return any(a0 or a1 for _, a0, a1 in entry["lines"])

    def _refuse_to_pay_twice(self) -> None:
        """Refuse the whole plan of a run that began in blocks, before anything is charged."""
        if self._began_in_blocks():
            allowed = "whole=False for this key, because the run began in blocks; or a new key for a new run"
            raise InvalidInput("whole", True, allowed)

    def _announce(self) -> None:
        """Log the costs before the first step; warn if blocks cannot pay for the whole plan."""
        if self.whole and not LOG.isEnabledFor(logging.INFO):
            return
        costs = self.costs()
        LOG.info("%s", costs)
        if not self.whole and costs.payable < costs.steps:
            advice = " Pay the whole plan at once: whole=True (in a Trainer, pay='whole')." if costs.whole_fits else ""
            warnings.warn(EndedEarly(costs.payable, self.steps, f"{costs}{advice}"), stacklevel=4)

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
        share = None if self.whole else self._share(first, last)
        try:
            loss = no_loss() if self.whole else self._of(last - first)
            mine = self._pay(loss, f"{self.key}/{first}", share, f"steps {first} to {last} {self.request}", once=True)
        except BudgetExceeded:
            self._open, self.stopped = False, True
            reason = f"The account cannot pay for steps {first} to {last}."
            warnings.warn(EndedEarly(self.taken, self.steps, reason), stacklevel=3)
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
        was_open, self._open = self._open, False
        if error is None and was_open and self.whole and self._next < self.steps:
            rest = f"key={self.key!r} continues at step {self._end}" if self._end < self.steps else "no block is left"
            reason = f"The loop ended first. The whole plan is paid, and {rest}."
            warnings.warn(EndedEarly(self.taken, self.steps, reason), stacklevel=2)
        return isinstance(error, RunEnded)  # the end of the run leaves the with statement; other errors pass on

    def __repr__(self) -> str:
        return f"<Run {self.key!r}: {self.taken} of {self.steps} steps taken, paid by {self.account.name!r}>"
