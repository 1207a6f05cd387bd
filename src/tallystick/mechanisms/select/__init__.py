"""Everything that chooses: ``ts.select.exponential``, ``ts.select.quantile``, ``ts.select.above_threshold``, ..."""

from tallystick.mechanisms.select.candidates import exponential, noisy_max, permute_and_flip, top_k
from tallystick.mechanisms.select.continuum import Steps, by_rejection, on_line, uniform_box
from tallystick.mechanisms.select.order_statistics import median, quantile, quantiles
from tallystick.mechanisms.select.sparse_vector import above_threshold

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
