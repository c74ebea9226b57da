"""Outages under load: 10 restarts of PostgreSQL and 5 failovers, about six minutes.

Each outage catches some 16 calls under way, so 15 of them are about 240 commits that were cut off.
"""

import sys
from datetime import date
from pathlib import Path

import pytest

from tests.nodes.outages import through_a_failover, through_restarts

pytestmark = [pytest.mark.torture, pytest.mark.postgresql]

RESTARTS = 10
FAILOVERS = 5


def test_nothing_is_lost_in_10_restarts(
    tmp_path: Path, today: date, question: dict[str, str]
) -> None:
    _tell("restarts", through_restarts(tmp_path, today, question, times=RESTARTS))


def test_nothing_is_lost_in_5_failovers(
    tmp_path: Path, today: date, question: dict[str, str]
) -> None:
    outages_s = [
        through_a_failover(tmp_path / str(number), today, question) for number in range(FAILOVERS)
    ]
    _tell("failovers", outages_s)


def _tell(kind: str, outages_s: list[float]) -> None:
    lengths = ", ".join(f"{each:.2f}" for each in sorted(outages_s))
    sys.stdout.write(f"\n{len(outages_s)} {kind}, seconds without a success: {lengths}\n")
