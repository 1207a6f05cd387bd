"""``tallystick demo holdout``: a plain holdout is fooled on coins, a reusable one is not."""

from __future__ import annotations

from pace import Clock


def test_a_plain_holdout_is_fooled_and_a_reusable_one_is_not(run):
    clock = Clock()
    found = run("demo", "holdout", "--json").document["found"]
    assert clock.seconds < 20
    assert found["plain"]["reported"] > 0.59
    assert abs(found["plain"]["fresh"] - 0.5) < 0.04
    assert abs(found["reusable"]["reported"] - 0.5) < 0.09
    assert found["plain"]["reported"] > found["reusable"]["reported"] + 0.03
    assert found["certified_error"] == 1.0
    assert found["records_needed"] > 10**6


def test_the_story_says_both_numbers_and_that_the_certificate_is_vacuous(run):
    outcome = run("demo", "holdout")
    text = outcome.out
    assert (outcome.code, outcome.errors) == (0, "")
    assert "a plain holdout" in text
    assert "a reusable holdout" in text
    assert "vacuous" in text
