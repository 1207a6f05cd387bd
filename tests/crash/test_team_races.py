"""People of one ledger act at the same moment: no limit is passed, and a request is carried out once."""

from __future__ import annotations

from crash.team_racing import race_of_allowances, race_of_approvals


def test_analysts_who_race_pass_neither_their_allowance_nor_the_limit(place, config):
    race_of_allowances(place, config, processes=16, each=3)


def test_a_request_that_many_approve_at_once_is_carried_out_once(place, config):
    race_of_approvals(place, config, processes=6)
