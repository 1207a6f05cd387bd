"""One call of every command, in one session, and its output with marks for noise, dates, hashes and places.

    make golden-output      writes tests/contracts/golden_output/*.txt again

A file has the call, the exit code, what went to stdout and what went to stderr. Marks: # a number that noise changes,
DATE, HASH, TIME, FOLDER, VERSION.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from contracts import other_users
from tallystick import __version__
from tallystick.cli.app import app, run

GOLDEN = Path(__file__).with_name("golden_output")
SGD = "'1000 * gaussian(sigma=1).sampled(rate=0.01)'"
VISITS = (
    "--population patients-2026 --unit patient_id --person patient --max-groups 2 --max-rows-per-group 3 "
    "--bounds age=0:110 --bounds cost=0:5000 --limit rho=1,delta=1e-6"
)
TABLE = "--by region --keys regions.csv --measures 'count_units,mean(age)' --rho 0.06"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a command.

    ``is_noisy`` if numbers in its result are drawn; ``has_heading`` if the first line of such a result is fixed.
    """

    name: str
    words: str
    code: int = 0
    is_noisy: bool = False
    has_heading: bool = False
    is_shown: bool = True
    user: str = "olga"
    """Name of the user of the operating system."""


def quiet(words: str) -> Call:
    """A call that others need, whose output is not compared."""
    return Call("", words, is_shown=False)


def table(name: str, words: str) -> Call:
    """A call that prints a heading and noisy numbers below it."""
    return Call(name, words, is_noisy=True, has_heading=True)


def drawn(name: str, words: str, code: int = 0) -> Call:
    """A call that prints noisy numbers."""
    return Call(name, words, code, is_noisy=True)


CALLS = (
    quiet("demo files ."),
    Call("demo", "demo files ."),
    Call("ledger init", "ledger init tallystick.db"),
    Call("dataset list", "dataset list"),
    Call("dataset add", f"dataset add visits.csv {VISITS}"),
    Call("dataset update", "dataset update visits --max-groups 1 --about contact=clinic@example.org "
         "--about 'curators=The clinic' --about region=Spain --about 'product_type=Summary statistics'"),
    Call("dataset show", "dataset show visits"),
    Call("publish plan", f"publish plan visits {TABLE} --out table.plan.json"),
    table("publish rehearse", "publish rehearse table.plan.json --synthetic --units 500"),
    table("publish run", "publish run table.plan.json --key t1 --why report --out t.csv --card card.html"),
    table("query", "query visits --by region --keys regions.csv --measures count --rho 0.02 --why look"),
    table("sql", "sql 'SELECT AVG(age) AS age, COUNT(*) AS n FROM visits' --rho 0.05 --why look"),
    table("fit linear", "fit linear visits --target cost --features age --rho 0.05 --why model"),
    drawn(
        "fit logistic",
        "fit logistic visits --target sex --labels f,m --features age --epsilon 0.2 --pure --why model"),
    drawn("dataset suggest", "dataset suggest visits --range age=0:120 --rho 0.2 --why limits"),
    table("card show", "card show card.html"),
    Call("card verify", "card verify card.html"),
    Call("card export", "card export card.html --out card.yaml"),
    Call("budget", "budget"),
    Call("account open", "account open staff --budget 'zcdp(rho=0.5)' --unit nurse"),
    Call("account show", "account show staff"),
    Call("account raise", "account raise staff --budget 'zcdp(rho=0.6)' --why 'one more year'"),
    Call("charge add", "charge add 'gaussian(sigma=10)' --account staff --why script --key s1"),
    Call("charge list", "charge list"),
    Call("charge show", "charge show 7"),
    Call("account close", "account close staff --why done"),
    quiet("dataset add billing.csv --population patients-2026 --unit patient_id --name wrong"),
    Call("dataset remove", "dataset remove wrong"),
    Call("dataset retire", "dataset retire visits --why 'replaced by visits-2027'"),
    Call("dataset clear", "dataset clear visits --why looked --dry-run"),
    Call("ledger show", "ledger show"),
    Call("ledger head", "ledger head"),
    Call("ledger accept", "ledger accept --first-use --why 'a new host' --dry-run"),
    Call("ledger verify", "ledger verify"),
    Call("ledger roles", "ledger roles --schema ledger --database team"),
    Call("ledger export", "ledger export --out record.jsonl"),
    Call("ledger import", "ledger import record.jsonl --ledger copy.db"),
    Call("audit ledger", "audit ledger"),
    Call("ledger erase", "ledger erase 7 --why 'a person asked for it'"),
    Call("ledger purge", "ledger purge"),
    Call("ledger key", "ledger key"),
    Call("ledger govern", "ledger govern --why 'a team uses it'"),
    Call("ledger add-key", f"ledger add-key {'ab' * 32} --why 'a second host'"),
    Call("ledger keys", "ledger keys"),
    Call("ledger retire-key", f"ledger retire-key {'ab' * 32} --why 'the host is gone'"),
    Call("ledger checkpoint", "ledger checkpoint"),
    Call("ledger begin-roles", "ledger begin-roles --why 'two analysts, two approvers'"),
    Call("ledger grant", "ledger grant ann analyst --population patients-2026 --why 'she works here'"),
    quiet("ledger grant bob approver --population patients-2026 --why 'he decides'"),
    quiet("ledger grant cat approver --population patients-2026 --why 'she decides'"),
    Call("ledger quorum", "ledger quorum patients-2026 --needed money=1,people=1 --why 'one is enough' --request"),
    Call("account allow", "account allow patients-2026 ann --budget 'zcdp(rho=0.1, delta=1e-7)' --name ann-2026 "
         "--why 'her questions'"),
    Call("account request", "account request patients-2026 --budget 'zcdp(rho=2, delta=1e-6)' --why 'a second table'"),
    Call("account requests", "account requests"),
    Call("account approve", "account approve 40 --why 'the table is worth it'", user="bob"),
    quiet("account request patients-2026 --budget 'zcdp(rho=3, delta=1e-6)' --why 'a third table'"),
    Call("account reject", "account reject 43 --why 'not this year'", user="cat"),
    quiet("account request patients-2026 --budget 'zcdp(rho=3, delta=1e-6)' --why 'a third table'"),
    Call("account withdraw", "account withdraw 45"),
    Call("token create", "token create --population patients-2026 --ceiling 'zcdp(rho=0.01)' --name nightly"),
    Call("token list", "token list"),
    Call("token revoke", "token revoke 47"),
    Call("serve connect", "serve connect wards wards --population clinic", code=2),
    Call("serve disconnect", "serve disconnect wards", code=2),
    Call("serve connections", "serve connections", code=2),
    Call("serve jobs", "serve jobs", code=2),
    Call("serve failures", "serve failures clinic", code=2),
    Call("serve lift", "serve lift clinic ann", code=2),
    Call("serve stop", "serve stop", code=2),
    Call("ledger members", "ledger members"),
    Call("ledger revoke", "ledger revoke ann analyst --population patients-2026 --why 'another project'"),
    Call("ledger break-glass", "ledger break-glass dan --population patients-2026 --why 'bob and cat left'"),
    Call("ledger end", "ledger end ann --why 'she left'"),
    Call("error not authorised", "account raise patients-2026 --budget 'zcdp(rho=4, delta=1e-6)' --why x", code=7),
    Call("epsilon", f"epsilon {SGD} --delta 1e-5"),
    Call("delta", f"delta {SGD} --epsilon 2"),
    Call("explain", f"explain {SGD} --delta 1e-5"),
    Call("compare", f"compare {SGD} --delta 1e-5"),
    Call("calibrate", "calibrate '10 * gaussian(sigma=X)' --epsilon 1 --delta 1e-5"),
    Call("train plan", "train plan --epsilon 8 --delta 1e-5 --examples 50000 --batch 1024 --epochs 30"),
    Call("plot", "plot 'gaussian(sigma=1)' --out loss.svg"),
    drawn("audit mechanism", "audit mechanism noise.py:noisy --first a.json --second b.json "
         "--claim 'pure_dp(epsilon=0.01)' --draws 400", code=5),
    drawn("audit table", "audit table audit.plan.json --first a.csv --second b.csv --draws 40 --significance 1e-6"),
    Call("audit coins", "audit coins 200 --out coins.json"),
    Call("audit plan", f"audit plan --claim {SGD} --canaries 1000"),
    drawn("audit run", f"audit run scores.json --coins coins.json --claim {SGD} --significance 1e-6"),
    Call("audit accounting", "audit accounting loss 'gaussian(sigma=1)' --claimed 5 --delta 1e-5"),
    Call("certificate write", "certificate write 'gaussian(sigma=2)' --delta 1e-5 --out proof.json"),
    Call("certificate check", "certificate check proof.json"),
    Call("import", "import opacus opacus.json --delta 1e-5"),
    Call("explore", "explore --out page.html"),
    Call("theorem", "theorem 13.5"),
    drawn("release", "release 1234 --epsilon 1 --sensitivity 1"),
    Call("respond", "respond yes no no yes yes --choices yes,no --epsilon 1 --estimate"),
    Call("doctor", "doctor"),
    Call("error denied", "query stays --measures count --rho 0.9 --why x --ledger small.db", code=3),
    Call("error refused", "query visits --measures count --rho 0.01 --why x", code=4),
    Call("error usage", "epsilon 'gausian(sigma=1)' --delta 1e-5", code=2),
    Call("error falsified", "audit accounting loss 'gaussian(sigma=1)' --claimed 1 --delta 1e-5", code=5),
    Call("error ledger integrity", "ledger verify --ledger broken.db", code=6),
    Call("error unavailable", "ledger verify --ledger postgresql://127.0.0.1:9/none", code=9),
)  # fmt: skip
ERRORS = [call.name for call in CALLS if call.name.startswith("error ")]


def commands() -> list[str]:
    """Return the words of every command and subcommand."""
    names = []

    def walk(command: Any, words: list[str]) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            names.append(" ".join(words))
            return
        for name in inner:
            walk(inner[name], [*words, name])

    walk(typer.main.get_command(app), [])
    return names


def outputs() -> Iterator[tuple[str, str]]:
    """Yield the name of every shown call and its output, in an empty folder."""
    before, settings = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(NO_COLOR="1", COLUMNS="100", TALLYSTICK_CONFIG_DIR=f"{folder}/config")
        os.environ.pop("TALLYSTICK_LEDGER", None)
        os.chdir(folder)
        try:
            _write_inputs()
            for call in CALLS:
                if call.name == "error denied":
                    _write_inputs_for_errors()
                text = _typed(call)
                if call.is_shown:
                    yield call.name, _marked(text, folder)
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(settings)


def _typed(call: Call) -> str:
    """Run a call and return its text."""
    out, errors = io.StringIO(), io.StringIO()
    with other_users.acting_as(call.user), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run(shlex.split(call.words))
    assert code == call.code, f"{call.words}: exit code {code}\n{out.getvalue()}{errors.getvalue()}"
    result, notes = out.getvalue(), errors.getvalue()
    if call.is_noisy:
        result, notes = _without_noise(result, has_heading=call.has_heading), _without_effect(notes)
    sudo = "" if call.user == "olga" else f"sudo -u {call.user} "
    return f"$ {sudo}tallystick {call.words}\nexit code {code}\n\n--- stdout\n{result}--- stderr\n{notes}"


def _without_noise(result: str, *, has_heading: bool) -> str:
    """Return a result with marks for its numbers; a heading keeps them."""
    lines = SMALLEST.sub("", result).splitlines()
    heading = lines[:1] if has_heading else []
    marked = [*heading, *(NUMBER.sub("#", line) for line in lines[len(heading) :])]
    spaced = [_without_choices(COUNTED.sub(r"EFFECT\1", _spaced(line))) for line in marked]
    return TRADE_OFF.sub("ERRORS\n", "".join(f"{line}\n" for line in spaced))


TRADE_OFF = re.compile(r"(?m)(?:^ *(?:# +)+±# +# \(# %\).*\n)+")
"""The errors under several limits: how many are shown depends on noise."""
SMALLEST = re.compile(r"  smallest$", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?(?![\w])")
COUNTED = re.compile(r"(?:At most|At least|About) #(?: ±#)? of about # ±#([^()]*)\([^()]*\)")
"""A number of people or rows that limits or bounds changed: its form depends on noise."""
EVENT = re.compile(r"(?<=event )[^:]*(?=: #)")
"""The event on which an audit bets: it depends on noise."""
OWN = re.compile(r"(?<=To set your own: ).*")
"""Options with the limits and bounds that noise has suggested."""


SHOWN = re.compile(r"(?<=\()(p = #|no sign of a violation)(?=; a true claim)")
"""How much evidence an audit has found."""
SHARE = re.compile(
    r"(?:(?:At most|At least|Up to) # %|# % to # %) of .*|At least # (?:more )?rows .*|Too noisy to tell how many .*"
)
"""The share that a limit or a bound changed, on a card: its form depends on noise."""
SUGGESTED = re.compile(r"(?<=About # % of patients have # or fewer).*")
"""What other limits would do, and what the noise allows."""


def _without_choices(line: str) -> str:
    """Return a line with marks for parts whose form depends on noise."""
    return SHARE.sub("EFFECT", SUGGESTED.sub(" ...", SHOWN.sub("EVIDENCE", EVENT.sub("EVENT", line))))


def _spaced(line: str) -> str:
    """Return a line in which the width of a number does not move the other columns."""
    return re.sub(r" {2,}", "  ", line).rstrip()


def _without_effect(notes: str) -> str:
    """Return notes without the sentence on limits and bounds: noise decides its form, and whether it is printed."""
    return re.sub(r"(?m)^(At least .* %|Up to .* %|The effect of limits) .*\n", "", OWN.sub("COMMAND", notes))


def _marked(text: str, folder: str) -> str:
    """Return text with marks for what differs from run to run and from host to host."""
    text = text.replace(os.path.realpath(folder), "FOLDER").replace(folder, "FOLDER")
    text = text.replace(f"tallystick {__version__}", "tallystick VERSION")
    text = re.sub(r"VERSION +Python .*", "VERSION   HOST", text)
    text = re.sub(r"(?m)^(core +|optional +[^:]*: ).*$", r"\1PACKAGES", text)
    text = re.sub(r"\btsk_[0-9a-f]+", "TOKEN", text)
    text = re.sub(r"(?<!0\.)\b[0-9a-f]{16,}\b", "HASH", text)
    text = re.sub(r"\b\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?)?", "DATE", text)
    return re.sub(r"\b\d+(\.\d+)? (s|ms|seconds)\b", "TIME", text)


def _write_inputs() -> None:
    """Write what calls read beside the files of the guides."""
    Path("noise.py").write_text("import random\n\ndef noisy(rows):\n    return len(rows) + random.random() / 2\n")
    Path("a.json").write_text("[1, 2]")
    Path("b.json").write_text("[1, 2, 3]")
    Path("a.csv").write_text("unit,age\n1,30\n2,50\n")
    Path("b.csv").write_text("unit,age\n1,30\n2,50\n3,40\n")
    Path("stays.csv").write_text("patient_id,nights\np1,2\np2,3\n")
    Path("scores.json").write_text(json.dumps([0.5] * 200))
    Path("opacus.json").write_text(json.dumps({"history": [[1.1, 0.01, 1000]], "mechanism": "rdp"}))
    _write_plan()


def _write_plan() -> None:
    """Write the plan that ``audit table`` attacks."""
    import tallystick as ts
    from tallystick.publish.export import saved

    Path("real.csv").write_text("unit,age\n1,30\n")
    table = ts.Private("real.csv").table(unit="unit", types={"age": "integer"})
    query = table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count())
    Path("audit.plan.json").write_text(saved("real", query.plan(rho=0.5)))


def _write_inputs_for_errors() -> None:
    """Register a small table, and damage a copy of the record."""
    import sqlite3

    limits = "--population guests --unit patient_id --max-groups 1 --max-rows-per-group 1 --limit rho=0.5"
    _typed(quiet(f"dataset add stays.csv {limits} --ledger small.db"))
    _typed(quiet("account open other --budget 'zcdp(rho=1)' --ledger broken.db"))
    with contextlib.closing(sqlite3.connect("broken.db")) as file:
        file.execute("UPDATE account SET limit0 = limit0 + 1")
        file.commit()


def path_of(name: str) -> Path:
    """Return the file of a call."""
    return GOLDEN / f"{name.replace(' ', '-')}.txt"


def write() -> None:
    """Write every file again, and remove those of calls that are gone."""
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for name, text in outputs():
        path_of(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
