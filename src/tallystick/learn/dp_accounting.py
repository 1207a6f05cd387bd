"""Our accountant inside dp_accounting, and its events in both directions; needs the package.

    accountant = ts.learn.dp_accounting.accountant()           a dp_accounting.PrivacyAccountant
    accountant.compose(event, 1000).get_epsilon(1e-5)          a certified upper bound
    dp_accounting.calibrate_dp_mechanism(ts.learn.dp_accounting.accountant, ...)

    ts.learn.dp_accounting.from_event(event), ts.learn.dp_accounting.to_event(loss)

An event says nothing about who is protected, nor whether batches were drawn as it claims: the first is the accountant's
neighbouring relation, the second is the caller's word. Without the package: ``tallystick.accounting.dp_events``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tallystick.accounting import losses
from tallystick.accounting.dp_events import from_dp_accounting
from tallystick.accounting.dp_events_written import Event, to_dp_accounting
from tallystick.errors import InvalidInput, Remedy, Unavailable

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

_RELATIONS = {"ADD_OR_REMOVE_ONE": "add_remove", "REPLACE_ONE": "replace", "REPLACE_SPECIAL": "replace_special"}


def accountant(neighboring_relation: Any = None) -> Any:
    """A fresh ``PrivacyAccountant`` of the package; add/remove neighbours unless another relation of it is given."""
    relations = _package().NeighboringRelation
    chosen = relations.ADD_OR_REMOVE_ONE if neighboring_relation is None else neighboring_relation
    _word(chosen)
    return _kind()(chosen)


def from_event(event: Any, neighboring_relation: Any = None) -> PrivacyLoss:
    """The loss of a ``DpEvent``; refuses what is not understood, and reads less privacy where there is a choice."""
    if not isinstance(event, _package().DpEvent):
        raise InvalidInput("event", type(event).__name__, "a dp_accounting.DpEvent")
    said = "add_remove" if neighboring_relation is None else _word(neighboring_relation)
    return from_dp_accounting(event.to_named_tuple(), adjacency=said)


def to_event(loss: PrivacyLoss) -> Any:
    """The ``DpEvent`` of a loss, to be read under the loss's own neighbours; refuses what no event says."""
    return _built(to_dp_accounting(loss))


def _built(event: Event) -> Any:
    name = event["class_name"]
    kind = getattr(_package().dp_event, name, None)
    if kind is None:
        raise Unavailable(f"this dp_accounting has no {name}. Try: a newer one")
    fields = {key: _inner(value) for key, value in event.items() if key not in ("module_name", "class_name")}
    return kind(**fields)


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return _built(value)
    return [_inner(item) for item in value] if isinstance(value, list) else value


def _word(relation: Any) -> str:
    name = getattr(relation, "name", None)
    if name not in _RELATIONS:
        raise InvalidInput("neighboring_relation", relation, "a dp_accounting.NeighboringRelation")
    return _RELATIONS[name]


def _package() -> Any:
    try:
        import dp_accounting
    except ImportError:
        remedies = [Remedy("install", packages="dp-accounting")]
        raise Unavailable("dp_accounting is not installed", remedies=remedies) from None
    return dp_accounting


class _Accountant:
    """What the package asks of an accountant: may this event be added, add it, and read the sum."""

    neighboring_relation: Any

    def __init__(self, neighboring_relation: Any) -> None:
        super().__init__(neighboring_relation)  # type: ignore[call-arg]
        self.privacy = losses.no_loss(adjacency="replace" if _word(neighboring_relation) == "replace" else "add_remove")

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        try:
            more = self.privacy + count * from_event(event, self.neighboring_relation)
        except InvalidInput as problem:
            details = _package().PrivacyAccountant.CompositionErrorDetails
            return details(invalid_event=event, error_message=str(problem))
        if do_compose:
            self.privacy = more
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """The certified epsilon at ``target_delta``; infinite where nothing is private."""
        return float(self.privacy.epsilon(delta=target_delta))

    def get_delta(self, target_epsilon: float) -> float:
        """The certified delta at ``target_epsilon``."""
        return float(self.privacy.delta(epsilon=target_epsilon))


@lru_cache(maxsize=1)
def _kind() -> Any:
    """The accountant as a class of the package's own family."""
    return type("TallystickAccountant", (_Accountant, _package().PrivacyAccountant), {"__doc__": _Accountant.__doc__})
