"""Every error tallystick raises on purpose.

    TallystickError                 exit 1
    ├── InvalidInput                exit 2   an argument is outside what is allowed
    │   ├── ExpressionError                  text that is not a loss expression
    │   ├── EpsilonWithoutDelta              pure epsilon and epsilon at a delta have different costs here
    │   ├── AdjacencyMismatch                losses about different neighbours were mixed
    │   └── UnitMismatch                     losses about different units were mixed
    ├── Contradiction               exit 1   two certified bounds exclude each other: a defect of tallystick
    ├── BudgetExceeded              exit 3   the account cannot pay
    ├── Refused                     exit 4   it could break a promise
    │   ├── NotAnswered                      a statement of which a part cannot be shown to be private, or is not known
    │   ├── NotCertified                     an answer whose population error would be above what was asked for
    │   └── Quarantined                      a plan failed on this data; its owner has to look
    ├── ClaimFalsified              exit 5   an audit found evidence against a claim
    ├── LedgerIntegrity             exit 6   the record was altered, or is not the newest
    ├── NotAuthorised               exit 7
    ├── IdempotencyConflict         exit 8   the key was used for another request
    │   └── AlreadyCommitted                 the key was used for this request; carries the answer
    └── Unavailable                 exit 9   busy, missing component, unreachable store
        └── NotComputable                    no rigorous route for this composition

Nothing raises NotAuthorised yet: its exit code is kept for the service. Three warnings are ours: ChargedAgain,
NotCharged and PasswordInPlace.
Messages carry numbers and a way out, never a value read from private data.
"""

from __future__ import annotations

from typing import Any


def _printed(character: str) -> str:
    """The character, or its escape if it is not printed (as ``printing.visible`` writes it); line feeds stay."""
    is_plain = character.isprintable() or character == "\n"
    return character if is_plain else character.encode("unicode_escape").decode()


class TallystickError(Exception):
    """Root of the tree; ``exit_code`` is what the command line returns.

    >>> issubclass(InvalidInput, TallystickError)
    True
    """

    exit_code = 1

    def __str__(self) -> str:
        """The message; text from data or files in it has no character that a terminal would obey."""
        return "".join(_printed(character) for character in super().__str__())

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback: the message says all there is to know."""
        return [f"{type(self).__name__}: {self}"]


class InvalidInput(TallystickError, ValueError):
    """An argument has a value that is not allowed.

    >>> raise InvalidInput("sigma", -1, "a finite number > 0")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: sigma = -1 is not allowed; give a finite number > 0
    """

    exit_code = 2

    def __init__(self, argument: str, value: object, allowed: str) -> None:
        self.argument, self.value, self.allowed = argument, value, allowed
        try:
            shown = repr(value)
        except ValueError:  # a whole number of thousands of digits
            shown = f"a value of type {type(value).__name__} too long to print"
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"{argument} = {shown} is not allowed; give {allowed}")


class ExpressionError(InvalidInput):
    """Text that is not a loss expression."""


class EpsilonWithoutDelta(InvalidInput):
    """An epsilon was asked without a delta on an account that counts neither: the caller must say which is meant.

    ``pure`` is the cost of pure epsilon. ``with_delta`` is the cost of epsilon at ``delta``, or None if that has none.
    """

    def __init__(self, message: str, epsilon: float, *, pure: Any, delta: float, with_delta: Any) -> None:
        super().__init__("epsilon", epsilon, "pure=True, or a delta")
        self.pure, self.delta, self.with_delta = pure, delta, with_delta
        self.args = (message,)


class AdjacencyMismatch(InvalidInput):
    """Two losses speak about different neighbouring relations."""

    def __init__(self, left: object, right: object) -> None:
        super().__init__(
            "adjacency",
            f"{left} with {right}",
            "losses of one adjacency; convert with loss.as_replace(), "
            "or construct with adjacency= where that relation is what you mean",
        )


class UnitMismatch(InvalidInput):
    """Two losses protect different named units."""

    def __init__(self, left: object, right: object) -> None:
        super().__init__(
            "unit",
            f"{left} with {right}",
            "losses of one unit; a loss for one unit says nothing about another "
            "(if one unit owns k of the other, use loss.for_groups(k) and name the unit)",
        )


class Contradiction(TallystickError):
    """Two certified bounds on one number exclude each other, so one is wrong: a defect, and nothing is answered."""

    def _render_traceback_(self) -> list[str]:
        import traceback

        return traceback.format_exception(self)  # where it happened is what a report of it needs


class BudgetExceeded(TallystickError):
    """The account cannot pay; nothing was charged and no data was read.

    ``asked``, ``left`` and ``limit`` are amounts in the account's currency and
    ``fits`` lists, in words, what would fit.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, asked: Any = None, left: Any = None, limit: Any = None, fits: tuple[str, ...] = ()
    ) -> None:
        self.asked, self.left, self.limit, self.fits = asked, left, limit, fits
        super().__init__(message)


class Refused(TallystickError):
    """What was asked could break a promise (not shown to be private, or the data are closed), so it is not done."""

    exit_code = 4


class NotAnswered(Refused):
    """A statement that is not answered: the message says which part of it, where, and what works in its place.

    It may be private and yet not be known here, so nobody is told that it would have broken a promise.
    """


class NotCertified(Refused):
    """No bound shows that the answer would be as near to the population as was asked for; nothing was charged.

    ``error`` is what can be certified.
    """

    def __init__(self, message: str, *, error: float = 1.0) -> None:
        self.error = error
        super().__init__(message)


class Quarantined(Refused):
    """An earlier plan failed after it had started; the data are closed until their owner clears them."""


class ClaimFalsified(TallystickError):
    """An audit found evidence against a privacy claim."""

    exit_code = 5


class LedgerIntegrity(TallystickError):
    """The ledger was altered, is damaged, or is older than a known anchor."""

    exit_code = 6


class NotAuthorised(TallystickError):
    """The caller may not do this."""

    exit_code = 7


class IdempotencyConflict(TallystickError):
    """The key was already used for a different request."""

    exit_code = 8


class AlreadyCommitted(IdempotencyConflict):
    """The key was already used for this very request; ``answer`` is what was stored."""

    def __init__(self, message: str, *, answer: Any = None, receipt: Any = None) -> None:
        self.answer, self.receipt = answer, receipt
        super().__init__(message)


class Unavailable(TallystickError):
    """A store is busy or unreachable, or an optional component is missing."""

    exit_code = 9


class NotComputable(Unavailable):
    """What was asked is defined, but no implemented route can prove a number for it."""


class ChargedAgain(UserWarning):
    """What is about to be charged was paid for before: its stored answer could be had for nothing.

    It is said before the charge, so that a filter that makes it an error keeps the price.
    """


class NotCharged(UserWarning):
    """A charge was made and dropped before it was taken, so the release that it was meant for is not paid for."""


class PasswordInPlace(UserWarning):
    """The URL of a ledger or source holds a password. Put it into a pass file, a service file or PGPASSWORD."""
