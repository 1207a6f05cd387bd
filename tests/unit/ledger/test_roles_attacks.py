"""Every way to get around roles and approvals: the writer refuses it, and who checks finds it once it is forged.

A forged entry has a true hash and a seal by a key of the ledger. So it is the best that a writer could do that does not
ask who may write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from crash.tampering import append_forged
from crash.teams import Team, team_at
from tallystick.accounting.losses import zcdp
from tallystick.errors import LedgerIntegrity, NotAuthorised
from tallystick.ledger.acting import new_principal, token_digest
from tallystick.ledger.authority import DAY, LAPSE
from tallystick.ledger.offline import verify_export

Entries = list[dict[str, Any]]
ATTACKS: dict[str, tuple[str, Callable[[Team], Entries]]] = {}
"""By name: the rule that must forbid it, and the entries. All but the last one are allowed."""
SOUND: dict[str, Callable[[Team], Entries]] = {}
"""Entries that are allowed: what is next to an attack, and no attack."""
PUBLIC = "cd" * 32


def attack(code: str) -> Callable[[Callable[[Team], Entries]], Callable[[Team], Entries]]:
    def register(make: Callable[[Team], Entries]) -> Callable[[Team], Entries]:
        ATTACKS[make.__name__] = code, make
        return make

    return register


def sound(make: Callable[[Team], Entries]) -> Callable[[Team], Entries]:
    SOUND[make.__name__] = make
    return make


@pytest.fixture
def team(tmp_path, clock):
    with team_at(str(tmp_path / "team.db"), clock) as team:
        yield team


def exported(team: Team) -> bytes:
    """The chain as a checker gets it who knows the format alone."""
    return "".join(f"{line}\n" for line in team.ledger.export(level="chain")).encode("ascii")


# -- approvals


def four_approvers(team: Team, needed: int = 2) -> None:
    """Make dan and fay approvers of the clinic, too, and let two approve what is about money."""
    for name in ("dan", "fay"):
        team.ids[name] = team.ledger.team.add(name)
        make_approver(team, name)
    number = team.request_of("root", lambda book: book.team.set_quorum("clinic", {"money": needed}, why="two"))
    approved(team, number, "bob", "cat")


def make_approver(team: Team, name: str) -> None:
    number = team.request_of("root", lambda book: book.team.grant(team.ids[name], "approver", "clinic", why="decides"))
    approved(team, number, "bob", "cat")


def approved(team: Team, number: int, *names: str) -> None:
    """Approve until the request is carried out."""
    for name in names:
        if team.by(name).team.approve(number, why="ok").state == "EXECUTED":
            return
    raise AssertionError(f"request {number} is open")


@sound
def an_approval_and_its_effect(team):
    number = team.raise_to("root", 2)
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("own_request")
def self_approval(team):
    return [team.decision("bob", team.raise_to("bob", 2))]


@attack("needs_approval")
def an_effect_without_an_approval(team):
    return [team.effect_of(team.raise_to("bob", 2), "bob")]


@attack("not_authorised")
def an_effect_by_somebody_who_did_not_approve(team):
    number = team.raise_to("root", 2)
    return [team.decision("bob", number), team.effect_of(number, "root")]


@attack("younger_role")
def a_sock_puppet(team):
    number = team.raise_to("root", 2)
    team.ids["dan"] = team.ledger.team.add("dan")
    make_approver(team, "dan")
    return [team.decision("dan", number)]


@attack("not_authorised")
def a_puppet_with_the_role_of_another(team):
    number = team.raise_to("root", 2)
    return [team.decision("eve", number, grant=team.grant_of("bob", "approver", team.clinic))]


@attack("not_authorised")
def an_approver_of_another_population(team):
    return [team.decision("tia", team.raise_to("root", 2))]


@attack("not_authorised")
def an_owner_decides_while_there_are_approvers(team):
    return [team.decision("root", team.raise_to("bob", 2))]


@attack("not_authorised")
def an_approval_after_the_revocation(team):
    four_approvers(team)
    number, grant = team.raise_to("root", 2), team.grant_of("dan", "approver", team.clinic)
    again = team.request_of("root", lambda book: book.team.revoke(team.ids["dan"], "approver", "clinic", why="left"))
    approved(team, again, "bob", "cat")
    return [team.decision("dan", number, grant=grant)]


@attack("needs_approval")
def a_revocation_between_approval_and_execution(team):
    four_approvers(team)
    number = team.raise_to("root", 2)
    team.by("dan").team.approve(number, why="ok")
    again = team.request_of("root", lambda book: book.team.revoke(team.ids["dan"], "approver", "clinic", why="left"))
    approved(team, again, "bob", "cat")
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("needs_approval")
def a_principal_that_ended_between_approval_and_execution(team):
    four_approvers(team)
    number = team.raise_to("root", 2)
    team.by("dan").team.approve(number, why="ok")
    team.by("root").team.end(team.ids["dan"], why="left")
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@sound
def two_approvals_where_two_are_needed(team):
    four_approvers(team)
    number = team.raise_to("root", 2)
    team.by("dan").team.approve(number, why="ok")
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("decided_twice")
def a_duplicate_approval(team):
    four_approvers(team)
    number = team.raise_to("root", 2)
    team.by("dan").team.approve(number, why="ok")
    return [team.decision("dan", number)]


@attack("younger_role")
def an_approval_under_a_role_that_was_taken_and_given_again(team):
    four_approvers(team)
    number = team.raise_to("root", 2)
    again = team.request_of("root", lambda book: book.team.revoke(team.ids["dan"], "approver", "clinic", why="left"))
    approved(team, again, "bob", "cat")
    make_approver(team, "dan")
    return [team.decision("dan", number)]


@attack("needs_approval")
def an_owner_who_approved_and_becomes_approver_later(team):
    """The approval was by the role of owner, when owners could decide. The role of approver is too young."""
    number = team.request_of("sue", lambda book: book.team.set_quorum("school", {"money": 0}, why="alone"))
    approved(team, number, "tia")
    add = team.request_of("sue", lambda book: book.team.grant(team.ids["eve"], "owner", "school", why="owns"))
    approved(team, add, "tia")
    number = team.raise_to("sue", 2, "school")
    first = team.decision("eve", number)
    team.forge([first])
    make = team.request_of("sue", lambda book: book.team.grant(team.ids["eve"], "approver", "school", why="x"))
    approved(team, make, "tia")
    again = team.request_of("sue", lambda book: book.team.set_quorum("school", {"money": 1}, why="again"))
    approved(team, again, "tia")
    return [team.effect_of(number, "eve")]


@attack("bad_role")
def a_machine_becomes_approver(team):
    machine = team.ledger.team.add("machine:nightly")
    return [team.entry("root", "role_grant", principal=machine, role="approver", population=team.clinic, why="x")]


@attack("not_authorised")
def a_machine_approves(team):
    team.ids["nightly"] = team.ledger.team.add("machine:nightly")
    team.ledger.team.grant(team.ids["nightly"], "runner", "clinic", why="trains")
    return [team.decision("nightly", team.raise_to("root", 2))]


@attack("stale_request")
def the_requester_was_revoked(team):
    number = team.request_of("ann", lambda book: book.open("ann's").raise_limit(zcdp(rho=0.7), why="more"))
    team.ledger.team.revoke(team.ids["ann"], "analyst", "clinic", why="left")
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("stale_request")
def the_limit_moved(team):
    first, second = team.raise_to("root", 2), team.raise_to("root", 3)
    approved(team, first, "bob")
    return [team.decision("bob", second), team.effect_of(second, "bob")]


@attack("stale_request")
def a_request_that_claims_another_state(team):
    effect = {"kind": "raise", "account": team.clinic, "limit": [2 * 10**12, 0], "was": [10**12, 0]}
    why = team.entry("root", "close", why="x")["why"]
    return [
        team.entry(
            "root", "request", effect={**effect, "why": why}, population=team.clinic, was=[9, 0, 1], why=why, note=""
        )
    ]  # fmt: skip


# -- effects


@attack("other_effect")
def another_limit(team):
    number = team.raise_to("root", 2)
    return [team.decision("bob", number), team.effect_of(number, "bob", limit=[5 * 10**12, 0])]


@attack("other_effect")
def another_account(team):
    number = team.raise_to("root", 2)
    return [team.decision("bob", number), team.effect_of(number, "bob", account=team.school)]


@attack("other_effect")
def another_kind(team):
    number = team.raise_to("root", 2)
    return [
        team.decision("bob", number),
        team.entry("bob", "close", under=number, account=team.clinic, why="x"),
    ]


def requested_allowance(team: Team, budget: float = 0.1) -> int:
    return team.request_of(
        "amy", lambda book: book.team.allow(team.ids["amy"], "clinic", zcdp(rho=budget), called="amy's", why="x")
    )


@sound
def an_allowance_that_was_requested(team):
    number = requested_allowance(team)
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("other_effect")
def another_name_of_an_allowance(team):
    number = requested_allowance(team)
    return [team.decision("bob", number), team.effect_of(number, "bob", name="other")]


@attack("other_effect")
def another_owner_of_an_allowance(team):
    number = requested_allowance(team)
    return [team.decision("bob", number), team.effect_of(number, "bob", owner=team.ids["ann"])]


@attack("other_effect")
def other_entries_are_erased(team):
    raised = requested_allowance(team)
    number = team.request_of("root", lambda book: book.erase(team.grant_of("amy", "analyst", team.clinic), why="x"))
    return [team.decision("bob", number), team.effect_of(number, "bob", entries=[raised])]


@attack("other_effect")
def another_key(team):
    number = team.request_of("root", lambda book: book.add_key(PUBLIC, why="a host"))
    approve = [team.decision("bob", number), team.decision("tia", number)]
    return [*approve, team.effect_of(number, "tia", public="ef" * 32)]


@attack("other_effect")
def an_effect_with_a_field_more(team):
    number = team.request_of(
        "root", lambda book: book.open("clinic").register("visits", source="v.csv", fixed={"a": "b"})
    )
    return [team.decision("bob", number), team.effect_of(number, "bob", marks=["file /other.csv"])]


@attack("")  # the replay before the seal finds it
def a_request_that_leaves_the_limit_open(team):
    number = team.raise_to("root", 2)
    effect = dict(team.authority.requests[number].effect)
    del effect["limit"]
    return [
        team.entry(
            "root", "request", effect=effect, population=team.clinic, was=[10**12, 0, 1], why=effect["why"], note=""
        )
    ]  # fmt: skip


@attack("bad_request")
def a_request_for_a_charge(team):
    effect = {"kind": "burn", "charge": 1, "fence": 1, "why": "x", "principal": "x"}
    return [team.entry("root", "request", effect=effect, population=team.clinic, was=[], why="x", note="")]


@attack("bad_request")
def a_request_that_names_another_population(team):
    number = team.raise_to("root", 2)
    effect = team.authority.requests[number].effect
    was = [10**12, 0, 1]
    return [team.entry("sue", "request", effect=effect, population=team.school, was=was, why=effect["why"], note="")]


@attack("request_ended")
def two_effects_of_a_request(team):
    number = team.request_of("root", lambda book: book.team.grant(team.ids["eve"], "owner", "clinic", why="x"))
    effect = team.effect_of(number, "bob")
    return [team.decision("bob", number), effect, effect]


@attack("request_ended")
def an_effect_of_a_withdrawn_request(team):
    number = team.raise_to("root", 2)
    effect = team.effect_of(number, "bob")
    team.by("root").team.withdraw(number)
    return [effect]


@attack("request_ended")
def an_approval_of_a_rejected_request(team):
    number = team.raise_to("root", 2)
    team.by("bob").team.reject(number, why="no")
    return [team.decision("cat", number)]


@attack("request_ended")
def an_expired_request_is_approved(team):
    number = team.raise_to("root", 2)
    team.clock.seconds += LAPSE / 1000 + 1
    return [team.decision("bob", number)]


@sound
def a_request_on_its_last_day(team):
    number = team.raise_to("root", 2)
    team.clock.seconds += LAPSE / 1000
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("request_ended")
def an_expired_request_is_carried_out(team):
    number = team.raise_to("root", 2)
    decision = team.decision("bob", number)
    team.clock.seconds += LAPSE / 1000 + 1
    return [decision, team.effect_of(number, "bob")]


@attack("not_authorised")
def a_withdrawal_by_somebody_else(team):
    return [team.entry("bob", "withdraw", request=team.raise_to("root", 2))]


@attack("bad_request")
def a_request_that_holds_is_declared_void(team):
    return [team.entry("eve", "void", request=team.raise_to("root", 2))]


@attack("not_authorised")
def an_auditor_requests(team):
    number = team.raise_to("root", 2)
    effect, was = team.authority.requests[number].effect, [10**12, 0, 1]
    return [team.entry("aud", "request", effect=effect, population=team.clinic, was=was, why=effect["why"], note="")]


@attack("other_effect")
def an_entry_without_rights_ends_a_request(team):
    return [team.entry("eve", "first_use", under=team.raise_to("root", 2), principal=team.ids["eve"], why="x")]


# -- numbers of approvers and owners


@attack("too_few_approvers")
def an_approver_is_taken_below_what_is_needed(team):
    number = team.request_of("root", lambda book: book.team.revoke(team.ids["cat"], "approver", "clinic", why="left"))
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@attack("too_few_approvers")
def an_approver_ends_below_what_is_needed(team):
    return [team.entry("root", "principal_end", principal=team.ids["cat"], why="left")]


@attack("too_few_approvers")
def a_number_of_approvals_that_nobody_can_give(team):
    with mock.patch("tallystick.ledger.team._require_approvers"):  # a program that asks without looking
        number = team.request_of("root", lambda book: book.team.set_quorum("clinic", {"money": 2}, why="two"))
    return [team.decision("bob", number), team.effect_of(number, "bob")]


@sound
def the_number_is_lowered_and_then_an_approver_leaves(team):
    number = team.request_of(
        "root",
        lambda book: book.team.set_quorum(
            "clinic", dict.fromkeys(("money", "people", "data", "erasure"), 0), why="alone"
        ),
    )
    approved(team, number, "cat")
    return [team.entry("root", "role_revoke", grant=team.grant_of("cat", "approver", team.clinic), why="left")]


@attack("last_one")
def the_last_owner_is_removed(team):
    number = team.request_of("sue", lambda book: book.team.revoke(team.ids["sue"], "owner", "school", why="x"))
    return [team.decision("tia", number), team.effect_of(number, "tia")]


@attack("last_one")
def the_last_owner_ends(team):
    return [team.entry("root", "principal_end", principal=team.ids["sue"], why="x")]


@attack("last_one")
def the_last_operator_ends(team):
    """The operator of one population is no operator of the ledger."""
    number = team.request_of("root", lambda book: book.team.grant(team.ids["eve"], "owner", "clinic", why="x"))
    approved(team, number, "bob")
    return [team.entry("root", "principal_end", principal=team.ids["root"], why="x")]


@attack("last_one")
def the_last_operator_is_removed(team):
    return [team.entry("root", "role_revoke", grant=team.grant_of("root", "operator", None), why="x")]


# -- roles


@attack("bad_kind")
def roles_begin_twice(team):
    return [team.entry("root", "roles", why="again")]


@attack("bad_kind")
def the_ledger_is_governed_twice(team):
    return [team.entry("root", "govern", principal=team.ids["root"], why="again", public=PUBLIC, vouched=[])]


@attack("not_authorised")
def the_operator_names_a_second_owner(team):
    return [team.entry("root", "role_grant", principal=team.ids["eve"], role="owner", population=team.school, why="x")]


@attack("not_authorised")
def the_operator_of_a_population_opens_another(team):
    effect = team.open_entry("opal", "eve", called="lab", parent=None, account_kind="population")
    del effect["owner"]
    return [effect]


@attack("not_authorised")
def the_operator_of_a_population_names_the_first_owner_of_another(team):
    lab = team.ledger.open("lab", budget=zcdp(rho=1), unit="person").id
    return [team.entry("opal", "role_grant", principal=team.ids["opal"], role="owner", population=lab, why="x")]


@attack("not_authorised")
def the_operator_of_a_population_breaks_the_glass(team):
    """An owner makes operators of the population, and would so make approvers alone."""
    return [team.entry("opal", "break_glass", principal=team.ids["eve"], population=team.clinic, why="x")]


@attack("not_authorised")
def the_operator_of_a_population_ends_a_principal(team):
    return [team.entry("opal", "principal_end", principal=team.ids["ann"], why="x")]


@attack("not_authorised")
def an_owner_breaks_the_glass(team):
    return [team.entry("sue", "break_glass", principal=team.ids["eve"], population=team.school, why="x")]


@attack("not_authorised")
def the_glass_is_broken_with_a_token(team):
    token = team.by("root").team.make_token(roles=["operator"]).seq
    return [team.entry("root", "break_glass", via=token, principal=team.ids["eve"], population=team.clinic, why="x")]


@sound
def the_operator_breaks_the_glass(team):
    return [team.entry("root", "break_glass", principal=team.ids["eve"], population=team.school, why="x")]


@attack("unknown_principal")
def the_glass_is_broken_for_a_machine(team):
    machine = team.ledger.team.add("machine:nightly")
    return [team.entry("root", "break_glass", principal=machine, population=team.clinic, why="x")]


@attack("known_role")
def a_role_is_given_twice(team):
    return [
        team.entry("root", "role_grant", principal=team.ids["ann"], role="analyst", population=team.clinic, why="x")
    ]


@attack("bad_population")
def a_role_on_an_allowance(team):
    return [team.entry("root", "role_grant", principal=team.ids["eve"], role="analyst", population=team.own, why="x")]


@attack("bad_role")
def an_approver_of_everything(team):
    return [team.entry("root", "role_grant", principal=team.ids["eve"], role="approver", population=None, why="x")]


@attack("not_authorised")
def an_owner_gives_roles_elsewhere(team):
    return [team.entry("sue", "role_grant", principal=team.ids["eve"], role="analyst", population=team.clinic, why="x")]


@attack("known_principal")
def a_principal_is_added_twice(team):
    return [team.entry("root", "principal_add", principal=team.ids["ann"], person="person", owner=None, subject="ann")]


@attack("not_authorised")
def an_analyst_adds_a_principal(team):
    return [team.entry("ann", "principal_add", principal=new_principal(), person="person", owner=None, subject="x")]


@attack("unknown_principal")
def somebody_who_is_not_known(team):
    return [team.entry(new_principal(), "token_end", token=1)]


@attack("unknown_principal")
def somebody_who_ended(team):
    team.ledger.team.end(team.ids["ann"], why="left")
    return [team.begin_entry("ann", team.own, 0.1)]


# -- the owner acts alone, although two approvers exist


def alone(name: str, **fields: Any) -> None:
    def make(team: Team) -> Entries:
        known = {name: value(team) if callable(value) else value for name, value in fields.items()}
        return [team.entry("root", name, **known)]

    make.__name__ = f"the_owner_acts_alone_{name}"
    attack("needs_approval")(make)


alone("raise", account=lambda team: team.clinic, limit=[2 * 10**12, 0], was=[10**12, 0], why="0" * 64)
alone("close", account=lambda team: team.clinic, why="x")
alone("register", dataset="visits", account=lambda team: team.clinic, source=None, least=0, note="x", fixed={"a": "b"})
alone("clear", principal=lambda team: team.ids["root"], account=lambda team: team.clinic, rows=[], why="x")
alone(
    "erase",
    principal=lambda team: team.ids["root"],
    entries=lambda team: [team.raise_to("root", 2) - 1],
    answers_of=[],
    why="x",
)
alone("quorum", population=lambda team: team.clinic, needed={"money": 0}, why="x")
alone(
    "role_grant", principal=lambda team: team.ids["eve"], role="approver", population=lambda team: team.clinic, why="x"
)
alone("key_add", principal=lambda team: team.ids["root"], public=PUBLIC, why="x")


# -- what reaches more than one population


@attack("not_authorised")
def an_owner_erases_texts_of_another_population(team):
    number = team.grant_of("ann", "analyst", team.clinic)
    lowered = team.request_of("sue", lambda book: book.team.set_quorum("school", {"erasure": 0}, why="x"))
    approved(team, lowered, "tia")
    lowered = team.request_of("root", lambda book: book.team.set_quorum("clinic", {"erasure": 0}, why="x"))
    approved(team, lowered, "bob")
    return [team.entry("sue", "erase", principal=team.ids["sue"], entries=[number], answers_of=[], why="x")]


@attack("needs_approval")
def one_population_erases_texts_of_both(team):
    own = team.by("sue").team.grant(team.ids["eve"], "analyst", "school", why="x")
    grants = [team.grant_of("ann", "analyst", team.clinic), own]
    number = team.request_of("sue", lambda book: book.erase(*grants, why="x"))
    return [team.decision("tia", number), team.effect_of(number, "tia")]


@attack("needs_approval")
def one_population_adds_a_key(team):
    number = team.request_of("sue", lambda book: book.add_key(PUBLIC, why="x"))
    return [team.decision("tia", number), team.effect_of(number, "tia")]


@attack("needs_approval")
def one_population_makes_an_operator_of_the_ledger(team):
    number = team.request_of("sue", lambda book: book.team.grant(team.ids["eve"], "operator", None, why="x"))
    return [team.decision("tia", number), team.effect_of(number, "tia")]


@sound
def both_populations_add_a_key(team):
    number = team.request_of("sue", lambda book: book.add_key(PUBLIC, why="x"))
    return [team.decision("tia", number), team.decision("cat", number), team.effect_of(number, "cat")]


# -- payments


@sound
def an_analyst_pays_from_the_own_allowance(team):
    return [team.begin_entry("ann", team.own, 0.1)]


@attack("needs_allowance")
def an_analyst_pays_from_the_population(team):
    return [team.begin_entry("ann", team.clinic, 0.1)]


@attack("not_authorised")
def an_analyst_pays_from_the_allowance_of_another(team):
    return [team.begin_entry("amy", team.own, 0.1)]


@attack("not_authorised")
def the_owner_pays_from_the_allowance_of_another(team):
    return [team.begin_entry("root", team.own, 0.1)]


@attack("not_authorised")
def an_allowance_outlives_the_role(team):
    team.ledger.team.revoke(team.ids["ann"], "analyst", "clinic", why="left")
    return [team.begin_entry("ann", team.own, 0.1)]


@attack("needs_allowance")
def an_approver_releases(team):
    return [team.begin_entry("bob", team.clinic, 0.1)]


@attack("needs_allowance")
def a_runner_releases(team):
    return [team.begin_entry("max", team.clinic, 0.1)]


@attack("not_authorised")
def a_runner_releases_from_an_allowance(team):
    own = team.ledger.team.allow(team.ids["max"], "clinic", zcdp(rho=0.2), why="x")
    return [team.begin_entry("max", team.ledger.open(own).id, 0.1)]


@attack("no_principal")
def a_charge_in_the_name_of_another(team):
    return [team.begin_entry("ann", team.own, 0.1, principal=team.ids["amy"])]


@attack("other_effect")
def a_charge_that_carries_out_a_request(team):
    return [team.begin_entry("ann", team.own, 0.1, under=team.raise_to("root", 2))]


@attack("needs_approval")
def an_analyst_raises_the_own_allowance(team):
    return [team.raise_entry("ann", 0.9, account=team.own, was=0.5)]


@attack("not_authorised")
def an_approver_gives_an_allowance(team):
    return [team.open_entry("bob", "ann")]


@attack("bad_principal")
def an_allowance_of_somebody_without_a_role(team):
    return [team.open_entry("root", "eve")]


@attack("bad_principal")
def an_allowance_of_an_analyst_of_another_population(team):
    return [team.open_entry("sue", "ann", parent=team.school)]


# -- tokens


def token(team: Team, name: str, **options: Any) -> int:
    return int(team.by(name).team.make_token(**{"roles": ["analyst"], **options}).seq)


@sound
def a_token_pays(team):
    return [team.begin_entry("ann", team.own, 0.1, via=token(team, "ann"))]


@attack("dead_token")
def an_ended_token(team):
    number = token(team, "ann")
    team.by("ann").team.end_token(number)
    return [team.begin_entry("ann", team.own, 0.1, via=number)]


@attack("dead_token")
def a_token_of_another(team):
    return [team.begin_entry("ann", team.own, 0.1, via=token(team, "amy"))]


@attack("dead_token")
def a_token_that_does_not_exist(team):
    return [team.begin_entry("ann", team.own, 0.1, via=3)]


@attack("dead_token")
def an_expired_token(team):
    number = token(team, "ann", days=1)
    team.clock.seconds += 86_401
    return [team.begin_entry("ann", team.own, 0.1, via=number)]


@attack("token_ceiling")
def a_token_over_its_ceiling(team):
    number = token(team, "ann", population="clinic", ceiling=zcdp(rho=0.1))
    team.forge([team.begin_entry("ann", team.own, 0.06, via=number)])
    return [team.begin_entry("ann", team.own, 0.06, via=number)]


def at_the_end_of_a_day(team: Team) -> int:
    """A token with a ceiling, that has paid in the last millisecond of a day."""
    team.clock.seconds = (team.clock.seconds * 1000 // DAY + 1) * DAY / 1000
    number = token(team, "ann", population="clinic", ceiling=zcdp(rho=0.1))
    team.clock.seconds += DAY / 1000 - 0.001
    team.forge([team.begin_entry("ann", team.own, 0.06, via=number)])
    return number


@attack("token_ceiling")
def a_token_over_its_ceiling_in_the_last_millisecond(team):
    return [team.begin_entry("ann", team.own, 0.06, via=at_the_end_of_a_day(team))]


@sound
def a_token_in_the_first_millisecond_of_the_next_day(team):
    number = at_the_end_of_a_day(team)
    team.clock.seconds += 0.001
    return [team.begin_entry("ann", team.own, 0.06, via=number)]


@attack("needs_approval")
def a_token_with_more_roles_than_its_principal(team):
    number = token(team, "ann", roles=["owner", "analyst"])
    return [team.raise_entry("ann", 0.9, account=team.own, was=0.5, via=number)]


@attack("not_authorised")
def a_token_with_fewer_roles_than_its_principal(team):
    number = token(team, "root", roles=["auditor"])
    return [team.entry("root", "principal_end", via=number, principal=team.ids["ann"], why="x")]


@attack("not_authorised")
def a_token_decides_without_the_role(team):
    number = token(team, "bob", roles=["analyst"])
    return [team.decision("bob", team.raise_to("root", 2), via=number)]


@attack("not_authorised")
def a_token_for_another_population_decides(team):
    number = token(team, "bob", roles=["approver"], population="school")
    return [team.decision("bob", team.raise_to("root", 2), via=number)]


@sound
def a_token_that_was_made_for_it_decides(team):
    number = token(team, "bob", roles=["approver"], population="clinic")
    return [team.decision("bob", team.raise_to("root", 2), via=number)]


@attack("not_authorised")
def a_token_makes_a_token(team):
    number = token(team, "ann")
    return [made_token(team, "ann", via=number)]


def made_token(team: Team, name: str, **more: Any) -> dict[str, Any]:
    at = team.ledger.now()
    fields = {"principal": team.ids[name], "roles": ["analyst"], "population": None, "doors": ["http"], "ceiling": None}
    return team.entry(name, "token_add", **{**fields, "until": at + DAY, "hash": "0" * 64, "name": "x", **more})


@attack("not_authorised")
def a_token_for_another(team):
    return [made_token(team, "ann", principal=team.ids["root"])]


@attack("bad_token")
def a_token_for_two_years(team):
    return [made_token(team, "ann", until=team.ledger.now() + 730 * DAY)]


@attack("bad_token")
def a_token_with_the_secret_of_another(team):
    text = team.by("amy").team.make_token().text
    return [made_token(team, "ann", hash=token_digest(text))]


@attack("not_authorised")
def a_token_of_another_is_ended(team):
    return [team.entry("ann", "token_end", token=token(team, "amy"))]


# -- erasure


@attack("active_name")
def the_name_of_somebody_who_has_not_ended(team):
    return [team.entry("root", "erase", principal=team.ids["root"], entries=[1], answers_of=[], why="x")]


@attack("open_request")
def the_texts_of_an_open_request(team):
    open_one = team.raise_to("root", 2)
    return [team.entry("root", "erase", principal=team.ids["root"], entries=[open_one], answers_of=[], why="x")]


@attack("no_principal")
def an_erasure_in_the_name_of_another(team):
    number = team.request_of("root", lambda book: book.erase(team.grant_of("amy", "analyst", team.clinic), why="x"))
    effect = {**team.effect_of(number, "bob"), "principal": team.ids["ann"]}
    return [team.decision("bob", number), effect]


# -- charges of others


@attack("not_authorised")
def an_analyst_ends_the_charge_of_another(team):
    number = team.forge([team.begin_entry("ann", team.own, 0.1)])
    return [team.entry("amy", "burn", charge=number, fence=1, why="error", principal=team.ids["amy"], nonce="0" * 32)]


@attack("not_authorised")
def an_analyst_answers_for_the_charge_of_another(team):
    number = team.forge([team.begin_entry("ann", team.own, 0.1)])
    return [team.entry("amy", "lease", charge=number, fence=1, lease_until=team.ledger.now() + 5000)]


# -- what is not there, or of no known kind


@attack("bad_principal")
def a_machine_for_which_somebody_else_answers(team):
    principal = new_principal()
    return [
        team.entry("root", "principal_add", principal=principal, person="machine", owner=team.ids["sue"], subject="x")
    ]


@attack("not_authorised")
def a_machine_of_somebody_who_owns_nothing(team):
    number = team.request_of("root", lambda book: book.team.grant(team.ids["eve"], "operator", None, why="x"))
    approved(team, number, "bob", "tia")
    eve = team.ids["eve"]
    return [team.entry("eve", "principal_add", principal=new_principal(), person="machine", owner=eve, subject="x")]


@attack("bad_principal")
def a_principal_of_another_kind(team):
    return [team.entry("root", "principal_add", principal=new_principal(), person="god", owner=None, subject="x")]


@attack("unknown_principal")
def a_principal_that_ends_twice(team):
    team.ledger.team.end(team.ids["amy"], why="left")
    return [team.entry("root", "principal_end", principal=team.ids["amy"], why="left")]


@attack("bad_role")
def a_role_that_is_not_known(team):
    return [team.entry("root", "role_grant", principal=team.ids["eve"], role="god", population=team.clinic, why="x")]


@attack("unknown_principal")
def a_role_of_somebody_who_is_not_known(team):
    return [team.entry("root", "role_grant", principal="nobody", role="analyst", population=team.clinic, why="x")]


@attack("not_authorised")
def the_operator_makes_another_operator_alone(team):
    return [team.entry("root", "role_grant", principal=team.ids["eve"], role="operator", population=None, why="x")]


@attack("unknown_role")
def a_role_is_taken_twice(team):
    grant = team.grant_of("amy", "analyst", team.clinic)
    team.ledger.team.revoke(team.ids["amy"], "analyst", "clinic", why="left")
    return [team.entry("root", "role_revoke", grant=grant, why="left")]


@attack("bad_population")
def a_number_of_approvals_of_no_population(team):
    return [team.entry("root", "quorum", population=team.own, needed={"money": 0}, why="x")]


@attack("bad_quorum")
def a_class_that_is_not_known(team):
    return [team.entry("root", "quorum", population=team.clinic, needed={"fame": 0}, why="x")]


@attack("bad_population")
def the_glass_of_no_population(team):
    return [team.entry("root", "break_glass", principal=team.ids["eve"], population=team.own, why="x")]


@attack("unknown_principal")
def a_token_of_nobody(team):
    return [made_token(team, "ann", principal="nobody")]


@attack("bad_role")
def a_token_with_a_role_twice(team):
    return [made_token(team, "ann", roles=["analyst", "analyst"])]


@attack("bad_door")
def a_token_for_another_door(team):
    return [made_token(team, "ann", doors=["window"])]


@attack("bad_token")
def a_ceiling_without_a_currency(team):
    return [made_token(team, "ann", ceiling=5)]


@attack("unknown_token")
def a_token_is_ended_twice(team):
    number = token(team, "ann")
    team.by("ann").team.end_token(number)
    return [team.entry("ann", "token_end", token=number)]


@attack("bad_request")
def a_request_that_fixes_its_time(team):
    effect = {**team.authority.requests[team.raise_to("root", 2)].effect, "at": 5}
    return [
        team.entry(
            "root", "request", effect=effect, population=team.clinic, was=[10**12, 0, 1], why=effect["why"], note=""
        )
    ]


@attack("bad_request")
def a_request_whose_effect_has_another_reason(team):
    effect = team.authority.requests[team.raise_to("root", 2)].effect
    return [
        team.entry("root", "request", effect=effect, population=team.clinic, was=[10**12, 0, 1], why="else", note="")
    ]


@attack("bad_decision")
def a_decision_that_is_neither(team):
    return [team.decision("bob", team.raise_to("root", 2), decision="perhaps")]


@attack("request_ended")
def a_request_is_withdrawn_twice(team):
    number = team.raise_to("root", 2)
    team.by("root").team.withdraw(number)
    return [team.entry("root", "withdraw", request=number)]


@attack("no_request")
def an_effect_of_a_request_that_is_not_there(team):
    return [team.raise_entry("root", 2, under=5)]


# -- before roles begin

BEFORE: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "somebody who was not named": lambda me, account: {
        "kind": "close", "account": account, "why": "0" * 64, "act": ["x", None, None],
    },
    "a request": lambda me, account: {"kind": "close", "account": account, "why": "0" * 64, "act": [me, None, 5]},
    "a role": lambda me, account: {
        "kind": "role_grant", "principal": me, "role": "owner", "population": account, "why": "0" * 64,
        "act": [me, None, None],
    },
    "an allowance": lambda me, account: {
        "kind": "open", "name": "new", "parent": account, "partition": None, "account_kind": "analyst",
        "filter": "zcdp", "unit": "person", "adjacency": "add_remove", "milestones": "[]", "limit": [5, 0],
        "owner": me, "act": [me, None, None],
    },
    "somebody adds another": lambda me, account: {
        "kind": "principal_add", "principal": "x", "person": "person", "owner": None, "subject": "0" * 64,
        "act": [me, None, None],
    },
    "a machine adds itself": lambda me, account: {
        "kind": "principal_add", "principal": "x", "person": "machine", "owner": None, "subject": "0" * 64,
        "act": ["x", None, None],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE)
def test_before_roles_begin_an_entry_only_says_who_acts(ledger, place, stranger, name):
    account = ledger.open("people", budget=zcdp(rho=1), unit="person")
    governed = ledger.govern(why="a team uses it")
    number = append_forged(
        place,
        {**BEFORE[name](ledger.actor, account.id), "at": ledger.now(), "governed": governed},
        seal=ledger.signer(),
    )
    lines = list(ledger.export(level="chain"))
    for problems in (ledger.verify().problems, verify_export(lines).problems):
        assert problems[0].startswith(f"entry {number}: ")
    with pytest.raises(stranger.Problem, match=f"entry {number}:"):
        stranger.check("".join(f"{line}\n" for line in lines).encode())


def test_an_entry_after_roles_began_says_who_acts(team, stranger):
    entry = team.entry("ann", "first_use", principal="x", why="x")
    del entry["act"]
    number = team.forge([entry])
    assert verify_export(team.ledger.export(level="chain")).problems[0] == f"entry {number}: it does not say who acts"
    with pytest.raises(stranger.Problem, match=f"entry {number}:"):
        stranger.check(exported(team))


# -- the tests


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_by_the_writer_and_found_when_it_is_forged(team, name, stranger):
    code, make = ATTACKS[name]
    entries = make(team)
    assert verify_export(team.ledger.export(level="chain")).problems == ()
    stranger.check(exported(team))
    refusal = team.refused_by_writer(entries)
    assert isinstance(refusal, NotAuthorised if code else LedgerIntegrity), refusal
    assert not code or refusal.code == code, refusal
    number = team.forge(entries)
    rule = str(refusal).split(". Nothing was changed")[0].split(". Try: ")[0].removeprefix(f"entry {number}: ")
    with pytest.raises(stranger.Problem, match=f"entry {number}:"):
        stranger.check(exported(team))
    for report in (team.ledger.verify(), verify_export(team.ledger.export(level="chain"))):
        assert report.problems, "not found"
        assert report.problems[0].lower() == f"entry {number}: {rule}".lower()


@pytest.mark.parametrize("name", SOUND)
def test_what_is_next_to_an_attack_is_allowed(team, name, stranger):
    entries = SOUND[name](team)
    team.forge(entries)
    report = verify_export(team.ledger.export(level="chain"))
    assert report.problems == ()
    assert stranger.check(exported(team))["entries"] == team.ledger.head().seq
