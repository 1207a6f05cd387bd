"""No password of a ledger or a source reaches output, an exception, a warning or a file.

Every command runs with passwords that hold the word CANARY, in many forms. The word has letters and digits alone, so
percent-encoding does not change it, and a piece of a password is found as well.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

import tallystick as ts
from crash.stores import config, fresh_schema, postgres, tmp_path  # noqa: F401
from tallystick.cli import app as cli_app
from tallystick.cli import failure

CANARY = "Can4ryPw"
BUDGET = "zcdp(rho=50, delta=1e-5)"
WHY = ("--why", "test")

# Arguments of every command, in an order in which each one succeeds. {source} is a PostgreSQL URL with a password.
ARGUMENTS: dict[str, str] = {
    "ledger init": "",
    "account open": f"clinic --budget '{BUDGET}' --unit patient",
    "account show": "clinic",
    "account raise": "clinic --budget 'zcdp(rho=60, delta=1e-5)' --why test",
    "charge add": "'gaussian(sigma=10)' --account clinic --why test",
    "charge list": "",
    "charge show": "4",
    "dataset add": "{source} --table visits --population clinic --unit patient --max-groups 2 --max-rows-per-group 3"
    " --bounds cost=0:10 --bounds age=0:100 --about curators=c --about region=Europe --about product_type=Dataset",
    "dataset update": "visits --max-groups 2",
    "dataset list": "",
    "dataset show": "visits",
    "dataset clear": "visits --why test --dry-run",
    "dataset remove": "visits --dry-run",
    "dataset retire": "visits --why test --dry-run",
    "dataset suggest": "visits --by ward --range age=0:150 --rho 0.1 --why test",
    "publish plan": "visits --measures count --by ward --keys wards.csv --rho 0.1 --out plan.json",
    "publish run": "plan.json --why test --out table.csv --card card.html --source {source}",
    "publish rehearse": "plan.json --synthetic --units 50 --caps 1x1",
    "query": "visits --measures count --by ward --keys wards.csv --rho 0.1 --why test",
    "sql": "'SELECT COUNT(*) AS n FROM visits' --rho 0.1 --why test",
    "fit linear": "visits --target cost --features age --rho 1 --why test --out linear.json",
    "fit logistic": "visits --target ward --features age --labels a,b --epsilon 1 --pure --why test --dry-run",
    "card show": "card.html",
    "card export": "card.html --to registry --out record.yaml",
    "card verify": "card.html",
    "budget": "clinic",
    "audit ledger": "",
    "audit table": "plan.json --first first.csv --second second.csv --draws 100",
    "ledger show": "",
    "ledger verify": "",
    "ledger head": "",
    "ledger accept": "--first-use --why test --dry-run",
    "ledger roles": "--schema ledger --database team",
    "ledger export": "--out export.jsonl",
    "ledger import": "export.jsonl",
    "ledger erase": "4 --why test",
    "ledger purge": "",
    "ledger key": "",
    "ledger govern": "--why test",
    "ledger add-key": f"{'ab' * 32} --why test",
    "ledger keys": "",
    "ledger retire-key": f"{'ab' * 32} --why test",
    "ledger checkpoint": "",
    "ledger begin-roles": "--why test",
    "ledger members": "",
    "ledger grant": "ann analyst --population clinic --why test",
    "ledger quorum": "clinic --needed money=0 --why test",
    "account allow": "clinic ann --budget 'zcdp(rho=1, delta=1e-7)' --why test",
    "account request": "clinic --budget 'zcdp(rho=70, delta=1e-5)' --why test",
    "account requests": "",
    "account approve": "{request} --why test",
    "account reject": "{request} --why test",
    "account withdraw": "{request}",
    "token create": "--out token.txt",
    "serve connect": "wards wards --population clinic",
    "serve disconnect": "wards",
    "serve connections": "",
    "serve jobs": "",
    "serve failures": "clinic",
    "serve lift": "clinic ann",
    "serve stop": "",
    "token list": "",
    "token revoke": "{token}",
    "ledger revoke": "ann analyst --population clinic --why test",
    "ledger break-glass": "ann --population clinic --why test",
    "ledger end": "ann --why test",
    "account close": "clinic --why test",
    "epsilon": "'gdp(mu=1)' --delta 1e-5",
    "delta": "'gdp(mu=1)' --epsilon 1",
    "compare": "'gdp(mu=1)' --delta 1e-5",
    "import": "opacus opacus.json",
    "explain": "'gdp(mu=1)'",
    "calibrate": "'gaussian(sigma=X)' --epsilon 1 --delta 1e-5",
    "train plan": "--epsilon 1 --delta 1e-5 --examples 1000 --batch 10 --epochs 1",
    "release": "5 --epsilon 1 --sensitivity 1",
    "respond": "yes no --choices yes,no",
    "plot": "'gdp(mu=1)' --out loss.svg",
    "explore": "--out explorer.html",
    "theorem": "",
    "doctor": "",
    "certificate write": "'gdp(mu=1)' --epsilon 1 --out certificate.json",
    "certificate check": "certificate.json",
    "audit mechanism": "count.py:release --first 1.json --second 2.json --claim 'pure_dp(epsilon=1)' --draws 100",
    "audit coins": "20 --out coins.json",
    "audit plan": "--claim 'gdp(mu=1)' --canaries 100",
    "audit run": "scores.txt --coins coins.json --claim 'gdp(mu=1)'",
    "audit accounting": "loss 'gaussian(sigma=1)' --claimed 50 --delta 1e-5",
    "demo": "differencing --out demo",
}


OWN_REQUEST = {
    "account approve": 7,
    "account reject": 7,
    **dict.fromkeys((f"serve {word}" for word in "connect disconnect connections jobs failures lift stop".split()), 2),
}
"""Exit codes of commands that are refused here: one user cannot decide on an own request, and no service runs."""


def commands(found: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that the parser knows, by its full name."""
    found = found or typer.main.get_command(cli_app.app)
    for name, command in found.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())
LEDGER_COMMANDS = [name for name, command in COMMANDS.items() if any("--ledger" in p.opts for p in command.params)]
JSON_COMMANDS = [name for name, command in COMMANDS.items() if any("--json" in p.opts for p in command.params)]


@dataclass
class Session:
    """Runs commands and keeps all that they show."""

    folder: Path
    read: Callable[[], Any]
    errors: list[BaseException] = field(default_factory=list)
    search_errors: bool = True

    def run(self, name: str, *words: str, **places: str) -> tuple[int, str]:
        """Run one command; fail if anything that it shows has the canary."""
        import shlex

        given = shlex.split(ARGUMENTS[name])
        return self.run_words(*name.split(), *(word.format(**places) for word in given), *words)

    def run_words(self, *words: str) -> tuple[int, str]:
        self.errors.clear()
        code = cli_app.run(list(words))
        said = self.read()
        shown = f"{said.out}\n{said.err}"
        for error in self.errors if self.search_errors else ():
            shown += "\n".join(chain(error))
        refuse_canary(shown, words[:2])
        return code, said.out + said.err

    def search_files(self) -> int:
        """Fail if a file of the folder has the canary; return the number of files."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        for path in files:
            refuse_canary(path.read_bytes().decode("utf-8", "replace"), str(path))
        return len(files)


def chain(error: BaseException | None) -> Iterator[str]:
    """Texts of an exception, of its arguments and attributes, and of all exceptions behind it."""
    if error is None:
        return
    yield repr(error)
    yield str(error)
    yield repr(error.args)
    yield repr(getattr(error, "__dict__", {}))
    yield repr(getattr(error, "__notes__", ()))
    yield from chain(error.__cause__)
    yield from chain(error.__context__)


def refuse_canary(text: str, what: object) -> None:
    at = text.lower().find(CANARY.lower())
    assert at < 0, f"{what} shows a password: ...{text[max(at - 60, 0) : at + 40]!r}..."


@pytest.fixture
def session(
    tmp_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Session:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    prepared(folder)
    made = Session(folder, capsys.readouterr)
    for name in ("from_error", "from_bug"):
        real = getattr(failure, name)

        def kept(error: BaseException, *rest: Any, real: Any = real) -> Any:
            made.errors.append(error)
            return real(error, *rest)

        monkeypatch.setattr(failure, name, kept)
    return made


def prepared(folder: Path) -> None:
    """Files that commands read."""
    (folder / "wards.csv").write_text("ward\na\nb\n")
    (folder / "first.csv").write_text("patient,ward,age,cost\n1,a,30,2\n2,b,40,3\n")
    (folder / "second.csv").write_text("patient,ward,age,cost\n1,a,30,2\n")
    (folder / "opacus.json").write_text(json.dumps([[1.0, 0.01, 100]]))
    (folder / "1.json").write_text("[1]")
    (folder / "2.json").write_text("[]")
    (folder / "scores.txt").write_text("\n".join(["0.5"] * 20))
    (folder / "count.py").write_text("import random\ndef release(data):\n    return len(data) + random.gauss(0, 9)\n")


def visits(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS visits (patient int, ward text, age int, cost float8)")
        connection.execute("TRUNCATE visits")
        rows = "SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i, 2 FROM generate_series(1, 60) AS i"
        connection.execute(f"INSERT INTO visits {rows}")


def with_password(url: str, password: str) -> str:
    """The URL of the suite's own server, which trusts everybody, with a password."""
    assert "postgres:@" in url
    return url.replace("postgres:@", f"postgres:{password}@")


def test_every_command_has_arguments_here() -> None:
    missing = set(COMMANDS) - set(ARGUMENTS)
    assert not missing, f"add arguments for {sorted(missing)}, so that their output is searched for passwords"
    assert set(ARGUMENTS) <= set(COMMANDS)


LISTS = {"{request}": ("account requests", "requests", "request"), "{token}": ("token list", "tokens", "number")}
"""Commands that list what others are about, with the names of the list and of a number in their objects."""


def newest(session: Session, name: str, ledger: str) -> str:
    """The number of the newest request or token, if the arguments of a command have one."""
    for mark, (command, many, one) in LISTS.items():
        if mark in ARGUMENTS[name]:
            _, said = session.run(command, "--ledger", ledger, "--json")
            return str(json.loads(said.splitlines()[0])["found"][many][-1][one])
    return ""


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_command_shows_a_password_while_it_works(
    session: Session,
    postgres: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    as_json: bool,
) -> None:
    home, data, copy = (fresh_schema(postgres) for _ in range(3))
    visits(data)
    ledger = with_password(home, f"{CANARY}%23%2F%3F%40%20{CANARY}")
    source = with_password(data, f"{CANARY}%2F{CANARY}")
    monkeypatch.setenv("TALLYSTICK_LEDGER", ledger)
    failed: dict[str, str] = {}
    for name in ARGUMENTS:
        words = ["--ledger", with_password(copy, CANARY)] if name == "ledger import" else []
        words += ["--ledger", ledger] if name in LEDGER_COMMANDS and not words else []
        words += ["--json"] if as_json and name in JSON_COMMANDS else []
        places = {"source": source, "request": newest(session, name, ledger), "token": newest(session, name, ledger)}
        code, said = session.run(name, *words, **places)
        if code != OWN_REQUEST.get(name, 0):
            failed[name] = said
    assert not failed, failed
    assert session.search_files() >= 20


def refused(host: str) -> dict[str, str]:
    """Ledgers that no server answers, with passwords in every form."""
    c = CANARY
    return {
        "plain": f"postgresql://ana:{c}@{host}/x",
        "encoded": f"postgresql://ana:{c}%23%2F%3F%40%20{c}@{host}/x",
        "number sign": f"postgresql://ana:{c}#{c}@{host}/x",
        "question mark": f"postgresql://ana:{c}?{c}@{host}/x",
        "slash": f"postgresql://ana:{c}/{c}@{host}/x",
        "slash after a number": f"postgresql://ana:12/{c}@{host}/x",
        "at sign": f"postgresql://ana:{c}@{c}@{host}/x",
        "space": f"postgresql://ana:{c} {c}@{host}/x",
        "all": f"postgresql://ana:{c}#/?@ {c}@{host}/x",
        "brackets": f"postgresql://ana:[{c}]@{host}/x",
        "half an escape": f"postgresql://ana:{c}%2@{host}/x",
        "parameter": f"postgresql://{host}/x?password={c}",
        "key's password": f"postgresql://{host}/x?sslpassword={c}",
        "options": f"postgresql://{host}/x?options=-capp.password%3D{c}",
        "unknown parameter": f"postgresql://{host}/x?pasword={c}",
        "several hosts": f"postgresql://ana:{c}@{host},127.0.0.1:2/x",
        "pairs": f"host=127.0.0.1 port=1 dbname=x password='{c} {c}'",
        "an open quote": f"host=127.0.0.1 port=1 password='{c}",
        "capitals": f"POSTGRESQL://ana:{c}@{host}/x",
        "another scheme": f"mysql://ana:{c}@{host}/x",
        "a path": f"postgresql:/ana:{c}@{host}/x",
        "a nested place": f"postgresql:///postgresql%3A%2F%2Fana%3A{c}%40db",
    }


@pytest.mark.parametrize("form", refused(""))
def test_no_command_shows_a_password_of_a_ledger_it_cannot_open(
    session: Session, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    ledger = refused("127.0.0.1:1")[form]
    (session.folder / "plan.json").write_text("{}")
    for name in LEDGER_COMMANDS:
        words = ["--json"] if name in JSON_COMMANDS else []
        code, _ = session.run(name, "--ledger", ledger, *words, source="first.csv", request="1", token="1")
        assert code != 0, name
    monkeypatch.setenv("TALLYSTICK_LEDGER", ledger)
    for name in ("ledger show", "dataset list", "budget"):
        assert session.run(name)[0] != 0, name
    session.search_files()


@pytest.mark.parametrize("form", refused(""))
def test_no_command_shows_a_password_in_an_argument_that_it_does_not_expect(session: Session, form: str) -> None:
    place = refused("127.0.0.1:1")[form]
    session.search_errors = False  # a file that is not there may be named by an exception, and not by the output
    for name in COMMANDS:
        code, _ = session.run_words(*name.split(), place, "--no-such-option", "--json")
        assert code != 0, name
    for words in (("ledger", "show", place), ("card", "show", place), ("epsilon", place, "--delta", place)):
        assert session.run_words(*words)[0] != 0, words
    for words in (("dataset", "add", place, "--population", "p", "--unit", "u"), ("publish", "run", place, *WHY)):
        assert session.run_words(*words, "--json")[0] != 0, words
    session.search_files()


def test_a_password_from_the_environment_or_from_a_file_works_and_is_not_shown(
    session: Session,
    postgres: str,  # noqa: F811
    tmp_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = fresh_schema(postgres)
    session.run_words("ledger", "init", url)
    socket = url.partition("host=")[2].partition("&")[0]
    schema = url.partition("options=")[2].replace("%3D", "=")
    (tmp_path / "services").write_text(
        f"[clinic]\nhost={socket}\nuser=postgres\ndbname=postgres\noptions={schema}\npassword={CANARY}\n"
    )
    (tmp_path / "passwords").write_text(f"*:*:*:*:{CANARY}\n")
    (tmp_path / "passwords").chmod(0o600)
    path = f"{url}&passfile={tmp_path / 'passwords'}"
    environment = {"PGHOST": socket, "PGUSER": "postgres", "PGDATABASE": "postgres", "PGOPTIONS": schema}
    for place, variables in (
        ("postgresql://?service=clinic", {"PGSERVICEFILE": str(tmp_path / "services")}),
        ("postgresql://", {"PGSERVICEFILE": str(tmp_path / "services"), "PGSERVICE": "clinic"}),
        ("postgresql://", {**environment, "PGPASSWORD": CANARY}),
        (url, {"PGPASSWORD": CANARY}),
        (url, {"PGPASSFILE": str(tmp_path / "passwords")}),
        (path, {}),
        (f"{url}%20-capp.password%3D{CANARY}", {}),
        (f"host={socket} user=postgres dbname=postgres password='{CANARY} x' options={schema}", {}),
        (with_password(url, f"{CANARY}#?{CANARY}"), {}),
    ):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            code, said = session.run_words("ledger", "show", "--ledger", place, "--json")
            assert code == 0, (place, said)
    with monkeypatch.context() as patch:
        patch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        code, said = session.run_words("ledger", "show", "--ledger", "postgresql://?service=nowhere", "--json")
        assert code != 0


def test_python_shows_no_password_of_a_ledger(session: Session, postgres: str) -> None:  # noqa: F811
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with ts.Ledger(with_password(fresh_schema(postgres), f"{CANARY}%40")) as ledger:
            ledger.open("clinic", budget=ts.zcdp(rho=1, delta=1e-6), unit="patient")
            shown = [repr(ledger), ledger._repr_html_(), *ledger.export(), repr(vars(ledger.store))]
        shown += [str(each.message) for each in told]
    refuse_canary("\n".join(shown), "a ledger")
    assert any(issubclass(each.category, ts.errors.PasswordInPlace) for each in told)
    assert {each.filename for each in told if "password" in str(each.message)} != {__file__}  # it shows its line


@pytest.mark.parametrize("form", refused(""))
def test_no_exception_of_python_shows_a_password(form: str, session: Session) -> None:
    place = refused("127.0.0.1:1")[form]
    for action in (
        lambda: ts.Ledger(place),
        lambda: ts.Ledger(Path(place)),
        lambda: ts.Ledger(place, create=False),
        lambda: ts.Private(place).table("visits", unit="patient"),
        lambda: ts.Private(Path(place)).table("visits", unit="patient"),
        lambda: ts.Private({"a": place}),
    ):
        with pytest.raises(ts.errors.TallystickError) as failed:
            action()
        refuse_canary("\n".join(chain(failed.value)), action)
        assert all(type(each).__module__.startswith("tallystick") for each in behind(failed.value))


def behind(error: BaseException | None) -> Iterator[BaseException]:
    if error is not None:
        yield error
        yield from behind(error.__cause__)
        yield from behind(error.__context__)


def test_no_exception_of_the_driver_stays_behind_ours(postgres: str, session: Session) -> None:  # noqa: F811
    import psycopg

    url = fresh_schema(postgres)
    with ts.Ledger(with_password(url, CANARY)) as ledger:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE account CASCADE")
        with pytest.raises(ts.errors.Unavailable) as failed:
            ledger.accounts()
    assert list(behind(failed.value)) == [failed.value]
    refuse_canary("\n".join(chain(failed.value)), "a ledger without its tables")


def test_python_shows_no_password_of_a_source(postgres: str, session: Session) -> None:  # noqa: F811
    url = fresh_schema(postgres)
    visits(url)
    private = ts.Private(with_password(url, f"{CANARY}#{CANARY}"))
    table = private.table("visits", unit="patient").per_unit(max_rows_per_group=1)
    plan = table.agg(n=ts.count()).plan(rho=1)
    texts = [repr(private), private._repr_html_(), repr(table), repr(table.source), plan.to_json(), str(plan)]
    texts.append(repr(table.to_data()))
    texts.append(pickle.dumps(private.source).decode("latin1"))
    refuse_canary("\n".join(texts), "a source")


def test_a_token_is_in_no_other_output_and_in_no_file(session: Session, tmp_path: Path) -> None:  # noqa: F811
    for words in (
        "account open clinic --budget zcdp(rho=1)", "ledger govern --why x", "ledger begin-roles --why x",
    ):  # fmt: skip
        assert session.run_words(*words.split())[0] == 0
    code, said = session.run_words("token", "create", "--json")
    secret = json.loads(said.splitlines()[0])["found"]["token"]
    assert (code, said.count(secret)) == (0, 1)
    number = str(json.loads(said.splitlines()[0])["found"]["number"])
    shown = ""
    for words in (
        "token list", "ledger members", "ledger show", "ledger verify", "account requests", "budget", "charge list",
        "ledger export --level chain", "ledger export --level record", "ledger export --level answers",
        f"token revoke {number}", f"token revoke {secret}", f"account show {secret}", f"ledger members {secret}",
        f"account show {secret[:40]}", f"token create --population {secret}", f"ledger grant {secret} boss --why x",
    ):  # fmt: skip
        for more in ([], ["--json"]):
            said = session.run_words(*words.split(), *(more if "export" not in words else []))[1]
            shown += said
    with ts.Ledger("tallystick.db", create=False) as book:
        made = book.team.make_token()
        assert made.text not in repr(made)
        for wrong in (made.text[:-1] + "x", made.text + "0", secret):
            with pytest.raises(ts.errors.NotAuthorised) as caught:
                book.with_token(wrong)
            shown += "\n".join(chain(caught.value))
    for text in (secret, secret[:40], made.text):
        assert text not in shown
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 3
    held = [str(path) for path in files for text in (secret, made.text) if text.encode() in path.read_bytes()]
    assert held == []
