"""A training run: a stream of steps on an account, paid whole before the first step, or block by block.

    with account.training(step_loss, steps=1000, why="...") as run:
        while True:
            run.step()             # leaves the with statement after the last step
            ...                    # one step of the paid mechanism

``run.costs()`` says what the plan costs as a whole and in blocks. A run that ends early warns (``EndedEarly``).

``stream.py`` returns the steps: no step is drawn twice, also not from a copied checkpoint. A block that was begun is
gone, even if its steps were not drawn. This module has what is about training: plans, turns, costs and early ends.
"""

from __future__ import annotations

import logging
import uuid
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tallystick.accounting import check
from tallystick.accounting.leaf import all_inside
from tallystick.errors import BudgetExceeded, InvalidInput, Refused, RunEnded, TallystickError
from tallystick.ledger.filters import Amount
from tallystick.ledger.stream import AnswerStream, Cost, began_in_blocks, checked_key, has_record

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt

BLOCKS = 10
"""Blocks of a run by default. More blocks lose fewer steps in a crash, and cost more if blocks are charged."""
LOG = logging.getLogger("tallystick.training")


class EndedEarly(UserWarning):
    """A training run ends, or will end, before all steps of its plan.

    ``taken`` and ``planned`` count steps, ``reason`` is a sentence.
    """

    def __init__(self, taken: int, planned: int, reason: str) -> None:
        self.taken = taken
        self.planned = planned
        self.reason = reason
        super().__init__(f"Training ends after {taken:,} of {planned:,} planned steps. {reason}")


@dataclass(frozen=True, slots=True)
class RunCosts:
    """Cost of a run, paid whole and paid in blocks, in the currency of its account.

    ``payable`` counts the steps that the account can pay in blocks, including steps that it has paid already.
    ``whole`` or ``blocks`` is None if the account has no finite cost for it.
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
    """Steps of one paid mechanism, each drawn at most once in the life of the ledger.

    Get one from ``account.training(...)``. The whole plan is charged before the first step. With ``whole=False`` each
    block of ``block`` steps (default: a tenth) is charged before its first step, and a run that stops early does not
    pay for later blocks. An (epsilon, delta) account pays much more for blocks: ``costs()`` compares both.

    ``key`` names the run: a run that is started again under its key gets only the blocks that were not taken before.
    It continues as it began: without ``whole``, a run that began in blocks pays for its next blocks.
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
        _require_seen_steps(loss)
        if whole is not None and not isinstance(whole, bool):
            raise InvalidInput("whole", whole, "True, False or None")
        if not isinstance(request, str):
            raise InvalidInput("request", request, "a text")
        self.account = account
        self.loss = loss
        self.delta = delta
        self.request = request
        self.steps = check.count("steps", steps, least=1)
        self.turn = check.count("turn", turn, least=1)
        self.block = self._whole_turns(block)
        self.key = uuid.uuid4().hex if key is None else checked_key(key)
        self.whole = not began_in_blocks(account, self.key) if whole is None else whole
        self.stopped = False
        self._is_open = False
        plan = Cost(self.privacy, delta, f"{self.steps} steps {request}")
        self._stream = AnswerStream(
            account,
            key=self.key,
            why=why,
            items=self.steps,
            whole=plan if self.whole else None,
            each=self._cost_of_block,
            block=self.block,
            in_order=True,
        )
        self.why = self._stream.why

    def __reduce_ex__(self, protocol: Any) -> Any:  # copy, deepcopy and pickle all ask here
        raise Refused("a run cannot be copied or stored. Try: account.training(...) with the same key, elsewhere too")

    @property
    def taken(self) -> int:
        """Number of steps taken here."""
        return self._stream.taken

    @property
    def receipts(self) -> list[Receipt]:
        """Proof of each charge: of the whole plan, and of each block."""
        return self._stream.receipts

    @property
    def privacy(self) -> PrivacyLoss:
        """The most the run can lose: all its steps."""
        return self._loss_of(self.steps)

    def _loss_of(self, steps: int) -> PrivacyLoss:
        turns = _divide_up(steps, self.turn)
        return turns * self.loss

    def _whole_turns(self, block: int | None) -> int:
        """Return the steps of a block, rounded up to whole turns: a part of a turn costs as much."""
        if block is None:
            block = _divide_up(self.steps, BLOCKS)
        size = check.count("block", block, least=1)
        return _divide_up(size, self.turn) * self.turn

    def _cost_of_block(self, first: int, last: int) -> Cost:
        steps = last - first
        request = f"steps {first} to {last} {self.request}"
        return Cost(self._loss_of(steps), self._share(steps), request)

    def _share(self, steps: int) -> float | None:
        """Part of the run's delta that this many steps may use."""
        if self.delta is None:
            return None
        return self.delta * steps / self.steps

    def costs(self) -> RunCosts:
        """Compare the cost of the whole plan with its cost in blocks; charges nothing."""
        whole = self._price(self.privacy, self.delta)
        is_paid = self.whole and bool(self.receipts)
        fits = whole is not None and (is_paid or self._fits(whole))
        starts = range(0, self.steps, self.block)
        blocks = self._price_of_blocks(len(starts))
        unpaid = self._unpaid(starts)
        count = self._payable(len(unpaid))
        payable = self.steps if count == len(unpaid) else unpaid[count]
        return RunCosts(self.steps, self.block, whole, blocks, payable, fits)

    def _price(self, loss: PrivacyLoss, delta: float | None) -> Amount | None:
        """Cost in the account's currency, or None if it is not finite."""
        try:
            return self.account.price(loss, delta=delta)
        except Refused:
            return None

    def _price_of_steps(self, steps: int) -> Amount | None:
        """Cost of one block of this many steps, or None if it is not finite."""
        return self._price(self._loss_of(steps), self._share(steps))

    def _fits(self, amount: Amount) -> bool:
        """True if the account, and every account above it, can pay the amount now."""
        try:
            self.account.rehearse(amount)
        except TallystickError:
            return False
        return True

    def _price_of_blocks(self, count: int) -> Amount | None:
        """Cost of the last ``count`` blocks, of which the very last may be shorter."""
        full_blocks = (self.steps - 1) // self.block
        each = self._price_of_steps(min(self.block, self.steps))
        last = self._price_of_steps(self.steps - full_blocks * self.block)
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
        """Number of the unpaid blocks that the account can pay, by bisection."""
        if unpaid == 0:
            return 0
        all_blocks = self._price_of_blocks(unpaid)
        if all_blocks is not None and self._fits(all_blocks):
            return unpaid
        each = self._price_of_steps(min(self.block, self.steps))
        if each is None:
            return 0
        low = 0
        high = unpaid - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(Amount(each.filter, middle * each.a0, middle * each.a1)):
                low = middle
            else:
                high = middle - 1
        return low

    def start(self) -> Self:
        """Pay for the whole plan, or, with ``whole=False``, say what its blocks cost. The same key pays once."""
        if not self._is_open and self.taken == 0:
            self._announce()
        if self.whole and not self.receipts and began_in_blocks(self.account, self.key):
            allowed = "whole=False for this key, because the run began in blocks; or a new key for a new run"
            raise InvalidInput("whole", True, allowed)
        if not self.whole and has_record(self.account, self.key):
            allowed = "whole=True for this key, because the whole run is paid; or a new key for a new run"
            raise InvalidInput("whole", False, allowed)
        self._stream.open()
        self._is_open = True
        return self

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
        """Take the next step and return its number, counted from 0; charges its block first."""
        if not self._is_open:
            raise Refused("this run was not started. Try: with account.training(...) as run")
        try:
            number = self._stream.take()
        except BudgetExceeded:
            raise self._stop() from None
        if number is None:
            self._is_open = False
            if 0 < self.taken < self.steps:
                reason = "The other blocks were begun earlier. Steps of them that were not taken then are lost."
                warnings.warn(EndedEarly(self.taken, self.steps, reason), stacklevel=3)
            raise RunEnded(f"all {self.steps} steps of run {self.key!r} are taken")
        return number

    def _stop(self) -> RunEnded:
        """Warn that the account cannot pay for the next block, and return the error that ends the loop."""
        self._is_open = False
        self.stopped = True
        first, last = self._stream.next_block
        problem = f"account cannot pay for steps {first} to {last}"
        warnings.warn(EndedEarly(self.taken, self.steps, f"The {problem}."), stacklevel=3)
        return RunEnded(f"the {problem}; {self.taken} were taken")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        if not isinstance(error, RunEnded):
            self.leave(stacklevel=3)
        self._is_open = False
        return isinstance(error, RunEnded)  # the end of the run leaves the with statement; other errors pass on

    def leave(self, *, stacklevel: int = 4) -> None:
        """End the loop, and warn if it ends before the plan: the end of a with statement and a Trainer do it."""
        is_left = self._is_open and self._stream.position < self.steps
        self._is_open = False
        if is_left:
            paid = "The whole plan is paid" if self.whole else "Blocks that were begun are paid"
            reason = f"The loop ended first. {paid}, and {self._rest()}."
            warnings.warn(EndedEarly(self.taken, self.steps, reason), stacklevel=stacklevel)

    def _rest(self) -> str:
        """Say where the run continues."""
        first, _ = self._stream.next_block
        if first < self.steps:
            return f"key={self.key!r} continues at step {first}"
        return "no block is left"

    def __repr__(self) -> str:
        return f"<Run {self.key!r}: {self.taken} of {self.steps} steps taken, paid by {self.account.name!r}>"


def _require_seen_steps(loss: PrivacyLoss) -> None:
    """Refuse the loss of a run of which only the end is seen: it is not the loss of a step."""
    if any(leaf.only_the_last for leaf in all_inside(loss.terms)):
        allowed = "the loss of a step whose iterate is seen; a run of which only the end is seen is one charge"
        raise InvalidInput("loss", str(loss), f"{allowed}: account.pay(loss, why=...)")


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)
