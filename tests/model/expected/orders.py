"""The orders of one shop at one moment, and any page of them."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

Record = Mapping[str, Any]
# A blank before a number goes with it.
_NUMBER = re.compile(" ?[0-9]+")
_REQUIRED = (
    "owner_id",
    "order_sn",
    "updated_at",
    "confirm_time",
    "order_status",
    "receiver_name",
    "receiver_phone",
    "receiver_address",
    "goods_name",
    "pay_amount",
)


class Order(NamedTuple):
    """The version of an order that is in force."""

    order_sn: str
    updated_ms: int
    confirm_ms: int
    remark: str
    tag: int | None
    tag_name: str | None
    shown: dict[str, Any]


class Shop:
    """All orders of a shop; never changed, but replaced by another one."""

    def __init__(self, orders: Mapping[str, Order]) -> None:
        self.orders = orders

    @cached_property
    def listed(self) -> list[Order]:
        return sorted(self.orders.values(), key=lambda each: (-each.confirm_ms, each.order_sn))

    def with_records(self, records: Sequence[Record]) -> tuple["Shop", int]:
        """The shop after records came in, and how many of its orders that changed.

        Of several versions the latest stays, whatever order they arrive in.
        """
        orders = dict(self.orders)
        for record in records:
            coming = _order(record)
            known = orders.get(coming.order_sn)
            if known is None or known.updated_ms < coming.updated_ms:
                orders[coming.order_sn] = coming
        changed = sum(self.orders.get(number) is not order for number, order in orders.items())
        return Shop(orders), changed

    def page(self, asked: Mapping[str, Any], price: int) -> dict[str, Any]:
        """The answer's data."""
        start, end = asked.get("start_time"), asked.get("end_time")
        tag, tag_name = asked.get("remarkTag"), asked.get("remarkTagName")
        part = asked.get("remark")
        found = [
            each
            for each in self.listed
            if (start is None or each.confirm_ms >= start)
            and (end is None or each.confirm_ms < end)
            and (tag is None or each.tag == tag)
            and (tag_name is None or each.tag_name == tag_name)
            and (part is None or part in each.remark)
        ]
        page, size = asked["page"], asked["pageSize"]
        return {
            "content": [
                {**each.shown, "withholding_money": price}
                for each in found[page * size : (page + 1) * size]
            ],
            "page": page,
            "pageSize": size,
            "page_size": size,
            "totalElements": len(found),
            "total_elements": len(found),
            "withholding_money": price,
        }


def shown_receiver(name: str, phone: str, address: str) -> dict[str, str]:
    """The masked fields: of a name the first character stays, of a phone its first three and last
    four digits, of an address everything but its numbers."""
    street = _NUMBER.sub("***", address)
    return {
        "receiver_name": f"{name[:1]}**",
        "receiver_phone": f"{phone[:3]}****{phone[-4:]}",
        "receiver_address": street,
        "address": street,
    }


def is_good_order(record: Record) -> bool:
    """Whether a record is stored, and not rejected."""
    if any(record.get(name) is None for name in _REQUIRED):
        return False
    amount = Decimal(str(record["pay_amount"]))
    tag = record.get("remark_tag")
    return (
        record["order_status"] in (1, 2, 3)
        and amount >= 0
        and amount == round(amount, 2)
        and (tag is None or tag in (1, 2, 3, 4, 5))
    )


def _order(record: Record) -> Order:
    tag = record.get("remark_tag")
    shown = {
        **shown_receiver(
            record["receiver_name"], record["receiver_phone"], record["receiver_address"]
        ),
        "province": record.get("province", ""),
        "city": record.get("city", ""),
        "town": record.get("town", ""),
        "order_sn": record["order_sn"],
        "goods_name": record["goods_name"],
        "goods_img": record.get("goods_img", ""),
        "goods_spec": record.get("goods_spec", ""),
        "is_pre_sale": record.get("is_pre_sale", False),
        "last_ship_time": record.get("last_ship_time") or 0,
        "confirm_time": record["confirm_time"],
        "remark": record.get("remark") or "",
        "goods_count": record.get("goods_count", 1),
        "pay_amount": float(record["pay_amount"]),
        "order_status": record["order_status"],
        "remark_tag": None if tag is None else str(tag),
        "remark_tag_name": record.get("remark_tag_name"),
    }
    return Order(
        record["order_sn"],
        record["updated_at"],
        record["confirm_time"],
        record.get("remark") or "",
        tag,
        record.get("remark_tag_name"),
        shown,
    )
