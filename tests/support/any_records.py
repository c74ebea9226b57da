"""Records with one odd field between good ones, and what becomes of them by file and by push."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.support.coupons import NOON_S
from tests.support.gateway import Gateway
from tests.support.orders import START_MS, order, sealer_of
from tests.support.pushes import push
from tests.support.stores import Store
from tollway.intake.files import read_records
from tollway.intake.loading import Reject, checked_chunks, load
from tollway.intake.rejects import list_rejected
from tollway.operations.catalogue import RECORD_KINDS

CLAIM: dict[str, Any] = {
    "coupon_code": "c0",
    "sid": "s1",
    "type": 6,
    "claim_time": NOON_S,
    "coupon_name": "闪购红包",
    "money": "5.5",
    "min_use_money": 20,
    "begin_time": NOON_S,
    "end_time": NOON_S + 86_400,
    "app_key": "key",
    "coupon_type": "SHANGOU_COUPON",
    "updated_at": START_MS,
}
PRODUCT = {
    "kind": "product",
    "product_id": "p0",
    "title": "保温杯",
    "shop_name": "小店",
    "picture_url": "https://x/1.jpg",
}
DAY = {
    "kind": "day",
    "product_id": "p0",
    "day": "2026-01-31",
    "visitors": 100,
    "buyers": 4,
    "payment": 123.45,
    "collections": 7,
    "pieces_paid": 5,
    "pieces_carted": 9,
}
KEYWORD = {
    "kind": "keyword",
    "product_id": "p0",
    "day": "2026-01-31",
    "name": "水杯",
    "visitors": "30",
    "buyers": "1",
    "pieces_ordered": 1,
    "page_views": 75,
}
MATERIAL = {
    "promotion_id": 37104,
    "id": "m0",
    "promotion_type": "1",
    "condition_type": "1",
    "discount_type": "1",
    "total_count": 1000,
    "remain_count": 300,
    "display_start_ms": START_MS,
    "display_end_ms": START_MS + 1000,
    "seller_id": "2206501001",
    "nick": "Green Field",
    "shop_title": "Green Field",
    "shop_picture_url": "https://img.example/1.png",
    "promotion_url": "https://promo.example/c?c=m1",
    "paid_coupon_item_id": "620145020000",
    "paid_coupon_url": "https://promo.example/buy/m1",
    "benefits": [{"start_ms": 0, "end_ms": START_MS, "condition": 9900, "discount": 990}],
    "items": [{"item_id": 620145000100, "url": "https://promo.example/item?id=1"}],
}
ORDER = order("sn-0", remark="请尽快", remark_tag=1, remark_tag_name="急")


class Sample(NamedTuple):
    """Good records of one kind, what distinguishes them, and where they are stored."""

    records: tuple[dict[str, Any], ...]
    id_field: str
    tables: tuple[str, ...]


SAMPLES = {
    "orders": Sample((ORDER,), "order_sn", ("shop_order",)),
    "coupon-claims": Sample((CLAIM,), "coupon_code", ("coupon_claim",)),
    "product-figures": Sample(
        (PRODUCT, DAY, KEYWORD), "product_id", ("product", "product_day", "product_figure")
    ),
    "promotion-material": Sample((MATERIAL,), "id", ("promotion_material",)),
}
# Without what differs each time: how orders are sealed, and when claims came.
_COLUMNS = {
    "shop_order": "owner_id, newest_first, order_sn, updated_ms, status, province, city, town, "
    "goods_name, goods_img, goods_spec, goods_count, is_pre_sale, last_ship_ms, pay_fen, remark, "
    "remark_tag, remark_tag_name",
    "coupon_claim": "sid, claim_type, newest_first, coupon_code, coupon_name, coupon_type, "
    "money_fen, min_use_fen, begin_at_s, end_at_s, app_key, ready",
}

# As they stand in JSON: most of them are more than a decoder keeps.
POISON = (
    '"\\ud800"',
    '"a\\udc00b"',
    '"a\\u0000b"',
    '"\\u0000"',
    '"a\\nb"',
    "NaN",
    "-Infinity",
    '"NaN"',
    '"sNaN"',
    '"-sNaN123"',
    '"Infinity"',
    "1e5000000",
    '"1e5000000"',
    '"9E+999999"',
    "1E-400000000",
    '"1E-400000000"',
    '"1e99999999999999999999"',
    "1e99999999999999999999",
    f"1.{'0' * 31}",
    f'"0.{"3" * 31}"',
    "1.000",
    '"1.000"',
    '"1_000"',
    '"１２"',
    '" 12 "',
    '"1,234.50"',
    "-0.0",
    "-1",
    "0",
    str(2**63),
    str(10**18),
    str(10**30),
    "9" * 5000,
    f'"{"9" * 5000}"',
    "253402300799999",
    "253402300799",
    '"9999-12-31"',
    '"0001-01-01"',
    '"2026-1-31"',
    '""',
    '"null"',
    "null",
    "true",
    "[]",
    "{}",
    "[[[[[]]]]]",
    json.dumps("x" * 65),
    json.dumps("x" * 501),
    json.dumps("x" * 2001),
    json.dumps("".join(map(chr, range(0x4E00, 0x4E00 + 900)))),
    json.dumps("".join(map(chr, range(0x4E00, 0x4E00 + 2000)))),
    json.dumps("\U0001f600" * 500),
)
_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
    | st.text("0123456789-: T.eE+", max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
json_values = st.sampled_from(POISON) | _anything.map(json.dumps)


def written(record: dict[str, Any], **odd: str) -> bytes:
    """A record as JSON, with odd values as they are."""
    values = {name: json.dumps(value) for name, value in record.items()} | odd
    return (
        "{" + ",".join(f"{json.dumps(name)}:{raw}" for name, raw in values.items()) + "}"
    ).encode()


def between_good_ones(kind: str, odd: Iterable[tuple[int, str, str]]) -> list[bytes]:
    """Records of which every second one is odd: (which sample, which field, which value)."""
    sample = SAMPLES[kind]
    records = []
    for number, (which, field, raw) in enumerate(odd):
        good = sample.records[which % len(sample.records)]
        records.append(written({**good, sample.id_field: f"good-{number}"}))
        records.append(written({**good, sample.id_field: f"odd-{number}"}, **{field: raw}))
    records.append(written({**sample.records[0], sample.id_field: "good-last"}))
    return records


def odd_fields(kind: str) -> st.SearchStrategy[list[tuple[int, str, str]]]:
    records = SAMPLES[kind].records
    fields = [(which, name) for which, each in enumerate(records) for name in each]
    return st.lists(
        st.tuples(st.sampled_from(fields), json_values).map(lambda odd: (*odd[0], odd[1])),
        min_size=1,
        max_size=20,
    )


class Outcome(NamedTuple):
    """What is stored afterwards, and why the others were not."""

    rows: list[tuple[Any, ...]]
    reasons: list[str]

    def ids(self) -> set[str]:
        return {value for row in self.rows for value in row if isinstance(value, str)}


def clear(store: Store, kind: str) -> None:
    tables = (*SAMPLES[kind].tables, "order_count", "coupon_claim_hour", "rejected_record")
    store.run_all(*(f"DELETE FROM {table}" for table in tables))


def rows_of(store: Store, kind: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for table in SAMPLES[kind].tables:
        rows += map(tuple, store.run(f"SELECT {_COLUMNS.get(table, '*')} FROM {table}"))
    return sorted(rows, key=repr)


def by_file(store: Store, kind: str, path: Path, content: bytes) -> Outcome:
    """Loads a file of this content, and nothing else."""
    clear(store, kind)
    path.write_bytes(content)
    rejects: list[Reject] = []
    loader = RECORD_KINDS[kind].make_loader(sealer_of(store))
    chunks = checked_chunks(loader, read_records(path))
    result = store.do(
        lambda database: load(database, loader, chunks, rejects.append, lambda *_: None)
    )
    assert result.read == result.stored + result.rejected
    return Outcome(rows_of(store, kind), sorted(each.reason for each in rejects))


def by_push(gateway: Gateway, secret: str, kind: str, body: bytes) -> Outcome:
    """Pushes this body, and nothing else."""
    store = gateway.store
    clear(store, kind)
    answer = push(gateway, secret, body, kind=kind)
    assert answer.status_code == 200, answer.text
    rejected = store.do(list_rejected)
    assert answer.json()["rejected"] >= len(rejected)
    return Outcome(rows_of(store, kind), sorted(each.reason for each in rejected))
