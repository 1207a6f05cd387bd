"""The packed tables share the suite's PostgreSQL server."""

from __future__ import annotations

from crash.stores import config, postgres, postgres_with_icu, tmp_path  # noqa: F401
