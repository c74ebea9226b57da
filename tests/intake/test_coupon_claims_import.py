"""`tollway import coupon-claims`: what is stored, what is rejected, and that counts follow."""

import csv
import gzip
import json
from collections import Counter
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.support import forks
from tests.support.coupons import NOON_S, claim, load_claims, put_claims
from tests.support.other_clock import program
from tests.support.stores import Store
from tollway.__main__ import main
from tollway.contract.envelope import encode_data
from tollway.operations.coupon_claims.operation import CouponRecord
from tollway.operations.coupon_claims.records import BEFORE_TIME, ClaimRow, ready_claim
from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.store.database import Database
from tollway.store.query import Query

LINE: dict[str, object] = {
    "coupon_code": "c1",
    "sid": "s1",
    "type": 4,
    "claim_time": NOON_S,
    "coupon_name": "外卖红包",
    "money": "5.5",
    "min_use_money": 20,
    "begin_time": NOON_S,
    "end_time": NOON_S + 86_400,
    "app_key": "key",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


def run_import(store: Store, file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main(["import", "coupon-claims", str(file), "--database", store.url, "--json"])
    result = json.loads(capsys.readouterr().out)
    assert ended.value.code == (1 if result["rejected"] else 0)
    return result


def write_lines(file: Path, lines: list[dict[str, object]]) -> Path:
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    file.write_text(content, encoding="utf-8")
    return file


def stored(store: Store) -> list[tuple[Any, ...]]:
    """All claims; that they are ready and the counts by hour agree is checked every time."""
    rows = store.do(lambda database: database.fetch_all(Query(select(coupon_claim))))
    hours = store.do(lambda database: database.fetch_all(Query(select(coupon_claim_hour))))
    counted = {tuple(hour[:3]): hour[3] for hour in hours if hour[3]}
    assert counted == Counter((row[0], row[1], -row[2] // 3600) for row in rows)
    assert all(row[-1] == ready_claim(ClaimRow._make(row[:-1])) for row in rows)
    return [tuple(row[:-1]) for row in rows]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "text", ["红包", '"couponCode":"","beginTime":"","endTime":""', "\\", "%d"]
)
def test_a_ready_claim_is_the_record_of_the_answer_from_its_time_on(text: str) -> None:
    row = ClaimRow(text, 4, -NOON_S, text, text, text, 550, 2000, NOON_S, NOON_S + 1, text, 0)
    record = CouponRecord(
        "12:00", "5.50", "20.00", text, text, text, f"{NOON_S}", f"{NOON_S + 1}", text, text
    )
    assert BEFORE_TIME + b"12:00" + ready_claim(row) == encode_data(record)


@pytest.mark.parametrize("name", ["claims.jsonl", "claims.csv", "claims.jsonl.gz", "claims.csv.gz"])
def test_every_kind_of_file_stores_the_same(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    plain = tmp_path / name.removesuffix(".gz")
    if ".csv" in name:
        with plain.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*LINE, "coupon_type"])
            writer.writeheader()
            writer.writerow(LINE)
    else:
        write_lines(plain, [LINE])
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
    result = run_import(store, tmp_path / name, capsys)
    assert result == {"read": 1, "stored": 1, "changed": 1, "rejected": 0, "rejects": None}
    assert [row[:-1] for row in stored(store)] == [tuple(claim("c1", NOON_S))[:-1]]


def test_a_coupon_may_be_valid_from_ever(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_lines(tmp_path / "claims.jsonl", [{**LINE, "begin_time": 0}])
    assert run_import(store, file, capsys)["stored"] == 1
    assert [row[8] for row in stored(store)] == [0]


def test_loading_twice_changes_nothing(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{**LINE, "coupon_code": f"c{n}", "claim_time": NOON_S + n} for n in range(4500)]
    file = write_lines(tmp_path / "claims.jsonl", lines)
    assert run_import(store, file, capsys)["changed"] == 4500
    before = stored(store)
    assert len(before) == 4500
    assert run_import(store, file, capsys)["changed"] == 0
    assert stored(store) == before


def test_a_later_record_of_a_code_moves_it_and_the_counts_follow(store: Store) -> None:
    assert load_claims(store, [claim("a", NOON_S), claim("b", NOON_S)]) == 2
    for moved in (
        claim("a", NOON_S + 3600),
        claim("a", NOON_S + 3601),
        claim("a", NOON_S + 3601, sid="s2"),
        claim("a", NOON_S + 3601, sid="s2", claim_type=6),
    ):
        assert load_claims(store, [moved]) == 1
        assert sorted(stored(store)) == sorted([tuple(claim("b", NOON_S)), tuple(moved)])


def test_a_record_that_says_something_else_replaces_and_counts_once(store: Store) -> None:
    load_claims(store, [claim("a", NOON_S)])
    renamed = claim("a", NOON_S)._replace(coupon_name="新红包")
    assert load_claims(store, [renamed]) == 1
    assert stored(store) == [tuple(renamed)]


def test_of_one_code_twice_in_a_chunk_the_last_counts(store: Store) -> None:
    first, last = claim("a", NOON_S), claim("a", NOON_S + 7200, sid="s2")
    assert load_claims(store, [first, last]) == 1
    assert stored(store) == [tuple(last)]
    assert load_claims(store, [first, last]) == 0
    assert load_claims(store, [last, first, last, first]) == 1
    assert stored(store) == [tuple(first)]


def test_of_several_versions_of_a_claim_the_one_updated_last_stays_in_whatever_order(
    store: Store,
) -> None:
    versions = [
        claim("a", NOON_S, updated_ms=10**12),
        claim("a", NOON_S + 7200, sid="s2", updated_ms=10**12 + 1),
        # As the one before it: what is stored is confirmed by it.
        claim("a", NOON_S + 7200, sid="s2", updated_ms=10**12 + 3),
    ]
    late = claim("a", NOON_S + 1, updated_ms=10**12 + 2)

    def own(each: ClaimRow, n: int) -> ClaimRow:
        """No other order changes its counts."""
        return each._replace(coupon_code=f"a{n:02}", sid=f"{each.sid}-{n:02}")

    orders = [
        [own(each, n) for each in order] for n, order in enumerate(permutations([*versions, late]))
    ]
    stay = [tuple(own(versions[-1], n)) for n in range(len(orders))]

    async def load_one_by_one(database: Database) -> None:
        for each in chain.from_iterable(orders):
            await put_claims(database, [each])

    store.do(load_one_by_one)
    assert sorted(stored(store)) == stay
    store.run_all("DELETE FROM coupon_claim", "DELETE FROM coupon_claim_hour")

    async def load_together(database: Database) -> list[int]:
        return [await put_claims(database, order) for order in orders]

    assert store.do(load_together) == [1] * len(orders)
    assert sorted(stored(store)) == stay
    assert load_claims(store, [own(each, 0) for each in versions]) == 0


def test_of_versions_made_at_the_same_time_the_one_that_came_last_stays(store: Store) -> None:
    first = claim("a", NOON_S)
    second = first._replace(coupon_name="新红包")
    for each in (first, second, first):
        assert load_claims(store, [each]) == 1
        assert load_claims(store, [each]) == 0
        assert stored(store) == [tuple(each)]


def test_an_old_file_that_says_when_its_claims_were_made_changes_nothing(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_ms = NOON_S * 1000
    old = write_lines(tmp_path / "old.jsonl", [{**LINE, "updated_at": made_ms}])
    lines = [{**LINE, "updated_at": made_ms + 1, "coupon_name": "新红包"}]
    new = write_lines(tmp_path / "new.jsonl", lines)
    assert [run_import(store, each, capsys)["changed"] for each in (old, new, old)] == [1, 1, 0]
    assert [row[4] for row in stored(store)] == ["新红包"]
    # Without it a file counts as of when it is loaded.
    plain = write_lines(tmp_path / "plain.jsonl", [LINE])
    assert run_import(store, plain, capsys)["changed"] == 1
    assert run_import(store, new, capsys)["changed"] == 0


def test_a_claim_that_came_while_the_clock_was_ahead_can_be_changed_again(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = write_lines(tmp_path / "plain.jsonl", [LINE])
    new = write_lines(tmp_path / "new.jsonl", [{**LINE, "coupon_name": "新红包"}])
    forks.run(*program(1_000_000), "import", "coupon-claims", str(plain), env=store.settings)
    assert [run_import(store, each, capsys)["changed"] for each in (plain, new)] == [0, 1]
    assert [row[4] for row in stored(store)] == ["新红包"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"coupon_code": None}, "coupon_code: it is missing; send a text of 1 to 64"),
        ({"coupon_code": ""}, "coupon_code: it is empty; send a text of 1 to 64"),
        ({"sid": "x" * 65}, "sid: it has 65 characters; send a text of 1 to 64"),
        ({"sid": "a\0b"}, "sid: it contains a NUL character; send a text"),
        ({"type": None}, "type: it is missing; send 4 for food delivery, or 6 for flash"),
        ({"type": "外卖"}, "type: it is not a number; send 4 for food delivery, or 6 for flash"),
        ({"type": 5}, "type: it is 5; send 4 for food delivery, or 6 for flash purchase."),
        ({"type": 6}, "coupon_type: it is missing; send it with type 6."),
        ({"coupon_type": "OTHER"}, "coupon_type: it is another; send WAIMAI_COUPON with type 4."),
        ({"claim_time": "noon"}, "claim_time: it is not a number; send a time in seconds"),
        ({"claim_time": NOON_S * 1000}, "claim_time: it has 13 digits; send a time in seconds"),
        ({"claim_time": -1}, "claim_time: it is negative; send a time in seconds"),
        # A date without separators, and the number that a spreadsheet has for one.
        ({"claim_time": 20260115}, "claim_time: it has 8 digits; send a time in seconds"),
        ({"claim_time": "46037"}, "claim_time: it is 46037; send a time in seconds, from the year"),
        ({"begin_time": 20260115}, "begin_time: it is before the year 2000; send a time in sec"),
        (
            {"begin_time": 0, "end_time": "46068"},
            "end_time: it is before the year 2000; send a time in seconds, before the year 2200",
        ),
        ({"claim_time": 7_000_000_000}, "claim_time: it is more than a day ahead; send the time"),
        ({"end_time": 253_402_300_799}, "end_time: it has 12 digits; send a time in seconds"),
        ({"money": "5.555"}, "money: it has 3 decimals; send yuan with at most two decimals"),
        ({"money": "1.000"}, "money: it has 3 decimals; send yuan with at most two decimals"),
        ({"money": "-1"}, "money: it is negative; send yuan"),
        ({"min_use_money": "NaN"}, "min_use_money: it is not a number; send yuan"),
        ({"min_use_money": "sNaN"}, "min_use_money: it is not a number; send yuan"),
        ({"updated_at": NOON_S}, "updated_at: it has 10 digits; send a time in milliseconds"),
        ({"updated_at": 7 * 10**12}, "updated_at: it is more than a day ahead; send the time"),
        ({"end_time": NOON_S - 1}, "end_time: it is before begin_time; send a time that is not."),
    ],
)
def test_a_wrong_record_is_set_aside_with_its_reason_and_stops_no_other(
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, object],
    reason: str,
) -> None:
    wrong = {name: value for name, value in {**LINE, **changes}.items() if value is not None}
    good = {**LINE, "coupon_code": "good"}
    file = write_lines(tmp_path / "claims.jsonl", [wrong, good])
    result = run_import(store, file, capsys)
    assert (result["stored"], result["rejected"]) == (1, 1)
    (reject,) = Path(result["rejects"]).read_text(encoding="utf-8").splitlines()
    reject_line = json.loads(reject)
    assert reject_line["line"] == 1
    assert reject_line["reason"].startswith(reason)
    assert json.loads(reject_line["record"]) == wrong
    assert [row[3] for row in stored(store)] == ["good"]
