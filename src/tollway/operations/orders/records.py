"""One order as it comes in, and as it is stored: checked, and sealed where it is personal."""

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, NamedTuple

import msgspec

from tollway.store.sealing import Sealer

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Text = Annotated[str, msgspec.Meta(max_length=2000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
# A smaller number is a time in seconds, which would be read as a time long ago.
Milliseconds = Annotated[int, msgspec.Meta(ge=10**11, lt=253_402_300_800_000)]

_FEN_MAX = 10**14


class OrderRecord(msgspec.Struct, frozen=True, gc=False):
    """An order as a file or a push writes it. Times are in milliseconds, the amount in yuan."""

    owner_id: Id
    order_sn: Id
    updated_at: Milliseconds
    confirm_time: Milliseconds
    order_status: Annotated[int, msgspec.Meta(ge=1, le=3)]
    receiver_name: Name
    receiver_phone: Id
    receiver_address: Name
    goods_name: Name
    pay_amount: Decimal
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
    remark_tag_name: Id | None = None


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
    sealed: bytes


class Receiver(NamedTuple):
    """What is personal in an order."""

    name: str
    phone: str
    address: str


_pack: Callable[[Receiver], bytes] = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Receiver).decode


def checked_record(values: dict[str, object]) -> OrderRecord:
    """The typed record; raises msgspec.ValidationError or ValueError with what is wrong."""
    record = msgspec.convert(values, OrderRecord, strict=False)
    # One search through all texts: a pattern on each of them would cost more than all the rest.
    if "\0" in "".join(_texts(record)):
        raise ValueError("Expected no NUL character in any text")
    return record


def _texts(record: OrderRecord) -> tuple[str, ...]:
    return (
        record.owner_id,
        record.order_sn,
        record.receiver_name,
        record.receiver_phone,
        record.receiver_address,
        record.province,
        record.city,
        record.town,
        record.goods_name,
        record.goods_img,
        record.goods_spec,
        record.remark or "",
        record.remark_tag_name or "",
    )


def row_of(record: OrderRecord, sealer: Sealer) -> OrderRow:
    """The record as it is stored; raises ValueError if its amount is none."""
    receiver = Receiver(record.receiver_name, record.receiver_phone, record.receiver_address)
    return OrderRow(
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
        _fen(record.pay_amount),
        record.remark or None,
        record.remark_tag,
        record.remark_tag_name,
        sealer.seal(_pack(receiver), _context(record.owner_id, record.order_sn)),
    )


def open_receiver(sealer: Sealer, owner_id: str, order_sn: str, sealed: bytes) -> Receiver:
    """The receiver of an order."""
    return _unpack(sealer.open(sealed, _context(owner_id, order_sn)))


def _context(owner_id: str, order_sn: str) -> bytes:
    """What the seal is bound to. No id has a NUL, so no two orders have the same."""
    return f"{owner_id}\0{order_sn}".encode()


def _fen(yuan: Decimal) -> int:
    fen = yuan * 100
    if not yuan.is_finite() or not 0 <= fen <= _FEN_MAX:
        raise ValueError("Expected an amount of yuan, 0 or more - at `$.pay_amount`")
    whole = int(fen)
    if whole != fen:
        raise ValueError("Expected at most two decimals - at `$.pay_amount`")
    return whole
