"""The kinds of request: one file each, found by its name, with its class as ``KIND``."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput
from tallystick.publish.plain import Plain, read_fields

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.publish.request import Request
    from tallystick.publish.work import Work


class Kind(Plain, ABC):
    """The query as plain data."""

    __slots__ = ()

    def to_data(self) -> dict[str, Any]:
        """Return the kind and its fields as JSON data."""
        return {"kind": type(self).__module__.rpartition(".")[2], **super().to_data()}

    @classmethod
    def from_data(cls, data: Any) -> Kind:
        """Return what ``to_data`` of any kind wrote."""
        known = sorted(module.name for module in pkgutil.iter_modules(__path__))
        name = data.get("kind") if isinstance(data, dict) else None
        if name not in known:
            raise InvalidInput("kind", name, f"one of: {', '.join(known)}")
        kind: type[Kind] = import_module(f"{__name__}.{name}").KIND
        return read_fields(kind, {field: value for field, value in data.items() if field != "kind"})

    @abstractmethod
    def work(self, request: Request, book: Ledger) -> Work:
        """Return the request with its cost, ready to be paid; no private data is opened."""
