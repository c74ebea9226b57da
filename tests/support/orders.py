"""Orders for tests: records to send, callers who ask, and whether counts equal what they count."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, new_caller
from tests.support.owners import authorize, shop
from tests.support.stores import Store
from tollway.intake.loading import store_records
from tollway.operations.orders.operation import ORDERS
from tollway.operations.orders.schema import DAY_HOURS, HOUR_MS, facets_of, order_count, shop_order
from tollway.operations.orders.storage import OrderLoader
from tollway.store.database import Database, Reader
from tollway.store.open import open_sealer
from tollway.store.query import Query
from tollway.store.sealing import Sealer

# 2026-01-15 00:00 in Shanghai; not the beginning of a day in UTC.
START_MS = 1_768_406_400_000
OWNER = "880012001"
CREDITS = 1000

_ROWS = Query(
    select(
        shop_order.c.owner_id,
        shop_order.c.newest_first,
        shop_order.c.remark_tag,
        shop_order.c.remark_tag_name,
    )
)
_COUNTS = Query(select(order_count))


def order(order_sn: str = "260115-000000001", **changes: Any) -> dict[str, Any]:
    """A good record."""
    return {
        "owner_id": OWNER,
        "order_sn": order_sn,
        "updated_at": START_MS,
        "confirm_time": START_MS,
        "order_status": 1,
        "receiver_name": "张小明",
        "receiver_phone": "13812341234",
        "receiver_address": "文三路478号3幢1201室",
        "province": "浙江省",
        "city": "杭州市",
        "town": "西湖区",
        "goods_name": "便携保温杯 500ml",
        "goods_img": "https://img.tollway.example/goods/2.jpg",
        "goods_spec": "燕麦色",
        "goods_count": 2,
        "pay_amount": 157.5,
        "is_pre_sale": False,
        "last_ship_time": START_MS + 172_800_000,
        "remark": None,
        "remark_tag": None,
        "remark_tag_name": None,
        **changes,
    }


async def store_orders(
    database: Database, sealer: Sealer, records: Iterable[dict[str, Any]]
) -> int:
    """Stores records in one transaction; how many of them changed anything."""
    loader = OrderLoader(sealer)
    rows = [loader.check(record, 0) for record in records]
    return await store_records(database, loader, rows)


def sealer_of(store: Store) -> Sealer:
    return open_sealer(store.url, store.key_file)


def put_orders(store: Store, records: Iterable[dict[str, Any]]) -> int:
    return store.do(lambda database: store_orders(database, sealer_of(store), records))


def new_shopper(
    store: Store,
    *,
    credits_: int = CREDITS,
    granted: bool = True,
    rate_limit: int = 1000,
    kind: str = "live",
) -> Caller:
    """A new account that may ask for the orders of OWNER, if it is granted anything."""
    made = new_caller(
        store,
        operations=(ORDERS,),
        credits_=credits_,
        granted=granted,
        rate_limit=rate_limit,
        kind=kind,
    )
    if granted:
        store.do(lambda database: authorize(database, made.account_id, ORDERS, shop(OWNER)))
    return made


def ask_orders(gateway: Gateway, token: str, *, as_multipart: bool = True, **fields: str) -> Reply:
    encoding = "multipart" if as_multipart else "urlencoded"
    form = {"owner_id": OWNER, **fields}
    return gateway.post_form(ORDERS.path, form, token=token, encoding=encoding)


async def miscounted(reader: Reader) -> dict[tuple[str, str, int, int], tuple[int, int]]:
    """Every bucket whose count is not the number of its orders: (stored, counted)."""
    counted: Counter[tuple[str, str, int, int]] = Counter()
    for owner_id, newest_first, tag, tag_name in await reader.fetch_all(_ROWS):
        for facet in facets_of(tag, tag_name):
            for hours in (1, DAY_HOURS):
                counted[owner_id, facet, hours, -newest_first // (hours * HOUR_MS)] += 1
    stored = {tuple(row[:4]): row[4] for row in await reader.fetch_all(_COUNTS)}
    return {
        bucket: (stored.get(bucket, 0), counted[bucket])
        for bucket in {*stored, *counted}
        if stored.get(bucket) != (counted[bucket] or None)
    }
