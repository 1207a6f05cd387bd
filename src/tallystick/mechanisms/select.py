"""Everything that chooses: ``ts.select.exponential``, ``ts.select.quantile``, ``ts.select.above_threshold``, ..."""

from tallystick.mechanisms.exponential import Steps, by_rejection, on_line, uniform_box
from tallystick.mechanisms.quantile import median, quantile
from tallystick.mechanisms.quantiles import quantiles
from tallystick.mechanisms.selection import exponential, noisy_max, permute_and_flip
from tallystick.mechanisms.threshold import above_threshold
from tallystick.mechanisms.topk import top_k

__all__ = [
    "Steps",
    "above_threshold",
    "by_rejection",
    "exponential",
    "median",
    "noisy_max",
    "on_line",
    "permute_and_flip",
    "quantile",
    "quantiles",
    "top_k",
    "uniform_box",
]
