"""Places show no secret, and libpq decides which part of a place is one."""

from __future__ import annotations

import copy
import json
import os
import pickle
import sys
import warnings
from pathlib import Path
from urllib.parse import quote

import pytest

import tallystick as ts
from tallystick import place as places
from tallystick import strict_json
from tallystick.errors import InvalidInput, PasswordInPlace, Refused, Unavailable
from tallystick.ledger import Ledger
from tallystick.place import Place, names_server, shown, without_secrets
from tallystick.printing import visible
from tallystick.tables.sources import Source, check_one_server, identity, source_from_data, source_of

pytestmark = pytest.mark.filterwarnings("ignore::tallystick.errors.PasswordInPlace")

# Recorded from version 0.1.0: the URL, the text that is stored, and the identities of visits and of wards.visits.
# Ledgers hold digests of the identities, so they must not change.
RECORDED = (
    (
        "postgresql://db.example/clinic",
        "postgresql://db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgres://db.example/clinic",
        "postgres://db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://ana@db.example/clinic",
        "postgresql://ana@db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://ana:secret@db.example/clinic",
        "postgresql://ana@db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://ana:secret@DB.Example:5433/Clinic",
        "postgresql://ana@DB.Example:5433/Clinic",
        "postgres db.example:5433/Clinic visits",
        "postgres db.example:5433/Clinic wards.visits",
    ),
    (
        "postgresql://ana:s%23c%2Fr%40t@db.example/clinic",
        "postgresql://ana@db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://ana:se#c?et@db.example:5433/clinic",
        "postgresql://ana@db.example:5433/clinic",
        "postgres db.example:5433/clinic visits",
        "postgres db.example:5433/clinic wards.visits",
    ),
    (
        "postgresql://:secret@db.example/clinic",
        "postgresql://db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://ana%40corp@db.example/clinic",
        "postgresql://ana%40corp@db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?sslmode=require",
        "postgresql://db.example/clinic?sslmode=require",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://ana:secret@db.example/clinic?password=secret&sslmode=require",
        "postgresql://ana@db.example/clinic?sslmode=require",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?user=ana&password=secret",
        "postgresql://db.example/clinic?user=ana",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?options=-csearch_path%3Dwards",
        "postgresql://db.example/clinic?options=-csearch_path%3Dwards",
        "postgres db.example:5432/clinic -csearch_path=wards visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?options=-csearch_path%3Dwards%2Cpublic&application_name=x+y",
        "postgresql://db.example/clinic?options=-csearch_path%3Dwards%2Cpublic&application_name=x+y",
        "postgres db.example:5432/clinic -csearch_path=wards,public visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?options=-cstatement_timeout%3D5s",
        "postgresql://db.example/clinic?options=-cstatement_timeout%3D5s",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example:05432/clinic",
        "postgresql://db.example:05432/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://[::1]:5432/clinic",
        "postgresql://[::1]:5432/clinic",
        "postgres localhost:5432/clinic visits",
        "postgres localhost:5432/clinic wards.visits",
    ),
    (
        "postgresql://[2001:db8::1]/clinic",
        "postgresql://[2001:db8::1]/clinic",
        "postgres 2001:db8::1:5432/clinic visits",
        "postgres 2001:db8::1:5432/clinic wards.visits",
    ),
    (
        "postgresql://localhost/clinic",
        "postgresql://localhost/clinic",
        "postgres localhost:5432/clinic visits",
        "postgres localhost:5432/clinic wards.visits",
    ),
    (
        "postgresql://127.0.0.1:5432/clinic",
        "postgresql://127.0.0.1:5432/clinic",
        "postgres localhost:5432/clinic visits",
        "postgres localhost:5432/clinic wards.visits",
    ),
    (
        "postgresql://postgres@/postgres?host=/tmp/x",
        "postgresql://postgres@/postgres?host=%2Ftmp%2Fx",
        "postgres localhost:5432/postgres visits",
        "postgres localhost:5432/postgres wards.visits",
    ),
    (
        "postgresql://postgres:@/postgres?host=/tmp/x",
        "postgresql://postgres@/postgres?host=%2Ftmp%2Fx",
        "postgres localhost:5432/postgres visits",
        "postgres localhost:5432/postgres wards.visits",
    ),
    (
        "postgresql://%2Ftmp%2Fx/clinic",
        "postgresql://%2Ftmp%2Fx/clinic",
        "postgres localhost:5432/clinic visits",
        "postgres localhost:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example",
        "postgresql://db.example",
        "postgres db.example:5432/ visits",
        "postgres db.example:5432/ wards.visits",
    ),
    (
        "postgresql://ana@db.example/",
        "postgresql://ana@db.example/",
        "postgres db.example:5432/ visits",
        "postgres db.example:5432/ wards.visits",
    ),
    (
        "postgresql://db.example/my%20clinic",
        "postgresql://db.example/my%20clinic",
        "postgres db.example:5432/my clinic visits",
        "postgres db.example:5432/my clinic wards.visits",
    ),
    (
        "postgresql://db.example/klinik%C3%A4",
        "postgresql://db.example/klinik%C3%A4",
        "postgres db.example:5432/klinikä visits",
        "postgres db.example:5432/klinikä wards.visits",
    ),
    (
        "postgresql://db.example?dbname=clinic",
        "postgresql://db.example?dbname=clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example:5433?dbname=clinic&connect_timeout=3",
        "postgresql://db.example:5433?dbname=clinic&connect_timeout=3",
        "postgres db.example:5433/clinic visits",
        "postgres db.example:5433/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?hostaddr=10.0.0.1",
        "postgresql://db.example/clinic?hostaddr=10.0.0.1",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?sslkey=%2Fk&sslpassword=secret&passfile=%2Fp",
        "postgresql://db.example/clinic",
        "postgres db.example:5432/clinic visits",
        "postgres db.example:5432/clinic wards.visits",
    ),
    (
        "postgresql://db.example/clinic?port=6000&host=other.example",
        "postgresql://db.example/clinic?port=6000&host=other.example",
        "postgres other.example:6000/clinic visits",
        "postgres other.example:6000/clinic wards.visits",
    ),
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(places, "_warned", set())


@pytest.mark.parametrize(("url", "stored", "visits", "in_schema"), RECORDED)
def test_stored_texts_and_identities_are_those_of_earlier_ledgers(
    url: str, stored: str, visits: str, in_schema: str
) -> None:
    source = source_of(url)
    assert source.to_data()["place"] == stored
    assert (identity(source, "visits"), identity(source, "wards.visits")) == (visits, in_schema)
    again = source_from_data(json.loads(json.dumps(source.to_data())))
    assert again == source
    assert identity(again, "visits") == visits


def test_a_stored_url_without_a_host_is_one_that_libpq_reads() -> None:
    """Earlier versions stored ``postgresql:/clinic``, which libpq refuses."""
    source = source_of("postgresql:///clinic?host=/run/pg&options=-c%20search_path%3Da")
    assert source.place == "postgresql:///clinic?host=%2Frun%2Fpg&options=-c%20search_path%3Da"
    old = source_from_data({"kind": "postgres", "place": "postgresql:/clinic?host=%2Frun%2Fpg"})
    assert old.place == "postgresql:///clinic?host=%2Frun%2Fpg"
    assert identity(old, "visits") == "postgres localhost:5432/clinic visits"


SECRET = "postgresql://ana:s3cretpw@db.example/x?sslpassword=s3cretpw&options=-capp.token%3Ds3cretpw%20-cgeqo%3Don"


def test_no_text_of_a_place_has_a_secret() -> None:
    place = Place.of(SECRET)
    shared = pickle.loads(pickle.dumps(place))
    texts = [str(place), repr(place), f"{place}", f"{place:>90}", place.to_data(), repr(place.server())]
    texts += [repr(shared), repr(copy.deepcopy(place)), pickle.dumps(place).decode("latin1"), repr(source_of(SECRET))]
    assert not [text for text in texts if "s3cret" in text]
    assert str(place) == "postgresql://ana@db.example/x?options=-cgeqo%3Don"
    assert shared == place
    assert not hasattr(place, "__dict__")


def test_a_place_is_inert_for_a_terminal() -> None:
    assert str(Place.of("bud\x1b[2Jget.db")) == "bud\\x1b[2Jget.db"
    assert str(Place.of("postgresql://db/a%1b%0ab")).isprintable()
    assert str(Place.of("host=db dbname='a%1bb'")).isprintable()
    with pytest.raises(InvalidInput) as refused:
        Place.of("postgresql://db/a\x1b[2J")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ana:s3/cret@db/x",
        "postgresql://ana:12/s3cret@db/x",
        "postgresql://ana:s3@cret@db/x",
        "postgresql://ana:s3 cret@db/x",
        "postgresql://ana:s3cret%2@db/x",
        "postgresql://db:s3cret/x",
        "postgresql://db/x?pasword=s3cret",
        "postgresql://db/x\0?password=s3cret",
        "postgresql:///postgresql%3A%2F%2Fana%3As3cret%40db",
        "postgresql://[s3cret/x",
        "PostgreSQL://ana:s3cret@db/x",
        "host=db password='s3cret",
        "Host=db Password=s3cret",
        "Server=db;Database=x;Pwd=s3cret",
        "host=db;password=s3cret",
        "postgresql://db;password=s3cret/x",
        "postgresql://db/x;pass=s3cret",
        "postgresql://db/x&pass=s3cret",
        "postgresql://db/x%3Bs3cret",
        "postgresql://ana%3As3cret@db/x",
        "postgresql://ana%253As3cret@db/x",
    ],
)
def test_a_place_that_may_show_a_piece_of_a_password_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="percent-encoded") as refused:
        Place.of(text)
    assert "s3" not in str(refused.value) + repr(vars(refused.value))
    assert refused.value.__context__ is None


def test_a_password_in_a_place_is_reported_once_and_not_shown() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            Place.of("postgresql://ana:s3cret@db.example/x")
        Place.of("postgresql://ana@db.example/x?sslmode=require")
        Place.of("postgresql://ana:@db.example/y")
    [only] = told
    assert only.category is PasswordInPlace
    assert "s3cret" not in str(only.message)
    assert "PGPASSWORD" in str(only.message)
    assert only.filename == places.__file__  # Python prints that line: a line of the caller would hold the password


def test_several_hosts_are_shown_and_are_no_source() -> None:
    place = Place.of("postgresql://ana:s3cret@one.example:5432,two.example:5433/ledger")
    assert str(place) == "postgresql://ana@one.example:5432,two.example:5433/ledger"
    assert place.hosts == ("one.example", "two.example")
    assert str(Place.of("host=a,b port=1,2 dbname=x")) == "postgresql://a:1,b:2/x"
    assert str(Place.of("password=s3cret")) == "postgresql://"
    for check in (check_one_server, lambda source: identity(source, "visits")):
        with pytest.raises(Refused, match="names 2 servers"):
            check(source_of("postgresql://one.example,two.example/x"))
        with pytest.raises(Refused, match="may be a secret"):
            check(source_of("postgresql://db/x?options=-capp.token%3Ds3cret"))


def test_libpq_fills_in_what_a_place_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "services").write_text("[clinic]\nhost=svc.example\nport=6000\ndbname=wards\nuser=bob\npassword=s3\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert Place.of("postgresql://?service=clinic").server() == ("svc.example", "6000", "wards", "bob")
    assert Place.of("postgresql:///ledger?service=clinic").server().dbname == "ledger"
    named = identity(source_of("postgresql://?service=clinic"), "visits")
    assert named == "postgres svc.example:6000/wards visits"
    assert source_of("postgresql://?service=clinic").place == "postgresql://?service=clinic"
    with pytest.raises(InvalidInput, match="service = 'nowhere'"):
        Place.of("postgresql://?service=nowhere").server()
    monkeypatch.setenv("PGHOST", "env.example")
    monkeypatch.setenv("PGDATABASE", "team")
    assert Place.of("postgresql://").server()[:3] == ("env.example", "5432", "team")
    assert Place.of("postgresql://?service=clinic").server().host == "svc.example"
    monkeypatch.setenv("PGSERVICE", "clinic")
    assert Place.of("postgresql://").server()[:3] == ("svc.example", "6000", "wards")


def test_without_the_driver_a_url_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for action in (lambda: Place.of(SECRET), lambda: source_of(SECRET), lambda: Source("postgres", SECRET)):
        with pytest.raises(Unavailable, match=r"pip install '.\[team\]'") as refused:
            action()
        assert "s3cret" not in str(refused.value)
        assert refused.value.__context__ is None
    assert str(Place.of("budget.db")) == "budget.db"


def test_every_parameter_of_libpq_may_come_first() -> None:
    """Otherwise the text would name a local file, and the name of the file would show the password."""
    pq = pytest.importorskip("psycopg").pq
    known = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    assert known <= {*places.SHOWN, *places.SECRETS, *places.OTHERS}
    for name in known:
        assert names_server(f"{name}=1 host=db dbname=x")
    place = Place.of("keepalives=1 host=db dbname=x password=s3cret")
    assert place.is_server
    assert "s3cret" not in str(place)


def test_a_url_without_a_scheme_is_not_shown() -> None:
    assert shown("ana:s3cret@db.example/x") == "a URL"
    assert shown("/data/at 10:30@ward.csv") == "/data/at 10:30@ward.csv"


def test_a_list_of_addresses_is_a_list_of_servers() -> None:
    place = Place.of("host=db.example,db.example hostaddr=10.0.0.1,10.0.0.2 dbname=x")
    assert len(place.hosts) == 2
    assert Place.of("hostaddr=10.0.0.1,10.0.0.2 dbname=x").hosts == ("10.0.0.1", "10.0.0.2")
    with pytest.raises(Refused, match="names 2 servers"):
        check_one_server(source_of("postgresql:///x?hostaddr=10.0.0.1,10.0.0.2"))


def test_a_file_is_a_file() -> None:
    for text in ("budget.db", "/data/host=web1/visits.parquet", "user=5/visits.parquet", "a b.csv", "x=1.db"):
        assert not names_server(text)
        assert Place.of(text).path == Path(text)
        assert shown(text) == text


def test_messages_of_others_lose_the_secrets_of_the_command_line() -> None:
    words = ["--ledger=postgresql://ana:s3cret@db/x", "host=db password='s3 cret'", "visits"]
    told = without_secrets("visits: s3cret in postgresql://ana:s3cret@db/x and 's3 cret'", words)
    assert told == "visits: *** in postgresql://... and ***"


@pytest.mark.parametrize(
    "text",
    [
        "md:wards?motherduck_token=s3cret",
        "s3:/bucket/x.parquet?secret=s3cret",
        "az:/c?sig=s3cret/x.parquet",
        "visits.parquet?key=s3cret",
        "visits.csv#token=s3cret",
        "https%3A//ana:s3cret@db/x.csv",
    ],
)
def test_parameters_and_users_of_other_urls_are_not_shown(text: str) -> None:
    assert "s3cret" not in shown(text)
    quoted = without_secrets(f"No such file: {text!r}, {text}, {Path(text)}", [text])
    assert "s3cret" not in quoted


@pytest.mark.parametrize(
    "word",
    ["host=db password='it\\'s3cret' dbname=x", "postgresql://u:\u202es3cret@db/x", "host=db password='a\\\\s3cret'"],
)
def test_a_message_may_quote_a_word_with_escapes(word: str) -> None:
    for quoted in (word, repr(word), repr(repr(word)), visible(word), json.dumps(word)):
        assert "s3cret" not in without_secrets(f"No such command {quoted}", [word])


def test_no_error_holds_a_text_that_is_not_unicode(tmp_path: Path) -> None:
    text = "postgresql://ana:s3cret\udc80@db/x"
    with Ledger(tmp_path / "budget.db", config=tmp_path / "config") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=1))
        with pytest.raises(InvalidInput) as caught:
            account.register("visits", source=text)
    assert "s3cret" not in repr((caught.value, caught.value.__context__, caught.value.args))
    with pytest.raises(InvalidInput) as caught:
        strict_json.read(json.dumps({"source": text}))
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "options",
    [
        "-capp.pw=s3cret",
        "-c app.pin=s3cret",
        "--my-word=s3cret",
        "-csearch_path=a s3cret",
        "-cnew.setting=s3cret",
        "s3cret",
    ],
)
def test_only_settings_on_the_list_are_shown(options: str) -> None:
    place = Place.of(f"postgresql://ana@127.0.0.1:1/x?options={quote(options + ' -cgeqo=on')}")
    assert "s3cret" not in str(place)
    assert "geqo" in str(place)
    assert place.hides_settings


def test_a_password_with_a_space_is_not_the_name_of_a_file() -> None:
    assert shown("ana:my s3cret@db/x.csv") == "a URL"
    with pytest.raises(InvalidInput) as caught:
        source_of("ana:my s3cret@db/x.csv")
    assert "s3cret" not in str(caught.value)


def test_a_ledger_that_is_missing_is_named_without_parameters(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"there is no ledger at .*x.db\?\.\.\.") as caught:
        ts.Ledger(tmp_path / "x.db?token=s3cret", create=False)
    assert "s3cret" not in json.dumps(caught.value.to_data())
    assert Place.of("x.db?a=1") != Place.of("x.db?a=2")


def test_a_lone_surrogate_in_a_source_is_not_quoted(tmp_path: Path) -> None:
    ledger = ts.Ledger(tmp_path / "b.db")
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    source = "https://ana:s3cret\udc80@db/x.csv"
    with pytest.raises(InvalidInput, match="Unicode characters") as caught:
        ledger.charge(ts.zcdp(rho=0.1), accounts=[account], why="a test", source=source).reserve()
    problem: BaseException | None = caught.value
    while problem is not None:
        assert "s3cret" not in repr(problem)
        problem = problem.__context__


@pytest.mark.parametrize("before", ["--ledger", "--", "-l", "--ledger=", ""])
def test_a_url_in_a_word_is_hidden_whatever_stands_before_it(before: str) -> None:
    word = f"{before}postgresql://u:s3cretpw@127.0.0.1:1/db?sslmode=x"
    assert "s3cretpw" not in without_secrets(f"unknown option {word}. See --help", [word])


@pytest.mark.filterwarnings("ignore::tallystick.errors.PasswordInPlace")
@pytest.mark.parametrize(
    ("word", "is_kept"),
    [
        ("postgresql://ana@db.example:5433/team?options=-csearch_path%3Dledger", True),
        ("--ledger=postgresql://ana@db.example/team", True),
        ("postgresql://ana:s3cret@db.example/team", False),
        ("postgresql://ana@db.example/team?password=s3cret", False),
        ("postgresql://ana@db.example/team?sslkey=s3cret", False),
        ("postgresql://ana@db.example@team", False),
        ("mysql://ana@db.example/team", False),
    ],
)
def test_a_place_without_secrets_is_named_in_messages(word: str, is_kept: bool) -> None:
    place = word.removeprefix("--ledger=")
    message = without_secrets(f"there is no ledger at {place}.", [word])
    assert (place in message) == is_kept
    assert "s3cret" not in message
