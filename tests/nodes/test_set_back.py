"""What was stored while a clock was a year ahead: once it is right, none of it lasts until then."""

import time
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.support.ledger import new_caller
from tests.support.stores import Store
from tollway.carriers.pool_levels import numbers_a_day
from tollway.identity.sessions import IDLE_S, find_session, start_session
from tollway.intake import push
from tollway.intake.push import Pushes, PushLimits
from tollway.ledger.balance_pace import balance_paces
from tollway.ledger.tokens import record_use
from tollway.ledger.usage import DAY_S, date_s
from tollway.store.database import Database
from tollway.store.last_runs import PUSH_PREFIX, last_outcomes, note_run
from tollway.web.jobs import JOB_PREFIX, Job, find_job

YEAR_S = 365 * DAY_S
NOW_S = int(time.time())
ZONE = ZoneInfo("Asia/Shanghai")


async def test_a_session_does_not_hold_until_then(database: Database) -> None:
    cookie = await start_session(database, "shop", "7001", NOW_S + YEAR_S)
    assert await find_session(database, cookie, NOW_S) is None
    # The clocks of nodes differ.
    cookie = await start_session(database, "shop", "7001", NOW_S + IDLE_S)
    assert await find_session(database, cookie, NOW_S) is not None


async def test_work_whose_process_was_killed_then_does_not_seem_to_go_on(
    database: Database,
) -> None:
    for at_s, is_running in ((NOW_S, True), (NOW_S + YEAR_S, False)):
        result = msgspec.json.encode(Job(at_s, is_running=True)).decode()
        await note_run(database, f"{JOB_PREFIX}killed", at_s, result=result)
        job = await find_job(database, "killed", NOW_S)
        assert job is not None and job.is_running == is_running


def test_the_last_use_of_a_token_is_not_then(store: Store) -> None:
    account_id = new_caller(store).account_id
    ((token_id,),) = store.run(f"SELECT id FROM token WHERE account_id = '{account_id}'")
    found = []
    # Another process may be late with its report, but not by so much.
    for used_at_s in (NOW_S + YEAR_S, NOW_S, NOW_S - 60):
        store.do(lambda database, at_s=used_at_s: record_use(database, {token_id: at_s}))
        found += store.run(f"SELECT last_used_at_s - {NOW_S} FROM token WHERE id = '{token_id}'")
    assert found == [(YEAR_S,), (0,), (0,)]


def test_the_pace_of_a_balance_leaves_out_the_days_to_come(own_store: Store) -> None:
    account_id = new_caller(own_store, credits_=9).account_id
    for at_s, amount in ((NOW_S, 3), (NOW_S + YEAR_S, 500)):
        day_s = date_s(datetime.fromtimestamp(at_s, ZONE).date())
        own_store.run(
            "INSERT INTO usage (span_s, start_s, account_id, unit, operation, calls, amount) "
            f"VALUES ({DAY_S}, {day_s}, '{account_id}', 'credits', 'orders', 1, {amount})"
        )
    paces = own_store.do(lambda database: balance_paces(database, [account_id], NOW_S, ZONE))
    assert [each.taken for each in paces if each.unit == "credits"] == [3]


def test_the_pace_of_a_pool_leaves_out_waybills_to_come(own_store: Store) -> None:
    for object_id, asked_at_s in (("now", NOW_S), ("ahead", NOW_S + YEAR_S)):
        own_store.run(
            "INSERT INTO waybill (account_id, object_id, owner_id, order_sn, wp_code, state, "
            f"price, asked_at_s, sealed) VALUES ('acc', '{object_id}', '7001', '{object_id}', "
            f"'YTO', 'refused', 0, {asked_at_s}, '')"
        )
    assert own_store.do(lambda database: numbers_a_day(database, NOW_S)) == {"YTO": 1.0}


def test_a_source_that_pushed_then_does_not_seem_silent_from_then_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused: Any = None

    async def work(database: Database) -> list[int]:
        pushes, noted = Pushes(unused, unused, database, unused, unused, PushLimits()), []
        for running_s, at_s in ((1000, NOW_S + YEAR_S), (2000, NOW_S)):
            monkeypatch.setattr(push, "monotonic", lambda running_s=running_s: running_s)
            monkeypatch.setattr(push, "time", lambda at_s=at_s: at_s)
            await pushes._note("set back")
            noted.append((await last_outcomes(database))[f"{PUSH_PREFIX}set back"][0])
        return noted

    assert store.do(work) == [NOW_S + YEAR_S, NOW_S]
