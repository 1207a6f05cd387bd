"""Names of the parts of a statement in refusals, and what works in their place: SQL's words, not the parser's."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

WORDS_OF: Final[dict[type[exp.Expr], str]] = {
    exp.Rand: "RANDOM",
    exp.GroupConcat: "STRING_AGG",
    exp.CurrentTimestamp: "NOW",
    exp.CurrentDate: "CURRENT_DATE",
    exp.ExplodingGenerateSeries: "GENERATE_SERIES",
    exp.GenerateSeries: "GENERATE_SERIES",
    exp.GroupingSets: "GROUPING SETS",
    exp.TimestampTrunc: "DATE_TRUNC",
    exp.DateDiff: "DATE_DIFF",
    exp.LogicalOr: "BOOL_OR",
    exp.LogicalAnd: "BOOL_AND",
    exp.CountIf: "COUNT_IF",
    exp.SimilarTo: "SIMILAR TO",
    exp.RegexpLike: "a regular expression",
    exp.RegexpILike: "a regular expression",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.StrPosition: "POSITION",
    exp.Tuple: "a list of columns in brackets",
    exp.DPipe: "||",
    exp.Distinct: "DISTINCT",
    exp.WithinGroup: "WITHIN GROUP",
}

_A_DATE: Final = "a date that is written down, such as DATE '2026-11-16': what is asked must not change while it waits"
_LEVELS: Final = "one statement for each level, or the finest level and sums of its released rows"
_A_LIST: Final = "COUNT(*) by the column: a list of values shows rows of people"
_PATTERN: Final = "LIKE with % and _, SUBSTRING or LEFT"
_A_MONTH: Final = "DATE_TRUNC('month', ...), or EXTRACT(year FROM ...) and EXTRACT(month FROM ...)"
_GROUPED: Final = "the column in GROUP BY: one row's value is one person's"
_A_COLUMN: Final = "columns of numbers, text, booleans or dates: the owner can register a table with the value in one"

FIXES: Final[dict[type[exp.Expr], str]] = {
    exp.Rand: "the same without a random value",
    exp.CurrentTimestamp: _A_DATE,
    exp.CurrentDate: _A_DATE,
    **dict.fromkeys((exp.GroupConcat, exp.ArrayAgg), _A_LIST),
    exp.ExplodingGenerateSeries: "(VALUES (...), (...)) AS k(day), or a public table of days",
    **dict.fromkeys((exp.Rollup, exp.Cube, exp.GroupingSets), _LEVELS),
    exp.Corr: "AVG of the products and of the two columns",
    exp.Qualify: "the window in a subquery, and WHERE around it",
    exp.Ntile: "fixed limits with CASE or WIDTH_BUCKET; a global window compares people, and only "
    "PARTITION BY the unit is private",
    **dict.fromkeys((exp.SimilarTo, exp.RegexpLike, exp.RegexpILike, exp.RegexpExtract, exp.RegexpReplace), _PATTERN),
    **dict.fromkeys((exp.Replace, exp.StrPosition, exp.Right, exp.Split), _PATTERN),
    exp.NullSafeNEQ: "<>, and IS NULL beside it",
    exp.NullSafeEQ: "=, and IS NULL beside it",
    **dict.fromkeys((exp.Any, exp.All), "IN (...) with constants, or a condition for each"),
    exp.AtTimeZone: "the date alone: a moment counts as its day in UTC",
    exp.Mode: "COUNT(*) by the column, ORDER BY it DESC",
    exp.ApproxDistinct: "COUNT(DISTINCT the unit)",
    **dict.fromkeys((exp.AnyValue, exp.First, exp.Last), _GROUPED),
    **dict.fromkeys((exp.JSONExtract, exp.JSONExtractScalar, exp.Bracket, exp.Dot), _A_COLUMN),
    exp.TimeToStr: _A_MONTH,
    exp.AddMonths: "date + INTERVAL '3' MONTH",
    exp.LastDay: "DATE_TRUNC('month', date) + INTERVAL '1' MONTH - INTERVAL '1' DAY",
    exp.MonthsBetween: "DATE_DIFF('month', the earlier, the later)",
    exp.Lateral: "a join",
    exp.Week: "EXTRACT(week FROM ...)",
    exp.ConcatWs: "|| between texts",
}

FIXES_BY_NAME: Final = {
    "DP_INTERVAL_LOW": "the aggregate alone: its _lower and _upper columns come with it",
    "DP_INTERVAL_HIGH": "the aggregate alone: its _lower and _upper columns come with it",
    "AGE": "DATE_DIFF('month', the earlier, the later)",
    "STRFTIME": _A_MONTH,
    "DATE_FORMAT": _A_MONTH,
    "REGEXP_MATCHES": _PATTERN,
    "MAKE_DATE": "DATE '2026-11-16', written down",
    "READ_CSV": "a registered table, or a public table that is named beside the statement",
    "READ_PARQUET": "a registered table, or a public table that is named beside the statement",
}

ARGUMENTS: Final[dict[str, tuple[str, str]]] = {
    "qualify": ("QUALIFY", "the window in a subquery, and WHERE around it"),
    "sample": ("TABLESAMPLE", "the whole table: a sample does not cost less here"),
    "all": ("GROUP BY ALL", "GROUP BY with the columns named"),
    "recursive": ("RECURSIVE", "WITH without RECURSIVE"),
    "laterals": ("LATERAL", "a join"),
    "locks": ("FOR UPDATE", "the statement without FOR"),
    "into": ("INTO", "SELECT without INTO"),
    "method": ("NATURAL or ASOF JOIN", "JOIN ... USING (columns)"),
    **dict.fromkeys(("rollup", "cube", "grouping_sets"), ("ROLLUP, CUBE or GROUPING SETS", _LEVELS)),
    "pivots": ("PIVOT", "COUNT(*) FILTER (WHERE ...) for each column"),
    "windows": ("WINDOW", "OVER (...) where the window is used"),
    "distribute": ("DISTRIBUTE BY", "the statement without it"),
    "on_conflict": ("ON CONFLICT", "a SELECT statement"),
}
"""Arguments of a node that are words of SQL, and what works without them."""

_OF_NODES: Final[dict[tuple[type[exp.Expr], str], tuple[str, str]]] = {
    (exp.Trim, "expression"): ("other characters in TRIM", "TRIM(column), which takes spaces away"),
    (exp.Lag, "default"): ("a default in LAG", "COALESCE(LAG(...), the default)"),
    (exp.Lead, "default"): ("a default in LEAD", "COALESCE(LEAD(...), the default)"),
    (exp.PercentileCont, "expression"): (
        "PERCENTILE_CONT with two arguments",
        "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)",
    ),
    (exp.Distinct, "on"): ("DISTINCT ON", "ROW_NUMBER() OVER (PARTITION BY the unit ORDER BY ...) = 1"),
    (exp.Table, "catalog"): ("a database before the table", "the table's name alone"),
    (exp.Column, "catalog"): ("a database before the column", "the table's name, or nothing"),
}


def spelled(node: exp.Expr) -> str:
    """The word of SQL that a node stands for."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).upper()
    kind = type(node)
    return WORDS_OF.get(kind) or (kind.sql_name() if issubclass(kind, exp.Func) else kind.key.upper())


def of_argument(node: exp.Expr, key: str) -> tuple[str, str]:
    """Name of an argument of a node, and what works without it."""
    found = _OF_NODES.get((type(node), key)) or ARGUMENTS.get(key)
    return found or (f"a part of {spelled(node)} ({key.strip('_').replace('_', ' ')})", f"{spelled(node)} without it")
