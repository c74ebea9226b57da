"""Orders as they are stored: the newest version stays, and the counts are always true."""

import asyncio
import gzip
import time
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.orders import (
    OWNER,
    START_MS,
    miscounted,
    order,
    put_orders,
    sealer_of,
    store_orders,
)
from tests.support.stores import Store
from tollway.intake import parallel_reading
from tollway.intake.files import read_records
from tollway.intake.loading import LoadResult, Reject, checked_chunks, load
from tollway.intake.raw_records import IntakeError
from tollway.operations.catalogue import RECORD_KINDS
from tollway.operations.orders.schema import HOUR_MS, order_count, shop_order
from tollway.operations.orders.storage import OrderLoader
from tollway.store.database import Database, Transaction
from tollway.store.query import Query

IN_2_DAYS_MS = int(time.time() * 1000) + 48 * HOUR_MS
_examples = count(1)


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store(tmp_path / "orders.db")


def _rows(store: Store) -> list[tuple[Any, ...]]:
    query = Query(
        shop_order.select()
        .with_only_columns(shop_order.c.order_sn, shop_order.c.newest_first, shop_order.c.status)
        .order_by(shop_order.c.order_sn)
    )
    return list(store.do(lambda database: database.fetch_all(query)))


def test_the_same_order_twice_is_stored_once(empty: Store) -> None:
    assert put_orders(empty, [order(), order()]) == 1
    assert put_orders(empty, [order(order_status=3)]) == 0
    assert _rows(empty) == [("260115-000000001", -START_MS, 1)]
    assert empty.do(miscounted) == {}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_the_later_version_stays_whatever_order_they_arrive_in(
    empty: Store, together: bool, turned: bool
) -> None:
    later_ms = START_MS + 30 * HOUR_MS
    versions = [
        order(remark_tag=1, remark_tag_name="加急"),
        order(
            updated_at=START_MS + 1,
            confirm_time=later_ms,
            order_status=2,
            remark_tag=2,
            remark_tag_name="退款",
        ),
    ]
    if turned:
        versions.reverse()
    for chunk in [versions] if together else [[each] for each in versions]:
        put_orders(empty, chunk)
    assert _rows(empty) == [("260115-000000001", -later_ms, 2)]
    assert empty.do(miscounted) == {}


def test_two_shops_may_have_the_same_order_number(empty: Store) -> None:
    assert put_orders(empty, [order(), order(owner_id="other")]) == 2
    assert empty.do(miscounted) == {}


def test_new_and_known_orders_may_follow_each_other_in_any_way(empty: Store) -> None:
    loader = OrderLoader(sealer_of(empty))

    def stored(*numbers: int, later_ms: int = 0) -> int:
        rows = [loader.check(order(f"sn-{n}", updated_at=START_MS + later_ms), 0) for n in numbers]
        return empty.do(lambda database: database.write(lambda tx: loader.store(tx, rows)))

    assert stored(1, 2) == 2
    assert stored(2, 3) == 1
    assert stored(4) == 1
    assert stored(5, 6) == 2
    assert stored(1, 6, 7, later_ms=1) == 3
    assert [sn for sn, _, _ in _rows(empty)] == [f"sn-{n}" for n in range(1, 8)]
    assert empty.do(miscounted) == {}


versions = st.builds(
    order,
    st.sampled_from(["a", "b", "c", "d"]),
    owner_id=st.sampled_from(["x", "y"]),
    updated_at=st.integers(START_MS, START_MS + 4),
    confirm_time=st.integers(-60, 60).map(lambda n: START_MS + n * HOUR_MS // 2),
    remark_tag=st.sampled_from([None, 1, 2]),
    remark_tag_name=st.sampled_from([None, "急", "1:急"]),
    order_status=st.sampled_from([1, 2, 3]),
)


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    """Every example has shops of its own, and no orders but theirs."""
    return Store(tmp_path_factory.mktemp("counts") / "orders.db")


@settings(max_examples=30, deadline=None)
@given(chunks=st.lists(st.lists(versions, max_size=8), max_size=6))
def test_counts_are_always_what_they_count(
    chunks: list[list[dict[str, Any]]], shops: Store
) -> None:
    shops.run_all("DELETE FROM shop_order", "DELETE FROM order_count")
    number = next(_examples)
    chunks = [
        [{**each, "owner_id": f"{each['owner_id']}-{number}"} for each in chunk] for chunk in chunks
    ]

    async def run(database: Database) -> None:
        sealer = sealer_of(shops)
        newest: dict[tuple[str, str], dict[str, Any]] = {}
        for chunk in chunks:
            await store_orders(database, sealer, chunk)
            for each in chunk:
                rival = newest.get((each["owner_id"], each["order_sn"]))
                if rival is None or rival["updated_at"] < each["updated_at"]:
                    newest[each["owner_id"], each["order_sn"]] = each
            assert await miscounted(database) == {}
        stored = await database.fetch_all(Query(shop_order.select()))
        assert {(row[0], row[2]): (-row[1], row[4], row[16], row[17]) for row in stored} == {
            key: (
                each["confirm_time"],
                each["order_status"],
                each["remark_tag"],
                each["remark_tag_name"],
            )
            for key, each in newest.items()
        }

    shops.do(run)


def test_the_check_of_counts_notices_a_lost_and_a_wrong_one(empty: Store) -> None:
    put_orders(empty, [order(remark_tag=1)])
    assert empty.do(miscounted) == {}
    empty.run("DELETE FROM order_count WHERE facet = 't:1' AND hours = 1")
    empty.run("UPDATE order_count SET orders = 2 WHERE facet = '' AND hours = 24")
    found = empty.do(miscounted)
    assert sorted(found.values()) == [(0, 1), (2, 1)]


def test_nothing_is_counted_when_the_transaction_fails(empty: Store) -> None:
    sealer = sealer_of(empty)
    row = OrderLoader(sealer).check(order(), 0)

    async def fails(transaction: Transaction) -> None:
        await OrderLoader(sealer).store(transaction, [row])
        raise RuntimeError("cut off")

    with pytest.raises(RuntimeError):
        empty.do(lambda database: database.write(fails))
    assert _rows(empty) == []
    assert list(empty.do(lambda database: database.fetch_all(Query(order_count.select())))) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"order_sn": ""}, "order_sn: it is empty; send a text of 1 to 64 characters."),
        ({"owner_id": None}, "owner_id: it is null; send a text of 1 to 64 characters."),
        ({"confirm_time": 202601150930}, "confirm_time: it has 12 digits; send a time in millis"),
        ({"updated_at": 202601150930}, "updated_at: it has 12 digits; send a time in millisec"),
        ({"last_ship_time": 202601150930}, "last_ship_time: it has 12 digits; send a time in"),
        ({"confirm_time": 1_768_406_400}, "confirm_time: it has 10 digits; send a time in millis"),
        (
            {"confirm_time": IN_2_DAYS_MS},
            "confirm_time: it is more than a day ahead; send the time",
        ),
        ({"updated_at": IN_2_DAYS_MS}, "updated_at: it is more than a day ahead; send the time"),
        ({"updated_at": 253_402_300_799_999}, "updated_at: it has 15 digits; send a time in"),
        ({"last_ship_time": 253_402_300_799_999}, "last_ship_time: it has 15 digits; send a"),
        ({"order_status": 4}, "order_status: it is 4; send a whole number from 1 to 3."),
        ({"remark_tag": 6}, "remark_tag: it is 6; send a whole number from 1 to 5."),
        ({"is_pre_sale": "maybe"}, "is_pre_sale: it is neither; send true or false."),
        ({"remark": "x" * 2001}, "remark: it has 2,001 characters; send a text of 0 to 2000 char"),
        ({"pay_amount": "1.234"}, "pay_amount: it has 3 decimals; send yuan with at most two dec"),
        ({"pay_amount": "1.000"}, "pay_amount: it has 3 decimals; send yuan with at most two dec"),
        ({"pay_amount": "NaN"}, "pay_amount: it is not a number; send yuan"),
        ({"pay_amount": "1e5000000"}, "pay_amount: it has an exponent; send yuan"),
        # As a spreadsheet saves it in CSV: rounded.
        ({"updated_at": "1.76841E+12"}, "updated_at: it has an exponent; send a time in millis"),
        ({"pay_amount": -1}, "pay_amount: it is negative; send yuan"),
        ({"goods_name": "a\0b"}, "goods_name: it contains a NUL character; send a text of 1 to"),
        ({"remark_tag_name": "\ud800"}, "remark_tag_name: it contains half of a surrogate pair"),
    ],
)
def test_a_wrong_record_is_rejected_with_its_reason(
    empty: Store, change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        OrderLoader(sealer_of(empty)).check(order(**change), 0)


def test_what_happened_within_a_day_ahead_is_taken(empty: Store) -> None:
    soon_ms = int(time.time() * 1000) + 23 * HOUR_MS
    later_ms = soon_ms + 365 * 24 * HOUR_MS
    assert put_orders(
        empty, [order(updated_at=soon_ms, confirm_time=soon_ms, last_ship_time=later_ms)]
    )


@pytest.mark.parametrize("name", ["orders.jsonl.gz", "orders.csv"])
def test_a_file_is_loaded_and_its_wrong_record_set_aside(
    empty: Store, tmp_path: Path, name: str
) -> None:
    records = [order(f"sn-{n}", remark="急" if n % 2 else None) for n in range(50)]
    records[7]["order_status"] = 9
    path = tmp_path / name
    if name.endswith("csv"):
        lines = [",".join(records[0])] + [
            ",".join("" if value is None else str(value).lower() for value in each.values())
            for each in records
        ]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        path.write_bytes(gzip.compress(b"\n".join(msgspec.json.encode(each) for each in records)))
    aside: list[Reject] = []

    async def work(database: Any) -> LoadResult:
        loader = OrderLoader(sealer_of(empty))
        chunks = checked_chunks(loader, read_records(path), 8)
        return await load(database, loader, chunks, aside.append, lambda *_: None)

    result = empty.do(work)
    assert (result.read, result.stored, result.changed, result.rejected) == (50, 49, 49, 1)
    assert "order_status" in aside[0].reason
    again = empty.do(work)
    assert (again.stored, again.changed) == (49, 0)
    assert empty.do(miscounted) == {}


@pytest.mark.parametrize("ends_badly", [False, True])
def test_a_large_file_is_read_by_a_helper_just_the_same(
    empty: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_badly: bool
) -> None:
    monkeypatch.setattr(parallel_reading, "_LARGE_BYTES", 0)
    path = tmp_path / "orders.jsonl.gz"
    lines = [msgspec.json.encode(order(f"sn-{n}", order_status=1 + n // 99)) for n in range(300)]
    packed = gzip.compress(b"\n".join(lines))
    path.write_bytes(packed[:-40] if ends_badly else packed)
    aside: list[Reject] = []

    async def work(database: Any) -> LoadResult:
        chunks = parallel_reading.file_chunks(
            RECORD_KINDS["orders"], path, empty.url, empty.key_file, ZoneInfo("Asia/Shanghai")
        )
        loader = OrderLoader(sealer_of(empty))
        return await load(database, loader, chunks, aside.append, lambda *_: None)

    if ends_badly:
        with pytest.raises(IntakeError, match="gzip"):
            empty.do(work)
    else:
        result = empty.do(work)
        assert (result.read, result.stored, result.rejected, len(aside)) == (300, 297, 3, 3)
        assert len(_rows(empty)) == 297
    assert empty.do(miscounted) == {}


def test_what_is_personal_is_not_in_the_database_nor_its_log(empty: Store) -> None:
    canaries = ("司徒敏静", "13987650001", "绿杨村路甲七十一号", "139 8765 0002")
    name, phone, address, other_phone = canaries
    remark = f"改打 {other_phone}，谢谢"

    async def work(database: Any) -> bytes:
        record = order(
            receiver_name=name, receiver_phone=phone, receiver_address=address, remark=remark
        )
        await store_orders(database, sealer_of(empty), [record])
        # While it is open, so that the log has not been taken into the database yet.
        return await asyncio.to_thread(empty.content)

    contents = [empty.do(work), empty.content()]
    assert any("便携保温杯".encode() in content for content in contents), "the test sees the order"
    assert OWNER.encode() in contents[-1]
    for canary in canaries:
        assert not any(canary.encode() in content for content in contents)
