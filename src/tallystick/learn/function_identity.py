"""Identity of a function: the same key must not serve the model of another function.

A function is known by its module, name, bytecode, constants, defaults, the values it closes over and the plain globals
it reads. Functions of its module that it calls are followed, others are known by their names.

Two functions count as one if they differ only inside an object of a class that is not plain (a data frame, a
fitted estimator), or in another module. Another version of Python has other bytecode: the same function is then
another one.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

DEEPEST = 4
"""Functions that call functions are followed this far."""


def function_identity(function: Any) -> Any:
    """Plain lists and text that are the same in every process for the same function.

    >>> halve, third = (lambda x: x / 2), (lambda x: x / 3)
    >>> function_identity(halve) == function_identity(halve), function_identity(halve) == function_identity(third)
    (True, False)
    """
    return _Reader(getattr(function, "__module__", None)).read(function)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of values; it follows functions of the module ``home``, and of no other module."""

    home: str | None
    depth: int = 0

    def read(self, value: Any) -> Any:
        """Plain values as they are, arrays as a hash, functions by what they do, other objects by their class."""
        if value is None or isinstance(value, (str, bytes, bool, int, float, complex, np.generic)):
            return repr(value)
        if isinstance(value, (list, tuple)):
            return [self.read(part) for part in value]
        if isinstance(value, (set, frozenset)):
            return sorted(repr(self.read(part)) for part in value)
        if isinstance(value, dict):
            return [[self.read(name), self.read(part)] for name, part in value.items()]
        if isinstance(value, np.ndarray) and value.dtype != object:
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return [str(value.dtype), list(value.shape), digest]
        return self._called(value)

    def _called(self, value: Any) -> Any:
        """Functions, methods, partial calls, and objects that can be called."""
        if isinstance(value, functools.partial):
            return ["partial", *(self.read(part) for part in (value.func, value.args, value.keywords))]
        if isinstance(value, MethodType):
            return [self.read(value.__func__), self.read(value.__self__)]
        if isinstance(value, FunctionType):
            is_followed = value.__module__ == self.home and self.depth < DEEPEST
            return _Reader(self.home, self.depth + 1)._function(value) if is_followed else _name(value)
        if hasattr(value, "__qualname__") or isinstance(value, (np.ufunc, ModuleType)):
            return _name(value)
        own = type(value).__dict__.get("__call__")
        return [_name(type(value)), self.read(own)] if own is not None else _name(type(value))

    def _function(self, function: FunctionType) -> Any:
        closed = [self._cell(cell) for cell in function.__closure__ or ()]
        defaults = [function.__defaults__, function.__kwdefaults__]
        names = sorted(_names(function.__code__) & set(function.__globals__))
        globals_read = [[name, self.read(function.__globals__[name])] for name in names]
        return [_name(function), self._code(function.__code__), closed, self.read(defaults), globals_read]

    def _cell(self, cell: Any) -> Any:
        try:
            return self.read(cell.cell_contents)
        except ValueError:
            return "an empty cell"

    def _code(self, code: CodeType) -> Any:
        """Bytecode with its constants and names; line numbers and file names are left out."""
        constants = [self._code(part) if isinstance(part, CodeType) else self.read(part) for part in code.co_consts]
        return [code.co_code.hex(), constants, list(code.co_names), list(code.co_freevars)]


def _names(code: CodeType) -> set[str]:
    """Names that a function, and the functions inside it, read from the module."""
    inside = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inside)


def _name(value: Any) -> str:
    """Module and name."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    return f"{getattr(value, '__module__', None)}.{name}"
