"""Random statements about the small tables, each known by its seed and number, with what it is made of written down.

Relations nest: every construct takes rows with the columns of ``t`` and makes rows with the same columns, so that any
of them can stand inside any other. A number decides which construct a statement must hold; the rest is drawn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sql import hostile
from sql.small_tables import GROUPS

ALL = ("unit", "id", "g", "h", "flag", "x", "y", "d")


@dataclass(frozen=True)
class Written:
    """A statement, how many of its columns are groups, and what it is made of.

    ``hostile`` are its constructs that section 2.1 of the theory forbids; ``comparable`` says that plain SQL must give
    the same numbers.
    """

    name: str
    text: str
    keys: int
    constructs: frozenset[str]
    hostile: frozenset[str]
    comparable: bool


def written(seed: int, number: int) -> Written:
    """The statement of this name; its number says what it must hold."""
    writer = Writer(random.Random(f"{seed}/{number}"))
    text, keys = writer.led_by(LEADS[number % len(LEADS)])
    return Written(f"{seed}/{number}", text, keys, frozenset(writer.used), frozenset(writer.hostile), writer.comparable)


@dataclass
class Writer:
    """Writes one statement."""

    rng: random.Random
    used: set[str] = field(default_factory=set)
    hostile: set[str] = field(default_factory=set)
    comparable: bool = True
    forced: list[str] = field(default_factory=list)
    queries: list[tuple[str, str]] = field(default_factory=list)
    joins: int = 0
    lead: str = ""

    def pick(self, *choices: Any) -> str:
        made = self.rng.choice(choices)
        return str(made() if callable(made) else made)

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def use(self, construct: str, text: str) -> str:
        self.used.add(construct)
        return text

    # ---- expressions: ``of`` stands in front of every column

    def drawn(self, choices: tuple[tuple[str, str], ...], of: str, depth: int) -> str:
        """One of the templates; @ is in front of columns, and only what is chosen is written."""
        known = [each for each in choices if each[0] not in AWAITED or each[0] == self.lead]
        name, template = self.rng.choice(known)
        self.used.add(name)
        places: dict[str, Callable[[], str]] = {
            "w": lambda: self.whole(of, depth - 1), "n": lambda: self.number(of, depth - 1),
            "s": lambda: self.simple(of), "digit": self.digit, "hundred": lambda: str(self.rng.randint(0, 100)),
            "sign": lambda: self.pick("=", "<>", "<", "<=", ">", ">="), "not": lambda: self.pick("", "NOT "),
            "text": lambda: self.text(of), "day": lambda: self.day(of), "group": lambda: self.pick(*GROUPS),
            "column": lambda: self.pick("g", "x", "y", "d"),
            "unit": lambda: self.pick("month", "year", "quarter", "week"),
            "part": lambda: self.pick("MONTH", "QUARTER", "DAY", "ISODOW"),
        }  # fmt: skip
        return re.sub(r"<(\w+)>", lambda found: places[found[1]](), template).replace("@", of)

    def whole(self, of: str = "", depth: int = 1) -> str:
        """A whole number within public bounds."""
        return self.pick("@x", "@h", self.digit).replace("@", of) if depth <= 0 else self.drawn(_WHOLES, of, depth)

    def digit(self) -> str:
        return str(self.rng.randint(0, 9))

    def number(self, of: str = "", depth: int = 1) -> str:
        """A number within public bounds, whole or not."""
        return self.pick("@y", "@x", "@h").replace("@", of) if depth <= 0 else self.drawn(_NUMBERS, of, depth)

    def text(self, of: str = "") -> str:
        return self.drawn(_TEXTS, of, 0)

    def day(self, of: str = "") -> str:
        return self.drawn(_DAYS, of, 0)

    def simple(self, of: str = "") -> str:
        return self.drawn(_CONDITIONS, of, 0)

    def condition(self, of: str = "", depth: int = 1) -> str:
        if depth > 0 and self.maybe(0.4):
            joint = self.pick("AND", "OR")
            self.used.add(joint)
            no = self.use("NOT", "NOT ") if self.maybe(0.3) else ""
            return f"({self.condition(of, depth - 1)} {joint} {no}{self.condition(of, depth - 1)})"
        return self.drawn(_CONDITIONS + _COMPARED, of, 2)

    # ---- relations with the columns of t

    def relation(self, depth: int) -> str:
        """A SELECT of rows; a forced construct first, at some depth."""
        forced = bool(self.forced) and (depth <= 1 or self.maybe(0.6))
        kind = self.forced.pop() if forced else self.rng.choice(_OTHER)
        if kind in hostile.RELATIONS:
            self.hostile.add(kind)
            return self.filled(self.rng.choice(hostile.RELATIONS[kind]), depth)
        if kind in WINDOWS:
            return self.windows(depth, kind)
        if kind in PER_UNIT:
            return self.per_unit(depth, kind)
        self.used.add(kind)
        self.joins += "join" in kind
        return self.filled(self.rng.choice(LOCAL[kind]), depth)

    def filled(self, template: str, depth: int) -> str:
        """A template with its places filled: <R> and <S> are rows like t's under the names a and b, <U> rows of u."""
        places: dict[str, Callable[[], str]] = {
            "R": lambda: self.item(depth - 1, "a"), "S": lambda: self.item(min(depth - 1, 1), "b"),
            "U": self.other, "all": lambda: ", ".join(ALL), "aall": lambda: ", ".join(f"a.{c}" for c in ALL),
            "c": self.condition, "ca": lambda: self.condition("a."), "n": lambda: str(self.rng.randint(0, 9)),
            "cb": lambda: self.pick("b.z > 3", "b.k = 'a'", "b.z IS NOT NULL", "b.k IN ('a', 'r')", "b.z % 2 = 0"),
            "cu": lambda: self.pick("z > 3", "k = 'a'", "z IS NOT NULL", "k IN ('a', 'r')", "z % 2 = 0"),
            "order": self.order, "whole": self.whole, "number": self.number, "text": self.text,
        }  # fmt: skip
        return re.sub(r"<(\w+)>", lambda found: places[found[1]](), template)

    def item(self, depth: int, alias: str) -> str:
        """Something in FROM with the columns of t."""
        if (depth <= 0 or self.joins > 1) and not self.forced:
            return self.pick(f"t AS {alias}", f"t {alias}", f"public.t AS {alias}")
        made = self.relation(max(depth, 1))
        if self.maybe(0.2):
            name = f"w{len(self.queries)}"
            self.queries.append((name, made))
            return self.use("CTE", f"{name} AS {alias}")
        return f"({made}) AS {alias}"

    def other(self) -> str:
        """Something in FROM with the columns of u."""
        return self.pick(
            "u AS b", "u AS b", lambda: self.filled("(SELECT * FROM u WHERE <cu>) AS b", 0),
            "(SELECT unit, MAX(id) AS id, MIN(k) AS k, SUM(z) AS z FROM u GROUP BY unit) AS b",
            "(SELECT unit, id, k, z FROM u UNION ALL SELECT unit, id, 'a' AS k, h AS z FROM t WHERE x > 50) AS b",
        )  # fmt: skip

    def order(self) -> str:
        """An order of all columns: rows that tie are equal, so that no engine's choice shows."""
        columns = self.rng.sample(ALL[1:], len(ALL) - 1)
        return ", ".join(f"{c}{self.pick('', '', ' DESC')}" for c in columns)

    def windows(self, depth: int, kind: str) -> str:
        """Columns replaced by functions of the rows of one unit."""
        chosen = [kind, *self.rng.sample(list(WINDOWS), self.rng.choice((0, 1, 2)))]
        made = dict(zip(ALL, ALL, strict=True))
        for each in dict.fromkeys(chosen):
            column, function = self.rng.choice(WINDOWS[each])
            if made[column] == column:
                parts = "unit" + self.pick("", "", ", g", lambda: f", {self.text()}")
                made[column] = f"{self.filled(function, 1).replace('<<', parts)} AS {column}"
                self.used.add(each)
        self.used.add(kind)
        listed, named = ", ".join(made.values()), self.maybe(0.3)
        inner = f"SELECT {listed} FROM {self.item(depth - 1, 'a')}"
        return f"SELECT {', '.join(ALL)} FROM ({inner}) AS w WHERE {self.condition()}" if named else inner

    def per_unit(self, depth: int, kind: str) -> str:
        """One row for each unit and values of some columns."""
        made = {"unit": "unit", **{c: self.rng.choice(texts) for c, texts in _TOTALS.items()}}
        column = self.rng.choice(list(PER_UNIT[kind]))
        made[column] = PER_UNIT[kind][column]
        self.used |= {"grouped by the unit", kind}
        by = "" if column == "g" else self.pick("", "g", "text")
        if by:
            made["g"] = "g" if by == "g" else self.text()
        outputs = [text if text == c else f"{text} AS {c}" for c, text in ((c, made[c]) for c in ALL)]
        key = "" if not by else f", {self.pick('g', '3') if by == 'g' else '3'}"
        having = f" HAVING COUNT(*) < {self.rng.randint(2, 4)}" if self.maybe(0.25) else ""
        where = f" WHERE {self.condition()}" if self.maybe(0.4) else ""
        text = f"SELECT {', '.join(outputs)} FROM {self.item(depth - 1, 'a')}{where} GROUP BY unit{key}{having}"
        return self.filled(text, 1)

    # ---- statements

    def led_by(self, lead: str) -> tuple[str, int]:
        """A statement with this construct in it."""
        self.lead = lead
        if lead in hostile.WHOLE:
            self.hostile.add(lead)
            self.comparable = False
            return self.with_queries(self.filled(self.rng.choice(hostile.WHOLE[lead]), self.rng.randint(1, 2))), 0
        if lead == "mangled":
            text, keys = self.statement(1)
            return self.mangled(text), keys
        if lead in UNIT_LOCAL or lead in hostile.RELATIONS:
            self.forced = [lead]
            return self.statement(self.rng.choice((1, 1, 2, 3)))
        if lead == "mixture":
            self.forced = self.rng.sample([*hostile.RELATIONS, *UNIT_LOCAL], 2)
            return self.statement(3)
        return self.statement(self.rng.choice((0, 0, 1, 2)), lead)

    def with_queries(self, text: str) -> str:
        if not self.queries:
            return text
        return f"WITH {', '.join(f'{name} AS ({query})' for name, query in self.queries)} {text}"

    def aggregate(self) -> str:
        made = self.drawn(_AGGREGATES, "", 2)
        if self.maybe(0.2):
            made += self.use("FILTER", f" FILTER (WHERE {self.condition()})")
        return made

    def key(self) -> str:
        return self.pick(
            "g", "g", "h", "flag", self.text, self.text, lambda: self.use("EXTRACT", "EXTRACT(YEAR FROM d)"), "x > 10",
            lambda: self.use("FLOOR", "FLOOR(x / 10) * 10"), lambda: self.use("DATE_TRUNC", "DATE_TRUNC('month', d)"),
            lambda: self.use("%", "MOD(h, 2)"), lambda: self.use("CASE", "CASE WHEN y > 100 THEN 1 ELSE 0 END"),
        )  # fmt: skip

    def statement(self, depth: int, lead: str = "") -> tuple[str, int]:
        """The text, and how many of its columns are groups."""
        if lead == "public LEFT JOIN":
            return self.with_queries(self.spine(depth)), 1
        keys = list(dict.fromkeys(self.key() for _ in range(self.rng.choice((0, 1, 1, 2) if not lead else (1, 2)))))
        listed = [f"{self.aggregate()} AS m{i}" for i in range(self.rng.randint(1, 3))]
        if lead in hostile.OUTPUTS or self.maybe(0.02):
            self.hostile.add("output")
            listed[-1] = self.pick(*hostile.OUTPUTS["output"])
        outputs = [f"{key} AS k{i}" for i, key in enumerate(keys)] + listed
        source = self.item(depth, "s") if depth or self.forced else self.pick("t", "t AS t", "public.t", "t s")
        text = f"SELECT {', '.join(outputs)} FROM {source}"
        if lead in FUNCTIONS:
            own = tuple(each for each in _CONDITIONS + _COMPARED if lead == each[0])
            text += f" WHERE {self.drawn(own or _HOLDING[lead], '', 2)}"
        elif self.maybe(0.4):
            text += f" WHERE {self.condition(depth=2)}"
        if keys:
            text += self.grouped(keys)
        return self.with_queries(self.after(text, lead, len(keys))), len(keys)

    def grouped(self, keys: list[str]) -> str:
        made = []
        for i, key in enumerate(keys):
            how = self.rng.choice(("expression", "ordinal", "alias"))
            made.append({"expression": key, "ordinal": str(i + 1), "alias": f"k{i}"}[how])
            self.used.add(f"GROUP BY {how}")
        return " GROUP BY " + ", ".join(made)

    def after(self, text: str, lead: str, keys: int) -> str:
        """What is done with the released table."""
        if lead == "OPTIONS":
            self.used.add(lead)
            said = self.pick("rho=0.25", "epsilon=0.5, delta=1e-6", "rho=0.1, max_groups_contributed=25", "error=40")
            text = text.replace("SELECT ", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({said}) ", 1)
        if lead == "arithmetic on aggregates":
            text = text.replace(" FROM ", f", {self.aggregate()} + 2 * COUNT(*) AS c FROM ", 1)
            self.used.add(lead)
        if lead == "window over the output":
            text = text.replace(" FROM ", ", RANK() OVER (ORDER BY COUNT(*) DESC) AS c FROM ", 1)
            self.used.add(lead)
            self.comparable = False
        if lead in ("MEDIAN", "PERCENTILE_CONT", "VARIANCE", "CLAMPED"):
            text = text.replace(" FROM ", f", {_ROBUST[lead]} AS c FROM ", 1)
            self.used.add(lead)
            self.comparable = False
        if keys and (lead == "HAVING" or self.maybe(0.1)):
            text += self.use("HAVING", f" HAVING {self.aggregate()} > {self.rng.randint(0, 3)}.5")
        if keys and (lead == "ORDER BY" or self.maybe(0.2)):
            text += self.use("ORDER BY", f" ORDER BY {self.pick('1', 'k0', self.aggregate)}")
        if lead == "LIMIT":
            text += self.use("LIMIT", f" LIMIT {self.rng.randint(1, 3)}")
            self.comparable = False
        if lead == "SELECT around":
            text = f"SELECT SUM(m0) AS c FROM ({text}) AS whole"
            self.used.add(lead)
            self.comparable = False
        return text

    def spine(self, depth: int) -> str:
        """Public groups LEFT JOIN private rows: groups appear though nobody is in them."""
        self.used.add("public LEFT JOIN")
        item, column = self.item(depth, "a"), self.pick("a.x", "a.unit", "a.id")
        more = f" AND {self.condition('a.')}" if self.maybe(0.4) else ""
        if self.maybe(0.3):
            item = f"(VALUES ('a'), ('b'), ('zz')) AS p(g) LEFT JOIN {item}"
        else:
            item = f"p LEFT JOIN {item}"
        return f"SELECT p.g AS k0, COUNT({column}) AS m0 FROM {item} ON a.g = p.g{more} GROUP BY p.g"

    def mangled(self, text: str) -> str:
        """Words left out, doubled or exchanged."""
        self.hostile.add("mangled")
        self.comparable = False
        words = re.findall(r"\w+|'[^']*'|\S", text)
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            i, j = self.rng.randrange(len(words)), self.rng.randrange(len(words))
            how = self.rng.randrange(4)
            if how == 0 and len(words) > 3:
                del words[i]
            elif how == 1:
                words.insert(i, words[j])
            elif how == 2:
                words[i], words[j] = words[j], words[i]
            else:
                words[i] = self.pick(")", "(", "NULL", "OVER", "''", "-1e999", "LATERAL", '"unit"', "$1", "ALL", "::")
        return " ".join(words)


_WHOLES = (
    ("+", "(<w> + <w>)"), ("-", "(<w> - <w>)"), ("*", "(<w> * <digit>)"), ("ABS", "ABS(<w> - 50)"),
    ("COALESCE", "COALESCE(<w>, 7)"), ("NULLIF", "NULLIF(<w>, 3)"), ("GREATEST", "GREATEST(<w>, 2)"),
    ("LEAST", "LEAST(<w>, <w>)"), ("CASE", "CASE WHEN <s> THEN <w> ELSE <w> END"),
    ("CASE", "CASE WHEN <s> THEN <w> END"), ("CASE", "CASE WHEN <s> THEN 1 ELSE 0 END"),
    ("CASE", "CASE WHEN <s> THEN 30000 ELSE -30000 END"),
    ("unary minus", "(- <w>)"), ("CAST", "CAST(@flag AS INTEGER)"), ("EXTRACT", "EXTRACT(<part> FROM @d)"),
    ("CASE", "CASE @g WHEN 'a' THEN <w> WHEN 'b' THEN <digit> ELSE 1 END"), ("column", "@x"), ("column", "@h"),
)  # fmt: skip
_NUMBERS = (
    ("FLOOR", "FLOOR(<n> / 4)"), ("CEIL", "CEIL(<n> / 4)"), ("ROUND", "ROUND(<n>)"), ("ROUND", "ROUND(<n> / 8, 1)"),
    ("/", "(<n> / 2)"), ("/", "(<n> / 8)"), ("CASE", "CASE WHEN <s> THEN <n> ELSE 0 END"), ("ABS", "ABS(<n>)"),
    ("CAST", "CAST(<n> AS DOUBLE PRECISION)"), ("COALESCE", "COALESCE(<n>, 7)"), ("+", "(<n> + <w>)"),
    ("*", "(<n> * 2)"),
    ("-", "(<n> - <w>)"), ("GREATEST", "GREATEST(<n>, 12)"), ("LEAST", "LEAST(<n>, 300)"), ("column", "@y"),
)  # fmt: skip
_TEXTS = (
    ("UPPER", "UPPER(@g)"), ("LOWER", "LOWER(@g)"), ("SUBSTRING", "SUBSTRING(@g, 1, 1)"), ("||", "(@g || 'z')"),
    ("COALESCE", "COALESCE(@g, 'none')"), ("NULLIF", "NULLIF(@g, 'a')"), ("TRIM", "TRIM(@g)"), ("LEFT", "LEFT(@g, 2)"),
    ("CONCAT", "CONCAT(@g, 'y')"),
    ("CASE", "CASE WHEN @x < 50 THEN 'low' ELSE 'high' END"), ("CAST", "CAST(@h AS TEXT)"),
    ("CASE", "CASE @g WHEN 'a' THEN 'first' WHEN 'b' THEN 'second' END"),
)  # fmt: skip
_AGGREGATES = (
    ("COUNT(*)", "COUNT(*)"), ("COUNT(*)", "COUNT(*)"), ("COUNT(DISTINCT unit)", "COUNT(DISTINCT unit)"),
    ("COUNT(x)", "COUNT(<column>)"), ("COUNT(x)", "COUNT(unit)"), ("SUM", "SUM(<w>)"), ("SUM", "SUM(<n>)"),
    ("SUM", "SUM(x)"),
    ("AVG", "AVG(<n>)"), ("AVG", "AVG(<w>)"), ("AVG", "AVG(y)"), ("SUM", "SUM(y)"),
)  # fmt: skip
_DAYS = (
    ("DATE_TRUNC", "DATE_TRUNC('<unit>', @d)"), ("interval of days", "(@d + INTERVAL '<digit>' DAY)"),
    ("interval of days", "(@d - INTERVAL '2' WEEK)"), ("interval of months", "(@d + INTERVAL '<digit>' MONTH)"),
    ("interval of months", "(@d - INTERVAL '1' YEAR)"), ("CASE", "CASE WHEN @flag THEN @d END"),
)  # fmt: skip
_CONDITIONS = (
    ("comparison", "@x <sign> <hundred>"), ("comparison", "@h <sign> @x"), ("comparison", "@g <sign> '<group>'"),
    ("comparison", "@flag"), ("BETWEEN", "@y BETWEEN <hundred> AND 700"), ("IN list", "@g IN ('a', 'c')"),
    ("IN list", "@h <not>IN (1, 2)"), ("%", "@x % 3 = 1"), ("IS NULL", "@<column> IS <not>NULL"),
    ("IS TRUE", "@flag IS TRUE"), ("IS TRUE", "@flag IS NOT TRUE"), ("LIKE", "@g LIKE 'a%'"),
    ("LIKE", "@g LIKE 'a!%' ESCAPE '!'"),
    ("NOT LIKE", "@g NOT LIKE '%b_'"),
    ("ILIKE", "@g ILIKE 'A%'"), ("LENGTH", "LENGTH(@g) = 1"), ("date", "@d <sign> DATE '2026-06-15'"),
    ("date", "@d >= '2026-03-01'"), ("date difference", "@d - DATE '2026-02-01' < 50"),
    ("date difference", "DATE_DIFF('day', DATE '2026-02-01', @d) < 50"),
    ("date", "@d < DATE '2026-01-31' + INTERVAL '1' MONTH"), ("public IN", "@g IN (SELECT g FROM p WHERE rank > 0)"),
)  # fmt: skip
_COMPARED = (
    ("comparison", "<w> > 3"), ("comparison", "<w> <sign> <w>"), ("comparison", "<n> <sign> <hundred>"),
    ("comparison", "<text> = 'A'"),
    ("CASE", "CASE @h WHEN 2 THEN 'b' WHEN 3 THEN 'c' END <sign> '<group>'"),
    ("comparison", "<text> <sign> @g"), ("comparison", "<day> < DATE '2026-08-01'"),
    ("EXTRACT", "EXTRACT(YEAR FROM @d) = 2026"), ("EXTRACT", "EXTRACT(DOW FROM @d) < 3"),
    ("EXTRACT", "EXTRACT(WEEK FROM @d) > 20"), ("EXTRACT", "EXTRACT(DOY FROM @d) < 200"),
)  # fmt: skip
_ROWS = (_WHOLES, _NUMBERS, _TEXTS, _DAYS, _CONDITIONS, _COMPARED)
"""Row expressions by the function they are about."""

_BESIDE = (" > 3", " > 3", " < 'b'", " < DATE '2026-07-01'")
_HOLDING = {
    name: tuple(
        (name, template + beside)
        for each, beside in zip(_ROWS[:4], _BESIDE, strict=True)
        for own, template in each
        if own == name
    )
    for name in dict.fromkeys(name for each in _ROWS[:4] for name, _ in each)
}
"""Conditions about each function that is none itself."""

LOCAL: dict[str, list[str]] = hostile.TEMPLATES["local"]
"""Relations of one unit's rows, each with the columns of t, by what they are."""

_OVER = "OVER (PARTITION BY <<)"
_ORDERED = "OVER (PARTITION BY << ORDER BY <order>)"
_RUNNING = "OVER (PARTITION BY << ORDER BY <order> ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
WINDOWS: dict[str, tuple[tuple[str, str], ...]] = {
    "window ROW_NUMBER": (("h", f"ROW_NUMBER() {_ORDERED}"),),
    "window RANK": (("h", f"RANK() {_ORDERED}"), ("h", "RANK() OVER (PARTITION BY << ORDER BY g)")),
    "window DENSE_RANK": (("h", f"DENSE_RANK() {_ORDERED}"), ("h", "DENSE_RANK() OVER (PARTITION BY << ORDER BY g)")),
    "window LAG": (("x", f"LAG(x) {_ORDERED}"), ("g", f"LAG(g, 2) {_ORDERED}"), ("d", f"LAG(d) {_ORDERED}")),
    "window LEAD": (("x", f"LEAD(x, 1) {_ORDERED}"), ("y", f"LEAD(y) {_ORDERED}"), ("g", f"LEAD(g) {_ORDERED}")),
    "window COUNT": (("h", f"COUNT(*) {_OVER}"), ("h", f"COUNT(g) {_OVER}"), ("h", f"COUNT(*) {_RUNNING}")),
    "window SUM": (("x", f"SUM(x) {_OVER}"), ("y", f"SUM(y) {_RUNNING}"), ("x", f"SUM(h) {_RUNNING}")),
    "window AVG": (("y", f"AVG(y) {_OVER}"), ("y", f"AVG(x) {_RUNNING}")),
    "window MIN": (("x", f"MIN(x) {_OVER}"), ("d", f"MIN(d) {_OVER}"), ("g", f"MIN(g) {_RUNNING}")),
    "window MAX": (("x", f"MAX(x) {_OVER}"), ("d", f"MAX(d) {_RUNNING}"), ("y", f"MAX(y) {_OVER}")),
    "window BOOL_AND": (("flag", f"BOOL_AND(flag) {_OVER}"), ("flag", f"BOOL_AND(x > 20) {_OVER}")),
    "window BOOL_OR": (("flag", f"BOOL_OR(flag) {_OVER}"), ("flag", f"BOOL_OR(g = 'a') {_OVER}")),
}
"""Functions over the rows of one unit, with the column each replaces; << is what the rows are partitioned by."""

PER_UNIT: dict[str, dict[str, str]] = {
    "per unit COUNT": {"h": "COUNT(*)", "x": "COUNT(g)"},
    "per unit COUNT DISTINCT": {"h": "COUNT(DISTINCT g)", "x": "COUNT(DISTINCT h)"},
    "per unit COUNT FILTER": {"h": "COUNT(*) FILTER (WHERE <c>)"},
    "per unit SUM": {"x": "SUM(x)", "y": "SUM(y)", "h": "SUM(CASE WHEN <c> THEN 1 ELSE 0 END)"},
    "per unit AVG": {"y": "AVG(y)", "x": "AVG(x)"},
    "per unit MIN": {"x": "MIN(x)", "g": "MIN(g)", "d": "MIN(d)"},
    "per unit MAX": {"h": "MAX(h)", "d": "MAX(d)", "y": "MAX(y)", "g": "MAX(g)"},
    "per unit BOOL_OR": {"flag": "BOOL_OR(flag)"},
    "per unit BOOL_AND": {"flag": "BOOL_AND(h > 1)"},
}
"""Totals of one unit's rows, with the column each makes."""

_TOTALS = {
    "id": ("MIN(id)", "MAX(id)"), "g": ("MIN(g)", "MAX(g)"), "h": ("COUNT(*)", "MAX(h)", "MIN(h)"),
    "flag": ("BOOL_OR(flag)", "BOOL_AND(flag)"), "x": ("SUM(x)", "MAX(x)"), "y": ("AVG(y)", "SUM(y)", "MIN(y)"),
    "d": ("MIN(d)", "MAX(d)"),
}  # fmt: skip
_ROBUST = {
    "MEDIAN": "MEDIAN(x)", "PERCENTILE_CONT": "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY y)",
    "VARIANCE": "VARIANCE(x)", "CLAMPED": "SUM(y CLAMPED BETWEEN 0 AND 500)",
}  # fmt: skip

UNIT_LOCAL = (*LOCAL, *WINDOWS, *PER_UNIT)
"""Everything of which a quota must be planned."""

FUNCTIONS = tuple(dict.fromkeys(name for each in _ROWS for name, _ in each))
"""Functions of one row."""

AWAITED = ("NOT LIKE",)
"""What the reader does not know yet: written on its own, and not inside others, which it would only get refused."""

_OTHER = (
    *(("filter", "derived column", "public join", "union all", "join", "left join", "semi-join") * 2),
    *UNIT_LOCAL,
)
FORMS = (
    "OPTIONS", "arithmetic on aggregates", "window over the output", "MEDIAN", "PERCENTILE_CONT", "VARIANCE", "CLAMPED",
    "HAVING", "ORDER BY", "LIMIT", "SELECT around", "public LEFT JOIN",
)  # fmt: skip
LEADS = (
    *UNIT_LOCAL, *FORMS, *FUNCTIONS, *hostile.RELATIONS, *hostile.OUTPUTS, *hostile.WHOLE, "mixture", "mangled",
    *UNIT_LOCAL, *FORMS, *UNIT_LOCAL, *FORMS, "mixture", "mangled",
)  # fmt: skip
"""What statements hold in turn, by their numbers; the first of them once each."""
