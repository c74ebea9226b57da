"""All operations over a small live world: a request of each that succeeds."""

from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, new_caller
from tests.support.orders import sealer_of
from tests.support.owners import authorize
from tests.support.stores import Store
from tests.support.waybills import request as waybill_request
from tollway.contract.operation import Encoding, Operation, OwnerKind
from tollway.demo.owners import ADZONE_ID, SHOP, SITE_ID, USER
from tollway.ledger.usage import day_start_s
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.demo import SIDS, fill_claims
from tollway.operations.demo_data import DemoTarget
from tollway.operations.orders.demo import fill_orders
from tollway.operations.product_analysis.demo import fill_figures, product_ids
from tollway.operations.promotion_material.demo import fill_materials
from tollway.operations.waybills.demo import WP_CODE, fill_carriers
from tollway.store.database import Database

SHANGHAI = ZoneInfo("Asia/Shanghai")


def small_world(store: Store, today: date) -> Store:
    """The same store, with a little data of every operation."""

    async def work(database: Database) -> None:
        first, now_s = today - timedelta(days=3), day_start_s(today, SHANGHAI)
        await fill_figures(database, products=1, days=2, last=today)
        target = DemoTarget(database, sealer_of(store), now_s, SHANGHAI, "http://127.0.0.1:8080")
        await fill_claims(target, 20, first)
        await fill_materials(target, 2)
        await fill_carriers(database, numbers=50)
        await fill_orders(target, 2000, first)

    store.do(work)
    return store


def all_operations_caller(store: Store, **changes: Any) -> Caller:
    """A caller of all operations, authorized by the demo's shop and user."""
    caller = new_caller(store, **{"operations": OPERATIONS, "credits_": 1000, **changes})

    async def work(database: Database) -> None:
        for operation in OPERATIONS:
            if operation.consent is not None:
                owner = SHOP if operation.consent.whose is OwnerKind.SHOP else USER
                await authorize(database, caller.account_id, operation, owner)

    store.do(work)
    return caller


def good_request(operation: Operation, today: date) -> dict[str, Any]:
    requests: dict[str, dict[str, Any]] = {
        "product_analysis": {"product_id": product_ids(1)[0], "query_date": today.isoformat()},
        "coupon_claims": {
            "startTime": str(day_start_s(today - timedelta(days=2), SHANGHAI)),
            "endTime": str(day_start_s(today - timedelta(days=1), SHANGHAI)),
            "page": "1",
            "limit": "20",
            "sid": SIDS[0],
            "type": "4",
        },
        "promotion_material": {
            "adzone_id": ADZONE_ID,
            "site_id": SITE_ID,
            "promotion_id": 37104,
            "platform_user_id": int(USER.id),
        },
        "waybills": waybill_request(WP_CODE),
        "orders": {"owner_id": SHOP.id},
    }
    return requests[operation.name]


def ask(
    gateway: Gateway,
    operation: Operation,
    token: str | None,
    sent: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> Reply:
    if operation.encoding is Encoding.QUERY:
        return gateway.get(operation.path, token=token, query=sent, headers=headers)
    if operation.encoding is Encoding.FORM:
        return gateway.post_form(operation.path, sent, token=token, headers=headers)
    return gateway.post_json(operation.path, sent, token=token, headers=headers)
