"""The one way to pay for a release: check, charge, draw, commit.

    check                 what needs no data: types, schema, the key's stored answer    costs nothing
    charge                durable in state EXECUTING before anything may be opened
    draw                  the noisy answer
    commit                the answer is stored, then handed out

A failure before the charge costs nothing; a failure after it keeps the charge and closes the source (journal.py). A
worker that is killed cannot say so: its lease is short and renewed while it draws, and runs out when it is gone. A
mechanism with its value, a table plan and a training run all pay here, so this order is written once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tallystick.errors import AlreadyCommitted, TallystickError, Unavailable

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.charge import Charge, Receipt

LEASE: Final = 600.0
FAILED: Final = (
    "the release failed after its charge had started, so the charge stays paid and has no answer; why is withheld, "
    "because it could depend on the data. The data are closed to further plans until their owner clears them"
)
INTERRUPTED: Final = (
    "interrupted after the charge had started, so it stays paid; asked with the same key, the ledger says whether an "
    "answer was stored"
)

CHARGING: Final = (
    "interrupted while it was being charged, so it may be paid; asked with the same key, the ledger says whether it is"
)


class Payable(Protocol):
    """What can be paid for. Nothing but ``draw`` may look at data, and it is called once, after the charge."""

    @property
    def privacy(self) -> PrivacyLoss:
        """What one release loses."""

    @property
    def request(self) -> str:
        """Public text that tells this request from others under the same key."""

    @property
    def source(self) -> str:
        """Which data are opened, as a public text; empty when the caller holds the value already."""

    def preflight(self) -> None:
        """Raise for everything that can be known to fail without data."""

    def draw(self) -> Any:
        """The noisy answer."""


@dataclass(frozen=True, slots=True)
class Paid:
    """A paid answer; ``fresh`` is False when it was stored before under this key and nothing was charged now."""

    answer: Any
    receipt: Receipt
    fresh: bool


def pay(
    release: Payable,
    account: Account,
    *,
    why: str,
    key: str | None = None,
    delta: float | None = None,
    also: Sequence[Account] = (),
    lease: float = LEASE,
) -> Paid:
    """Charge, draw, store and hand out; the same key again hands out the same answer and charges nothing.

    When the data belong to a source, what went wrong after the charge is not told: one constant text, whatever it was.
    A caller who holds the value could see it anyway and gets the error itself.
    """
    charge = account.charge(
        release.privacy, why=why, key=key, delta=delta, also=also, lease=lease, request=release.request,
        source=release.source,
    )  # fmt: skip
    stored = charge.stored()
    if stored is not None:
        return Paid(*stored, fresh=False)
    release.preflight()
    try:
        charge.begin()
    except AlreadyCommitted as found:  # by another worker, in between
        return Paid(found.answer, found.receipt, fresh=False)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(CHARGING) from None
    try:
        with _renewed(charge, lease) if release.source else contextlib.nullcontext():
            drawn = release.draw()
        receipt = charge.commit(drawn)
    except BaseException as error:
        problem = type(error)
        if not release.source:
            charge.burn_quietly(problem)
            raise
    else:
        return Paid(charge.answer, receipt, fresh=True)
    # outside the handler, so that the error does not travel along, not even with an interruption of the burning
    charge.burn_quietly(problem)
    raise KeyboardInterrupt(INTERRUPTED) if issubclass(problem, KeyboardInterrupt) else Unavailable(FAILED)


@contextlib.contextmanager
def _renewed(charge: Charge, lease: float) -> Iterator[None]:
    """Renew the lease three times as often as it runs out, as long as the block and its process live."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(lease / 3):
            with contextlib.suppress(TallystickError):  # a store that is away may be back in time; a lost lease is lost
                charge.renew(lease=lease)

    beat = threading.Thread(target=renew, daemon=True)
    try:
        beat.start()
        yield
    finally:
        over.set()
        if beat.ident is not None:
            beat.join()


@dataclass(frozen=True, slots=True)
class Valued:
    """A mechanism with the value it is about.

    The value may be a function without arguments, called only after the charge is durable; a mechanism that
    ``takes_function`` gets the function itself.
    """

    mechanism: Any
    value: Any
    privacy: PrivacyLoss
    request: str
    source: str = ""

    @property
    def _deferred(self) -> bool:
        return callable(self.value) and not getattr(self.mechanism, "takes_function", False)

    def preflight(self) -> None:
        """Type and shape of the value, where it is there already."""
        prepare = getattr(self.mechanism, "prepare", None)
        if prepare is not None and not self._deferred:
            prepare(self.value, strict=False)

    def draw(self) -> Any:
        """One release of the mechanism."""
        release = getattr(self.mechanism, "release", None) or self.mechanism
        return release(self.value() if self._deferred else self.value)
