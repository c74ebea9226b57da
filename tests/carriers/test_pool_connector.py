"""A pool answers like a carrier, inside the transaction it is asked in."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.carriers.conftest import new_order
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.carriers.carriers import AreaKind, ServiceArea, known_carrier
from tollway.carriers.connectors.connector import Cancelled, Connector, Declined, Issued
from tollway.carriers.connectors.number_pool import PoolConnector
from tollway.carriers.pools import list_pools
from tollway.carriers.vault import Fingerprints
from tollway.carriers.waybills import StoredWaybill, Waybill, cancel_waybill, store_waybill
from tollway.store.database import Database, Transaction

T = TypeVar("T")


@pytest.fixture
def pools(tmp_path: Path) -> Store:
    return Store(tmp_path / "pools.db")


def _with_pool(
    store: Store,
    wp_code: str,
    question: Callable[[Connector, Transaction], Awaitable[T]],
    language: str = "en",
) -> T:
    async def in_transaction(transaction: Transaction) -> T:
        carrier = await known_carrier(transaction, wp_code)
        return await question(PoolConnector(transaction, carrier, language), transaction)

    async def work(database: Database) -> T:
        return await database.write(in_transaction)

    return store.do(work)


def test_numbers_are_issued_until_they_are_used_up(pools: Store) -> None:
    wp_code = new_carrier(pools, 1)
    order = new_order()
    issued = _with_pool(pools, wp_code, lambda pool, _: pool.issue(order))
    assert issued == Issued("YT0000000000000")
    declined = _with_pool(pools, wp_code, lambda pool, _: pool.issue(order))
    assert isinstance(declined, Declined) and "used up" in declined.reason
    chinese = _with_pool(pools, wp_code, lambda pool, _: pool.issue(order), "zh")
    assert isinstance(chinese, Declined) and "已用完" in chinese.reason


def test_where_the_carrier_does_not_deliver_no_number_is_taken(pools: Store) -> None:
    wp_code = new_carrier(pools, 1, ServiceArea(AreaKind.EXCEPT, ("广东",)))
    declined = _with_pool(pools, wp_code, lambda pool, _: pool.issue(new_order()))
    assert isinstance(declined, Declined) and "广东省" in declined.reason
    (pool,) = pools.do(list_pools)
    assert (pool.left, pool.taken) == (1, 0)


def test_a_waybill_is_found_from_its_commit_until_it_is_cancelled(pools: Store) -> None:
    wp_code = new_carrier(pools, 1)
    ref = new_order().ref

    async def issue_and_store(pool: Connector, transaction: Transaction) -> str:
        assert await pool.look_up(ref) is None
        issued = await pool.issue(new_order())
        assert isinstance(issued, Issued)
        made = Waybill(
            account_id="a",
            object_id=ref.task_id,
            owner_id=ref.owner_id,
            order_sn=ref.order_sn,
            wp_code=wp_code,
            state="issued",
            number=issued.number,
            price=1,
            request_id="r",
            hold_id=None,
            asked_at_s=1,
            issued_at_s=1,
        )
        await store_waybill(transaction, StoredWaybill(made, Fingerprints(1, {}), b"x"))
        return issued.number

    number = _with_pool(pools, wp_code, issue_and_store)
    assert _with_pool(pools, wp_code, lambda pool, _: pool.look_up(ref)) == Issued(number)
    told = _with_pool(pools, wp_code, lambda pool, _: pool.cancel(ref, number))
    assert told == Cancelled(number)
    pools.do(lambda database: cancel_waybill(database, number, wp_code, 2))
    assert _with_pool(pools, wp_code, lambda pool, _: pool.look_up(ref)) is None
