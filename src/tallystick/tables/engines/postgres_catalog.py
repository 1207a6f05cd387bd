"""Identity of PostgreSQL relations, from the server's catalogue: marks, kinds, and the tables behind a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.tables.engines.postgres_settings import quoted_name
from tallystick.tables.identity import TABLE, owned
from tallystick.tables.schema import UNSUPPORTED, family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READABLE: Final = "a table of this database that the user may read"
LOCK_WAIT: Final = "10s"
"""Longest wait for a lock on a table, before the charge. After the charge there is no time limit."""

_KINDS: Final = {"r": TABLE, "p": TABLE, "v": "view", "m": "materialized view", "f": "foreign table"}
_FIRST_OID: Final = 16384
"""Least object identifier of a relation that a user made. Schemas of the others cannot be renamed by users."""

_LOCKABLE: Final = ("r", "p", "v")
"""Kinds that LOCK TABLE accepts. A query of no rows locks the other kinds."""

_RESOLVE = """
    SELECT c.oid, n.nspname, c.relname, c.relkind::pg_catalog.text
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         LEFT JOIN pg_catalog.unnest(%s::pg_catalog.name[]) WITH ORDINALITY AS path(name, place)
         ON path.name = n.nspname
    WHERE c.relname = %s AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND CASE %s WHEN '' THEN path.place IS NOT NULL ELSE n.nspname = %s END
    ORDER BY path.place LIMIT 1
"""
_SERVER = """
    SELECT s.system_identifier, d.oid, d.datname
    FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
"""
# Rows of a relation are rows of its descendants, which are rows of all their ancestors.
_FAMILY = """
    WITH RECURSIVE below(oid) AS (
        SELECT pg_catalog.unnest(%s::pg_catalog.oid[])
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below ON i.inhparent = below.oid
    ), family(oid) AS (
        SELECT oid FROM below
        UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN family ON i.inhrelid = family.oid
    )
    SELECT c.oid, n.nspname, c.relname, c.relowner
    FROM family JOIN pg_catalog.pg_class c ON c.oid = family.oid
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
"""
_REDIRECTED = """
    WITH RECURSIVE below(oid) AS (
        SELECT %s::pg_catalog.oid
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below ON i.inhparent = below.oid
    )
    SELECT pg_catalog.row_security_active(%s::pg_catalog.oid),
           EXISTS (SELECT FROM pg_catalog.pg_class c JOIN below USING (oid) WHERE c.relkind = 'f'),
           EXISTS (
               SELECT FROM pg_catalog.pg_attribute a JOIN below ON below.oid = a.attrelid WHERE a.attgenerated = 'v'
           )
"""
# Views and materialized views depend on relations through their rule, tables through the policies of their rows.
_READ = """
    WITH RECURSIVE edges(reader, relation) AS (
        SELECT r.ev_class, d.refobjid
        FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d
             ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
        WHERE r.ev_type = '1' AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> r.ev_class
        UNION
        SELECT p.polrelid, d.refobjid
        FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_depend d
             ON d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass AND d.objid = p.oid
        WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> p.polrelid
    ), reached(oid) AS (
        SELECT relation FROM edges WHERE reader = %s
        UNION SELECT e.relation FROM edges e JOIN reached ON e.reader = reached.oid
    )
    SELECT oid FROM reached
"""
# The relations that a view reads, as its rule keeps them.
_BOUND = """
    SELECT pg_catalog.array_agg(DISTINCT d.refobjid)
    FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d
         ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
    WHERE r.ev_class = pg_catalog.to_regclass(%s)::pg_catalog.oid AND d.refobjid <> r.ev_class
      AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
"""
_HAS_DESCENDANTS = "SELECT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = %s)"
# A domain may have the name of a type, tinyint or double say, and hold other values: it is not read.
_COLUMNS = """
    SELECT a.attname,
           CASE t.typnamespace
               WHEN 'pg_catalog'::pg_catalog.regnamespace THEN pg_catalog.format_type(t.oid, NULL)
               ELSE 'of its own'
           END
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation as the catalogue has it. ``kind`` is one letter, as in pg_class.relkind."""

    oid: int
    schema: str
    name: str
    kind: str

    @property
    def tree(self) -> exp.Table:
        """The relation in SQL, with its schema."""
        return exp.Table(
            this=exp.to_identifier(self.name, quoted=True),
            db=exp.to_identifier(self.schema, quoted=True),
        )

    @property
    def sql(self) -> str:
        """The relation as text of SQL."""
        return self.tree.sql(dialect="postgres")


def find(connection: Any, table: str, path: Sequence[str]) -> Relation:
    """Return the relation that a name means in the snapshot of the transaction.

    A name without a schema is looked up in the schemas of ``path``, in that order.
    """
    namespace, _, plain = table.rpartition(".")
    found = connection.execute(_RESOLVE, (list(path), plain, namespace, namespace)).fetchone()
    if found is None and "." in namespace:
        dotted = f"{READABLE}, with at most one dot: ask a table with a dot in its own name through a view"
        raise InvalidInput("table", table, dotted)
    if found is None:
        raise InvalidInput("table", table, READABLE)
    return Relation(*found)


def check_present(connection: Any, table: str, relation: Relation, path: Sequence[str]) -> None:
    """Refuse a locked relation if the name means another one by now, in the snapshot or in the present catalogue."""
    [present] = connection.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", (relation.sql,)).fetchone()
    if present != relation.oid or find(connection, table, path) != relation:
        raise Unavailable(f"table {table!r} was replaced while it was opened; ask again")


def lock(connection: Any, relations: Mapping[str, Relation]) -> None:
    """Lock relations: until the transaction ends their definitions cannot change.

    LOCK TABLE takes no snapshot, so it comes first: the snapshot is then younger than every definition. A
    materialized view has one definition for its life. A foreign table is never identified by its definition.
    """
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
    for table, relation in relations.items():
        if relation.kind in _LOCKABLE:
            _run(connection, table, f"LOCK TABLE {relation.sql} IN ACCESS SHARE MODE")
    for table, relation in relations.items():
        if relation.kind not in _LOCKABLE:
            _run(connection, table, f"SELECT FROM {relation.sql} WHERE false")
    connection.execute("SET LOCAL lock_timeout = 0")


def bind(connection: Any, table: str, relation: Relation, view: str) -> None:
    """Make a temporary view of a locked relation, by which all rows are read from here on.

    A lock does not keep others from renaming the schema, so the name can lead to another relation at any moment. A
    view keeps the object identifier. Which one it got is read from the catalogue.
    """
    read = [column for column, kind in columns_of(connection, relation) if family(kind) != UNSUPPORTED]
    columns = ", ".join(map(quoted_name, read))
    source = relation.tree
    source.set("only", not has_descendants(connection, relation))  # a table that is attached later is not read
    rows = f"SELECT {columns} FROM {source.sql(dialect='postgres')}"
    _run(connection, table, f"CREATE TEMP VIEW {quoted_name(view)} AS {rows}")
    [bound] = connection.execute(_BOUND, (f"pg_temp.{quoted_name(view)}",)).fetchone()
    is_of_the_server = bound is None and relation.oid < _FIRST_OID  # such dependencies are not recorded
    if bound != [relation.oid] and not is_of_the_server:
        raise Unavailable(f"table {table!r} was replaced while it was opened; ask again")


def _run(connection: Any, table: str, statement: str) -> None:
    """Run a statement that opens a table."""
    import psycopg  # optional

    try:
        connection.execute(statement)
    except psycopg.errors.LockNotAvailable:
        raise Unavailable(f"another session locks table {table!r}; ask again later") from None
    except psycopg.errors.InsufficientPrivilege:
        whole = f"{READABLE} as a whole (rights on columns are not enough): GRANT SELECT ON the table"
        raise InvalidInput("table", table, whole) from None
    except psycopg.errors.UndefinedTable:
        raise InvalidInput("table", table, READABLE) from None


def reach(connection: Any, table: str, rows: str) -> None:
    """Open what a query of ``rows`` would read, and read none: servers and files of foreign tables are reached.

    The server leaves out what is WHERE false. With LIMIT 0 it opens every scan, and runs none of them.
    """
    import psycopg

    try:
        connection.execute(f"SELECT * FROM {rows} LIMIT 0")
    except psycopg.Error:
        raise Unavailable(
            f"table {table!r} cannot be opened. If it shows rows of another server or of a file, check that this role "
            "can reach them; nothing was charged"
        ) from None


def marks_of(connection: Any, oids: Sequence[int]) -> frozenset[str]:
    """Marks of relations, of all tables that inherit from them, and of all ancestors of those.

    Each has three marks: its object identifier, which survives a rename, its name, which survives a restore, and its
    name with its owner: another role may make a table under a name that is free.
    """
    if not oids:
        return frozenset()
    system, database, database_name = _server(connection)
    marks = set()
    for oid, schema, name, owner in connection.execute(_FAMILY, (list(oids),)).fetchall():
        marks.add(f"postgres {system}/{database}/{oid}")
        named = f"postgres {system} {database_name} {schema}.{name}"
        marks |= {named, owned(named, owner)}
    return frozenset(marks)


def _server(connection: Any) -> tuple[int, int, str]:
    """System identifier of the server, and identifier and name of the database.

    The server draws its identifier when it is made. Every address of the server, and every replica, has the same one.
    """
    import psycopg  # optional

    try:
        system, database, name = connection.execute(_SERVER).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        role = quoted_name(connection.info.user)
        raise Refused(
            "this role may not read the identifier of the server, by which its tables are recognised. "
            f"Run: GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO {role}"
        ) from None
    return system, database, name


def reads_of(connection: Any, relation: Relation) -> frozenset[str]:
    """Marks of all relations that a view is made of, and of those that row policies look at."""
    found = connection.execute(_READ, (relation.oid,)).fetchall()
    return marks_of(connection, [oid for [oid] in found])


def kind_of(connection: Any, relation: Relation) -> str:
    """``TABLE`` if the relation stores its own rows; otherwise words that say where rows come from."""
    kind = _KINDS[relation.kind]
    if kind != TABLE:
        return kind
    if relation.schema.startswith("pg_") or relation.schema == "information_schema":
        return "system catalogue"
    row = connection.execute(_REDIRECTED, (relation.oid, relation.oid)).fetchone()
    has_policies, has_foreign, has_computed = row
    if has_policies:
        return "table with row-level security"
    if has_foreign:
        return "table with a foreign partition"
    if has_computed:
        return "table with computed columns"
    # The lock of a parent does not keep others from attaching a table, whose rows a query would then read.
    return "table with partitions" if has_descendants(connection, relation) else TABLE


def has_descendants(connection: Any, relation: Relation) -> bool:
    """True if a query of the relation also reads partitions, or tables that inherit from it."""
    [has] = connection.execute(_HAS_DESCENDANTS, (relation.oid,)).fetchone()
    return bool(has)


def columns_of(connection: Any, relation: Relation) -> list[tuple[str, str]]:
    """Name and type of each column."""
    columns: list[tuple[str, str]] = connection.execute(_COLUMNS, (relation.oid,)).fetchall()
    return columns
