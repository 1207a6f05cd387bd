"""Places of ledgers and sources: a file, or a PostgreSQL database.

A ``Place`` keeps the password that the user wrote and hands it to libpq alone. Its text has no secret: ``str``,
``repr``, ``format``, JSON and pickles show user, host, port, database and a short list of harmless parameters.
libpq parses every PostgreSQL place, so this module and the connection agree on which part is the password.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from tallystick.errors import TOKEN, InvalidInput, PasswordInPlace, Unavailable
from tallystick.printing import visible

SHOWN: Final = (
    "user",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "options",
    "sslmode",
    "application_name",
    "connect_timeout",
    "service",
)
"""Parameters of libpq that may be printed and stored. Every other parameter stays inside the place."""
_SERVERS_SETTING: Final = re.compile(r"(?!.*(pass|pwd|pw|pin\b|key|secret|token|cred|auth))[a-z][a-z_]{2,}")
"""Settings in ``options`` that may be printed and stored: the server's own, whose names have no dot. The value of a
setting of an extension or of a program may be a secret.
"""
_IN_DASHES: Final = ("search-path", "statement-timeout", "lock-timeout", "application-name", "work-mem")
"""Settings that may also be shown as ``--search-path=...``."""
SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
ENCODE: Final = (
    "postgresql://user@host:port/database with reserved characters percent-encoded "
    "(@ is %40, / is %2F, a space is %20), and the password in a pass file or PGPASSWORD"
)
_NEEDS: Final = "PostgreSQL needs psycopg: pip install '.[team]'"
_URL: Final = re.compile(r"\s*postgres(ql)?:", re.IGNORECASE)
_SCHEMES: Final = ("postgresql://", "postgres://")
OTHERS: Final = (
    *("passfile", "servicefile", "channel_binding", "client_encoding", "fallback_application_name"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
    *("sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir"),
    *("sslsni", "requiressl", "requirepeer", "require_auth", "min_protocol_version", "max_protocol_version"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "sslkeylogfile", "gssencmode", "krbsrvname", "gsslib"),
    *("gssdelegation", "replication", "target_session_attrs", "load_balance_hosts"),
    *("oauth_issuer", "oauth_client_id", "oauth_scope"),
)
"""The other parameters of libpq."""
_KEYWORDS: Final = "|".join((*SHOWN, *SECRETS, *OTHERS))
_PAIR: Final = re.compile(rf"(?:^|\s)({_KEYWORDS})\s*=", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(password|passwd|pwd)\s*=", re.IGNORECASE)
_BARE_URL: Final = re.compile(r"(?:[a-z][a-z0-9+]{0,15})?:?/{0,2}[^\s/]+:.*@\S+", re.DOTALL)
"""A user, a password and a host, without a scheme before them or without its colon. A password may have spaces."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+]{1,15}(?=:)", re.IGNORECASE)
_USER: Final = re.compile(r"/[^\s/:@]+:[^\s/]*@[^\s/]")
"""A user, a password and a host behind a slash."""
_PARAMETERS: Final = re.compile(r"[?#;][^=\s]{1,64}=")
"""A first parameter behind a name, as in a URL. Its value may be a secret."""
_SETTING: Final = re.compile(r"(?:-c|--)\s*(?P<name>[\w.\\-]+)\s*=(?:\\.|\S)*")
_PLAIN_HOST: Final = re.compile(r"[A-Za-z0-9._-]+")
_PATIENCE: Final = 10  # seconds
_NO_CONNECTION: Final = "tallystick reads the parameters and does not connect"
_SHORTEST_HIDDEN: Final = 4  # characters; a shorter secret would blank out ordinary words of a message


class Server(NamedTuple):
    """The parameters that libpq uses, with defaults from the service file and the environment."""

    host: str
    port: str
    dbname: str
    user: str


class Place:
    """A file or a PostgreSQL database. Its text never holds a secret.

    >>> str(Place.of("budget.db")), Place.of("postgresql://ana@db.example/ledger")
    ('budget.db', Place('postgresql://ana@db.example/ledger'))
    """

    __slots__ = ("__conninfo", "_parts", "hides_parameters", "hides_settings", "path", "text")

    def __init__(
        self,
        text: str,
        conninfo: str,
        *,
        path: Path | None,
        parts: Mapping[str, str],
        hides_settings: bool = False,
        hides_parameters: bool = False,
    ) -> None:
        self.text = text
        self.path = path
        self.hides_settings = hides_settings
        """True if ``options`` has a setting that may hold a secret: the text leaves it out."""
        self.hides_parameters = hides_parameters
        """True if the place has a password or another parameter that the text leaves out."""
        self._parts = parts
        self.__conninfo = conninfo

    @classmethod
    def of(cls, given: Place | Path | str, argument: str = "ledger") -> Place:
        """Return the place that a user named; ``argument`` is its name in an error."""
        if isinstance(given, Place):
            return given
        text = str(given)
        if names_server(text):
            return _server_place(text, argument)
        return cls(visible(shown(text)), text, path=Path(text), parts={})

    @property
    def is_server(self) -> bool:
        """True for a PostgreSQL database."""
        return self.path is None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that libpq tries in turn; empty for a file and for the local socket."""
        if not self.is_server:
            return ()
        found = self._found()
        names = tuple(host for host in found.get("host", "").split(",") if host)
        addresses = tuple(address for address in found.get("hostaddr", "").split(",") if address)
        return addresses if len(addresses) > len(names) else names

    @property
    def options(self) -> str:
        """The settings that the place has for the session, as far as they may be shown."""
        return self._parts.get("options", "")

    def parameter(self, name: str) -> str:
        """Return one of ``SHOWN`` as libpq uses it, from the place, the service file or the environment.

        >>> Place.of("postgresql://db.example/ledger?sslmode=verify-full").parameter("sslmode")
        'verify-full'
        """
        if name not in SHOWN:
            raise InvalidInput("name", name, f"one of {', '.join(SHOWN)}")
        return self._found().get(name, "")

    def server(self) -> Server:
        """Return the parameters that libpq uses, without connecting.

        A parameter of the place wins over the service file, and the service file wins over the environment.
        Without a database name ``dbname`` is empty, and libpq connects to the database named like the user.
        """
        found = self._found()
        return Server(*(found.get(name, "") for name in Server._fields))

    def _found(self) -> dict[str, str]:
        return {**_defaults(self._parts), **self._parts}

    def connect(self, **options: Any) -> Any:
        """Return a psycopg connection, or raise ``Unavailable`` without libpq's own text, which may quote the place."""
        _libpq()
        import psycopg

        try:
            return psycopg.connect(self.__conninfo, connect_timeout=_PATIENCE, **options)
        except psycopg.Error:
            reason = f"it does not answer within {_PATIENCE} seconds, or refuses this user or password"
        raise Unavailable(f"PostgreSQL cannot be reached at {self.text}: {reason}")

    def to_data(self) -> str:
        """Return the text, for JSON."""
        return self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Place({self.text!r})"

    def __format__(self, specification: str) -> str:
        return format(self.text, specification)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (other.text, other.path) == (self.text, self.path)

    def __hash__(self) -> int:
        return hash((self.text, self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have no password: libpq finds one in the pass file or in PGPASSWORD."""
        return Place.of, (str(self.path) if self.path else self.text,)


def names_server(text: str) -> bool:
    """True if a text is meant for libpq: a ``postgresql:`` URL or ``key=value`` pairs.

    One pair with a slash is a file, because data lakes have folders such as ``host=web1``. A text with a password is
    never a file.

    >>> [names_server(text) for text in ("postgresql://db/x", "host=db dbname=x", "host=web1/visits.parquet")]
    [True, True, False]
    """
    if _URL.match(text) or _PASSWORD.search(text):
        return True
    pairs = _PAIR.findall(text)
    if not pairs or not _PAIR.match(text.lstrip()):
        return False
    return len(pairs) > 1 or "/" not in text or pairs[0].lower() in SECRETS


def is_foreign_url(text: str) -> bool:
    """True for a URL, a URL with a user that ``pathlib`` has shortened to one slash, and one without its scheme.

    A scheme with parameters is a URL, too, as DuckDB writes a database: ``md:wards?motherduck_token=...``.

    >>> [is_foreign_url(text) for text in ("mysql://db/x", "mysql:/ana:secret@db/x", "ana:secret@db/x", "a:/b.csv")]
    [True, True, True, False]
    """
    bare = text.strip()
    if "://" in bare or _BARE_URL.match(bare):
        return True
    if _USER.search(bare) or (_SCHEME.match(bare) and _PARAMETERS.search(bare)):
        return True
    return re.match(r"[a-z][a-z0-9+]{0,15}:/.*@", bare) is not None


def shown(given: Path | str) -> str:
    """Return a text that a user gave as a place, for an error message. Of a URL only the scheme is left.

    >>> shown("mysql://ana:secret@db/x"), shown("visits.xlsx"), shown("visits.parquet?key=secret")
    ('mysql://...', 'visits.xlsx', 'visits.parquet?...')
    """
    text = str(given)
    if is_foreign_url(text):
        scheme = re.match(r"[a-z][a-z0-9+]{0,15}(?=:/)", text) or _SCHEME.match(text)
        has_user = _BARE_URL.match(text.strip()) and "://" not in text  # the first word may be the user
        return f"{scheme[0]}://..." if scheme and not has_user else "a URL"
    if names_server(text):
        return "a PostgreSQL place"
    parameters = _PARAMETERS.search(text)
    return text if parameters is None else f"{text[: parameters.start() + 1]}..."


def unreadable(argument: str, path: Path | str, error: OSError) -> InvalidInput:
    """The error for a file that cannot be opened.

    >>> print(unreadable("plan", "none.json", FileNotFoundError(2, "No such file or directory")))
    cannot read none.json: no such file or directory
    """
    reason = (error.strerror or "it cannot be opened").lower()
    name = shown(path)
    return InvalidInput(argument, name, "", code="unreadable_file", problem=f"cannot read {name}: {reason}")


def without_secrets(message: str, words: Iterable[str]) -> str:
    """Return a message with the secrets of some words replaced: words of a command line, or a variable's value.

    Messages of this package hold no secret. This is for messages of others, such as the argument parser.

    >>> without_secrets("unexpected: postgresql://ana:secret@db/x", ["postgresql://ana:secret@db/x"])
    'unexpected: postgresql://...'
    >>> without_secrets("no ledger at postgresql://ana@db.example/x", ["postgresql://ana@db.example/x"])
    'no ledger at postgresql://ana@db.example/x'
    >>> without_secrets("there is no account tsk_0123456789abcdef", [])
    'there is no account tsk_...'
    """
    message = TOKEN.sub("tsk_...", message)
    holders = [_holder(word) for word in words]
    holders = [word for word in holders if shown(word) != word and not _is_public(word)]
    for word in sorted(holders, key=len, reverse=True):
        for spelled in (*_spellings(word), *_spellings(str(Path(word)))):
            message = message.replace(spelled, shown(word))
    secrets = {spelled for secret in _secrets_of(holders) for spelled in _spellings(secret)}
    for secret in sorted(secrets, key=len, reverse=True):
        message = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", message)
    return message


def _is_public(word: str) -> bool:
    """True if a word names a PostgreSQL database with nothing that its ``Place`` would hide."""
    if not word.startswith(_SCHEMES):
        return False
    try:
        with warnings.catch_warnings(action="ignore"):
            return Place.of(word).text == word
    except (InvalidInput, Unavailable):
        return False


def _holder(word: str) -> str:
    """Return the part of a word that may name a place: behind ``--option=``, or all of it but its dashes.

    >>> _holder("--ledger=postgresql://db/x"), _holder("--ledgerpostgresql://db/x")
    ('postgresql://db/x', 'ledgerpostgresql://db/x')
    """
    name, _, value = word.partition("=")
    is_option = re.fullmatch(r"--[\w-]*", name)
    return value if is_option else word.lstrip("-")


def _spellings(text: str) -> list[str]:
    """Return a text and the forms in which a message may quote it: as a literal of Python, and with escapes."""
    return [text, repr(text)[1:-1], repr(repr(text))[1:-1], visible(text)]


def _secrets_of(holders: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for word in holders:
        behind = word.partition("://")[2]
        found.add(behind.rpartition("@")[0].partition(":")[2])
        found.update(re.findall(rf"(?:{'|'.join(SECRETS)})\s*=\s*('(?:\\.|[^'\\])*'|[^&\s]*)", word))
        found.update(re.findall(r"[?#;&][^=\s]{1,64}=([^&\s]*)", word))
    pieces = {piece for secret in found for piece in re.split(r"[/?#@&\s]", secret)}
    every = found | pieces
    every |= {unquote(secret) for secret in every}
    return {secret for secret in every if len(secret) >= _SHORTEST_HIDDEN}


def _server_place(text: str, argument: str) -> Place:
    """The place that a URL or ``key=value`` pairs name; no error quotes the text."""
    _libpq()
    is_url = bool(_URL.match(text))
    if is_url and not _is_clear(text):
        raise InvalidInput(argument, shown(text), ENCODE)
    parts = _parsed(text)
    if parts is None or not _is_plain(parts):
        raise InvalidInput(argument, shown(text), ENCODE)
    public = _public(parts)
    written = _as_written(text) if is_url else None
    if written is None or _parsed(written) != public:
        written = _as_url(public)
    if _parsed(written) != public:
        raise InvalidInput(argument, shown(text), ENCODE)
    if any(name in parts for name in SECRETS):
        _warn(written)
    hides_settings = public.get("options", "") != parts.get("options", "")
    hidden = parts.keys() - public.keys()
    return Place(written, text, path=None, parts=public, hides_settings=hides_settings, hides_parameters=bool(hidden))


def _is_clear(url: str) -> bool:
    """True if a URL has one ``@``, before the host. A second one, or a slash before it, is of a password."""
    if not url.startswith(_SCHEMES) or "\0" in url:
        return False
    behind = url.partition("://")[2]
    user, at, rest = behind.partition("@")
    if not at:
        return True
    return "/" not in user and "@" not in rest


def _is_plain(parts: Mapping[str, str]) -> bool:
    """True if the database is a name and ports are numbers: otherwise they may be pieces of a password."""
    dbname, port = parts.get("dbname", ""), parts.get("port", "")
    is_nested = "://" in dbname or _PAIR.search(dbname) is not None
    if any(_has_separator(name, parts.get(name, "")) for name in ("host", "dbname", "user")):
        return False
    return not is_nested and re.fullmatch(r"[\s0-9,+]*", port) is not None


def _has_separator(name: str, value: str) -> bool:
    """True if a value holds a character that separates parameters, so that a password may be behind it."""
    separators = ";&=:" if name == "user" else ";&="
    spelled = value + unquote(value)
    return any(separator in spelled for separator in separators)


def _public(parts: Mapping[str, str]) -> dict[str, str]:
    public = {name: parts[name] for name in SHOWN if name in parts}
    if "options" in public:
        public["options"] = _harmless(public["options"])
    return {name: value for name, value in public.items() if value}


def _harmless(options: str) -> str:
    """The settings of ``options`` that may be shown; the value of any other setting may be a secret.

    >>> _harmless("-csearch_path=wards -capp.pin=x")
    '-csearch_path=wards'
    """
    kept = []
    for setting in re.split(r"\s+(?=-)", options):
        named = _SETTING.fullmatch(setting)
        name = named["name"].replace("\\", "").lower() if named else ""
        name = name.replace("-", "_") if name in _IN_DASHES else name
        if _SERVERS_SETTING.fullmatch(name):
            kept.append(setting)
    return " ".join(kept)


def _as_written(url: str) -> str | None:
    """The URL as the user spelled it, without its password and what else is not shown; None if it is malformed."""
    scheme, _, behind = url.partition("://")
    before, at, after = behind.partition("@")
    user = quote(unquote(before.partition(":")[0]), safe="") if at else ""
    try:
        parts = urlsplit(f"{scheme}://{after if at else behind}".replace("#", "%23"))
    except ValueError:  # brackets without an address
        return None
    pairs = [(name, value) for name, value in parse_qsl(parts.query) if name in SHOWN]
    query = f"?{urlencode(pairs)}" if pairs else ""
    return f"{scheme}://{user}{'@' * bool(user)}{parts.netloc}{parts.path}{query}"


def _as_url(public: Mapping[str, str]) -> str:
    """The URL of some parameters."""
    left = dict(public)
    user = quote(left.pop("user", ""), safe="")
    hosts, ports = left.get("host", "").split(","), left.get("port", "").split(",")
    authority = ""
    if all(_PLAIN_HOST.fullmatch(host) for host in hosts) and len(ports) == len(hosts):
        pairs = zip(hosts, ports, strict=True)
        authority = ",".join(f"{host}:{port}" if port else host for host, port in pairs)
        left.pop("host")
        left.pop("port", None)
    dbname = left.pop("dbname", "")
    path = f"/{quote(dbname, safe='')}" if dbname else ""
    query = f"?{urlencode(left, quote_via=quote, safe='')}" if left else ""
    return f"postgresql://{user}{'@' * bool(user)}{authority}{path}{query}"


def _libpq() -> Any:
    """Return psycopg's module of libpq."""
    try:
        from psycopg import pq
    except ImportError:
        pq = None  # type: ignore[assignment]
    if pq is None:
        raise Unavailable(_NEEDS)
    return pq


def _parsed(text: str) -> dict[str, str] | None:
    """The parameters that libpq finds in a text, without empty ones; None if it finds a mistake."""
    if "\0" in text or not text.isprintable():
        return None
    try:
        found = _libpq().Conninfo.parse(text.encode())
        return {each.keyword.decode(): each.val.decode() for each in found if each.val}
    except (UnicodeError, _error()):
        return None


def _error() -> type[Exception]:
    import psycopg

    return psycopg.Error


def _defaults(parts: Mapping[str, str]) -> dict[str, str]:
    """The defaults of libpq for parameters that a place leaves out."""
    pq = _libpq()
    if "service" not in parts:
        return _values(pq.Conninfo.get_defaults())
    # libpq reads the service file when a connection starts. An invalid value ends it before the network is used. It is
    # that of a parameter which is not shown, so that all shown ones are found as they are.
    service = parts["service"].replace("\\", "\\\\").replace("'", "\\'")
    started = pq.PGconn.connect_start(f"service='{service}' target_session_attrs='{_NO_CONNECTION}'".encode())
    found = _values(started.info)
    started.finish()
    if "user" not in found:
        allowed = "a service of the file that PGSERVICEFILE names, or of ~/.pg_service.conf"
        raise InvalidInput("service", parts["service"], allowed)
    return found


def _values(options: Iterable[Any]) -> dict[str, str]:
    return {each.keyword.decode(): each.val.decode(errors="replace") for each in options if each.val}


_warned: set[str] = set()


def _warn(text: str) -> None:
    """Warn once for each place. The warning is about a line of this file: a line of the caller holds the password."""
    if text in _warned:
        return
    _warned.add(text)
    warnings.warn(
        f"the password for {text} is part of the place, where shells and process lists show it; "
        "put it into a pass file (~/.pgpass or PGPASSFILE), a service file or PGPASSWORD",
        PasswordInPlace,
        stacklevel=1,
    )
