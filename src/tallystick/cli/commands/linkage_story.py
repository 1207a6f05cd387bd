"""``tallystick demo linkage``: a table without names meets a public list with names; then a table from noisy counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working

if TYPE_CHECKING:
    from rich.console import Console

EPSILON, SEED = 1.0, 3
KNOWN = (1, 2, 3, 4)
DAYS_OFF = 3


def linkage_story(folder: Path, *, as_json: bool) -> None:
    """Find viewers without names: two ratings with their days find nearly all; made-up viewers find no one."""
    from tallystick.cli.commands.demo import drawn_into

    with working("linking"):
        facts = _tell()
        place = drawn_into(folder, "linkage.svg", lambda: _picture(facts))
    facts["picture"] = place and str(place)
    deliver(
        Answer("demo", {"story": "linkage", "out": str(folder)}, facts, lambda out: _say(out, facts)), as_json=as_json
    )


def _tell() -> dict[str, Any]:
    import tallystick as ts
    from tallystick.cli.demo_data import make_ratings as data

    every = rows = data.ratings()
    invented = _from_noisy_counts(rows)
    columns = [f"{what} {film}" for film in range(data.FILMS) for what in ("film", "day")]
    near = {name: DAYS_OFF for name in columns if name.startswith("day")}
    found: dict[str, dict[int, float]] = {"names removed": {}, "made from noisy counts": {}}
    for known in KNOWN:
        people = data.public_list(rows, known=known)
        for name, table in zip(found, (rows, invented), strict=True):
            own = lambda i, j, rows=table: rows[i] == every[j]  # noqa: E731 (the linked row is that person's own)
            links = ts.audit.linkage(table, people, on=columns, tolerance=near, same=own)
            found[name][known] = (links.right or 0) / len(people)
    few = ts.audit.uniqueness(rows, ["film 0", "film 1", "film 2", "day 0"])
    return {
        "viewers": data.PEOPLE,
        "people": data.TARGETS,
        "unique": few.unique,
        "epsilon": EPSILON,
        "found": found,
    }


def _from_noisy_counts(rows: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    """Viewers drawn from noisy counts of (film, stars, month); one viewer is in one cell of every film.

    Adding or removing a viewer moves one count of each film, 40 in all, so each film gets a fortieth of epsilon.
    """
    import numpy as np

    import tallystick as ts
    from tallystick.cli.demo_data.make_ratings import DAYS, FILMS, NOT_RATED

    rng = np.random.default_rng(SEED)
    months, stars = 12, 6
    counts = np.zeros((FILMS, stars, months), dtype=np.int64)
    for row in rows:
        for film in range(FILMS):
            day = row[f"day {film}"]
            counts[
                film, row[f"film {film}"], 0 if day == NOT_RATED else min(months - 1, day * months // (DAYS + 1))
            ] += 1
    noise = ts.noise.add_discrete_laplace(epsilon=EPSILON, sensitivity=FILMS, dimension=counts.size)
    noisy = np.maximum(np.array(noise.release(counts.ravel())).reshape(counts.shape), 0)
    made: list[dict[str, int]] = [{} for _ in rows]
    for film in range(FILMS):
        weights = noisy[film].ravel() + 1e-9
        for row, cell in zip(made, rng.choice(weights.size, size=len(made), p=weights / weights.sum()), strict=True):
            star, month = divmod(int(cell), months)
            row[f"film {film}"] = star
            row[f"day {film}"] = 0 if star == NOT_RATED else int((month + rng.random()) * DAYS / months) + 1
    return made


def _picture(facts: dict[str, Any]) -> Any:
    from tallystick import plots

    return plots.linked(facts["found"])


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(f"[bold]Film ratings of {facts['viewers']} viewers, names removed[/bold] (none of them exists).")
    out.print(f"Three films and one day single out {facts['unique']:.0%} of them.")
    out.print(f"{facts['people']} of them rated a few films in public, under their names, on nearly the same days:")
    for known in KNOWN:
        named, made = (f"{line[known]:.0%}" for line in facts["found"].values())
        out.print(
            f"  {known} known: {named} found behind their row; {made} in a table made from noisy counts", markup=False
        )
    out.print(f"Viewers of the second table are drawn from counts with noise, epsilon {facts['epsilon']:g} in all.")
    if facts["picture"]:
        out.print(f"Who is found: {facts['picture']}", markup=False, soft_wrap=True)
