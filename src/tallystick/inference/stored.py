"""Cells of a stored release: the CSV file of a table and the JSON of its privacy card are enough."""

from __future__ import annotations

import csv
import io
from typing import Any

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.noise import Noise
from tallystick.inference.released import SELECTED, Released
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.strict_json import read, written

SCHEMA = "tallystick/card"
_LAWS = {"discrete Gaussian": DiscreteGaussian, "discrete Laplace": DiscreteLaplace}


def from_csv(table: str, card: str, *, measure: str, of: int | None = None) -> dict[tuple[str, ...], Released]:
    """The cells of one measure by their groups: ``table`` is the text of the CSV file, ``card`` that of its JSON card.

    Counts, sums from 0 and histograms are single noisy numbers and can be read back; what is computed from several
    (means, quantiles, variances) is not in a CSV file and is refused. ``of`` is as in :class:`Released`; it may be
    given only where a unit counts once, which the card says. The card is believed: check a stranger's card first.

    >>> from_csv("n\\n5\\n", "{}", measure="n")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: card = 'this text' is not allowed; give JSON of format tallystick/card
    """
    with written("card", SCHEMA):
        facts = read(card, name="card")
        if facts["schema"] != SCHEMA:
            raise InvalidInput("card", facts["schema"], SCHEMA)
        groups, shown = [str(one) for one in facts["released"]["group_by"]], facts["released"]["groups"]
        described = {one["name"]: one for one in facts["released"]["measures"]}
        name = measure.split("[")[0]
        if name not in described:
            raise InvalidInput("measure", measure, f"one of {', '.join(described)}")
        noise = _noise_of(described[name], facts["mechanisms"]["parts"])
        once = facts["protected"]["max_groups"] == 1 and facts["protected"]["max_rows_per_group"] == 1
        chosen = shown["kind"] == "private"
        compared = chosen and described[name]["kind"] == "count_units"
        least = float(shown["threshold"]) if compared else None
        sample = str(facts["evidence"].get("charge", facts["accounting"]["plan_hash"]))
    if of is not None and not once:
        raise Refused("no public share: a unit may count more than once in this table. Works: noise_interval()")
    if of is not None and chosen and not compared:
        raise Refused(SELECTED)
    cells: dict[tuple[str, ...], Released] = {}
    for row in _rows(table, [*groups, measure]):
        key = tuple(row[group] for group in groups)
        if key in cells:
            raise InvalidInput("table", "a group that is there twice", "the CSV file of a release")
        cells[key] = Released(_number(row[measure]), noise, " ".join([measure, *key]), of, least, sample)
    return cells


def _noise_of(measure: dict[str, Any], parts: list[dict[str, Any]]) -> Noise:
    """The law of the single part behind a measure."""
    kind, column = measure["kind"], measure.get("column")
    labels = {
        "count": "rows",
        "count_units": "units",
        "sum": f"total of {column}",
        "histogram": f"{len(measure.get('edges', [])) - 1} bins of {column}",
    }
    found = [part for part in parts if part["part"] == labels.get(kind)]
    if len(found) != 1 or (kind == "sum" and measure.get("lower") != 0):
        raise Refused(
            f"a {kind} cannot be read back from a CSV file: it is made of several noisy numbers. Works: counts, sums "
            "from 0 and histograms; the intervals in the file itself; the release in the ledger"
        )
    step = check.between("step", found[0]["step"], 1e-300, 1e300)
    scale = check.between("scale", found[0]["scale"] / step, 2.0**-1000, 2.0**50)
    # bins are counted in fractions of a row and shown as whole numbers
    return Noise(_LAWS[found[0]["noise"]](scale), step, 0.5 if kind == "histogram" else 0.0)


def _rows(table: str, columns: list[str]) -> list[dict[str, str]]:
    allowed = f"the text of a CSV file with the columns {', '.join(columns)}"
    try:
        reader = csv.DictReader(io.StringIO(table))
        rows = [row for row in reader if set(columns) <= set(reader.fieldnames or [])]
    except (csv.Error, TypeError):
        raise InvalidInput("table", "no CSV text", allowed) from None
    if not rows or any(row[column] is None for row in rows for column in columns):
        raise InvalidInput("table", "a text without these columns", allowed)
    return rows


def _number(text: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise InvalidInput("table", "a cell that is no number", "a CSV file with a number in every cell") from None
