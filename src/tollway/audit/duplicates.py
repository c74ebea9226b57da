"""What is there once over all time: an order's number in its shop, and a coupon's code.

An index sees to it within a month, and in an embedded database over all; across the months of a
shared one it is the storing itself that does, so here it is looked at.
"""

from collections.abc import Iterator

from sqlalchemy import func, select

from tollway.audit.check import Breach, Check
from tollway.operations.coupon_claims.schema import coupon_claim
from tollway.operations.orders.schema import shop_order
from tollway.store.database import Row

_numbers = select(
    shop_order.c.owner_id,
    shop_order.c.order_sn,
    func.lag(shop_order.c.order_sn)
    .over(partition_by=shop_order.c.owner_id, order_by=shop_order.c.order_sn)
    .label("before"),
).subquery("numbers")
_codes = select(
    coupon_claim.c.coupon_code,
    func.lag(coupon_claim.c.coupon_code).over(order_by=coupon_claim.c.coupon_code).label("before"),
).subquery("codes")


def _tell_order(row: Row) -> Iterator[Breach]:
    owner_id, order_sn = row
    yield Breach("order_twice", None, None, f"order {order_sn} of shop {owner_id} is there twice")


def _tell_code(row: Row) -> Iterator[Breach]:
    yield Breach("code_twice", None, None, f"the coupon code {row[0]} is there twice")


ORDERS_ONCE = Check(
    "orders_once",
    "every order of a shop is there once",
    shop_order,
    select(_numbers.c.owner_id, _numbers.c.order_sn).where(
        _numbers.c.order_sn == _numbers.c.before
    ),
    _tell_order,
)
CODES_ONCE = Check(
    "codes_once",
    "every coupon code is there once",
    coupon_claim,
    select(_codes.c.coupon_code).where(_codes.c.coupon_code == _codes.c.before),
    _tell_code,
)
