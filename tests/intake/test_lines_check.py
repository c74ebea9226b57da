"""Orders that are checked many at once, as lines of JSON: what is taken so is what the check of one
record takes, to the last byte, and what that refuses is left to it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.any_records import ORDER, POISON, json_values, written
from tests.support.orders import START_MS, order
from tollway.intake.record_problems import read_object
from tollway.operations.orders.records import OrderRow, open_receiver
from tollway.operations.orders.storage import OrderLoader
from tollway.store.sealing import Sealer

SEALER = Sealer({1: bytes(32)}, 1)
LOADER = OrderLoader(SEALER)
FIELDS = (*ORDER, "unknown", "\udcff", "Order_sn")


def opened(row: OrderRow) -> tuple[Any, ...]:
    """The row with its receiver in place of the seal, which differs each time."""
    receiver = open_receiver(SEALER, row.owner_id, row.order_sn, row.sealed)
    return *row._replace(sealed=b""), receiver, [type(value) for value in row]


def checked_alone(raw: bytes) -> tuple[Any, ...] | None:
    try:
        return opened(LOADER.check(read_object(raw), 0))
    except ValueError:
        return None


def assert_alike(lines: list[bytes]) -> None:
    found = LOADER.check_lines(lines)
    assert len(found) == len(lines)
    for raw, row in zip(lines, found, strict=True):
        if row is not None:
            assert opened(row) == checked_alone(raw), raw


@given(st.lists(st.tuples(st.sampled_from(FIELDS), json_values), max_size=4))
@example([("pay_amount", "1.5e1"), ("pay_amount", "15.0"), ("pay_amount", "9" * 13)])
@example([("\udcff", "1"), ("unknown", '"\\u0000"'), ("goods_count", "3.0")])
def test_any_value_in_any_field_is_taken_alike(odd: list[tuple[str, str]]) -> None:
    lines = [written(ORDER, **{field: raw}) for field, raw in odd]
    both = written(ORDER, **dict(odd))
    # A name that is given twice: the last value counts.
    twice = [raw[:-1] + b"," + raw[1:] for raw in (*lines, both)]
    assert_alike([*lines, both, *twice])


def test_every_poison_in_every_field_is_taken_alike() -> None:
    assert_alike([written(ORDER, **{field: raw}) for field in FIELDS for raw in POISON])


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"{}",
        b"[]",
        b"null",
        b'{"owner_id": "1"',
        written(ORDER) + b"}",
        written(ORDER) + written(ORDER),
        b"\xef\xbb\xbf" + written(ORDER),
        written(ORDER).replace(b'"sn-0"', b'"sn-\xff"'),
        written(ORDER).replace(b'"sn-0"', b'"sn-\n"'),
        written(ORDER)[:-1] + b',"\xff":1}',
        written(ORDER, confirm_time=str(START_MS * 4)),
        written(ORDER, updated_at=str(START_MS * 4)),
        written(ORDER, order_sn='"sn-0 "'),
    ],
)
def test_what_is_no_good_order_is_left_to_the_check_of_one(raw: bytes) -> None:
    assert LOADER.check_lines([raw]) == [None]


def test_orders_as_shops_write_them_are_all_taken_at_once() -> None:
    """Otherwise an import would be correct, and slow."""
    records = [
        order("plain"),
        order("all", remark='改打 "138 0000 1111"\n', remark_tag=3, remark_tag_name="急"),
        order("whole", pay_amount=259, goods_count=0, is_pre_sale=True),
        order("zero", pay_amount=0),
        {name: value for name, value in order("short").items() if value is not None},
    ]
    lines = [json.dumps(each, ensure_ascii=False).encode() + b"\r\n" for each in records]
    lines += [json.dumps(each).encode() for each in records]
    lines.append(written(order("point"), pay_amount="259.0"))
    assert all(row is not None for row in LOADER.check_lines(lines))
    assert_alike(lines)
