"""Checks one export of a ledger. Written from docs/reference/ledger-format.md alone, by an engineer who had not seen
tallystick; it imports nothing of it. Usage: stranger.py EXPORT.jsonl

Prints the result as JSON, or exits with 1 and the first problem.
"""

import hashlib
import json
import re
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Problem(Exception):
    pass


def need(ok, problem):
    if not ok:
        raise Problem(problem)


# ---- values: each of these makes or is a test of one value

whole = lambda v: type(v) is int and v >= 0
amount = lambda v: whole(v) and v < 2**62
string = lambda v: isinstance(v, str)
thing = lambda v: isinstance(v, dict)
digits = lambda count: lambda v: string(v) and re.fullmatch("[0-9a-f]{%d}" % count, v) is not None
or_null = lambda test: lambda v: v is None or test(v)
row = lambda *tests: lambda v: isinstance(v, list) and len(v) == len(tests) and all(t(x) for t, x in zip(tests, v))
rows = lambda test: lambda v: isinstance(v, list) and all(test(x) for x in v)
a_filter = lambda v: string(v) and re.fullmatch(r"zcdp|approx|gdp|rdp@[0-9]+(\.[0-9]+)?", v) is not None
h32, h64, h128, pair = digits(32), digits(64), digits(128), row(amount, amount)

TYPES = dict(
    kind=string, at=whole, governed=whole, format=string, ledger=h32, name=string, parent=or_null(whole), filter=a_filter,
    account_kind=string, limit=pair, account=whole, was=pair, by=h64, signature=h128, dataset=string, source=or_null(h64),
    least=amount, fixed=thing, marks=lambda v: isinstance(v, list) and len(v) > 0, principal=string, space=string, plan=string, plan_hash=h64, software=thing,
    lines=rows(row(whole, amount, amount)), lease_until=whole, charge=whole, fence=whole, release_key=h64, why=string,
    rows=rows(row(whole, whole)), public=h64, vouched=rows(row(whole, h64, h64)), distrusted_from=or_null(whole), nonce=h32, item=row(whole, whole),
    entries=rows(whole), answers_of=rows(whole), partition=or_null(lambda v: isinstance(v, list) and string(v[0])), unit=string, adjacency=string,
    milestones=string, newest=lambda v: True, seen=lambda v: True)
CHARGE = "principal space key* request* why* plan plan_hash source lines lease_until software"
FIELDS = {kind: fields.split() for kind, fields in {  # * marks a commitment
    "genesis": "format ledger", "upgrade": "format", "reserve": CHARGE, "begin": CHARGE,
    "open": "name parent partition account_kind filter unit adjacency milestones limit",
    "raise": "account limit was why* by signature", "close": "account why*",
    "register": "dataset account source least note* fixed", "clear": "principal account rows why*",
    "lease": "charge fence lease_until", "start": "charge fence", "commit": "charge fence answer_hash*",
    "burn": "charge fence why principal nonce", "refund": "charge fence why principal",
    "first_use": "principal why*", "older": "principal why* newest seen", "govern": "principal why* public vouched",
    "key_add": "principal why* public", "key_retire": "principal why* public distrusted_from",
    "erase": "principal why* entries answers_of"}.items()}


def texts_of(entry):
    """The fields whose texts stand in `texts`. The text of `answer_hash` stands in `answer`."""
    return {f[:-1] for f in FIELDS[entry["kind"]] if f.endswith("*")} - {"answer_hash"}


# ---- canonical JSON, hashes, commitments, signatures

def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read(text, what):
    try:
        value = json.loads(text)
        need(thing(value) and canonical(value) == text, f"{what} is not canonical JSON")
        return value
    except (ValueError, RecursionError):
        raise Problem(f"{what} is not JSON") from None


def sha256(label, *parts):
    return hashlib.sha256(label.encode() + b"\n" + b"".join(parts)).hexdigest()


def check_commitment(opened, commitment, what):
    need(row(h32, string)(opened), f"{what} is missing or malformed")
    text = opened[1].encode("utf-8", "surrogatepass")
    need(sha256("tallystick/text/1", bytes.fromhex(opened[0]), text) == commitment, f"{what} was replaced")


def check_signature(key, signature, terms, what):
    need(h64(key) and h128(signature), f"{what}: a key or a signature is malformed")
    try:
        message = b"tallystick/signature/1\n" + canonical(terms).encode()
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        raise Problem(f"{what}: the signature is wrong") from None


class Ledger:
    """The state after the entries so far. `do_KIND` applies the entry `e` with the number `n`."""

    def __init__(self, ledger):
        self.id, self.at, self.governed, self.entries = ledger, 0, None, {}
        self.accounts, self.charges, self.datasets, self.owner = {}, {}, {}, {}
        self.items = set()
        self.failures = set()  # (charge, population) until a `clear` names it
        self.added, self.retired, self.erased, self.erased_answers = {}, {}, set(), set()

    def apply(self, n, e):
        kind = e.get("kind")
        need(string(kind) and kind in FIELDS, f"the kind {kind!r} is unknown")
        fields = FIELDS[kind] + ["kind", "at"] + ["governed"] * bool(self.governed)
        fields += ["release_key", "signature"] if kind == "commit" and self.governed else []
        fields += ["marks"] if kind == "register" and "marks" in e else []
        fields += ["item"] if kind in ("reserve", "begin") and "item" in e else []
        need(set(e) == {f.rstrip("*") for f in fields}, f"the fields are not those of {kind}")
        for field in fields:
            test = h64 if field.endswith("*") else TYPES[field]
            need(test(e[field.rstrip("*")]), f"the field {field} has a wrong value")
        need(e["at"] >= self.at, "it is earlier than the entry before")
        need(e.get("governed") == self.governed, "`governed` is not the newest entry about keys")
        need((n == 1) == (kind == "genesis"), "`genesis` is entry 1, and only that one")
        getattr(self, "do_" + kind)(n, e)
        self.at, self.entries[n] = e["at"], e

    def do_genesis(self, n, e):
        need(e["format"] == "tallystick/ledger/3", "not format 3 (the page does not list the fields of format 2)")
        need(e["ledger"] == self.id, "it names another ledger")

    def do_upgrade(self, n, e):
        need(False, "the ledger has format 3 already")

    def do_first_use(self, n, e):
        pass

    do_older = do_first_use

    # -- accounts and limits (rules 1 and 6)

    def account(self, number):
        need(number in self.accounts, f"account {number} does not exist")
        return self.accounts[number]

    def up(self, number):
        """The account and everything above it, the topmost one last."""
        parent = self.account(number)["parent"]
        return [number] + (self.up(parent) if parent else [])

    def total(self, number):
        parts, partitions = [self.accounts[number]["own"]], {}
        for child, account in self.accounts.items():
            if account["parent"] == number:
                name = account["partition"] and account["partition"][0]
                partitions.setdefault(name, []).append(self.total(child))
        parts += partitions.pop(None, [])
        parts += [[max(column) for column in zip(*blocks)] for blocks in partitions.values()]
        return [sum(column) for column in zip(*parts)]

    def count(self, lines, sign):
        for number, *amounts in lines:
            self.accounts[number]["own"] = [a + sign * b for a, b in zip(self.accounts[number]["own"], amounts)]

    def do_open(self, n, e):
        need(all(a["name"] != e["name"] for a in self.accounts.values()), "the name of the account is taken")
        need((e["account_kind"] == "block") == (e["parent"] is not None), "a block, and only that, has a parent")
        need(e["partition"] is None or e["parent"] is not None, "only a block has a partition")
        parent = e if e["parent"] is None else self.account(e["parent"])
        need(all(e[f] == parent[f] for f in ("filter", "unit", "adjacency")), "a block differs from its parent")
        self.accounts[n] = dict(e, closed=False, raises=0, own=[0, 0])

    def do_raise(self, n, e):
        account = self.account(e["account"])
        need(e["was"] == account["limit"], "`was` is not the limit of the account")
        need(all(a <= b for a, b in zip(e["was"], e["limit"])), "a limit falls")
        terms = {f: e[f] for f in ("account", "was", "limit", "why")}
        check_signature(e["by"], e["signature"], dict(terms, ledger=self.id, raises=account["raises"]), "raise")
        account.update(limit=e["limit"], raises=account["raises"] + 1)

    def do_close(self, n, e):
        self.account(e["account"])["closed"] = True

    # -- sources and closed data (rules 4 and 5)

    def do_register(self, n, e):
        population = self.up(e["account"])[-1]
        if e["source"] is not None:
            need(self.owner.setdefault(e["source"], population) == population, "the source has another population")
        data = self.datasets.setdefault(e["dataset"], dict(e, sources=set()))
        need(data["account"] == e["account"] and canonical(data["fixed"]) == canonical(e["fixed"]), "a field of the dataset changes")
        data["least"] = e["least"]
        data["sources"].add(e["source"])

    def payers(self, lines):
        """{population: the first part it pays}. Guess: a line of a block is paid by the population at the top."""
        tops = {}
        for number, first, _ in lines:
            top = self.up(number)[-1]
            if self.accounts[top]["account_kind"] == "population":
                tops[top] = max(first, tops.get(top, 0))
        return tops

    def check_data_open(self, charge):
        for failed, population in self.failures:
            need(population not in self.payers(charge["lines"]), f"charge {failed} closed population {population}")
            need(charge["source"] != self.charges[failed]["source"], f"charge {failed} closed the source")

    def check_source(self, source, payers):
        owner = self.owner.get(source)
        need(owner is None or owner in payers, "the population of the source does not pay")
        for population in [owner] if owner else payers:
            least = [d["least"] for d in self.datasets.values()
                     if (source in d["sources"] if owner else self.up(d["account"])[-1] == population)]
            need(payers[population] >= max(least, default=0), "the charge is below the least of its source")

    def do_clear(self, n, e):
        self.account(e["account"])
        for failure in map(tuple, e["rows"]):
            need(failure in self.failures, f"{failure} is no failure that closes data")
            need(self.charges[failure[0]]["state"] != "EXECUTING", "a charge on the data runs")
            self.failures.remove(failure)

    # -- charges (rules 2 and 3)

    def do_begin(self, n, e):
        lines, plan = e["lines"], e["plan"].encode("utf-8", "surrogatepass")
        need(hashlib.sha256(plan).hexdigest() == e["plan_hash"], "`plan_hash` is not that of the plan")
        try:
            terms = json.loads(e["plan"])["terms"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Problem("the plan is no privacy loss") from None
        if "item" in e:
            need(tuple(e["item"]) not in self.items, "an item of a stream is used twice")
            self.items.add(tuple(e["item"]))
        need(lines and all(a[0] < b[0] for a, b in zip(lines, lines[1:])), "`lines` are empty or not sorted")
        need(terms == [] or all(line[1:] != [0, 0] for line in lines), "a line of 0 and 0 for a loss with terms")
        paying = {number for line in lines for number in self.up(line[0])}
        need(not any(self.accounts[number]["closed"] for number in paying), "the account is closed")
        self.check_data_open(e)
        if e["source"] is not None:
            self.check_source(e["source"], self.payers(lines))
        self.charges[n] = dict(e, state="RESERVED" if e["kind"] == "reserve" else "EXECUTING", fence=1, answer=None)
        self.count(lines, 1)
        for number in paying:
            used, limit = self.total(number), self.accounts[number]["limit"]
            need(used[0] <= limit[0] and used[1] <= limit[1], f"account {number} passes its limit")

    do_reserve = do_begin

    def step(self, e, before, after):
        need(e["charge"] in self.charges, "the charge does not exist")
        charge = self.charges[e["charge"]]
        need(charge["state"] in before, f"the charge is {charge['state']}")
        next_fence = charge["fence"] + (e["kind"] == "lease" and charge["state"] == "RESERVED")
        need(e["fence"] in (charge["fence"], next_fence), "the fence is not that of the charge")
        charge.update(fence=e["fence"], state=after or charge["state"])
        return charge

    def do_lease(self, n, e):
        self.step(e, ["RESERVED", "EXECUTING"], None)

    def do_start(self, n, e):
        self.check_data_open(self.step(e, ["RESERVED"], "EXECUTING"))

    def do_refund(self, n, e):
        self.count(self.step(e, ["RESERVED"], "REFUNDED")["lines"], -1)

    def do_burn(self, n, e):
        running = {n: c for n, c in self.charges.items() if c["state"] == "EXECUTING" and c["source"] is not None}
        charge = self.step(e, ["EXECUTING"], "BURNED")
        if charge["source"] is None or any(failed == e["charge"] for failed, _ in self.failures):
            return
        together, sources, payers = {e["charge"]}, {charge["source"]}, set(self.payers(charge["lines"]))
        while more := {n for n, c in running.items() if n not in together
                       and (c["source"] in sources or payers & set(self.payers(c["lines"])))}:
            together |= more
            sources |= {running[n]["source"] for n in more}
            payers |= {p for n in more for p in self.payers(running[n]["lines"])}
        self.failures |= {(n, p) for n in together for p in self.payers(self.charges[n]["lines"])}

    def do_commit(self, n, e):
        charge = self.step(e, ["EXECUTING"], "COMMITTED")
        charge["answer"] = e["answer_hash"]
        if self.governed:
            terms = {f: charge[f] for f in ("principal", "space", "key", "request", "plan_hash", "lines", "source")}
            terms |= {f: e[f] for f in ("charge", "fence", "answer_hash")}
            check_signature(e["release_key"], e["signature"], dict(terms, ledger=self.id), "answer")
            need(self.may_write(e["release_key"], n), "the key of the answer may not write")

    # -- keys and erasure (rules 7 and 8)

    def may_write(self, key, n):
        return key in self.added and self.added[key] <= n <= self.retired.get(key, n)

    def do_govern(self, n, e):
        need(not self.governed, "the ledger is governed already")
        for number, body, answer in e["vouched"]:
            need(number in self.charges and self.charges[number]["answer"] == answer, "it vouches for no answer")
            first = hashlib.sha256(canonical(self.entries[number]).encode()).hexdigest()
            need(body == first, "it vouches for another charge")
        self.added[e["public"]] = self.governed = n

    def do_key_add(self, n, e):
        need(self.governed, "a further key before `govern`")
        self.added.setdefault(e["public"], n)
        self.governed = n

    def do_key_retire(self, n, e):
        keys = set(self.added) - set(self.retired)
        need(e["public"] in keys, "the key cannot write")
        need(len(keys) > 1, "the last key is retired")
        need(e["distrusted_from"] is None or 1 <= e["distrusted_from"] <= n, "`distrusted_from` is no entry")
        self.retired[e["public"]] = self.governed = n

    def do_erase(self, n, e):
        for number in e["entries"]:
            need(number in self.entries and texts_of(self.entries[number]), f"entry {number} has no texts")
            need(self.entries[number]["kind"] != "register", "the texts of `register` stay")
            need(number not in self.erased, f"the texts of entry {number} are erased twice")
            self.erased.add(number)
        for number in e["answers_of"]:
            need(number in self.charges and self.charges[number]["answer"], f"charge {number} has no answer")
            need(number not in self.erased_answers, f"the answer of charge {number} is erased twice")
            self.erased_answers.add(number)
        states = {self.charges[number]["state"] for number in e["entries"] if number in self.charges}
        need(not states & {"RESERVED", "EXECUTING"}, "the charge has not ended")


# ---- the lines of an export

def check_texts(ledger, n, line, level):
    e = ledger.entries[n]
    wanted = texts_of(e) if level != "chain" and n not in ledger.erased else set()
    need(("texts" in line) == bool(wanted), f"entry {n}: texts are missing, or stand where none belong")
    need(not wanted or thing(line["texts"]) and set(line["texts"]) == wanted, f"entry {n}: a text is missing or too many")
    for field in sorted(wanted):
        check_commitment(line["texts"][field], e[field], f"entry {n}: the text of {field}")
    has_answer = level == "answers" and e["kind"] == "commit"
    if has_answer and e["charge"] not in ledger.erased_answers:
        check_commitment(line.get("answer"), e["answer_hash"], f"entry {n}: the answer")
    else:  # the page calls an erased answer absent; in the vector it is null
        need("answer" not in line or has_answer and line["answer"] is None, f"entry {n}: an answer where none belongs")


def check(data):
    """The result of an export (bytes), or a Problem."""
    need(data.isascii() and data.endswith(b"\n"), "the export is not lines of ASCII")
    lines = [read(line, f"line {i}") for i, line in enumerate(data.decode().split("\n")[:-1], 1)]
    need(len(lines) > 2, "there is no entry")
    first, *entries, last = lines
    need(set(first) == {"format", "ledger", "level"} and first["format"] == "tallystick/export/2"
         and h32(first["ledger"]) and first["level"] in ("chain", "record", "answers"), "the first line is malformed")
    ledger, head, sealed = Ledger(first["ledger"]), "0" * 64, False
    for n, line in enumerate(entries, 1):
        need({"seq", "hash", "body"} <= set(line) <= {"seq", "hash", "body", "texts", "answer", "seal"}
             and whole(line["seq"]) and string(line["body"]), f"entry {n}: the line is malformed")
        need(line["seq"] == n, f"entry {n}: the number is wrong")
        body = read(line["body"], f"entry {n}: the body")
        head = sha256("tallystick/entry/1", bytes.fromhex(head), line["body"].encode())
        need(line["hash"] == head, f"entry {n}: the hash is wrong")
        try:
            ledger.apply(n, body)
        except Problem as problem:
            raise Problem(f"entry {n}: {problem}") from None
        sealed = "seal" in line
        if sealed:
            need(row(h64, h128)(line["seal"]), f"entry {n}: the seal is malformed")
            check_signature(*line["seal"], {"ledger": ledger.id, "seq": n, "hash": head}, f"entry {n}: seal")
            need(ledger.may_write(line["seal"][0], n), f"entry {n}: the key of the seal may not write")
    need(sealed or not ledger.governed, "the last entry has no seal")
    for n, line in enumerate(entries, 1):
        check_texts(ledger, n, line, first["level"])
    need(set(last) == {"checkpoint", "by", "signature"}, "the last line is no checkpoint")
    point = last["checkpoint"]
    need(thing(point) and set(point) == {"ledger", "seq", "head", "at"} and whole(point["at"]) and whole(point["seq"])
         and point["ledger"] == ledger.id, "the checkpoint is malformed")
    need((point["seq"], point["head"]) == (len(entries), head), "the checkpoint is not of these entries")
    check_signature(last["by"], last["signature"], point, "checkpoint")
    used = {account["name"]: ledger.total(number) for number, account in ledger.accounts.items()}
    return {"ledger": ledger.id, "entries": len(entries), "head": head, "used": used, "sealed": sealed}


if __name__ == "__main__":
    try:
        with open(sys.argv[1], "rb") as file:
            print(json.dumps(check(file.read()), indent=1))
    except Problem as problem:
        sys.exit(f"{sys.argv[1]}: {problem}")
