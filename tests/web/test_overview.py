"""The sums of the overview: what is shown of a moment ago and what is read now make one whole."""

from datetime import date, datetime, timedelta
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.stores import Store
from tollway.ledger.usage import top_accounts
from tollway.store.database import Database
from tollway.web.area import Context
from tollway.web.blocks import Cell
from tollway.web.operator.overview import _chart, latest_usage
from tollway.web.read_cache import ReadCache
from tollway.web.wording import PLAIN_VIEW

HOUR_S, MINUTE_S = 3600, 60
# The beginning of an hour.
NOON_S = 500_000 * HOUR_S


def count(store: Store, span_s: int, start_s: int, calls: int) -> None:
    values = f"({span_s}, {start_s}, 'acc_1', 'credits', 'orders', {calls}, {calls})"
    store.run(
        "INSERT INTO usage (span_s, start_s, account_id, unit, operation, calls, amount) "
        f"VALUES {values}"
    )


def test_every_hour_and_minute_is_counted_once_before_and_after_an_hour_ends(
    own_store: Store,
) -> None:
    for start_s, calls in ((NOON_S - 23 * HOUR_S, 1), (NOON_S - HOUR_S, 10), (NOON_S, 100)):
        count(own_store, HOUR_S, start_s, calls)
    for start_s, calls in ((NOON_S, 60), (NOON_S + 58 * MINUTE_S, 30), (NOON_S + 3540, 10)):
        count(own_store, MINUTE_S, start_s, calls)

    async def seen(database: Database) -> None:
        services = SimpleNamespace(read_cache=ReadCache())
        context = cast(Context, SimpleNamespace(database=database, services=services))
        minutes, hours = await latest_usage(context, NOON_S + 3590)
        assert [row[2] for row in minutes] == [60, 30, 10]
        assert [row[2] for row in hours] == [1, 10, 60, 30, 10]
        # What is remembered ends before the hour that has ended meanwhile.
        minutes, hours = await latest_usage(context, NOON_S + HOUR_S + 10)
        assert [row[2] for row in minutes] == [30, 10]
        assert [row[2] for row in hours] == [10, 100]

    own_store.do(seen)


def test_the_top_accounts_are_those_of_yesterday_and_today(own_store: Store) -> None:
    day_s, today = 86_400, date(2026, 11, 17)
    today_s = today.toordinal() * day_s - date(1970, 1, 1).toordinal() * day_s
    for account_id, start_s, calls in (
        ("acc_before", today_s - 2 * day_s, 900),
        ("acc_both", today_s - day_s, 20),
        ("acc_both", today_s, 20),
        ("acc_today", today_s, 30),
        ("acc_few", today_s, 1),
        # By a clock that was ahead.
        ("acc_ahead", today_s + 300 * day_s, 900),
    ):
        own_store.run(
            "INSERT INTO usage (span_s, start_s, account_id, unit, operation, calls, amount) "
            f"VALUES ({day_s}, {start_s}, '{account_id}', 'credits', 'orders', {calls}, 2)"
        )
    yesterday = today - timedelta(days=1)
    found = own_store.do(lambda database: top_accounts(database, yesterday, today, 2))
    assert [(row[0], int(row[1])) for row in found] == [("acc_both", 40), ("acc_today", 30)]


@pytest.mark.sqlite
def test_hours_are_named_by_their_beginning_also_where_it_is_half_past() -> None:
    view = SimpleNamespace(say=PLAIN_VIEW.say, number=lambda value: Cell(str(value)))
    view.web = SimpleNamespace(zone=ZoneInfo("Asia/Kolkata"))
    chart = _chart(cast(Context, view), [(NOON_S, "orders", 7, 7)], NOON_S)
    ((hour, calls),) = chart.table.rows
    began = datetime.fromtimestamp(NOON_S, ZoneInfo("Asia/Kolkata"))
    assert (hour.text, calls.text) == (began.strftime("%H:30"), "7")
