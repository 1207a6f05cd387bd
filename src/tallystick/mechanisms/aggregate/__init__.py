"""Means of numbers whose spread is unknown: ``ts.aggregate.winsorized_mean`` and what is built on it."""

from tallystick.mechanisms.aggregate.sampled import sampled
from tallystick.mechanisms.aggregate.subsample import blocks_for, subsample_and_aggregate
from tallystick.mechanisms.aggregate.winsorized import unbounded_winsorized_mean, winsorized_mean

__all__ = ["blocks_for", "sampled", "subsample_and_aggregate", "unbounded_winsorized_mean", "winsorized_mean"]
