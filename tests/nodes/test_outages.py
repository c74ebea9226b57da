"""The database goes away under load and comes back: nothing that was acknowledged is lost.

One outage of each kind, in every run of the tests; the campaign in `tests/torture` has more.
"""

import sys
from datetime import date
from pathlib import Path

import pytest

from tests.nodes.outages import through_a_failover, through_restarts

pytestmark = pytest.mark.postgresql


def test_a_restart_of_postgresql_loses_nothing(
    tmp_path: Path, today: date, question: dict[str, str]
) -> None:
    (outage_s,) = through_restarts(tmp_path, today, question, times=1)
    sys.stdout.write(f"restart: no success for {outage_s:.2f} s\n")


def test_a_failover_to_the_synchronous_standby_loses_nothing(
    tmp_path: Path, today: date, question: dict[str, str]
) -> None:
    outage_s = through_a_failover(tmp_path, today, question)
    sys.stdout.write(f"failover: no success for {outage_s:.2f} s\n")
