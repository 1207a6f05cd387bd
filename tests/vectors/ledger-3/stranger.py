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
    milestones=string, newest=lambda v: True, seen=lambda v: True,
    act=row(string, or_null(whole), or_null(whole)), person=string, owner=or_null(string), role=string, population=or_null(whole), grant=whole,
    needed=lambda v: thing(v) and v and all(whole(x) and x < 10 for x in v.values()), roles=rows(string), doors=rows(string), until=whole,
    ceiling=or_null(amount), hash=h64, token=whole, effect=thing, request=whole, decision=string)
LISTS = {("request", "was"): rows(whole)}  # fields whose values differ from those of other kinds
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
    "erase": "principal why* entries answers_of",
    "principal_add": "principal person owner subject*", "principal_end": "principal why*", "roles": "why*",
    "role_grant": "principal role population why*", "role_revoke": "grant why*", "quorum": "population needed why*",
    "break_glass": "principal population why*", "token_add": "principal roles population doors until ceiling hash name*",
    "token_end": "token", "request": "effect population was why* note*", "decision": "request decision grant why*",
    "withdraw": "request", "void": "request"}.items()}
DAY = 86400000
ROLES = ("owner", "approver", "analyst", "auditor", "operator", "runner")
# who may: y at once, a at once while no approval is needed and by request otherwise, q by request; the class of the approvals
MAY = {
    "pay": ("", dict(owner="y")), "pay elsewhere": ("", dict(owner="y", runner="y")), "own": ("", dict(owner="y", analyst="y")),
    "own elsewhere": ("", dict(owner="y", analyst="y", runner="y")), "limit": ("money", dict(owner="a", approver="q", analyst="q")),
    "close": ("money", dict(owner="a", approver="q")), "allowance": ("money", dict(owner="y", analyst="q")), "data": ("data", dict(owner="a")),
    "clear": ("data", dict(owner="a", approver="q")), "people": ("people", dict(owner="a", approver="q")), "members": ("", dict(owner="y")),
    "keys": ("people", dict(owner="a", approver="q", operator="q")), "erase": ("erasure", dict(owner="a", approver="q")),
    "population": ("", dict(operator="y"))}


def texts_of(entry):
    """The fields whose texts stand in `texts`. The text of `answer_hash` stands in `answer`."""
    return {f[:-1] for f in FIELDS[entry["kind"]] if f.endswith("*")} - {"answer_hash"} | {"subject"} & set(entry)


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
        self.roles, self.people, self.grants, self.tokens, self.requests = None, {}, {}, {}, {}
        self.quorums, self.changed, self.paid = {}, {}, {}

    def apply(self, n, e):
        kind = e.get("kind")
        need(string(kind) and kind in FIELDS, f"the kind {kind!r} is unknown")
        fields = FIELDS[kind] + ["kind", "at"] + ["act"] * ("act" in e or bool(self.roles)) + ["governed"] * bool(self.governed)
        fields += ["release_key", "signature"] if kind == "commit" and self.governed else []
        fields += ["marks"] if kind == "register" and "marks" in e else []
        fields += ["subject*"] if kind in ("genesis", "upgrade") and "subject" in e else []
        fields += ["owner"] if kind == "open" and e.get("owner") is not None else []
        fields += ["item"] if kind in ("reserve", "begin") and "item" in e else []
        need(set(e) == {f.rstrip("*") for f in fields}, f"the fields are not those of {kind}")
        for field in fields:
            test = h64 if field.endswith("*") else LISTS.get((kind, field), TYPES[field])
            need(test(e[field.rstrip("*")]), f"the field {field} has a wrong value")
        need(e["at"] >= self.at, "it is earlier than the entry before")
        need(e.get("governed") == self.governed, "`governed` is not the newest entry about keys")
        need((n == 1) == (kind == "genesis"), "`genesis` is entry 1, and only that one")
        if "act" in e:
            self.check_right(n, e, *e["act"])
        getattr(self, "do_" + kind)(n, e)
        if e.get("act", [None] * 3)[2]:
            self.requests[e["act"][2]]["open"] = False
        self.at, self.entries[n] = e["at"], e

    def do_genesis(self, n, e):
        need(e["format"] == "tallystick/ledger/3", "not format 3 (the page does not list the fields of format 2)")
        need(e["ledger"] == self.id, "it names another ledger")
        if "act" in e and "subject" in e:
            self.people[e["act"][0]] = dict(seq=n, kind="person", owner=None, ended=False)

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
        need((e["account_kind"] in ("block", "analyst")) == (e["parent"] is not None), "a block or an allowance, and only that, has a parent")
        need((e["account_kind"] == "analyst") == ("owner" in e), "an allowance, and only that, has an owner")
        if "owner" in e:
            need(e["partition"] is None and self.account(e["parent"])["account_kind"] != "analyst", "an allowance in a partition or an allowance")
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


    # -- who may do what

    def alive(self, who):
        person = self.people.get(who)
        return person is not None and not person["ended"] and (person["owner"] is None or self.alive(person["owner"]))

    def has(self, who, role, population):
        """`population` None: for the whole ledger. Auditors and operators of one population have no role there."""
        return self.alive(who) and any(
            (g["who"], g["role"], g["ended"]) == (who, role, False)
            and (g["population"] in (None, population) if population else g["population"] is None or role not in ("auditor", "operator"))
            for g in self.grants.values())

    def count_of(self, role, population):
        return len({g["who"] for g in self.grants.values() if self.has(g["who"], role, population)})

    def populations(self):
        return {g["population"] for g in self.grants.values()} - {None}

    def needed(self, population, about):
        if population is None:
            return max([self.needed(p, about) for p in self.populations()], default=0)
        approvers = self.count_of("approver", population)
        return self.quorums.get((population, about), 2 if approvers >= 4 else 1 if approvers >= 2 else 0)

    def usable(self, e):
        """The roles that may be used here: those of the principal, and of the token if there is one."""
        who, via, _ = e["act"]
        token = self.tokens.get(via)
        return lambda role, p: self.has(who, role, p) and (
            token is None or role in token["roles"] and token["population"] in (None, p))

    def top(self, number):
        return self.up(number)[-1]

    def what(self, e):
        """What an entry changes, and its population."""
        kind = e["kind"]
        if kind == "open":
            if e["parent"] is None:
                return "population", None
            return ("allowance" if e["account_kind"] == "analyst" else "limit"), self.top(e["parent"])
        if kind in ("raise", "close", "register", "clear"):
            p = self.top(e["account"])
            name = {"raise": "limit", "close": "close", "register": "data", "clear": "clear"}[kind]
            return name, p
        if kind in ("role_grant", "role_revoke"):
            g = e if kind == "role_grant" else self.grant(e["grant"])
            return ("people" if g["role"] in ("owner", "approver") else "members"), g["population"]
        if kind == "quorum":
            return "people", e["population"]
        if kind == "erase":
            found = {p for number in e["entries"] + e["answers_of"] for p in self.belongs(number)}
            return "erase", found.pop() if len(found) == 1 else None
        return "keys", None

    def belongs(self, number):
        if number in self.charges:
            return {self.top(line[0]) for line in self.charges[number]["lines"]}
        return {(self.grants.get(number) or self.requests.get(number) or {"population": None})["population"]}

    def grant(self, number):
        need(number in self.grants, f"the role {number} does not exist")
        return self.grants[number]

    def sees(self, e):
        kind = e["kind"]
        if kind in ("raise", "close"):
            account = self.account(e["account"])
            return account["limit"] + [int(not account["closed"])]
        if kind == "open":
            return [n for n, a in self.accounts.items() if a["name"] == e["name"]]
        if kind == "register":
            return [max([n for n, x in self.entries.items() if x["kind"] == "register" and x["dataset"] == e["dataset"]], default=0)]
        if kind == "clear":
            top = self.top(e["account"])
            return [x for failure in sorted(self.failures) if failure[1] == top for x in failure]
        if kind == "erase":
            return [len(self.erased & set(e["entries"])), len(self.erased_answers & set(e["answers_of"]))]
        return [self.governed or 0] if kind in ("key_add", "key_retire") else [self.changed.get(self.what(e)[1], 0)]

    def may_request(self, effect, has):
        name, p = self.what(effect)
        return any(has(role, p) for role in MAY[name][1])

    def check_right(self, n, e, who, via, under):
        kind = e["kind"]
        if self.roles is None:
            need(via is None and under is None, "a token or a request before roles")
            itself = kind in ("genesis", "upgrade") or kind == "principal_add" and e["principal"] == who
            need(itself or self.alive(who), "it is made by somebody who is not known")
            need(kind not in ROLE_KINDS, "it needs roles")
            need(kind != "open" or "owner" not in e, "an allowance before roles")
            need(kind != "principal_add" or itself and e["person"] == "person" and e["owner"] is None, "somebody adds another")
            return
        need(kind not in ("genesis", "upgrade", "govern", "roles"), "it cannot follow roles")
        charge = self.charges.get(e["charge"]) if kind in ("lease", "commit", "burn", "refund") else None
        finishes = charge and (kind == "refund" or charge["state"] == "EXECUTING") and charge["principal"] == who
        need(finishes or self.alive(who), "it is made by somebody who is not known, or who has ended")
        if via is not None and not finishes:
            token = self.tokens.get(via)
            need(token and token["who"] == who and not token["ended"] and e["at"] <= token["until"], "the token may not be used")
        if kind in ("reserve", "begin", "burn", "refund", "clear", "erase", "key_add", "key_retire"):
            need(e["principal"] == who, "it names another principal")
        if under is not None:
            self.check_request(e, who, under)
        check = getattr(self, "right_" + kind, None)
        if check:
            check(n, e, who, self.usable(e))
        elif kind in CHANGES:
            self.check_change(e, self.usable(e))

    def check_change(self, e, has):
        name, p = self.what(e)
        if e["act"][2] is not None:
            return
        if e["kind"] in ("raise", "close") and self.account(e["account"])["account_kind"] == "analyst":
            name = "allowance"
        about, cells = MAY[name]
        if any(cell == "y" and has(role, p) for role, cell in cells.items()):
            return
        alone = all(has("owner", each) for each in (self.populations() if p is None else [p])) and cells.get("owner") == "a"
        need(alone and not self.needed(p, about), f"{name}: it needs a request, or may not be done")

    def decides(self, number, request):
        g, p = self.grants[number], request["population"]
        about = MAY[self.what(request["effect"])[0]][0]
        roles = ["approver"] if g["population"] and self.needed(g["population"], about) else ["approver", "owner"]
        return (not g["ended"] and self.alive(g["who"]) and self.people[g["who"]]["kind"] == "person" and g["role"] in roles
                and g["population"] is not None and p in (None, g["population"]) and number < request["seq"])

    def check_request(self, e, who, under):
        need(under in self.requests, "the request does not exist")
        request = self.requests[under]
        need(request["open"] and e["at"] <= request["at"] + 30 * DAY, "the request has ended")
        moment = {"at", "act", "governed"} | ({"by", "signature"} if e["kind"] == "raise" else set())
        moment |= {"principal"} if e["kind"] in ("clear", "erase", "key_add", "key_retire") else set()
        need({f: v for f, v in e.items() if f not in moment} == request["effect"], "it is not what was requested")
        need(not self.is_stale(request), "the state that was seen has changed, or the requester has no role")
        good = {d["who"] for d in request["decisions"] if d["who"] != request["who"] and self.decides(d["grant"], request)}
        about, p = MAY[self.what(request["effect"])[0]][0], request["population"]
        need(len(good) >= max(1, self.needed(p, about)), "too few approvals")
        for each in self.populations() if p is None else []:
            k = self.needed(each, about)
            agree = good if k else good | {request["who"]}
            here = {g["who"] for m, g in self.grants.items() if g["population"] == each and g["who"] in agree and self.decides(m, request)}
            need(len(here) >= max(1, k), f"too few approvals of population {each}")
        need(who in good, "it is carried out by somebody who did not approve")

    def is_stale(self, request):
        effect, asker = request["effect"], request["who"]
        return self.sees(effect) != request["was"] or not self.may_request(effect, lambda role, p: self.has(asker, role, p))

    def right_begin(self, n, e, who, has):
        self.may_pay(e["lines"], e["source"], who, has)
        token = self.tokens.get(e["act"][1])
        if token:
            here = sum(a for number, a, _ in e["lines"] if self.top(number) == token["population"])
            day = e["act"][1], e["at"] // DAY
            self.paid[day] = self.paid.get(day, 0) + here
            need(token["ceiling"] is None or self.paid[day] <= token["ceiling"], "the token passes its ceiling")

    right_reserve = right_begin

    def may_pay(self, lines, source, who, has):
        elsewhere = " elsewhere" * (source is None)
        for number, *_ in lines:
            account, p = self.account(number), self.top(number)
            own = account["account_kind"] == "analyst"
            need(not own or account["owner"] == who, "the allowance of somebody else")
            cells = MAY[("own" if own else "pay") + elsewhere][1]
            need(any(has(role, p) for role in cells), "it may not pay from this account")

    def is_older(self, e):
        """True if the entry keeps or ends a charge that ran when roles began."""
        runs = self.charges[e["charge"]]["state"] == "EXECUTING"
        return e["kind"] in ("lease", "commit", "burn") and e["charge"] < self.roles and runs

    def right_lease(self, n, e, who, has):
        need(e["charge"] in self.charges, "the charge does not exist")
        charge = self.charges[e["charge"]]
        need(charge["principal"] == who or self.is_older(e), "the charge of somebody else")
        if charge["state"] == "RESERVED":
            self.may_pay(charge["lines"], charge["source"], who, has)

    right_start = right_commit = right_lease

    def right_burn(self, n, e, who, has):
        need(e["charge"] in self.charges, "the charge does not exist")
        charge = self.charges[e["charge"]]
        is_over = charge["lease_until"] <= e["at"]
        may = all(has("owner", self.top(line[0])) for line in charge["lines"])
        held_up = any(failed == e["charge"] and has("owner", p) for failed, p in self.failures)
        need(charge["principal"] == who or is_over or may or held_up or self.is_older(e), "the charge of somebody else")

    right_refund = right_burn

    def right_clear(self, n, e, who, has):
        need(all(p == self.top(e["account"]) for _, p in e["rows"]), "data of another population")
        self.check_change(e, has)

    def right_open(self, n, e, who, has):
        if e["parent"] is None:
            need(has("operator", None), "only the operator opens a population")
            return
        self.check_change(e, has)
        if "owner" in e:
            p = self.top(e["parent"])
            need(any(self.has(e["owner"], role, p) for role in ("owner", "analyst", "runner")), "its owner has no role")

    def right_erase(self, n, e, who, has):
        names = {p["seq"] for p in self.people.values() if not p["ended"]}
        need(not names & set(e["entries"]), "the name of somebody who has not ended")
        waiting = {m for m, q in self.requests.items() if q["open"] and e["at"] <= q["at"] + 30 * DAY}
        need(not waiting & set(e["entries"]), "the texts of an open request")
        self.check_change(e, has)

    def right_principal_add(self, n, e, who, has):
        need(has("owner", None) or has("operator", None), "it may not add people")
        machine = e["person"] == "machine"
        need(e["owner"] == (who if machine else None) and (not machine or has("owner", None)), "the owner of the machine is wrong")

    def right_principal_end(self, n, e, who, has):
        need(has("operator", None), "only the operator ends people")
        need(self.alive(e["principal"]), "it ends somebody who is not there")
        for g in self.grants.values():
            if g["who"] == e["principal"] and not g["ended"]:
                self.check_left(g)

    def check_left(self, g):
        """The last owner and operator stay, and one approver more than must approve."""
        p, left = g["population"], self.count_of(g["role"], g["population"]) - 1
        need(left or g["role"] != "owner" and (g["role"], p) != ("operator", None), "the last one")
        k = max(self.needed(p, about) for about in ("money", "people", "data", "erasure")) if g["role"] == "approver" else 0
        need(not k or left > k, "too few approvers are left")

    def right_role_grant(self, n, e, who, has):
        role, p = e["role"], e["population"]
        need(role in ROLES and self.alive(e["principal"]), "an unknown role or principal")
        need(p in self.accounts and self.accounts[p]["parent"] is None if p else role in ("auditor", "operator"), "not on a population")
        twin = dict(who=e["principal"], role=role, population=p, ended=False)
        need(twin not in self.grants.values(), "it has the role")
        need(role not in ("owner", "approver") or self.people[e["principal"]]["kind"] == "person", "a machine")
        first = role == "owner" and all((g["role"], g["population"]) != ("owner", p) for g in self.grants.values())
        if p is None:
            need(e["act"][2] is not None, "a role on the ledger needs a request")
        elif first:
            need(has("operator", None), "the operator names the first owner")
        else:
            self.check_change(e, has)

    def right_role_revoke(self, n, e, who, has):
        g = self.grant(e["grant"])
        need(not g["ended"], "the role has ended")
        self.check_left(g)
        if g["population"] is None:
            need(has("operator", None), "only the operator")
        else:
            self.check_change(e, has)

    def right_quorum(self, n, e, who, has):
        need(e["population"] in self.populations() and set(e["needed"]) <= {"money", "people", "data", "erasure"}, "a class or population")
        need(all(not k or self.count_of("approver", e["population"]) > k for k in e["needed"].values()), "too few approvers")
        self.check_change(e, has)

    def right_break_glass(self, n, e, who, has):
        need(has("operator", None) and e["act"][1] is None, "only the operator, without a token")
        need(self.alive(e["principal"]) and self.people[e["principal"]]["kind"] == "person", "no person")
        need(e["population"] in self.populations(), "no population")

    def right_token_add(self, n, e, who, has):
        need(self.alive(e["principal"]), "a token of nobody")
        need(who in (e["principal"], self.people[e["principal"]]["owner"]) and e["act"][1] is None, "a token of another, or by a token")
        need(e["roles"] and e["roles"] == [role for role in ROLES if role in e["roles"]], "roles of the token")
        need(e["doors"] and e["doors"] == [d for d in ("http", "wire") if d in e["doors"]], "doors of the token")
        need(e["at"] < e["until"] <= e["at"] + 365 * DAY, "the end of the token")
        need(e["population"] is None or self.account(e["population"])["parent"] is None, "a token of no population")
        need(e["ceiling"] is None or e["population"] is not None, "a ceiling without a population")
        need(e["hash"] not in [t["hash"] for t in self.tokens.values()], "the token exists")

    def right_token_end(self, n, e, who, has):
        need(e["token"] in self.tokens and not self.tokens[e["token"]]["ended"], "no such token")
        whose = self.tokens[e["token"]]["who"]
        here = any(has("owner", p) and any(self.has(whose, role, p) for role in ROLES) for p in self.populations())
        need(who in (whose, self.people[whose]["owner"]) or has("operator", None) or here, "the token of somebody else")

    def right_request(self, n, e, who, has):
        effect = e["effect"]
        need(effect.get("kind") in CHANGES, "what is requested cannot be")
        wanted = set(f.rstrip("*") for f in FIELDS[effect["kind"]]) | {"kind"}
        wanted -= {"by", "signature"} if effect["kind"] == "raise" else set()
        wanted -= {"principal"} if effect["kind"] in ("clear", "erase", "key_add", "key_retire") else set()
        more = {"marks"} if effect["kind"] == "register" else {"owner"} if effect["kind"] == "open" else set()
        need(wanted <= set(effect) <= wanted | more, "what is requested is no whole entry")
        for field in FIELDS[effect["kind"]]:
            test = h64 if field.endswith("*") else TYPES[field]
            need(field.rstrip("*") not in effect or test(effect[field.rstrip("*")]), f"the field {field} of what is requested")
        name, p = self.what(effect)
        need(e["population"] == p and e["was"] == self.sees(effect), "another population, or another state")
        need(all(effect.get(f, e[f]) == e[f] for f in ("why", "note")), "another reason")
        need(self.may_request(effect, has), "it may not request this")

    def request(self, number, at=0):
        need(number in self.requests and self.requests[number]["open"] and at <= self.requests[number]["at"] + 30 * DAY, "the request has ended")
        return self.requests[number]

    def right_decision(self, n, e, who, has):
        request = self.request(e["request"], e["at"])
        need(who != request["who"] and who not in [d["who"] for d in request["decisions"]], "its own request, or twice")
        g = self.grant(e["grant"])
        need(g["who"] == who and self.decides(e["grant"], request), "its role does not decide on this")
        need(has(g["role"], g["population"]), "the token does not decide")
        need(e["decision"] in ("approve", "reject"), "the decision is neither")

    def right_withdraw(self, n, e, who, has):
        need(self.request(e["request"])["who"] == who, "the request of somebody else")

    def right_void(self, n, e, who, has):
        need(self.is_stale(self.request(e["request"])), "the request holds")

    def do_roles(self, n, e):
        need(self.governed and "act" in e, "roles of a ledger that is not governed")
        self.roles = n
        self.grants[n] = dict(who=e["act"][0], role="operator", population=None, ended=False)

    def do_principal_add(self, n, e):
        need(e["principal"] not in self.people and e["person"] in ("person", "machine"), "the principal is there, or is neither")
        self.people[e["principal"]] = dict(seq=n, kind=e["person"], owner=e["owner"], ended=False)

    def do_principal_end(self, n, e):
        self.people[e["principal"]]["ended"] = True
        for g in self.grants.values():
            if g["who"] == e["principal"] and not g["ended"]:
                g["ended"] = True
                self.note(n, g)
        for token in self.tokens.values():
            token["ended"] = token["ended"] or token["who"] == e["principal"]

    def note(self, n, g):
        if g["role"] in ("owner", "approver") or g["population"] is None:
            self.changed[g["population"]] = n

    def do_role_grant(self, n, e):
        self.grants[n] = dict(who=e["principal"], role=e["role"], population=e["population"], ended=False)
        self.note(n, self.grants[n])

    def do_role_revoke(self, n, e):
        self.grants[e["grant"]]["ended"] = True
        self.note(n, self.grants[e["grant"]])

    def do_quorum(self, n, e):
        self.quorums |= {(e["population"], about): k for about, k in e["needed"].items()}
        self.changed[e["population"]] = n

    def do_break_glass(self, n, e):
        self.do_role_grant(n, dict(e, role="approver"))

    def do_token_add(self, n, e):
        self.tokens[n] = dict(e, who=e["principal"], ended=False)

    def do_token_end(self, n, e):
        self.tokens[e["token"]]["ended"] = True

    def do_request(self, n, e):
        self.requests[n] = dict(e, seq=n, who=e["act"][0], decisions=[], open=True)

    def do_decision(self, n, e):
        request = self.requests[e["request"]]
        if e["decision"] == "approve":
            request["decisions"].append(dict(who=e["act"][0], grant=e["grant"]))
        else:
            request["open"] = False

    def do_withdraw(self, n, e):
        self.requests[e["request"]]["open"] = False

    do_void = do_withdraw


ROLE_KINDS = ("principal_end", "role_grant", "role_revoke", "quorum", "break_glass", "token_add", "token_end", "request",
              "decision", "withdraw", "void")
CHANGES = ("open", "raise", "close", "register", "clear", "role_grant", "role_revoke", "quorum", "erase", "key_add", "key_retire")


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
