"""Reads a privacy loss written in the Python notation, and nothing else.

    1000 * gaussian(sigma=1).sampled(rate=0.01) + laplace(scale=2)

Python's own parser turns the text into a tree, and the tree is walked over a closed list of node types: no name is
looked up outside the lists below and no code is ever run. Size and depth are limited before and while reading.
"""

from __future__ import annotations

import ast
import inspect
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from tallystick.accounting import losses as losses  # defines the words
from tallystick.accounting.loss import CONSTRUCTORS, PrivacyLoss
from tallystick.digits import up
from tallystick.errors import ExpressionError

METHODS = ("sampled", "subset", "for_groups", "as_replace", "allocated")
LONGEST_TEXT = 200_000
DEEPEST_NESTING = 50
LARGEST_INTEGER = 10**18

_NAMES = f"one of {', '.join(sorted(CONSTRUCTORS))}"
_SHAPE = 'a loss such as "1000 * gaussian(sigma=1).sampled(rate=0.01) + laplace(scale=2)"'

Value = Any  # a number, a string, a list, a dict or a PrivacyLoss; checked where it is used


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed expression whose unknown, if it has one, is filled in by ``at``."""

    text: str
    body: ast.expr
    unknown: str | None = None

    @property
    def mentions_unknown(self) -> bool:
        """Whether the unknown occurs in the text."""
        return self._mentions(self.body)

    @property
    def counts_with_unknown(self) -> bool:
        """Whether the unknown multiplies a loss, so that only whole numbers make sense."""
        products = [
            node for node in ast.walk(self.body) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        ]
        sides = [pair for node in products for pair in ((node.left, node.right), (node.right, node.left))]
        return any(self._mentions(count) and not _has_call(count) and _has_call(loss) for count, loss in sides)

    @property
    def typed(self) -> dict[float, str]:
        """Each number of the text that was typed as a decimal, as the double that it became and as it was typed."""
        found: dict[float, str] = {}
        for node in ast.walk(self.body):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                found[node.value] = ast.get_source_segment(self.text, node) or repr(node.value)
        return found

    def _mentions(self, node: ast.expr) -> bool:
        return any(isinstance(part, ast.Name) and part.id == self.unknown for part in ast.walk(node))

    def at(self, value: float | None = None) -> PrivacyLoss:
        """The loss the text means, with the unknown set to ``value``."""
        known = {} if self.unknown is None or value is None else {self.unknown: value}
        result = _Reader(known).read(self.body, 0)
        if not isinstance(result, PrivacyLoss):
            raise ExpressionError("expression", self.text, f"{_SHAPE}; this is {_kind(result)}, not a loss")
        return result


def read_loss(text: str) -> PrivacyLoss:
    """The loss that ``text`` means.

    >>> read_loss("2 * pure_dp(epsilon=1/4)").epsilon(delta=0)
    0.5
    >>> read_loss("__import__('os')")
    Traceback (most recent call last):
    ...
    tallystick.errors.ExpressionError: unknown name __import__ (column 1); give one of approx_dp, ...
    """
    return parse(text).at()


def as_typed(value: float, text: str, digits: int = 6) -> str:
    """``value`` rounded up, or as it was typed where it is a number of the expression ``text`` itself.

    The double of 0.1 is above one tenth. A person who typed 0.1 means one tenth, and rounding the double up shows a
    number that the caller did not type.

    >>> as_typed(0.1, "pure_dp(epsilon=0.1)"), as_typed(0.1, "pure_dp(epsilon=1/10)")
    ('0.1', '0.100001')
    """
    typed = parse(text).typed.get(value)
    if typed is None:
        return up(value, digits)
    plain = Decimal(typed.replace("_", ""))
    return typed if len(plain.as_tuple().digits) <= digits else up(Fraction(plain), digits)


def parse(text: str, *, unknown: str | None = None) -> Template:
    """Parse without evaluating; ``unknown`` is the one extra name the text may use.

    >>> parse("gaussian(sigma=X)", unknown="X").mentions_unknown
    True
    """
    if not text.strip():
        raise ExpressionError("expression", text, _SHAPE)
    if len(text) > LONGEST_TEXT:
        raise ExpressionError("expression", text, f"at most {LONGEST_TEXT:,} characters (this has {len(text):,})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python remarks on odd literals; the reader below judges them itself
            tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        where = "expression" if error.offset is None else f"expression (column {error.offset})"
        raise ExpressionError(where, text, f"{_SHAPE} ({error.msg})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError("expression", text, f"{_SHAPE} (it could not be read: {error})") from None
    return Template(text.strip(), tree.body, unknown)


class _Reader:
    """Walks the tree; every node type that is not named here is refused."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.known = known
        self.readers: dict[type[ast.expr], Callable[[Any, int], Value]] = {
            ast.Constant: self.constant,
            ast.Name: self.name,
            ast.UnaryOp: self.unary,
            ast.BinOp: self.binary,
            ast.Call: self.call,
            ast.List: self.listing,
            ast.Tuple: self.listing,
            ast.Dict: self.mapping,
        }

    def read(self, node: ast.expr, depth: int) -> Value:
        if depth > DEEPEST_NESTING:
            raise _refused(node, f"at most {DEEPEST_NESTING} levels of nesting")
        reader = self.readers.get(type(node))
        if reader is None:
            raise _refused(node, "only constructors, methods, numbers, + and *")
        return reader(node, depth)

    def constant(self, node: ast.Constant, depth: int) -> Value:
        value = node.value
        if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
            if isinstance(value, int) and value > LARGEST_INTEGER:
                raise _refused(node, "numbers up to 10^18")
            return value
        raise _refused(node, 'numbers, and strings such as adjacency="replace"')

    def name(self, node: ast.Name, depth: int) -> Value:
        if node.id in self.known:
            return self.known[node.id]
        if node.id in CONSTRUCTORS:
            raise _refused(node, f"{node.id}(...) with its arguments")
        raise _refused(node, _NAMES)

    def unary(self, node: ast.UnaryOp, depth: int) -> Value:
        operand = self.read(node.operand, depth + 1)
        if not isinstance(operand, int | float) or not isinstance(node.op, ast.USub | ast.UAdd):
            raise _refused(node, "a sign only before a number")
        return -operand if isinstance(node.op, ast.USub) else operand

    def binary(self, node: ast.BinOp, depth: int) -> Value:
        """Long sums lean left, so the left spine is walked in a loop and costs no depth."""
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        total = self.read(spine[-1].left, depth + 1)
        for step in reversed(spine):
            total = self.combine(step, total, self.read(step.right, depth + 1))
        return total

    def combine(self, node: ast.BinOp, left: Value, right: Value) -> Value:
        numbers = [isinstance(value, int | float) for value in (left, right)]
        if all(numbers):
            return _arithmetic(node, left, right)
        if isinstance(node.op, ast.Add) and not any(numbers) and _is_loss(left) and _is_loss(right):
            return left + right
        if isinstance(node.op, ast.Mult) and any(numbers) and (_is_loss(left) or _is_loss(right)):
            return left * right if numbers[0] else right * left
        raise _refused(
            node, f"loss + loss, count * loss or arithmetic of numbers, not {_kind(left)} with {_kind(right)}"
        )

    def call(self, node: ast.Call, depth: int) -> Value:
        names = [keyword.arg for keyword in node.keywords]
        if None in names:
            raise _refused(node, "arguments written out, not **")
        repeated = _repeated(names)
        if repeated is not None:  # Python's own compiler would refuse this; its parser does not
            raise _refused(node, f"each argument once ({repeated} is given {names.count(repeated)} times)")
        function = self.callee(node.func, depth)
        arguments = [self.read(argument, depth + 1) for argument in node.args]
        options: dict[str, Value] = {}
        for keyword in node.keywords:
            options[str(keyword.arg)] = self.option(function, str(keyword.arg), keyword.value, depth)
        try:
            inspect.signature(function).bind(*arguments, **options)
        except TypeError:
            known = inspect.signature(function).parameters
            wrong = [f"it has no {name}" for name in options if name not in known]
            needed = [f"it needs {name}" for name, each in known.items() if each.default is each.empty]
            why = next(iter([*wrong, *needed]), "each argument once")
            raise _refused(node, f"{_signature(function)} ({why})") from None
        return function(*arguments, **options)

    def option(self, function: Callable[..., Value], name: str, node: ast.expr, depth: int) -> Value:
        """The value of a named argument; True and False are words only where one of them is the default."""
        given = inspect.signature(function).parameters.get(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool) and given and type(given.default) is bool:
            return node.value
        return self.read(node, depth + 1)

    def callee(self, node: ast.expr, depth: int) -> Callable[..., Value]:
        """A constructor (``gaussian`` or ``ts.gaussian``) or a method of a loss."""
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "ts"):
            owner = self.read(node.value, depth + 1)
            if node.attr not in METHODS or not _is_loss(owner):
                raise _refused(node, f"a loss followed by one of .{', .'.join(METHODS)}", shown=f".{node.attr}")
            return getattr(owner, node.attr)  # type: ignore[no-any-return]
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name not in CONSTRUCTORS:
            raise _unknown(node, name)
        return CONSTRUCTORS[name]

    def listing(self, node: ast.List | ast.Tuple, depth: int) -> list[Value]:
        return [self.read(element, depth + 1) for element in node.elts]

    def mapping(self, node: ast.Dict, depth: int) -> dict[Value, Value]:
        if any(key is None for key in node.keys):
            raise _refused(node, "{order: epsilon, ...} written out, not **")
        keys = [self.read(key, depth + 1) for key in node.keys if key is not None]
        if any(not isinstance(key, int | float) for key in keys):
            raise _refused(node, "{order: epsilon, ...} with numbers as orders")
        repeated = _repeated(keys)
        if repeated is not None:
            raise _refused(node, f"each order once ({repeated} is given {keys.count(repeated)} times)")
        return dict(zip(keys, (self.read(value, depth + 1) for value in node.values), strict=True))


def _arithmetic(node: ast.BinOp, left: float, right: float) -> float:
    operations: dict[type[ast.operator], Callable[[float, float], float]] = {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.Div: lambda a, b: a / b,
        ast.Pow: _power,
    }
    operation = operations.get(type(node.op))
    if operation is None:
        raise _refused(node, "+ - * / ** between numbers")
    try:
        result = operation(left, right)
    except (ArithmeticError, ValueError):
        raise _refused(node, "arithmetic with a finite result") from None
    if isinstance(result, complex) or not math.isfinite(result) or abs(result) > 1e308:
        raise _refused(node, "arithmetic with a finite result")
    if isinstance(result, int) and abs(result) > LARGEST_INTEGER:
        raise _refused(node, "numbers up to 10^18")
    return result


def _power(base: float, exponent: float) -> float:
    """Integer powers stay small enough that 9**9**9 cannot stall the reader."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 64:
        raise OverflowError
    return base**exponent  # type: ignore[no-any-return]


def _repeated(names: Sequence[Value]) -> Value:
    """The first that occurs again, or None: a dict would keep its last value without a word. 2 and 2.0 are equal."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _has_call(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def _is_loss(value: Value) -> bool:
    return isinstance(value, PrivacyLoss)


def _kind(value: Value) -> str:
    if _is_loss(value):
        return "a loss"
    kinds = {int: "a number", float: "a number", str: "a string", list: "a list", dict: "a dict"}
    return kinds.get(type(value), "an order of batches")


def _signature(function: Callable[..., Value]) -> str:
    # A bound method's signature has no self, so this is what the user types.
    names = [
        f"{name}=" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else name
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    return f"{function.__name__}({', '.join(names)})"


def _refused(node: ast.expr, allowed: str, *, shown: str | None = None) -> ExpressionError:
    if shown is None:
        shown = node.id if isinstance(node, ast.Name) else _source(node)
    return ExpressionError(f"expression (column {node.col_offset + 1})", shown, allowed)


def _unknown(node: ast.expr, name: str) -> ExpressionError:
    """The error for a name that is not a constructor: the nearest one, or else all of them."""
    problem = f"unknown name {name or _source(node)} (column {node.col_offset + 1})"
    near = get_close_matches(name.casefold(), sorted(CONSTRUCTORS), n=1)
    if near:
        return ExpressionError("expression", name, "", problem=f"{problem}. Did you mean {near[0]}?")
    return ExpressionError("expression", name, _NAMES, problem=problem)


def _source(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return "a deeply nested part"
