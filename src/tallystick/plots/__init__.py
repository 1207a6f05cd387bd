"""Pictures of privacy: attacks, guarantees, composition, errors and budgets.

    tradeoff(loss)            misses against false accusations, and the region no attacker reaches
    tradeoffs(curves)         several trade-off functions on one sheet
    symmetry(curve)           f, its inverse and the larger of both
    sampling(curve, rate=)    the subsampling operator: f, f_p, its inverse and the hull under both
    limit_band(...)           many small losses, their Gaussian limit and its band
    profile(loss)             delta against epsilon
    steps(curves)             epsilon against the number of steps, one line per accounting method
    positions(epsilons, ...)  epsilon of a record against its batch, if only the last iterate is released
    samples(plans)            records against adaptive queries, one line per route
    noise(density, ...)       the noise that is added, with the interval that holds most of it
    errors(plan)              the error of a table against the size of its groups
    rehearsed(lines, ...)     error from noise, limits and bounds for several limits
    released(table)           a published table: values as bars, with their intervals
    burndown(account)         budget left, charge by charge
    spending(account)         what each person spent of a budget
    recovery(shares, ...)     people reconstructed against noise/sqrt(n); the frontier is at 1
    guesses(found)            one person's bit guessed from two counts, under its ceiling
    linked(shares)            people found behind rows without names
    hits(rates, claim=...)    members found against false accusations, under the ceiling 1 - f
    pair(first, second, ...)  two densities, and delta above e^epsilon of one of them
    supporting_lines(...)     several (epsilon, delta) guarantees as lines, and the curve above them
    tangent(curve, ...)       delta at the tangent of slope -e^epsilon
    noise_for_queries(...)    variance against the number of queries
    tilted(objective, ...)    an objective, its tilts, and their minima
    staircase(values, ...)    data as a counting staircase, with the chances of a private quantile
    densities(named, ...)     a distribution as n grows, and its limit
    revenue(sale)             pumpkins: revenue against the price, and two private ways to choose it
    tradeoff_band(band)       a measured trade-off with its confidence band, and the claimed one

The title of a picture states its finding; ``title=`` replaces it. Each function returns a matplotlib
figure; ``save(figure, path)`` writes SVG or PNG, with a description for readers who do not see it.
matplotlib is the extra ``plots`` and is imported only when a picture is drawn. These functions do not
compute privacy: they take the numbers from the loss.
"""

from __future__ import annotations

from tallystick.plots.attacks import guesses, hits, linked, recovery, tradeoff_band
from tallystick.plots.burndown import burndown
from tallystick.plots.canvas import save
from tallystick.plots.errors import errors
from tallystick.plots.noise import noise
from tallystick.plots.notes import (
    densities,
    noise_for_queries,
    pair,
    revenue,
    staircase,
    supporting_lines,
    tangent,
    tilted,
)
from tallystick.plots.operators import limit_band, sampling, symmetry
from tallystick.plots.positions import positions
from tallystick.plots.profile import profile
from tallystick.plots.rehearsed import rehearsed
from tallystick.plots.released import released
from tallystick.plots.samples import samples
from tallystick.plots.spending import spending
from tallystick.plots.steps import Curve, steps
from tallystick.plots.tradeoff import tradeoff, tradeoffs

__all__ = [
    "Curve",
    "burndown",
    "densities",
    "errors",
    "guesses",
    "hits",
    "limit_band",
    "linked",
    "noise",
    "noise_for_queries",
    "pair",
    "positions",
    "profile",
    "recovery",
    "rehearsed",
    "released",
    "revenue",
    "samples",
    "sampling",
    "save",
    "spending",
    "staircase",
    "steps",
    "supporting_lines",
    "symmetry",
    "tangent",
    "tilted",
    "tradeoff",
    "tradeoff_band",
    "tradeoffs",
]
