"""One order as it comes in, and as it is stored: checked, sealed where it is personal, and ready.

Ready means as it is answered: masked and encoded once, when the order is stored. A ready order is
its entry in the answer up to the price, which depends on the call; it holds nothing that the answer
does not show.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, NamedTuple

import msgspec

from tollway.contract.envelope import encode_data
from tollway.intake.record_check import JsonCheck, RecordCheck, check_not_ahead, is_ahead
from tollway.intake.record_fields import (
    Count,
    Id,
    Milliseconds,
    Name,
    ShortText,
    Text,
    Yuan,
    fen_of,
)
from tollway.operations.orders.masking import (
    masked_address,
    masked_addresses,
    masked_name,
    masked_phone,
    masked_remark,
)
from tollway.operations.orders.operation import OrderEntry
from tollway.store.sealing import Sealer

# The position of the price in an entry whose price is 0.
_PRICE_AT = -len(b"0}")
assert OrderEntry.__struct_fields__[-1] == "withholding_money"


class OrderRecord(msgspec.Struct, frozen=True, gc=False):
    """An order as a file or a push writes it. Times are in milliseconds, the amount in yuan."""

    owner_id: Id
    order_sn: Id
    updated_at: Milliseconds
    confirm_time: Milliseconds
    order_status: Annotated[int, msgspec.Meta(ge=1, le=3)]
    receiver_name: Name
    receiver_phone: ShortText
    receiver_address: Name
    goods_name: Name
    pay_amount: Yuan
    goods_count: Count = 1
    goods_img: Text = ""
    goods_spec: Text = ""
    province: Text = ""
    city: Text = ""
    town: Text = ""
    is_pre_sale: bool = False
    last_ship_time: Milliseconds | None = None
    remark: Text | None = None
    remark_tag: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    remark_tag_name: ShortText | None = None


class OrderRow(NamedTuple):
    """An order in the columns of its table, in their order."""

    owner_id: str
    newest_first: int
    order_sn: str
    updated_ms: int
    status: int
    province: str
    city: str
    town: str
    goods_name: str
    goods_img: str
    goods_spec: str
    goods_count: int
    is_pre_sale: bool
    last_ship_ms: int
    pay_fen: int
    remark: str | None
    remark_tag: int | None
    remark_tag_name: str | None
    # 0 until it is stored.
    change_no: int
    sealed: bytes
    ready: bytes


class Receiver(NamedTuple):
    """The personal data in an order."""

    name: str
    phone: str
    address: str
    # As it was written; the column `remark` has what may be shown and searched.
    remark: str | None = None


NO_RECEIVER = Receiver("", "", "")

packed: Callable[[tuple[str, str, str, str | None]], bytes] = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Receiver).decode


_check = RecordCheck(OrderRecord)
_check_json = JsonCheck(OrderRecord)


def good_records(lines: Sequence[bytes]) -> list[OrderRecord | None]:
    """The record in each line of JSON, or None where it is not certainly good."""
    records = _check_json(lines)
    times = [max(each.updated_at, each.confirm_time) for each in records if each is not None]
    if not is_ahead(max(times, default=0) / 1000):
        return records
    return [None if each is None or _is_ahead(each) else each for each in records]


def _is_ahead(record: OrderRecord) -> bool:
    return is_ahead(max(record.updated_at, record.confirm_time) / 1000)


def checked_record(values: dict[str, object]) -> OrderRecord:
    """The typed record; raises RecordError if it is wrong."""
    record = _check(values)
    check_not_ahead("updated_at", record.updated_at / 1000)
    check_not_ahead("confirm_time", record.confirm_time / 1000)
    return record


def row_of(record: OrderRecord, sealer: Sealer) -> OrderRow:
    """The record as it is stored."""
    return rows_of([record], sealer)[0]


def rows_of(records: Sequence[OrderRecord], sealer: Sealer) -> list[OrderRow]:
    """Records as they are stored; many at once take less time each."""
    sealed = sealer.seal_many(
        [packed(receiver_of(each)) for each in records],
        [receiver_context(each.owner_id, each.order_sn) for each in records],
    )
    addresses = masked_addresses([each.receiver_address for each in records])
    return list(map(_row, records, sealed, addresses))


def _row(record: OrderRecord, sealed: bytes, address: str) -> OrderRow:
    pay_fen, remark = fen_of(record.pay_amount), shown_remark(record)
    row = (
        record.owner_id,
        -record.confirm_time,
        record.order_sn,
        record.updated_at,
        record.order_status,
        record.province,
        record.city,
        record.town,
        record.goods_name,
        record.goods_img,
        record.goods_spec,
        record.goods_count,
        record.is_pre_sale,
        record.last_ship_time or 0,
        pay_fen,
        remark,
        record.remark_tag,
        record.remark_tag_name,
        0,
        sealed,
        _ready_order(record, pay_fen, remark, address),
    )
    # The class's own constructor takes three times as long.
    return tuple.__new__(OrderRow, row)


def receiver_of(record: OrderRecord) -> tuple[str, str, str, str | None]:
    """The part of a record to seal: a `Receiver`, but as a plain tuple, which is faster to make."""
    return (
        record.receiver_name,
        record.receiver_phone,
        record.receiver_address,
        record.remark or None,
    )


def shown_remark(record: OrderRecord) -> str | None:
    """The remark, masked: a search must not find what is hidden either."""
    return masked_remark(record.remark) if record.remark else None


def ready_order(record: OrderRecord) -> bytes:
    """The record as it is answered, up to the price."""
    address = masked_address(record.receiver_address)
    return _ready_order(record, fen_of(record.pay_amount), shown_remark(record), address)


def _ready_order(record: OrderRecord, pay_fen: int, remark: str | None, address: str) -> bytes:
    # No field of a receiver is empty unless it is erased.
    name, phone = record.receiver_name, record.receiver_phone
    address = address if record.receiver_address else ""
    tag = record.remark_tag
    # Positional, in the order of the fields: keyword arguments would take twice as long.
    entry = OrderEntry(
        masked_name(name) if name else "",
        masked_phone(phone) if phone else "",
        record.province,
        record.city,
        record.town,
        address,
        address,
        record.order_sn,
        record.goods_name,
        record.goods_img,
        record.goods_spec,
        record.is_pre_sale,
        record.last_ship_time or 0,
        record.confirm_time,
        remark or "",
        record.goods_count,
        pay_fen / 100,
        record.order_status,
        None if tag is None else str(tag),
        record.remark_tag_name,
        0,
    )
    return encode_data(entry)[:_PRICE_AT]


def record_of(row: OrderRow, sealer: Sealer) -> OrderRecord:
    """The record from which a row was made."""
    receiver = open_receiver(sealer, row.owner_id, row.order_sn, row.sealed)
    return OrderRecord(
        owner_id=row.owner_id,
        order_sn=row.order_sn,
        updated_at=row.updated_ms,
        confirm_time=-row.newest_first,
        order_status=row.status,
        receiver_name=receiver.name,
        receiver_phone=receiver.phone,
        receiver_address=receiver.address,
        goods_name=row.goods_name,
        pay_amount=Decimal(row.pay_fen) / 100,
        goods_count=row.goods_count,
        goods_img=row.goods_img,
        goods_spec=row.goods_spec,
        province=row.province,
        city=row.city,
        town=row.town,
        is_pre_sale=bool(row.is_pre_sale),
        last_ship_time=row.last_ship_ms,
        remark=receiver.remark,
        remark_tag=row.remark_tag,
        remark_tag_name=row.remark_tag_name,
    )


def erased_order(row: OrderRow, sealer: Sealer) -> OrderRow:
    """The order without its receiver and its remark; all else stays."""
    left = row._replace(province="", city="", town="", remark=None, sealed=b"")
    return left._replace(ready=ready_order(record_of(left, sealer)))


def open_receiver(sealer: Sealer, owner_id: str, order_sn: str, sealed: bytes) -> Receiver:
    """The receiver of an order; its fields are empty once it is erased."""
    return (
        NO_RECEIVER
        if not sealed
        else _unpack(sealer.open(sealed, receiver_context(owner_id, order_sn)))
    )


def receiver_context(owner_id: str, order_sn: str) -> bytes:
    """What the seal is bound to. Ids contain no NUL, so it differs for any two orders."""
    return f"{owner_id}\0{order_sn}".encode()
