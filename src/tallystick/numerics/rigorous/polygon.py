"""Pairs on a lattice around a pair whose H(x) = sup P(S) - e^x Q(S) is known at knots: one above it, one below.

H is convex in a = e^x and does not rise. docs/theory/rigorous.md proves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from flint import arb, ctx

from tallystick.errors import NotComputable
from tallystick.numerics.rigorous.laws import Ball


def masses_above(heights: Sequence[Ball], ratios: Sequence[Ball], total: Ball) -> tuple[list[Ball], Ball]:
    """P's masses at the knots of the pair whose H is the chords from (0, total) on, and its mass at infinity.

    Heights may be above a convex H that does not rise instead of on it: the chords of some of them are above it too.
    """
    kept, least = [(arb(0), total, -1)], total
    for j, (a, height) in enumerate(zip(ratios, heights, strict=True)):
        least = least.min(height)
        while len(kept) > 1 and not _fall(kept[-2], kept[-1]) > _fall(kept[-1], (a, least, j)):
            kept.pop()  # not surely below its neighbours' chord, which serves as well
        kept.append((a, least, j))
    if len(kept) == 1:
        return [], least  # no finite loss: all is given away
    falls = [_fall(one, two) for one, two in pairwise(kept)]
    masses = [arb(0)] * len(ratios)
    for (a, _, j), s, t in zip(kept[1:], falls, [*falls[1:], arb(0)], strict=True):
        masses[j] = a * (s - t)
    return masses, least


def masses_below(heights: Sequence[Ball], ratios: Sequence[Ball], total: Ball) -> list[Ball]:
    """P's masses at the knots of a pair whose H is nowhere above: chords, lowered until they are under H.

    Inside a cell H is above the chords of both neighbours, drawn on; a chord is above those by at most its depth. H
    falls by at most one per unit of a (Q has mass one), and not at all after the last knot, where zero is below it.
    """
    falls = [arb(1), *_falls(heights, ratios), arb(0)]
    widths = [b - a for a, b in pairwise(ratios)]
    depths = [_depth(falls[j] - falls[j + 1], falls[j + 1] - falls[j + 2], width) for j, width in enumerate(widths)]
    slack = arb(2) ** (60 - ctx.prec)
    lows = [
        (height - before.max(after) - slack).lower()
        for height, before, after in zip(heights, [arb(0), *depths], [*depths, arb(0)], strict=True)
    ]
    # Left of the first knot the line that falls by one from (0, total) is under H.
    lows[0] = (total - ratios[0] - slack).min(lows[0]).lower()
    # A chord that would end below zero is given up with both its ends, and zero is under H from there on.
    end = next((j for j, low in enumerate(lows) if not low > 0), len(lows))
    if end == 0:
        return [arb(0)] * len(ratios)
    lows = [low if j < end - 1 else arb(0) for j, low in enumerate(lows)]
    kept = [(arb(0), (total - slack).lower(), -1)]
    for j, low in enumerate(lows):
        while len(kept) > 1 and _fall(kept[-2], kept[-1]) < _fall(kept[-1], (ratios[j], low, j)):
            kept.pop()  # a knot above its neighbours' chord: without it the polygon is lower
        kept.append((ratios[j], low, j))
    slopes = [_fall(one, two) for one, two in pairwise(kept)]
    masses, lifted = [arb(0)] * len(ratios), arb(0)
    for (a, _, j), s, t in zip(kept[1:], slopes, [*slopes[1:], arb(0)], strict=True):
        masses[j] = a * (s - t).max(arb(0))
        lifted += a * (t - s).max(arb(0)).upper()
    # A knot that is not surely a corner may carry less than nothing; without that the polygon rises, by less than
    # it was lowered for.
    if not lifted <= slack:
        raise NotComputable("the knots of a lattice are lost in rounding")
    return masses


def _falls(heights: Sequence[Ball], ratios: Sequence[Ball]) -> list[Ball]:
    return [(h - k) / (b - a) for (h, k), (a, b) in zip(pairwise(heights), pairwise(ratios), strict=True)]


def _fall(one: tuple[Ball, Ball, int], two: tuple[Ball, Ball, int]) -> Ball:
    return (one[1] - two[1]) / (two[0] - one[0])


def _depth(before: Ball, after: Ball, width: Ball) -> Ball:
    """The triangle under a chord between its neighbours drawn on, whose falls differ by these."""
    if before > 0 and after > 0:
        return width * before * after / (before + after)
    return width * abs(before).min(abs(after)).upper()
