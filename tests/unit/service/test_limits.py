"""Limits of a job: memory spills before it fails, and processor time ends a worker after the charge."""

from __future__ import annotations

import pytest

from served import Service, ended, statement, write_visits
from tallystick.errors import TallystickError

MEGABYTE = 1 << 20


def test_a_job_with_little_memory_spills_and_answers(fresh: Service) -> None:
    write_visits(fresh.data / "visits.csv", 600_000)
    fresh.options.update(slots=1, memory=96 * MEGABYTE)
    fresh.start()
    found = fresh.submit("ann", statement("SELECT COUNT(DISTINCT who) AS n, AVG(age) AS a FROM visits"), wait=60)
    assert found["job"]["state"] == "DONE", found


def test_a_job_that_takes_too_much_processor_time_is_paid_and_closes_its_data(fresh: Service) -> None:
    write_visits(fresh.data / "visits.csv", 200_000)
    rows = (fresh.data / "visits.csv").read_text().partition("\n")[2]
    with (fresh.data / "visits.csv").open("a") as file:
        file.writelines(rows for _ in range(34))
    fresh.options.update(slots=1, cpu_seconds=1)
    fresh.start()
    text = "SELECT ward, COUNT(*) AS n, AVG(age) AS a, STDDEV(age) AS s FROM visits WHERE ward IN ('north', 'east')"
    number = fresh.submit("ann", statement(f"{text} GROUP BY ward"), wait=0)["job"]["id"]
    job = ended(fresh, "ann", number, patience=60)["job"]
    assert job["state"] == "FAILED"
    assert fresh.ask("root", "failures", population="clinic")[0]["charge"] == job["charge"]
    with pytest.raises(TallystickError, match="closed"):
        fresh.submit("bob", statement(rho=0.02))
