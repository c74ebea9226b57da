"""The files of a ledger and of a request log: Excel reads them, and one that is cut says so."""

import asyncio
import csv
import io
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tollway.ledger.entries import Entry
from tollway.web.area import Context
from tollway.web.lists import CSV_ROWS_MAX, csv_file

UNIT = "calls:product_analysis"
MORE = 7


@pytest.fixture
def caller(own_store: Store) -> Caller:
    """An account with more charges than one file has."""
    made = new_caller(own_store)
    own_store.run(
        "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms, "
        "operation, request_id) "
        f"WITH RECURSIVE numbers(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM numbers "
        f"WHERE i <= {CSV_ROWS_MAX + MORE}) "
        f"SELECT '{made.account_id}', '{UNIT}', i, 'charge', -1, 0, 1760000000000 + i, "
        "'product_analysis', 'cafe' || (100000 + i) FROM numbers"
    )
    return made


@pytest.fixture
def member(own_store: Store, caller: Caller) -> Iterator[Browser]:
    gateway = Gateway(own_store)
    browser = entered(own_store, Browser(gateway), caller)
    yield browser
    browser.client.close()
    assert gateway.stop() == 0


def _read(member: Browser, address: str) -> tuple[list[list[str]], str]:
    """The rows of a file, and what its last line says if it was cut."""
    file = member.client.get(address)
    assert file.content.startswith(b"\xef\xbb\xbf")
    _, *rows = csv.reader(io.StringIO(file.content.decode("utf-8-sig")))
    return (rows[:-1], rows[-1][0]) if len(rows[-1]) == 1 else (rows, "")


@pytest.mark.parametrize("path", ["/account/ledger.csv", "/account/requests.csv"])
def test_a_time_in_a_file_is_exact_also_where_its_zone_is_not_known(
    member: Browser, path: str
) -> None:
    file = member.client.get(f"{path}?unit={UNIT}").content.decode("utf-8-sig")
    for row in islice(csv.DictReader(io.StringIO(file)), 3):
        exact = datetime.fromtimestamp(int(row["at_ms"]) / 1000, ZoneInfo("Asia/Shanghai"))
        assert row["at"] == f"{exact:%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(
    ("path", "first", "rest"),
    [("/account/ledger.csv", "10008", MORE + 1), ("/account/requests.csv", "cafe110008", MORE)],
)
def test_a_file_that_is_cut_ends_with_the_address_of_the_rest(
    member: Browser, path: str, first: str, rest: int
) -> None:
    rows, said = _read(member, f"{path}?unit={UNIT}&operation=product_analysis")
    assert len(rows) == CSV_ROWS_MAX and rows[0][0] == first
    sentence, _, address = said.partition(": http")
    assert sentence == "This file ends here, after 10,000 rows. Older rows"
    path = f"/{address.split('/', 3)[3]}"
    assert "before=" in path and "operation=product_analysis" in path
    older, said = _read(member, path)
    assert len(older) == rest and not said
    assert not {each[0] for each in rows} & {each[0] for each in older}
    member.client.headers["Accept-Language"] = "zh"
    assert _read(member, f"{path.partition('?')[0]}?unit={UNIT}")[1].startswith("文件到此为止")


def test_a_file_that_has_just_all_rows_is_not_cut(member: Browser, own_store: Store) -> None:
    own_store.run(f"DELETE FROM entry WHERE number <= {MORE + 1}")
    rows, said = _read(member, f"/account/ledger.csv?unit={UNIT}")
    assert len(rows) == CSV_ROWS_MAX and not said


def test_calls_have_their_turns_while_a_file_is_made() -> None:
    """Ten thousand rows take a tenth of a second, and more where others use the machine too."""
    rows = [Entry("acc", UNIT, number, "charge", -1, 0, number) for number in range(CSV_ROWS_MAX)]
    context = cast(Context, SimpleNamespace(web=SimpleNamespace(zone=ZoneInfo("UTC"))))

    async def work() -> int:
        columns = {"number": "number", "at": "at"}
        made = asyncio.ensure_future(csv_file(context, "ledger.csv", columns, rows, ""))
        turns = 0
        while not made.done():
            await asyncio.sleep(0)
            turns += 1
        assert bytes((await made).body).count(b"\r\n") == 1 + CSV_ROWS_MAX
        return turns

    assert asyncio.run(work()) > 100


def test_a_filter_that_nothing_passes_reads_a_part_of_the_log(
    member: Browser, own_store: Store, caller: Caller
) -> None:
    own_store.run(
        "INSERT INTO refused_call (account_id, request_id, at_ms, operation, code, reason, is_test)"
        " WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers "
        f"WHERE i < 50000) SELECT '{caller.account_id}', 'a' || (100000 + i), 1760000000000 + i, "
        "'orders', 202, 'THROTTLED', 0 FROM numbers"
    )
    rows, said = _read(member, "/account/requests.csv?reason=OWNER_UNKNOWN")
    assert not rows and said.startswith("This file ends here, after 0 rows. Older rows: http")
    rest = member.client.get(f"/{said.split('/', 3)[3]}")
    assert "Older rows" not in rest.text
