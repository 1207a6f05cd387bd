"""Film ratings of people who do not exist, made the same way every time: rows without names, and a public list."""

from __future__ import annotations

from typing import Any

import numpy as np

PEOPLE, FILMS, TARGETS, DAYS, SEED = 600, 40, 60, 365, 2006
NOT_RATED = 0


def ratings() -> list[dict[str, int]]:
    """One row per viewer: a rating from 1 to 5 and a day for every film seen, 0 for the others. Some films are popular.

    >>> rows = ratings()
    >>> len(rows), sorted(rows[0])[:2]
    (600, ['day 0', 'day 1'])
    """
    rng = np.random.default_rng(SEED)
    popular = np.minimum(0.85, 2.5 / np.arange(1, FILMS + 1) ** 0.7)
    quality = rng.uniform(2.0, 4.5, size=FILMS)
    rows = []
    for _ in range(PEOPLE):
        seen = rng.random(FILMS) < popular
        stars = np.clip(np.rint(quality + rng.normal(scale=1.0, size=FILMS)), 1, 5)
        days = rng.integers(1, DAYS + 1, size=FILMS)
        rows.append(_row(np.where(seen, stars, NOT_RATED), np.where(seen, days, NOT_RATED)))
    return rows


def public_list(rows: list[dict[str, int]], *, known: int) -> list[dict[str, Any]]:
    """Return what the first viewers said in public about ``known`` of the films they saw, the day to within three."""
    rng = np.random.default_rng(SEED + known)
    people = []
    for person, row in enumerate(rows[:TARGETS]):
        seen = [film for film in range(FILMS) if row[f"film {film}"] != NOT_RATED]
        told: dict[str, Any] = {"name": f"viewer {person}"}
        for film in rng.permutation(seen)[:known].tolist():
            told[f"film {film}"] = row[f"film {film}"]
            told[f"day {film}"] = row[f"day {film}"] + int(rng.integers(-3, 4))
        people.append(told)
    return people


def _row(stars: Any, days: Any) -> dict[str, int]:
    return {
        f"{name} {film}": int(value)
        for name, values in (("film", stars), ("day", days))
        for film, value in enumerate(values)
    }
