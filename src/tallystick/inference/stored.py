"""Cells of a stored release: the CSV file of a table and the JSON of its privacy card are enough.

What is asked and how noisy it is are read from the plan that the card carries, whose hash must be that of its text and
of the card; the parts that the card shows must have the plan's noise, and the table the intervals that follow from it.
An edit of one of these is found. An edit of all of them is not, because only the ledger knows
(``tallystick card verify --table``).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.noise import Noise
from tallystick.inference.released import SELECTED, Released
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.printing import csv_cell, csv_value, visible
from tallystick.regular_file import read_text
from tallystick.strict_json import read, written

SCHEMA, PLAN = "tallystick/card", "tallystick/plan/1"
_LAWS = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace}
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII)


def from_csv(
    table: str | Path, card: str | Path, *, measure: str, of: int | None = None
) -> dict[tuple[str, ...], Released]:
    """The cells of one measure by their groups (tuples of texts).

    ``table`` is the CSV file and ``card`` its JSON card: a ``Path``, or the text. Counts, sums from 0 and histograms
    are single noisy numbers and can be read back; what is computed from several (means, quantiles, variances) is not
    in a CSV file and is refused. ``of`` is as in :class:`Released`; it may be given only where a unit counts once,
    which the card says. Card and table must agree with each other; check a stranger's card first.

    >>> from_csv("n\\n5\\n", "{}", measure="n")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: card = 'this text' is not allowed; give JSON of format tallystick/card
    """
    with written("card", SCHEMA):
        facts = read(_text("card", card, "{"), name="card")
        if facts["schema"] != SCHEMA:
            raise InvalidInput("card", facts["schema"], SCHEMA)
        plan = _plan_of(facts)
        query, threshold = plan["query"], plan["noise"]["threshold"]
        groups = [str(one) for one in query["group_by"]]
        described = {_column_of(name, kind): kind for name, kind in query["measures"]}
        text = _text("table", table, "\n")
        measure = _as_headed(measure, text)
        name = measure.split("[")[0].removesuffix(LIMITED)
        name = name if name in described else measure.split("[")[0]
        if name not in described:
            raise InvalidInput("measure", visible(measure), f"one of {visible(', '.join(described))}")
        noise = _noise_of(described[name], plan, facts["mechanisms"]["parts"])
        once = query["table"]["max_groups"] == 1 and query["table"]["max_rows"] == 1
        compared = threshold is not None and described[name]["kind"] == "count_units"
        least = float(threshold) if compared else None
        known = _known_groups(query["keys"])
        sample = str(facts["evidence"].get("charge", plan["hash"]))
    if of is not None and not once:
        raise Refused("no public share: a unit may count more than once in this table. Try: noise_interval()")
    if of is not None and threshold is not None and not compared:
        raise Refused(SELECTED)
    cells: dict[tuple[str, ...], Released] = {}
    for row in _rows(text, [*groups, measure]):
        written_key = tuple(row[csv_cell(group)] for group in groups)
        key = tuple(map(csv_value, written_key))
        key = written_key if known is not None and key not in known else key  # an earlier version escaped less
        if key in cells or (known is not None and key not in known):
            raise InvalidInput("table", "a group that is there twice, or not in the plan", "the CSV file of a release")
        value = _number(row[csv_cell(measure)])
        cells[key] = Released(value, noise, " ".join([measure, *key]), of, least, sample)
        _compare(row, csv_cell(measure), Released(value, noise, shown_from=least))
    return cells


def _column_of(name: str, measure: dict[str, Any]) -> str:
    """The name of a measure's column: it may say that limits per person touch it."""
    return f"{name}_limited" if measure.get("says_limited") is True else name


LIMITED = "_limited"
"""The end of the name of a column that limits per person touch."""


def _as_headed(measure: str, table: str) -> str:
    """Return the name of a measure's column in a table: it may say that limits per person touch it."""
    try:
        header = next(csv.reader(io.StringIO(table)), [])
    except csv.Error:
        return measure  # the table is refused where its rows are read
    said = measure + LIMITED
    return said if csv_cell(said) in header and csv_cell(measure) not in header else measure


def _text(argument: str, given: str | Path, has: str) -> str:
    """The text itself, or that of a file."""
    if isinstance(given, Path):
        try:
            return read_text(given)
        except (OSError, UnicodeDecodeError) as problem:
            raise InvalidInput(
                argument, f"a file that cannot be read ({type(problem).__name__})", "a text file"
            ) from None
    if not isinstance(given, str):
        raise InvalidInput(argument, f"a value of type {type(given).__name__}", "a text, or a pathlib.Path")
    if has not in given:
        allowed = "the text of the file; its name is given as pathlib.Path(name)"
        raise InvalidInput(argument, "a text in one piece, such as the name of a file", allowed)
    return given


def _plan_of(facts: Any) -> Any:
    """The plan in a card, if it is whole."""
    plan = facts["again"]["plan"]
    if plan["format"] != PLAN:
        raise InvalidInput("card", visible(str(plan["format"])), "the card of a table")
    content = {name: plan[name] for name in ("format", "query", "budget", "noise")}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    if not hashlib.sha256(text.encode()).hexdigest() == plan["hash"] == facts["accounting"]["plan_hash"]:
        raise InvalidInput("card", "a card whose plan was changed", "the card of a release, as it was written")
    return plan


def _noise_of(measure: dict[str, Any], plan: Any, parts: list[dict[str, Any]]) -> Noise:
    """The law of the single part behind a measure: the plan's, which the part on the card must have too."""
    kind, column = measure["kind"], measure.get("column")
    labels = {
        "count": "rows",
        "count_units": "units",
        "sum": f"total of {column}",
        "histogram": f"{len(measure.get('edges', [])) - 1} bins of {column}",
    }
    scales = plan["noise"]["scales"]
    found = [(part, scale) for part, scale in zip(parts, scales, strict=True) if part["part"] == labels.get(kind)]
    if len(found) != 1 or (kind == "sum" and measure.get("lower") != 0):
        raise Refused(
            f"a {visible(str(kind))} cannot be read back from a CSV file: it is made of several noisy numbers. Try: "
            "counts, sums from 0 and histograms; the intervals in the file itself; the release in the ledger"
        )
    part, scale = found[0]
    step, law = check.between("step", part["step"], 1e-300, 1e300), plan["noise"]["law"]
    if part["noise"] != f"discrete {law.capitalize()}" or not math.isclose(part["scale"], scale * step, rel_tol=1e-9):
        raise InvalidInput("card", "another noise than its plan has", "the card of a release, as it was written")
    noise = Noise(_LAWS[law](check.between("scale", scale, 2.0**-1000, 2.0**50)), step)
    whole = kind == "histogram" or (kind == "sum" and measure.get("whole"))
    return replace(noise, rounding=0.5) if whole else noise  # shown as whole numbers


def _known_groups(keys: Any) -> set[tuple[str, ...]] | None:
    """The groups as the table shows them; None where the data proposed them."""
    if keys is None:
        return {()}
    if "public" not in keys:
        return None
    return {tuple(f"{v:.10g}" if isinstance(v, float) else str(v) for v in row) for row in keys["public"]["rows"]}


def _rows(table: str, columns: list[str]) -> list[dict[str, str]]:
    wanted = [csv_cell(column) for column in columns]
    allowed = f"the text of a CSV file with the columns {visible(', '.join(wanted))}, each once"
    try:
        reader = csv.DictReader(io.StringIO(table), strict=True)
        names = list(reader.fieldnames or [])
        rows = [row for row in reader if set(wanted) <= set(names)]
    except (csv.Error, TypeError):
        raise InvalidInput("table", "no CSV text", allowed) from None
    bent = any(None in row or None in row.values() for row in rows)
    if not rows or bent or len(set(names)) != len(names):
        raise InvalidInput("table", "a text without these columns", allowed)
    return rows


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise InvalidInput("table", "a cell that is not a number", "a CSV file with a number in every cell")
    return check.finite("table", float(text))


def _compare(row: dict[str, str], measure: str, cell: Released) -> None:
    """The cell must be one that this noise makes, in the interval that the table itself gives it."""
    steps = 0.0 if cell.noise.rounding else cell.value / cell.noise.step
    off = abs(steps - round(steps)) > 1e-6 + 1e-9 * abs(steps)
    low, high = cell.noise_interval()
    if cell.shown_from is not None:
        low, high = math.ceil(max(low, 0.0) - 1e-9), math.floor(high + 1e-9)
    # Rounded: a histogram is shown in whole numbers with ends rounded outward, everything to ten digits.
    slack = 1.0 + cell.noise.rounding if cell.noise.rounding else 1e-9 * (abs(cell.value) + high - low)
    for name, end in ((f"{measure}_lower", low), (f"{measure}_upper", high)):
        if name in row and abs(_number(row[name]) - end) > slack:
            off = True
    if off:
        raise InvalidInput("table", "a cell that does not follow from the card", "the CSV file of the card's release")
