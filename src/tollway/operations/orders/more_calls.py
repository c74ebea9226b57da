"""Further calls on the orders of a shop: by their numbers, and those changed since a cursor.

Each is permitted, limited, masked and paid as one call of the paged order query.
"""

from typing import Annotated, Any
from zlib import crc32

import msgspec
from sqlalchemy import ARRAY, BigInteger, String, any_, bindparam, column, select, values

from tollway.contract.envelope import encode_data
from tollway.contract.fields import Field, Line, Text, Texts, Whole
from tollway.contract.language import Phrase
from tollway.contract.operation import CallInfo, Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.orders.handler import joined_orders
from tollway.operations.orders.operation import ENHANCED_ONLY, ORDERS, OrderEntry
from tollway.operations.orders.schema import shop_order
from tollway.operations.subject import Handler, MoreCall, Services
from tollway.store.database import Database
from tollway.store.query import Query, listed, pieces

NUMBERS_MAX = 100
_PAGE_MAX = 100
_ID = Text(max_length=64)
_SN = Line(max_length=64)


class OrdersByNumberRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(_ID, "Shop owner id.")]
    order_sn: Annotated[list[str], Field(Texts(_SN, NUMBERS_MAX), "The order numbers.")]


class OrdersByNumber(msgspec.Struct, frozen=True):
    """The orders in the order of the numbers asked for; `missing` are the numbers without one."""

    content: list[OrderEntry]
    missing: list[str]
    withholding_money: int


class OrdersChangedRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(_ID, "Shop owner id.")]
    cursor: Annotated[
        str | None,
        Field(
            _ID,
            "The next_cursor of the answer before; all orders if left out.",
            other_spelling="next_cursor",
        ),
    ] = None
    pageSize: Annotated[int, Field(Whole(1, _PAGE_MAX), "Orders per page; 100 if left out.")] = (
        _PAGE_MAX
    )


class OrdersChanged(msgspec.Struct, frozen=True):
    """The orders changed after the cursor, in the order of their changes."""

    content: list[OrderEntry]
    next_cursor: str
    has_more: bool
    withholding_money: int


def _more_call(name: str, title: str, path: str, types: tuple[Any, Any]) -> Operation:
    return Operation(
        name=name,
        title=title,
        method="POST",
        path=f"{ORDERS.path}/{path}",
        encoding=Encoding.JSON,
        request_type=types[0],
        response_type=types[1],
        unit=Unit.CREDITS,
        default_price=ORDERS.default_price,
        consent=ORDERS.consent,
        count_records=ORDERS.count_records,
        belongs_to=ORDERS.name,
        not_taken=ENHANCED_ONLY,
    )


ORDERS_BY_NUMBER = _more_call(
    "orders_by_number",
    "Orders by their numbers",
    "by-number",
    (OrdersByNumberRequest, OrdersByNumber),
)
ORDERS_CHANGED = _more_call(
    "orders_changed",
    "Orders changed since a cursor",
    "changed",
    (OrdersChangedRequest, OrdersChanged),
)

_of_owner = shop_order.c.owner_id == bindparam("owner")
_listed = listed(NUMBERS_MAX)
# A join with a list of keys, not `IN`, for the same reason as in `storage.py`.
_asked = values(column("order_sn", String)).data([(each,) for each in _listed]).cte("asked")
_found = (shop_order.c.order_sn, shop_order.c.ready)
_BY_NUMBER = Query(
    lambda: (
        select(*_found)
        .join_from(_asked, shop_order, shop_order.c.order_sn == _asked.c.order_sn)
        .where(_of_owner)
    ),
    lambda: select(*_found).where(
        _of_owner, shop_order.c.order_sn == any_(bindparam("numbers", type_=ARRAY(String)))
    ),
)
_CHANGED = Query(
    lambda: (
        select(shop_order.c.change_no, shop_order.c.ready)
        .where(_of_owner, shop_order.c.change_no > bindparam("after", type_=BigInteger))
        .order_by(shop_order.c.change_no)
        .limit(bindparam("most"))
    )
)


async def _by_number(database: Database, owner_id: str, wanted: list[str]) -> dict[str, bytes]:
    if database.dialect == "sqlite":
        numbers: dict[str, Any] = next(pieces(wanted, _listed))
    else:
        numbers = {"numbers": wanted}
    rows = await database.fetch_all(_BY_NUMBER, owner=owner_id, **numbers)
    return dict(map(tuple, rows))


def _by_number_handler(services: Services) -> Handler:
    async def handle(request: OrdersByNumberRequest, call: CallInfo) -> bytes:
        found = await _by_number(services.reading, request.owner_id, request.order_sn)
        ready = [found[each] for each in request.order_sn if each in found]
        missing = [each for each in request.order_sn if each not in found]
        content = joined_orders(ready, call.price)
        return encode_data(OrdersByNumber(content, missing, call.price))

    return handle


def cursor_of(owner_id: str, change_no: int) -> str:
    """Where to go on after a change. It names its shop, so that no other shop accepts it."""
    return f"{change_no:x}-{_mark(owner_id)}"


def _mark(owner_id: str) -> str:
    return f"{crc32(owner_id.encode()):08x}"


def _change_no(cursor: str | None, owner_id: str) -> int:
    if cursor is None:
        return 0
    number, _, mark = cursor.partition("-")
    try:
        if mark == _mark(owner_id) and len(number) < 16:
            return int(number, 16)
    except ValueError:
        pass
    raise Refusal(
        Reason.PARAMETER_INVALID,
        field="cursor",
        problem=Phrase("it is no cursor of this shop", "不是该店铺的游标"),
        expected=Phrase("the next_cursor of the answer before", "上一次返回的 next_cursor"),
    )


def _changed_handler(services: Services) -> Handler:
    async def handle(request: OrdersChangedRequest, call: CallInfo) -> bytes:
        after, size = _change_no(request.cursor, request.owner_id), request.pageSize
        rows = await services.reading.fetch_all(
            _CHANGED, owner=request.owner_id, after=after, most=size + 1
        )
        page = rows[:size]
        last = page[-1][0] if page else after
        return encode_data(
            OrdersChanged(
                content=joined_orders([ready for _, ready in page], call.price),
                next_cursor=cursor_of(request.owner_id, last),
                has_more=len(rows) > size,
                withholding_money=call.price,
            )
        )

    return handle


MORE_CALLS = (
    MoreCall(ORDERS_BY_NUMBER, _by_number_handler),
    MoreCall(ORDERS_CHANGED, _changed_handler),
)
