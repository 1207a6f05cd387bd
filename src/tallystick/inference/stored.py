"""Cells of a stored release: the CSV file of a table and the JSON of its privacy card are enough."""

from __future__ import annotations

import csv
import io
from typing import Any

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
    given only where a unit counts once, which the card says.

    >>> from_csv("n\\n5\\n", "{}", measure="n")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: card = 'this text' is not allowed; give JSON of format tallystick/card
    """
    with written("card", SCHEMA):
        facts = read(card, name="card")
        if facts["schema"] != SCHEMA:
            raise InvalidInput("card", facts["schema"], SCHEMA)
        groups, shown = list(facts["released"]["group_by"]), facts["released"]["groups"]
        described = {one["name"]: one for one in facts["released"]["measures"]}
        parts = facts["mechanisms"]["parts"]
        once = facts["protected"]["max_groups"] == 1 and facts["protected"]["max_rows_per_group"] == 1
    name = measure.split("[")[0]
    if name not in described:
        raise InvalidInput("measure", measure, f"one of {', '.join(described)}")
    if of is not None and not once:
        raise Refused("no public share: a unit may count more than once in this table. Works: noise_interval()")
    noise, chosen = _noise_of(described[name], parts), shown["kind"] == "private"
    compared = chosen and described[name]["kind"] == "count_units"
    if of is not None and chosen and not compared:
        raise Refused(SELECTED)
    least = float(shown["threshold"]) if compared else None
    return {
        tuple(row[group] for group in groups): Released(
            _number(row[measure]), noise, " ".join([measure, *(row[group] for group in groups)]), of, least
        )
        for row in _rows(table, [*groups, measure])
    }


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
    law = _LAWS[found[0]["noise"]]
    return Noise(law(found[0]["scale"] / found[0]["step"]), found[0]["step"])


def _rows(table: str, columns: list[str]) -> list[dict[str, str]]:
    allowed = f"the text of a CSV file with the columns {', '.join(columns)}"
    rows = csv.DictReader(io.StringIO(table))
    if not set(columns) <= set(rows.fieldnames or []):
        raise InvalidInput("table", "a text without these columns", allowed)
    return list(rows)


def _number(text: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        raise InvalidInput("table", "a cell that is no number", "a CSV file with a number in every cell") from None
