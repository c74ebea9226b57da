"""Product figures from files: every good record is stored, every bad one set aside with why."""

import gzip
import json

import pytest

from tests.intake.conftest import Figures
from tollway.intake.loading import CHUNK_RECORDS
from tollway.store.cache_versions import Versions

HEADER = (
    "kind,product_id,title,shop_name,picture_url,day,name,visitors,buyers,payment,"
    "pieces_ordered,page_views,collections,pieces_paid,pieces_carted"
)
GOOD_CSV = [
    "product,p1,保温杯,小店,https://x/1.jpg,,,,,,,,,,",
    "day,p1,,,,2026-01-31,,100,4,123.45,,,7,5,9",
    "source,p1,,,,2026-01-31,手淘搜索,60,3,,4,,,,",
    "keyword,p1,,,,2026-01-31,水杯,30,1,,1,75,,,",
    "search,p1,,,,2026-01-31,保温杯推荐,10,0,,,,,,",
]
GOOD_JSON: list[dict[str, object]] = [
    {
        "kind": "product",
        "product_id": "p1",
        "title": "保温杯",
        "shop_name": "小店",
        "picture_url": "https://x/1.jpg",
    },
    {
        "kind": "day",
        "product_id": "p1",
        "day": "2026-01-31",
        "visitors": 100,
        "buyers": 4,
        "payment": 123.45,
        "collections": 7,
        "pieces_paid": 5,
        "pieces_carted": 9,
    },
    {
        "kind": "source",
        "product_id": "p1",
        "day": "2026-01-31",
        "name": "手淘搜索",
        "visitors": 60,
        "buyers": 3,
        "pieces_ordered": 4,
    },
    {
        "kind": "keyword",
        "product_id": "p1",
        "day": "2026-01-31",
        "name": "水杯",
        "visitors": "30",
        "buyers": "1",
        "pieces_ordered": 1,
        "page_views": 75,
    },
    {
        "kind": "search",
        "product_id": "p1",
        "day": "2026-01-31",
        "name": "保温杯推荐",
        "visitors": 10,
        "buyers": 0,
    },
]
STORED = {
    "product": [("p1", "保温杯", "https://x/1.jpg", "小店")],
    "product_day": [("p1", 20260131, 100, 4, 12345, 7, 5, 9)],
    "product_figure": [
        ("p1", 20260131, "keyword", "水杯", 30, 1, 1, 75),
        ("p1", 20260131, "search", "保温杯推荐", 10, 0, 0, 0),
        ("p1", 20260131, "source", "手淘搜索", 60, 3, 4, 0),
    ],
}


def csv(*rows: str, header: str = HEADER) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f.csv", csv(*GOOD_CSV)),
        ("f.CSV", csv(*GOOD_CSV).replace(b"\n", b"\r\n")),
        ("f.csv.gz", gzip.compress(csv(*GOOD_CSV), mtime=0)),
        ("f.jsonl", jsonl(*GOOD_JSON)),
        ("f.ndjson", jsonl(*GOOD_JSON).rstrip(b"\n")),
        ("f.jsonl.gz", gzip.compress(jsonl(*GOOD_JSON), mtime=0)),
        ("2026.01.csv", b"\xef\xbb\xbf" + csv(*GOOD_CSV)),
        ("f.jsonl.GZ", gzip.compress(b"\xef\xbb\xbf" + jsonl(*GOOD_JSON), mtime=0)),
        (
            "two-members.csv.gz",
            gzip.compress(csv(), mtime=0) + gzip.compress("\n".join(GOOD_CSV).encode(), mtime=0),
        ),
    ],
)
def test_each_way_to_write_a_file_stores_the_same(
    figures: Figures, name: str, content: bytes
) -> None:
    loaded = figures.load_bytes(name, content)
    assert loaded.rejects == []
    assert (loaded.result.read, loaded.result.stored, loaded.result.changed) == (5, 5, 5)
    assert {table: figures.rows(table) for table in STORED} == STORED


def test_loading_a_file_again_changes_nothing(figures: Figures) -> None:
    figures.load_bytes("f.csv", csv(*GOOD_CSV))
    before = figures.everything()
    again = figures.load_bytes("f.csv", csv(*GOOD_CSV))
    assert (again.result.read, again.result.stored, again.result.changed) == (5, 5, 0)
    assert figures.everything() == before, "not even the version of the figures may move on"


def test_a_later_record_of_the_same_thing_replaces_the_earlier(figures: Figures) -> None:
    figures.load_bytes("f.jsonl", jsonl(*GOOD_JSON))
    changed = {**GOOD_JSON[1], "buyers": 5}
    loaded = figures.load_bytes("g.jsonl", jsonl(GOOD_JSON[0], {**changed, "buyers": 9}, changed))
    assert loaded.result.changed == 1
    assert figures.rows("product_day") == [("p1", 20260131, 100, 5, 12345, 7, 5, 9)]


def test_a_change_gives_the_figures_another_version(figures: Figures) -> None:
    def version() -> int:
        async def work(database: object) -> int:
            versions = Versions(database)  # type: ignore[arg-type]
            await versions.refresh()
            return versions.figures

        return figures.store.do(work)

    before = version()
    figures.load_bytes("f.csv", csv(*GOOD_CSV))
    assert version() != before


COUNT = "send a whole number from 0 to 1000000000000."
YUAN = "send yuan with at most two decimals, from 0 to 1000000000000, as 12.50."
ID = "send a text of 1 to 64 characters."
DAY = "send a date as YYYY-MM-DD."
PAST = "send the date on which it happened."
KIND = "send one of product, day, source, keyword, search."


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"visitors": -1}, f"visitors: it is negative; {COUNT}"),
        ({"visitors": "-1"}, f"visitors: it is negative; {COUNT}"),
        ({"visitors": 1.5}, f"visitors: it has decimals; {COUNT}"),
        ({"visitors": "many"}, f"visitors: it is not a number; {COUNT}"),
        ({"visitors": 10**13}, f"visitors: it has 14 digits; {COUNT}"),
        ({"visitors": 10**30}, f"visitors: it has 31 digits; {COUNT}"),
        ({"visitors": None}, f"visitors: it is null; {COUNT}"),
        ({"buyers": True}, f"buyers: it is true or false; {COUNT}"),
        ({"buyers": [1]}, f"buyers: it is a list; {COUNT}"),
        ({"payment": "-0.01"}, f"payment: it is negative; {YUAN}"),
        ({"payment": "1.005"}, f"payment: it has 3 decimals; {YUAN}"),
        ({"payment": "1.000"}, f"payment: it has 3 decimals; {YUAN}"),
        ({"payment": 0.1 + 0.2}, f"payment: it has 17 decimals; {YUAN}"),
        ({"payment": "NaN"}, f"payment: it is not a number; {YUAN}"),
        ({"payment": float("nan")}, f"payment: it is not a number; {YUAN}"),
        ({"payment": "sNaN"}, f"payment: it is not a number; {YUAN}"),
        ({"payment": "Infinity"}, f"payment: it is not a number; {YUAN}"),
        ({"payment": "1e99"}, f"payment: it has an exponent; {YUAN}"),
        ({"payment": "9E+999999"}, f"payment: it has an exponent; {YUAN}"),
        ({"payment": "1E-400000000"}, f"payment: it has an exponent; {YUAN}"),
        ({"payment": 1e22}, f"payment: it has an exponent; {YUAN}"),
        ({"payment": "1000000000000.01"}, f"payment: it has 15 digits; {YUAN}"),
        ({"payment": "1,234.50"}, f"payment: it is not a number; {YUAN}"),
        ({"payment": "a lot"}, f"payment: it is not a number; {YUAN}"),
        ({"payment": ""}, f"payment: it is empty; {YUAN}"),
        ({"day": "2026-02-30"}, f"day: it is not a date of the calendar; {DAY}"),
        ({"day": "31.01.2026"}, f"day: it is not a date of the calendar; {DAY}"),
        ({"day": "2026-1-31"}, f"day: it is not a date of the calendar; {DAY}"),
        ({"day": 20260131}, f"day: it is a number; {DAY}"),
        ({"day": "9999-12-31"}, f"day: it is more than a day ahead; {PAST}"),
        ({"day": "0001-01-01"}, f"day: it is before the year 2000; {PAST}"),
        ({"product_id": ""}, f"product_id: it is empty; {ID}"),
        ({"product_id": 17}, f"product_id: it is a number; {ID}"),
        ({"product_id": {}}, f"product_id: it is an object; {ID}"),
        ({"product_id": "x" * 65}, f"product_id: it has 65 characters; {ID}"),
        ({"product_id": "a\0b"}, f"product_id: it contains a NUL character; {ID}"),
        ({"kind": "week"}, f"kind: it is none of these; {KIND}"),
        ({"kind": ["day"]}, f"kind: it is none of these; {KIND}"),
        ({"kind": None}, f"kind: it is missing; {KIND}"),
    ],
)
def test_a_value_that_cannot_be_is_set_aside_by_name(
    figures: Figures, change: dict[str, object], reason: str
) -> None:
    wrong = {**GOOD_JSON[1], **change}
    loaded = figures.load_bytes("f.jsonl", jsonl(GOOD_JSON[0], wrong, *GOOD_JSON[1:]))
    (reject,) = loaded.rejects
    assert (reject.line, reject.reason) == (2, reason)
    assert reject.record == json.dumps(wrong, ensure_ascii=False)
    assert {table: figures.rows(table) for table in STORED} == STORED


def test_a_number_keeps_its_digits(figures: Figures) -> None:
    content = json.dumps(GOOD_JSON[1]).replace("123.45", f"123.45{'0' * 29}1").encode()
    (reject,) = figures.load_bytes("f.jsonl", content).rejects
    assert reject.reason == f"payment: it has 32 decimals; {YUAN}"


@pytest.mark.parametrize("left_out", ["kind", "product_id", "day", "visitors", "buyers", "payment"])
def test_a_record_without_what_it_needs_is_set_aside(figures: Figures, left_out: str) -> None:
    wrong = {name: value for name, value in GOOD_JSON[1].items() if name != left_out}
    loaded = figures.load_bytes("f.jsonl", jsonl(wrong, *GOOD_JSON))
    assert loaded.lines == [1] and left_out in loaded.rejects[0].reason
    assert loaded.result.stored == 5


def test_a_long_file_is_stored_whole_around_its_bad_records(figures: Figures) -> None:
    count = 2 * CHUNK_RECORDS + 500
    rows = [f"product,n{number},t,s,,,,,,,,,,," for number in range(count)]
    for position in range(0, count, 100):
        rows[position] = f"nonsense,n{position},t,s,,,,,,,,,,,"
    loaded = figures.load_bytes("f.csv", csv(*rows))
    assert loaded.lines == [position + 2 for position in range(0, count, 100)]
    assert loaded.result.stored == len(figures.rows("product")) == count - count // 100
