"""The words about privacy in a statement: cut out of its tokens before SQL is read.

``SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, ...)`` may stand after any SELECT, once.
``SUM(cost CLAMPED BETWEEN 0 AND 500)`` and ``SUM(cost, contribution_bounds_per_row => (0, 500))`` bound one aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from tallystick.accounting import check
from tallystick.digits import typed
from tallystick.errors import InvalidInput, Remedy, TallystickError
from tallystick.printing import one_of
from tallystick.rounding import read_amount
from tallystick.tables.budget import AMOUNTS
from tallystick.tables.sql.tree import Text

NUMBERS = (
    "epsilon",
    "delta",
    "rho",
    "error",
    "confidence",
    "max_groups_contributed",
    "max_rows_per_group",
    "max_rows_contributed",
)
FLAGS = ("pure",)
WORDS = ("key", "why", "privacy_unit_column", "group_selection_strategy")
STRATEGIES = ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS")
CHANGING = ("DELETE", "INSERT", "UPDATE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE", "COPY", "SET", "USE")
SHOWING = ("SHOW", "DESCRIBE", "DESC")
_OTHERS = """
ABORT ANALYZE ATTACH BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT DEALLOCATE DECLARE DETACH DISCARD DO END
EXECUTE EXPORT FETCH FROM GRANT IMPORT INSTALL KILL LISTEN LOAD LOCK MOVE NOTIFY PIVOT PRAGMA PREPARE REFRESH REINDEX
RELEASE REPLACE RESET REVOKE ROLLBACK SAVEPOINT START SUMMARIZE TABLE UNLISTEN UNPIVOT VACUUM VALUES
"""
OTHER_STATEMENTS = frozenset(_OTHERS.split())
"""First words of other statements, in PostgreSQL or DuckDB. Text that begins otherwise is not SQL."""
PRICE = ("epsilon", "delta", "rho", "error", "confidence", "pure")
AMOUNTS_OF_PRICE = frozenset(("rho", "epsilon", "error"))
"""Words of which a cost has one."""
_PER_GROUP = "contribution_bounds_per_group"
_ELSEWHERE = {
    "kappa": "max_groups_contributed",
    "min_privacy_units_per_group": "HAVING COUNT(DISTINCT the unit) >= ...",
}


@dataclass(frozen=True, slots=True)
class Options:
    """Words of the statement about its own cost and caps; ``clamps`` by where the aggregate's name stands."""

    given: Mapping[str, Any] = field(default_factory=dict)
    clamps: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    explain: bool = False
    heard: set[int] = field(default_factory=set)
    """The clamps that an aggregate took; one that no aggregate took must not be passed over."""

    def clamp_of(self, start: int) -> tuple[float, float] | None:
        """The bounds that stand inside the aggregate whose name begins there."""
        self.heard.add(start)
        return self.clamps.get(start)

    def beside(self, delta: Any) -> Options:
        """Return the options with a delta that is given beside the statement; the statement's own goes before it."""
        if delta is None or "delta" in self.given:
            return self
        return replace(self, given={**self.given, "delta": check.nonnegative("delta", delta)})

    @property
    def price(self) -> dict[str, Any]:
        """The words of a budget."""
        return {name: value for name, value in self.given.items() if name in PRICE}

    @contextmanager
    def in_own_words(self) -> Iterator[None]:
        """Word the costs that an error offers as options of the statement, if the statement names a cost.

        A cost in the statement goes before one beside it, so another cost works in the statement alone.
        """
        try:
            yield
        except TallystickError as problem:
            remedies = self.in_statement(problem.remedies)
            if type(problem) is InvalidInput and problem.argument in self.price:
                said = f"{problem.argument} is {typed(problem.value)} in OPTIONS"
                error = InvalidInput("sql", said, problem.allowed, code=problem.code, remedies=remedies, problem=said)
                raise error.in_words_of("sql") from None
            problem.remedies = remedies
            if any(each.get("in_statement") for each in remedies):
                problem.interface = "sql"
            raise

    def in_statement(self, remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
        """Return remedies; one that changes a cost of the statement has the fact ``in_statement``."""
        return tuple(self._in_statement(each) for each in remedies)

    def _in_statement(self, remedy: Remedy) -> Remedy:
        """Return a remedy with the fact ``in_statement`` if it names an argument of the statement, or another cost."""
        own = set(self.price)
        names = {remedy.get("argument"), *remedy.get("more", {})}
        is_other_price = not own.isdisjoint(AMOUNTS_OF_PRICE) and not names.isdisjoint(AMOUNTS_OF_PRICE)
        if own.isdisjoint(names) and not is_other_price:
            return remedy
        beside = {name: value for name, value in self.price.items() if name in ("delta", "pure")}
        if "delta" in remedy.facts:  # groups from the data have one
            beside.pop("delta", None)
        more = {**beside, **remedy.get("more", {})}  # the offered options replace those of the statement
        more.pop(remedy.get("argument"), None)
        facts = {**remedy.facts, "more": more} if more else remedy.facts
        return Remedy(remedy.kind, **{**facts, "in_statement": True})


def cut(text: Text) -> tuple[list[Token], Options]:
    """The statement's tokens without these words, and what they say."""
    tokens = text.tokens()
    explain = bool(tokens) and tokens[0].text.upper() == "EXPLAIN"
    tokens = tokens[1:] if explain else tokens
    first = tokens[0].text.upper() if tokens else ""
    if first not in ("SELECT", "WITH", "("):
        raise _no_select(text, first, tokens)
    tokens, given = _without_clause(text, tokens)
    tokens, clamps = _without_clamps(text, tokens)
    return tokens, Options(given, clamps, explain)


def _no_select(text: Text, first: str, tokens: list[Token]) -> TallystickError:
    """Return the error for text that is not a SELECT: refused if it is another statement of SQL, else a usage error."""
    at = tokens[0].start if tokens else 0
    if first in SHOWING:
        is_named = first != "SHOW" and len(tokens) == 2
        facts = {"dataset": tokens[1].text} if is_named else {}
        return text.refused(f"the statement {first}", at, "", remedies=[Remedy("show_datasets", **facts)])
    if first in CHANGING:  # DELETE is near SELECT in its letters alone
        return text.refused(f"the statement {first}", at, "a SELECT statement", why="nothing is changed here")
    if first in OTHER_STATEMENTS:
        return text.refused(f"the statement {first}", at, "a SELECT statement")
    meant = get_close_matches(first, ("SELECT", "WITH"), n=1)
    works = "SELECT (did you mean this?)" if meant else "a SELECT statement"
    return text.wrong(first or "EXPLAIN alone", at, works)


def _without_clause(text: Text, tokens: list[Token]) -> tuple[list[Token], dict[str, Any]]:
    found = [i for i, token in enumerate(tokens) if token.text.upper() == "DIFFERENTIAL_PRIVACY"]
    if not found:
        return tokens, {}
    at = found[0]
    if len(found) > 1 or at < 2 or [t.token_type for t in tokens[at - 2 : at]] != [TokenType.SELECT, TokenType.WITH]:
        raise text.refused("DIFFERENTIAL_PRIVACY", tokens[found[-1]].start, "SELECT WITH DIFFERENTIAL_PRIVACY, once")
    end, given = at + 1, dict[str, Any]()
    if end + 1 < len(tokens) and tokens[end].text.upper() == "OPTIONS":
        close = _closing(text, tokens, end + 1)
        given = _read(text, tokens[end + 2 : close])
        end = close + 1
    return tokens[: at - 1] + tokens[end:], given


def _read(text: Text, inside: list[Token]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for piece in _pieces(inside):
        if len(piece) < 3 or piece[1].token_type is not TokenType.EQ:
            raise text.wrong(
                "OPTIONS", (piece or inside)[0].start if piece or inside else 0, "name = value, with commas"
            )
        name, value = piece[0].text.lower(), piece[2:]
        known = (*NUMBERS, *FLAGS, *WORDS)
        if name not in known or name in given:
            fix = _ELSEWHERE.get(name) or f"each once of {one_of(name, known)}"
            raise text.refused(f"option {name}", piece[0].start, fix)
        if name in AMOUNTS:
            given[name] = _amount(text, name, value)
        elif name in NUMBERS:
            given[name] = _number(text, value)
        elif name in FLAGS:
            given[name] = _flag(text, name, value)
        elif len(value) == 1:
            given[name] = value[0].text
        else:
            raise text.wrong(f"option {name}", value[0].start, "one word or one text in quotes")
    strategy = given.get("group_selection_strategy", STRATEGIES[0])
    if strategy.upper() not in STRATEGIES:
        raise text.wrong("group_selection_strategy", inside[0].start, " or ".join(STRATEGIES))
    return given


def _without_clamps(text: Text, tokens: list[Token]) -> tuple[list[Token], dict[int, tuple[float, float]]]:
    kept: list[Token] = []
    clamps: dict[int, tuple[float, float]] = {}
    i = 0
    while i < len(tokens):
        word = tokens[i].text.lower()
        if word == _PER_GROUP:
            raise text.refused(
                _PER_GROUP, tokens[i].start, "a subquery with SUM grouped by the unit, and CLAMPED BETWEEN around it",
                why="it bounds a unit's total, not a row",
            )  # fmt: skip
        if word == "clamped" and tokens[i + 1 : i + 2] and tokens[i + 1].token_type is TokenType.BETWEEN:
            end = _closing(text, [*kept, *tokens[i:]], _opening(text, kept, tokens[i])) - len(kept) + i
            inside = tokens[i + 2 : end]
            middle = next((j for j, token in enumerate(inside) if token.token_type is TokenType.AND), 0)
            _add(text, clamps, kept, tokens[i], (inside[:middle], inside[middle + 1 :]))
            i = end
        elif word == "contribution_bounds_per_row" and kept and kept[-1].token_type is TokenType.COMMA:
            kept.pop()
            end = _closing(text, tokens, i + 2)
            pair = _pieces(tokens[i + 3 : end])
            if len(pair) != 2:
                raise text.wrong(
                    "contribution_bounds_per_row", tokens[i].start, "contribution_bounds_per_row => (0, 500)"
                )
            _add(text, clamps, kept, tokens[i], (pair[0], pair[1]))
            i = end + 1
        else:
            kept.append(tokens[i])
            i += 1
    return kept, clamps


def _add(
    text: Text,
    clamps: dict[int, tuple[float, float]],
    kept: list[Token],
    at: Token,
    ends: tuple[list[Token], list[Token]],
) -> None:
    function = kept[_opening(text, kept, at) - 1].start
    if function in clamps:
        raise text.refused("a second pair of bounds", at.start, "one pair of bounds for an aggregate")
    clamps[function] = (_number(text, ends[0]), _number(text, ends[1]))


def _opening(text: Text, kept: list[Token], at: Token) -> int:
    """The bracket that is open where ``kept`` ends, which an aggregate's name stands before."""
    depth = 0
    for i in range(len(kept) - 1, 0, -1):
        kind = kept[i].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return i
    raise text.refused(at.text.upper(), at.start, "bounds inside the brackets of SUM, AVG, MEDIAN, VARIANCE or STDDEV")


def _closing(text: Text, tokens: list[Token], opening: int) -> int:
    depth = 0
    for i in range(opening, len(tokens)):
        kind = tokens[i].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            if i == opening:
                break
            return i
    at = tokens[min(opening, len(tokens) - 1)]
    raise text.wrong(at.text, at.start, "brackets that are closed")


def _pieces(tokens: list[Token]) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.COMMA:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces if tokens else []


def _flag(text: Text, name: str, tokens: list[Token]) -> bool:
    """TRUE or FALSE, in any case."""
    said = "".join(token.text for token in tokens).upper()
    if said not in ("TRUE", "FALSE"):
        raise text.wrong(f"option {name}", tokens[0].start, "TRUE or FALSE")
    return said == "TRUE"


def _amount(text: Text, name: str, tokens: list[Token]) -> Any:
    """A cost; a fraction such as 1/24 is rounded down to the ledger's unit."""
    said = "".join(token.text for token in tokens)
    if "/" not in said:
        return _number(text, tokens)
    try:
        return read_amount(name, said)
    except InvalidInput as problem:
        raise text.wrong(said, tokens[0].start, problem.allowed, remedies=problem.remedies) from None


def _number(text: Text, tokens: list[Token]) -> float:
    said = "".join(token.text for token in tokens)
    try:
        value = float(said)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise text.wrong(said or "nothing", tokens[0].start if tokens else 0, "a number")
    return int(said) if said.lstrip("+-").isdigit() and len(said) < 16 else value
