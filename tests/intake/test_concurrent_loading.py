"""What several nodes do to the same data at the same moment comes out as if one after the other."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.coupons import NOON_S, claim, load_claims, put_claims
from tests.support.ledger import RUNTIME
from tests.support.months import make_month
from tests.support.orders import (
    START_MS,
    miscounted,
    order,
    put_orders,
    sealer_of,
    store_orders,
)
from tests.support.owners import shop
from tests.support.pushes import EVERYONE
from tests.support.stores import Store
from tollway.consent.grants import GrantRequest, all_grants, give_grant
from tollway.consent.owners import put_owner
from tollway.intake.sources import add_source, find_source, rotate_secret
from tollway.ledger import LedgerError
from tollway.ledger.accounts import list_accounts, open_account
from tollway.operations.coupon_claims import storage as coupon_claims
from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.operations.orders import storage as intake
from tollway.store.database import Database
from tollway.store.postgresql.transaction import PostgresqlTransaction
from tollway.store.query import Query

HOUR_MS = 3_600_000
MONTH_MS = 31 * 24 * HOUR_MS
AT_ONCE = 8
# How long one who came first waits for its rival: the lock holds it up, and the control must see it
# through, however busy the machine is.
WAITS_S = {True: 0.5, False: 20}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


def put_versions_at_once(store: Store) -> dict[tuple[str, str, int, int], tuple[int, int]]:
    """Versions of the same orders, each in another hour; which counts are wrong after it."""

    async def work(database: Database) -> dict[tuple[str, str, int, int], tuple[int, int]]:
        sealer = sealer_of(store)
        for round_ in range(6):
            await asyncio.gather(
                *(
                    store_orders(database, sealer, _versions(AT_ONCE * round_ + node))
                    for node in range(AT_ONCE)
                )
            )
        return await miscounted(database)

    return store.do(work)


def _versions(version: int, apart_ms: int = HOUR_MS) -> list[dict[str, Any]]:
    changes = {"updated_at": START_MS + version, "confirm_time": START_MS + version * apart_ms}
    return [order(f"sn-{n}", **changes) for n in range(20)]


def test_orders_are_counted_once_however_many_bring_them(store: Store) -> None:
    assert put_versions_at_once(store) == {}
    assert store.run("SELECT count(*), min(updated_ms) FROM shop_order") == [
        (20, START_MS + AT_ONCE * 6 - 1)
    ]


async def no_turns(*_: object) -> None:
    """The sabotage."""


@pytest.mark.postgresql
@pytest.mark.parametrize("is_locked", [True, False])
def test_an_order_is_there_once_over_all_months_and_the_control(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    for version in range(3):
        # In different months, where no index would find out.
        make_month(store, "shop_order", START_MS + version * MONTH_MS)
    if not is_locked:
        monkeypatch.setattr(PostgresqlTransaction, "lock_names", no_turns)
    look = intake.stored_among
    put_orders(store, _versions(0, MONTH_MS))

    async def work(database: Database) -> None:
        sealer = sealer_of(store)
        others: list[asyncio.Task[int]] = []

        async def look_and_dally(*arguments: Any) -> Any:
            found = await look(*arguments)
            if not others:
                newer = store_orders(database, sealer, _versions(2, MONTH_MS))
                others.append(asyncio.create_task(newer))
                await asyncio.wait(others, timeout=WAITS_S[is_locked])
            return found

        monkeypatch.setattr(intake, "stored_among", look_and_dally)
        await store_orders(database, sealer, _versions(1, MONTH_MS))
        await others[0]
        assert await miscounted(database) == {}

    store.do(work)
    versions = store.run("SELECT updated_ms, count(*) FROM shop_order GROUP BY 1 ORDER BY 1")
    older = [] if is_locked else [(START_MS + 1, 20)]
    assert versions == [*older, (START_MS + 2, 20)]


async def test_claims_are_counted_once_however_many_bring_them(database: Database) -> None:
    await asyncio.gather(
        *(
            put_claims(database, [claim(f"c{n}", NOON_S + node // 2 * 3600) for n in range(9)])
            for node in range(AT_ONCE)
        )
    )
    rows = await database.fetch_all(Query(select(coupon_claim.c.newest_first)))
    hours = Query(select(coupon_claim_hour.c.hour, coupon_claim_hour.c.claims))
    stored = {hour: count for hour, count in await database.fetch_all(hours) if count}
    assert stored == Counter(-newest // 3600 for (newest,) in rows)
    assert len(rows) == 9


@pytest.mark.postgresql
@pytest.mark.parametrize("is_locked", [True, False])
def test_a_claim_that_moves_while_it_is_dropped_is_counted_once_and_the_control(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    old = [claim(f"c{n}", NOON_S) for n in range(9)]
    load_claims(store, [*old, *(claim(f"other{n}", NOON_S) for n in range(20))])
    if not is_locked:
        monkeypatch.setattr(PostgresqlTransaction, "lock_names", no_turns)
    look = coupon_claims._stored

    async def work(database: Database) -> None:
        drop = partial(
            coupon_claims.remove_old, sid="s1", claim_type=4, before_s=NOON_S + 1, most=9
        )
        others: list[asyncio.Task[int]] = []

        async def look_and_dally(*arguments: Any) -> Any:
            found = await look(*arguments)
            others.append(asyncio.create_task(database.write(drop)))
            await asyncio.wait(others, timeout=WAITS_S[is_locked])
            return found

        monkeypatch.setattr(coupon_claims, "_stored", look_and_dally)
        later = -(NOON_S + 9 * 3600)
        await put_claims(database, [row._replace(newest_first=later) for row in old])
        await others[0]

    store.do(work)
    counted = "SELECT sum(claims) FROM coupon_claim_hour"
    assert (store.run(counted) == store.run("SELECT count(*) FROM coupon_claim")) == is_locked


async def test_one_account_has_a_name_and_one_grant_a_scope(database: Database) -> None:
    opened = await asyncio.gather(
        *(open_account(database, RUNTIME, "acme") for _ in range(AT_ONCE)), return_exceptions=True
    )
    assert sum(isinstance(each, LedgerError) for each in opened) == AT_ONCE - 1
    assert len(await list_accounts(database)) == 1
    await database.write(lambda transaction: put_owner(transaction, shop("880"), ""))
    grant_request = GrantRequest("acme", "shop", "880", "orders")
    await asyncio.gather(
        *(
            give_grant(database, RUNTIME, grant_request, lifetime_s=None, granted_by="operator")
            for _ in range(AT_ONCE)
        )
    )
    assert len(await all_grants(database)) == 1


async def test_of_secrets_rotated_at_once_the_last_two_are_good(
    database: Database, store: Store
) -> None:
    sealer = sealer_of(store)
    await add_source(database, sealer, "market", EVERYONE, RUNTIME)
    made = await asyncio.gather(
        *(rotate_secret(database, sealer, "market", RUNTIME) for _ in range(AT_ONCE))
    )
    assert len({each.secret for each in made}) == AT_ONCE
    known = await find_source(database, sealer, "market")
    assert len(set(known.keys)) == 2
