"""When a balance runs out: at the pace of the last seven days."""

from datetime import datetime
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tollway.ledger.entries import Balance
from tollway.ledger.usage import UsageSum, midnight_s
from tollway.web.account_parts import balance_figures
from tollway.web.area import Context

ZONE = ZoneInfo("Asia/Shanghai")
DAY_S = 86_400
# Eleven in the morning.
NOW_S = midnight_s(1_794_900_000, ZONE) + 11 * 3600


def _note(left: int, taken: int, days_ago: int, opened_hours_ago: int = 24 * 365) -> str:
    day_s = midnight_s(NOW_S - days_ago * DAY_S, ZONE)
    used = [UsageSum("acc_1", "orders", day_s, "credits", taken, taken)] if taken else []
    web = SimpleNamespace(zone=ZONE, now=lambda: datetime.fromtimestamp(NOW_S, ZONE))
    context = SimpleNamespace(now_s=NOW_S, web=web)
    context.say = lambda text, **values: text.format_map(values) if values else text
    balances = [Balance("credits", left, held=0, posted=0, entries=1)]
    opened_at_s = NOW_S - opened_hours_ago * 3600
    return balance_figures(cast(Context, context), balances, used, opened_at_s).figures[0].note


@pytest.mark.sqlite
def test_what_was_taken_seven_days_ago_counts_until_the_days_are_over() -> None:
    assert _note(700, 0, 0) == "nothing taken in the last 7 days"
    # It may have been taken in the afternoon, not yet seven days ago.
    assert "at this pace" in _note(700, 10, 7)
    assert _note(700, 10, 8) == "nothing taken in the last 7 days"


@pytest.mark.sqlite
def test_the_pace_is_over_the_time_that_was_looked_at() -> None:
    # A hundred in seven days and eleven hours.
    assert _note(1000, 100, 1) == "lasts until 2027-01-30 at this pace"


@pytest.mark.sqlite
def test_days_before_the_account_was_opened_are_not_counted() -> None:
    # Opened two days ago, 700 taken since: the other 1,050 last for three days more.
    assert _note(1050, 700, 1, opened_hours_ago=48) == "lasts until 2026-11-20 at this pace"


@pytest.mark.sqlite
def test_an_account_of_an_hour_has_the_pace_of_a_day() -> None:
    # Trying things out in the first hour is no pace.
    assert _note(1000, 100, 0, opened_hours_ago=1) == "lasts until 2026-11-27 at this pace"
