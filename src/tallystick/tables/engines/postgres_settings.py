"""Settings of a PostgreSQL session: time, memory and client settings must not make a release depend on data.

A role, a database, a URL or the server's configuration can end a transaction after the charge: after some time, or
after some bytes of temporary files. Success or failure would then reveal something about the data without noise.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tallystick.errors import Refused

FIXED: Final = {
    # Time limits: the size and shape of the data decide how long a release takes.
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # Forms of text: results and public tables are written and read in one form.
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "bytea_output": "hex",
    "xmlbinary": "base64",
    "xmloption": "content",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    # Meaning of SQL: "= NULL" is never true, and policies of the table apply instead of an error.
    "transform_null_equals": "off",
    "row_security": "on",
    # Temporary tables use the access method that every server has.
    "default_table_access_method": "heap",
    # Compiled expressions use memory outside the limits of work_mem.
    "jit": "off",
    # Notices can quote data.
    "client_min_messages": "error",
}
"""Settings that every transaction of a release sets, with the value that it sets."""

RESTORED: Final = ("work_mem", "hash_mem_multiplier", "temp_buffers", "temp_tablespaces")
"""Memory and places of temporary data. The operator may choose them. A value that a client, a role or a database
chose is set to the default, because too much memory, or too small a disk, would fail on large data alone.
"""

LIMITS: Final = ("temp_file_limit", "old_snapshot_threshold")
"""Limits that end a transaction on large data alone. A release needs their defaults, which are "no limit"."""

_SPEED = "It changes the speed of a query or the choice of its plan, and the integers are the same."
_NOT_USED = "A release does not use it."
_SERVER_LOG = "It writes SQL text of a release, which holds no data, into the log of the server."
_LOGGED_SIZES = "It writes times and sizes into the log of the server, which is the operator's."
_KEPT_ALIVE = "The client's system answers, however long a query takes. Only a dead connection ends."

HARMLESS: Final = {
    "application_name": "It is a label in the server's views and log.",
    "client_encoding": "The transaction sets it to UTF8.",
    "search_path": "It says where tables without a schema are, and the transaction then sets its own.",
    "lc_messages": "It is the language of errors, which are withheld.",
    "default_transaction_isolation": "The transaction sets its own isolation level.",
    "default_transaction_deferrable": "It has no effect outside serializable transactions.",
    "synchronous_commit": "The transaction is rolled back.",
    "commit_delay": "The transaction is rolled back.",
    "commit_siblings": "The transaction is rolled back.",
    "transaction_isolation": "The transaction sets it.",
    "default_transaction_read_only": "The transaction sets its own mode, and writes temporary tables alone.",
    "transaction_read_only": "The transaction sets it, and writes temporary tables alone.",
    "transaction_deferrable": "It has no effect outside serializable transactions.",
    "default_tablespace": "Temporary tables are not stored there.",
    "default_text_search_config": _NOT_USED,
    "check_function_bodies": _NOT_USED,
    "createrole_self_grant": _NOT_USED,
    "password_encryption": _NOT_USED,
    "maintenance_work_mem": _NOT_USED,
    "max_parallel_maintenance_workers": _NOT_USED,
    "compute_query_id": _NOT_USED,
    "wal_compression": _NOT_USED,
    "logical_decoding_work_mem": _NOT_USED,
    "lo_compat_privileges": _NOT_USED,
    "escape_string_warning": "It is about a warning, which is not sent.",
    "log_lock_waits": _SERVER_LOG,
    "log_statement": _SERVER_LOG,
    "log_duration": _SERVER_LOG,
    "log_min_duration_statement": _SERVER_LOG,
    "log_min_error_statement": _SERVER_LOG,
    "log_temp_files": _LOGGED_SIZES,
    "log_statement_stats": _LOGGED_SIZES,
    "log_parser_stats": _LOGGED_SIZES,
    "log_planner_stats": _LOGGED_SIZES,
    "log_executor_stats": _LOGGED_SIZES,
    "tcp_keepalives_idle": _KEPT_ALIVE,
    "tcp_keepalives_interval": _KEPT_ALIVE,
    "tcp_keepalives_count": _KEPT_ALIVE,
    "synchronize_seqscans": "It changes the order of rows. Results are sums of integers, and orders have no ties.",
    "vacuum_cost_delay": _SPEED,
    "maintenance_io_concurrency": _SPEED,
    "track_activities": _SPEED,
    "track_counts": _SPEED,
    "track_functions": _SPEED,
    "track_io_timing": _SPEED,
    "track_wal_io_timing": _SPEED,
    "update_process_title": _SPEED,
    "backend_flush_after": _SPEED,
    "constraint_exclusion": _SPEED,
    "cursor_tuple_fraction": _SPEED,
    "default_statistics_target": _SPEED,
    "from_collapse_limit": _SPEED,
    "join_collapse_limit": _SPEED,
    "plan_cache_mode": _SPEED,
    "recursive_worktable_factor": _SPEED,
    "effective_cache_size": _SPEED,
    "effective_io_concurrency": _SPEED,
    "cpu_index_tuple_cost": _SPEED,
    "cpu_operator_cost": _SPEED,
    "cpu_tuple_cost": _SPEED,
    "parallel_setup_cost": _SPEED,
    "parallel_tuple_cost": _SPEED,
    "random_page_cost": _SPEED,
    "seq_page_cost": _SPEED,
    "parallel_leader_participation": _SPEED,
    "max_parallel_workers": _SPEED,
    "max_parallel_workers_per_gather": _SPEED,
    "min_parallel_index_scan_size": _SPEED,
    "min_parallel_table_scan_size": _SPEED,
    "jit_above_cost": _SPEED,
    "jit_inline_above_cost": _SPEED,
    "jit_optimize_above_cost": _SPEED,
}
"""Settings that a client, a role or a database may choose, each with the reason."""

_HARMLESS_PREFIXES: Final = ("enable_", "geqo")
"""Switches of the planner. Settings of extensions have a dot in their names and never match."""

_HARMLESS_EXTENSIONS: Final = ("pg_stat_statements.",)
"""Extensions that count statements. Their text holds no data, and no statement fails because of them."""

_OPERATOR: Final = ["default", "environment variable", "configuration file", "command line", "override"]
"""Sources in pg_settings that only the operator of the server controls."""

_FIXES: Final = {
    "client": "Remove {name} from the options of the URL and from PGOPTIONS.",
    "user": "Run: ALTER ROLE {role} RESET {name}",
    "database": "Run: ALTER DATABASE {database} RESET {name}",
    "database user": "Run: ALTER ROLE {role} IN DATABASE {database} RESET {name}",
    "global": "Run: ALTER ROLE ALL RESET {name}",
}
_OTHER_FIX: Final = "Remove it from the login trigger or the connection pool that sets it."

_TRANSACTION_TIMEOUT_SINCE: Final = 170000
"""Version of the first server that has transaction_timeout, as libpq counts."""

_PARAMETER_RIGHTS_SINCE: Final = 150000
"""Version of the first server that lets a superuser grant the right to set a parameter."""

_SET_FIXED = """
    SELECT pg_catalog.set_config(s.name, wanted.value, true)
    FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::pg_catalog.text[]))
         AS wanted(name, value) JOIN pg_catalog.pg_settings s ON s.name = wanted.name
"""
_RESTORE = """
    SELECT pg_catalog.set_config(name, boot_val, true) FROM pg_catalog.pg_settings
    WHERE name = ANY(%s) AND source <> ALL(%s)
"""
_CHANGED = """
    SELECT name, source FROM pg_catalog.pg_settings
    WHERE source <> ALL(%s) AND setting IS DISTINCT FROM boot_val ORDER BY name
"""
_NO_EXTRA_ERRORS = "SELECT pg_catalog.set_config('plpgsql.extra_errors', 'none', true)"
"""A function of PL/pgSQL in a view would fail at some rows. The setting is listed once such a function was called."""
_MAY_MAKE_TEMPORARY = """
    SELECT current_user, pg_catalog.current_database(),
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')
"""
_STOP_COUNTING = "SELECT pg_catalog.set_config('track_counts', 'off', true) WHERE "
_IS_SUPERUSER = "pg_catalog.current_setting('is_superuser') = 'on'"
_MAY_SET = "pg_catalog.has_parameter_privilege('track_counts', 'SET')"
_LIMITED = "SELECT name, setting, boot_val FROM pg_catalog.pg_settings WHERE name = ANY(%s) AND setting <> boot_val"


def begin_writable(connection: Any) -> None:
    """Set the isolation level and the mode of a new transaction: the stages of a release are temporary tables.

    A role or a database may have read-only transactions by default. A standby server has no other.
    """
    import psycopg

    try:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE")
    except psycopg.errors.FeatureNotSupported:
        raise Refused(
            "this server is a standby, and a release makes temporary tables. Connect to the primary server."
        ) from None


def stop_clocks(connection: Any) -> None:
    """Lift the time limits that run already: the role or the URL may allow the whole transaction a millisecond."""
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.execute("SET LOCAL statement_timeout = 0")
    if connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
        connection.execute("SET LOCAL transaction_timeout = 0")  # this stops the timer of a running transaction


def settle(connection: Any) -> None:
    """Set what a release needs in this transaction, and refuse settings that could make it depend on data.

    The search path must be "pg_catalog, pg_temp" by now, so that no other
    schema can replace a function or a relation that is used here.
    """
    _check_temporary(connection)
    connection.execute(_SET_FIXED, (list(FIXED), list(FIXED.values())))
    connection.execute(_RESTORE, (list(RESTORED), _OPERATOR))
    connection.execute(_NO_EXTRA_ERRORS)
    _stop_counting(connection)
    _lift_limits(connection)
    _check_changed(connection)


def _check_temporary(connection: Any) -> None:
    """Refuse a role that may not make temporary tables."""
    role, database, may = connection.execute(_MAY_MAKE_TEMPORARY).fetchone()
    if not may:
        raise Refused(
            "this role may not make temporary tables, which a release needs. "
            f"Run: GRANT TEMP ON DATABASE {quoted_name(database)} TO {quoted_name(role)}"
        )


def quoted_name(name: str) -> str:
    """A name as an identifier of SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _stop_counting(connection: Any) -> None:
    """Keep the rows of a release out of the server's statistics, if this role may.

    Every role of the server may read ``pg_stat_database``, which counts rows of temporary tables exactly.
    """
    has_rights = connection.info.server_version >= _PARAMETER_RIGHTS_SINCE
    connection.execute(_STOP_COUNTING + (_MAY_SET if has_rights else _IS_SUPERUSER))


def _lift_limits(connection: Any) -> None:
    """Set every limit of ``LIMITS`` to its default, or refuse the session if this role may not."""
    import psycopg  # optional

    for name, value, default in connection.execute(_LIMITED, (list(LIMITS),)).fetchall():
        try:
            with connection.transaction():
                connection.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, default))
        except psycopg.Error:
            raise Refused(
                f"this session has {name} = {value}: a release would fail on large data alone, which reveals something "
                f"about the data. Set {name} = {default} for this role or on this server."
            ) from None


_OF_EXTENSION: Final = re.compile(r"([\w-]+\.[\w.-]+)\s*=")
"""A setting of an extension in the options of a client."""


def _check_changed(connection: Any) -> None:
    """Refuse settings that a client, a role or a database changed and that are not known to be harmless.

    ``pg_settings`` lists the settings of an extension once it is loaded, which a function of a view may do later.
    """
    changed = list(connection.execute(_CHANGED, (_OPERATOR,)).fetchall())
    options = connection.info.options.replace("\\", "")
    changed += [(name.lower().replace("-", "_"), "client") for name in _OF_EXTENSION.findall(options)]
    for name, source in changed:
        if not _is_known(name):
            [role, database] = connection.execute("SELECT session_user, pg_catalog.current_database()").fetchone()
            names = {"name": name, "role": quoted_name(role), "database": quoted_name(database)}
            fix = _FIXES.get(source, _OTHER_FIX).format(**names)
            raise Refused(f"setting {name} was changed (source: {source}); a release could depend on it. {fix}")


def _is_known(name: str) -> bool:
    known = name in FIXED or name in RESTORED or name in LIMITS or name in HARMLESS
    prefixes = _HARMLESS_EXTENSIONS if "." in name else _HARMLESS_PREFIXES
    return known or name.startswith(prefixes)
