"""Settings every test shares: one thread, and how many examples Hypothesis tries."""

from __future__ import annotations

import os
import tempfile

import ramdisk

# Before numpy is imported: two pytest workers on two cores must not fight for threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
ramdisk.use()
# Anchors and keys of ledgers made by tests must not land in the home directory.
_CONFIG = tempfile.TemporaryDirectory(prefix="tallystick-config-")
os.environ.setdefault("TALLYSTICK_CONFIG_DIR", _CONFIG.name)

from hypothesis import HealthCheck, settings  # noqa: E402

_SHARED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

# "ci" is the same every time, so a red run is a real one; "campaign" looks for new counterexamples.
settings.register_profile("ci", max_examples=15, derandomize=True, **_SHARED)  # type: ignore[arg-type]
settings.register_profile("campaign", max_examples=2_000, print_blob=True, **_SHARED)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Files as a whole to workers, doctests only where there are some, servers that last, processor seconds per room.
pytest_plugins = ["memory", "scheduling", "doctests", "servers", "timing"]

import pytest  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no warning of NumPy leave the accountant: there it means that a number was not a number for a moment."""
    for item in items:
        if {"accounting", "numerics"} & set(item.path.parts):
            item.add_marker(pytest.mark.filterwarnings("error::RuntimeWarning"))
