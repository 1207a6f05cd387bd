"""A few dozen rows for each table of ``schema.toml``, the same every time."""

from __future__ import annotations

import datetime
import functools
import random
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
UNITS = 30
FIRST_DAY = datetime.date(2026, 1, 1)
DAYS = 90

TEXTS = {
    "diagnosis": ["C18", "C50", "I21", "J45", "S72", None],
    "remark": ["fall at home", "Fall on ice", "referred", None],
    "treatment": ["chemo", "physiotherapy", "insulin"],
    "phone": ["13-555", "29-555", "31-555"],
    "page": ["/", "/sale", "/shoes", "/help"],
    "municipality": ["Bern", "Biel", "Carouge", "Winterthur"],
    "nationality": ["CH", "DE", "IT", "PT"],
}
OWNED = {"order_id": 3, "case_id": 3, "session_id": 4}
"""Identifiers that belong to one unit, and how many a unit has: the same pair of unit and number in every table."""

PUBLIC: dict[str, list[tuple[Any, ...]]] = {
    "wards": [
        ("cardiology", "A", 1, 24), ("emergency", "A", 0, 12), ("maternity", "B", 2, 18), ("oncology", "B", 3, 30),
        ("surgery", "C", 1, 40),
    ],
    "regions": [("east", "East", 41000), ("north", "North", 52000), ("south", "South", 38000), ("west", "West", 61000)],
    "nations": [
        ("AT", "Europe", "EUR"), ("BR", "America", "BRL"), ("CH", "Europe", "CHF"), ("DE", "Europe", "EUR"),
        ("FR", "Europe", "EUR"), ("US", "America", "USD"),
    ],
    "sectors": [
        ("A", "Farming", "primary"), ("C", "Industry", "secondary"), ("F", "Building", "secondary"),
        ("G", "Trade", "tertiary"), ("K", "Finance", "tertiary"), ("Q", "Health", "tertiary"),
    ],
    "zones": [
        ("airport", "outer"), ("centre", "inner"), ("harbour", "outer"), ("park", "inner"), ("station", "inner"),
    ],
    "parts": [
        (number, f"Brand#{12 + number % 3 * 11}", ("PROMO TIN", "STANDARD STEEL")[number % 2],
         ("SM CASE", "MED BAG", "MED BOX")[number % 3], 1 + number % 15)
        for number in range(1, 31)
    ],
    "calendar": [
        (day, day.strftime("%A"), day.isocalendar().week, day.month, (day.month + 2) // 3, day.year, day.day == 1)
        for day in (FIRST_DAY + datetime.timedelta(days=number) for number in range(DAYS))
    ],
}  # fmt: skip


@functools.cache
def schema() -> dict[str, Any]:
    """The registered tables, as ``schema.toml`` says them."""
    return tomllib.loads((HERE / "schema.toml").read_text(encoding="utf-8"))


def statements() -> list[dict[str, Any]]:
    """The two hundred records, in the order of the file."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "statements.toml").read_text(encoding="utf-8"))["statement"]
    return found


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of one table."""
    table = schema()["table"][name]
    if table.get("public"):
        return [dict(zip(table["columns"], row, strict=True)) for row in PUBLIC[name]]
    rng = random.Random(name)
    one_each = table["max_groups"] * table["max_rows_per_group"] == 1
    return [
        {column: _value(rng, column, told, unit, table["unit"]) for column, told in table["columns"].items()}
        for unit in range(1, UNITS + 1)
        for _ in range(1 if one_each else rng.randint(0, 6))
    ]


def _value(rng: random.Random, column: str, told: dict[str, Any], unit: int, unit_column: str) -> Any:
    """One value of the declared type, inside its bounds or keys."""
    if column == unit_column:
        return unit
    if column in OWNED:
        return unit * 10 + rng.randrange(OWNED[column])
    if "keys" in told:
        return rng.choice(told["keys"])
    if "bounds" in told:
        low, high = told["bounds"]
        return rng.randint(low, high) if told["type"] == "integer" else round(rng.uniform(low, high), 2)
    day = FIRST_DAY + datetime.timedelta(days=rng.randrange(DAYS))
    return {
        "integer": lambda: rng.randint(1, UNITS),
        "text": lambda: rng.choice(TEXTS[column]),
        "boolean": lambda: rng.random() < 0.4,
        "date": lambda: day,
        "timestamp": lambda: datetime.datetime.combine(day, datetime.time(rng.randrange(24), rng.randrange(60))),
    }[told["type"]]()
