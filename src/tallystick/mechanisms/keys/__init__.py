"""Groups that come from the data: ``ts.keys.stable`` (which may be shown), ``ts.keys.stable_counts`` (with sizes)."""

from tallystick.mechanisms.keys.counts import stable_counts
from tallystick.mechanisms.keys.partition import stable, units_per_key

__all__ = ["stable", "stable_counts", "units_per_key"]
