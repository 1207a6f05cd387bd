"""Numbers inside the texts of statements: ``"p = 0.5: epsilon = {randomized_response_epsilon(coin=0.5):.6f}"``.

The braces hold a small closed language, read from its syntax tree and never handed to the interpreter: numbers, lists,
mappings, arithmetic, the functions of ``ts.theorems``, dotted names under tallystick's rooms, and small functions.
"""

from __future__ import annotations

import ast
import importlib
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import ModuleType
from typing import Any

from tallystick.errors import InvalidInput

_ROOMS = frozenset({"accounting", "adaptive", "audit", "cli", "inference", "learn", "mechanisms", "plots", "theorems"})
_NAMES: dict[str, Any] = {
    "Fraction": Fraction,
    "abs": abs,
    "exp": math.exp,
    "float": float,
    "inf": math.inf,
    "len": len,
    "pi": math.pi,
    "round": round,
    "sum": sum,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
}


def spoken(text: str) -> str:
    """``text`` with what its braces say computed now.

    >>> spoken("epsilon = 0.5, k = 4: {group_pure(epsilon=0.5, size=4):.6f}")
    'epsilon = 0.5, k = 4: 2.000000'
    >>> spoken("{__import__('os')}")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: live = '__import__' is not allowed; give a name of ts.theorems or of a room
    """
    tree = ast.parse(f"f{text!r}", mode="eval").body
    pieces = tree.values if isinstance(tree, ast.JoinedStr) else [tree]
    return "".join(_piece(piece) for piece in pieces)


def _piece(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        form = _piece(node.format_spec.values[0]) if isinstance(node.format_spec, ast.JoinedStr) else ""
        return format(_value(node.value, {}), form)
    return str(_value(node, {}))


def _value(node: ast.expr, given: Mapping[str, Any]) -> Any:
    """Return the value of an expression; ``given`` are the arguments of the functions around it."""

    def of(part: ast.expr) -> Any:
        return _value(part, given)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=parts):
            return [of(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(of(part) for part in parts)
        case ast.Dict(keys=names, values=parts) if all(names):
            return {of(name): of(part) for name, part in zip(names, parts, strict=True) if name}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](of(left), of(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](of(left), of(right))
        case ast.UnaryOp(op=op, operand=part) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](of(part))
        case ast.Subscript(value=whole, slice=ast.Constant(value=int(place) | str(place))):
            return of(whole)[place]
        case ast.Name(id=name):
            return given[name] if name in given else _named(name)
        case ast.Attribute(value=whole, attr=name) if not name.startswith("_"):
            return _member(of(whole), name)
        case ast.Call(func=function, args=parts, keywords=named):
            return of(function)(*map(of, parts), **{str(part.arg): of(part.value) for part in named})
        case ast.Lambda(args=ast.arguments(args=names), body=body):
            return lambda *told: _value(body, {**given, **{n.arg: x for n, x in zip(names, told, strict=True)}})
    raise InvalidInput("live", ast.unparse(node), "numbers, lists, arithmetic, and calls of tallystick's functions")


def _named(name: str) -> Any:
    from tallystick import theorems

    if name in theorems.__all__:
        return getattr(theorems, name)
    if name in _NAMES:
        return _NAMES[name]
    if name in _ROOMS:
        return importlib.import_module(f"tallystick.{name}")
    raise InvalidInput("live", name, "a name of ts.theorems or of a room")


def _member(whole: Any, name: str) -> Any:
    """An attribute; of a module only its own modules and what they define, so that nothing leads out of tallystick."""
    if not isinstance(whole, ModuleType):
        return getattr(whole, name)
    member = getattr(whole, name, None)
    if member is None:
        member = importlib.import_module(f"{whole.__name__}.{name}")
    home = member.__name__ if isinstance(member, ModuleType) else getattr(member, "__module__", "")
    if not str(home).startswith("tallystick."):
        raise InvalidInput("live", f"{whole.__name__}.{name}", "a name that tallystick defines")
    return member


def resolve(name: str) -> Any:
    """The object behind a statement's function: a name of ``ts.theorems`` or a dotted name under a room.

    >>> resolve("group_pure").__name__, resolve("mechanisms.select.accuracy.wrong_choice").__name__
    ('group_pure', 'wrong_choice')
    """
    return _value(ast.parse(name, mode="eval").body, {})
