"""One PostgreSQL place leads every role to one ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from unit.tables import servers


def test_a_second_role_gets_no_second_ledger(postgres: str, tmp_path: Path) -> None:
    """Each role has its own schema first: the same place made an empty ledger with a full budget."""
    with servers.role(postgres) as (name, _), servers.database(postgres) as (_, url):
        with ts.Ledger(url, config=tmp_path / "owner") as ledger:
            ledger.open("clinic", budget=ts.zcdp(rho=1))
        servers.run(url, f"CREATE SCHEMA {name} AUTHORIZATION {name}", f"GRANT USAGE ON SCHEMA public TO {name}")
        theirs = url.replace("postgresql://postgres:@", f"postgresql://{name}@")
        assert theirs != url
        with pytest.raises(InvalidInput, match="has a ledger in schema 'public'"):
            ts.Ledger(theirs, config=tmp_path / "other")
