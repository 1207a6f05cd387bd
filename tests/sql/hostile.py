"""What a statement may not do with people's rows, to be mixed with what it may.

``RELATIONS`` make rows with the columns of t, so that they nest like the allowed ones. Most of them are not unit-local;
some are and are refused all the same (``LOCAL_BUT_REFUSED``). A statement with one of them may only be planned where
the unit-local oracle agrees.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

TEMPLATES: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("templates.toml").read_text(encoding="utf-8")
)

RELATIONS = TEMPLATES["hostile"]
"""Joins on anything but the unit, set operations without it, what hides it, what looks at others."""

ADDED_UP = ("alias that hides the unit", "unit that may be missing", "grouped without the unit", "nested aggregates")
"""Among these are groups of many units' rows: no rows to go on with, but an answer, which is what is judged then."""

LOCAL_BUT_REFUSED = (
    "unit IS NOT DISTINCT FROM",
    "FIRST_VALUE and LAST_VALUE",
    "other frames of a window",
    "unit in IN or EXISTS under OR",
)
"""These are unit-local in the small tables, which miss no unit, and are not read all the same."""

OUTPUTS = TEMPLATES["outputs"]
"""Outputs that show rows or compare people."""

DEEP = [
    "SELECT COUNT(*) AS m FROM " + "(SELECT * FROM " * 12 + "<R>" + ") AS n" * 12,
    "SELECT COUNT(*) AS m FROM " + "(SELECT * FROM " * 40 + "t" + ") AS n" * 40,
    "SELECT SUM(" + "(x + " * 28 + "1" + ")" * 28 + ") AS m FROM <R>",
    "SELECT COUNT(*) AS m FROM <R> WHERE " + "NOT " * 35 + "flag",
    "SELECT COUNT(*) AS m FROM <R> WHERE " + " OR ".join(f"x = {i}" for i in range(90)),
    f"SELECT COUNT(*) AS m FROM <R> WHERE x IN ({', '.join(map(str, range(2000)))})",
]
WHOLE = {**TEMPLATES["whole"], "deep": DEEP}
"""Whole statements that must not be answered, or not as they stand."""

FOUND = TEMPLATES["found"]["found"]
"""Statements that were planned though the oracle rejects them."""
