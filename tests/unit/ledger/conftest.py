"""Every ledger test gets its own config directory and, by parameter, both stores."""

from __future__ import annotations

from crash.stores import clock, config, ledger, place, postgres, postgres_with_icu, server, tmp_path  # noqa: F401
