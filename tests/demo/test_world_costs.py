"""What the demo world costs to make, in calls of functions and in statements.

Neither depends on how busy the machine is; `python -m bench.demo_world` has the seconds. A change
that needs more turns this red: then make it cheaper, or raise the limit and say why.
"""

import re
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import apsw
import pytest

from tests.support.statements import TellingServer
from tests.support.stores import Store
from tollway.demo.world import fill_all
from tollway.operations.coupon_claims import demo as claims
from tollway.operations.demo_data import DemoTarget, Progress, no_progress
from tollway.operations.orders import demo as orders
from tollway.operations.product_analysis import demo as figures
from tollway.operations.waybills import demo as waybills
from tollway.store.database import Database
from tollway.store.sealing import Sealer

ZONE = ZoneInfo("Asia/Shanghai")
NOON_S = datetime(2026, 3, 10, 12, tzinfo=ZONE).timestamp()


async def fill(database: Database, progress: Progress = no_progress) -> None:
    sealer = Sealer({1: bytes(32)}, 1)
    await fill_all(DemoTarget(database, sealer, NOON_S, ZONE, "http://demo", progress=progress))


class Made:
    """How many records were made, and what it took."""

    def __init__(self) -> None:
        self.records = self.calls = 0

    def fill(self, store: Store) -> None:
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            store.do(lambda database: fill(database, self._progress))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _progress(self, more: int) -> None:
        self.records += more

    def _called(self, _: FrameType, event: str, __: object) -> None:
        # Built-in functions too: what is done for each record is often a call of these alone.
        self.calls += event in {"call", "c_call"}


@pytest.fixture(autouse=True)
def part_of_the_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As dense as the whole, over fewer days."""
    # What a second process would make, here: its calls count too.
    monkeypatch.setattr(orders, "made_in_second_process", lambda _, make: make())
    # What a process makes once, such as the list of places, is no cost of a record. The draws of
    # orders are of four weeks; of all else a day has it.
    make_size(monkeypatch, days=1, order_days=28, numbers=20)
    Store(tmp_path / "before.db").do(fill)
    make_size(monkeypatch, days=10, order_days=60, numbers=2000)


def make_size(monkeypatch: pytest.MonkeyPatch, *, days: int, order_days: int, numbers: int) -> None:
    monkeypatch.setattr(figures, "WORLD", figures.Size(24, 2 * days))
    monkeypatch.setattr(claims, "WORLD", claims.Size(1000, days))
    monkeypatch.setattr(orders, "WORLD", orders.Size(200_000, order_days))
    monkeypatch.setattr(waybills, "WORLD", numbers)


@pytest.mark.sqlite
def test_a_record_takes_few_function_calls_and_few_steps(tmp_path: Path) -> None:
    # A new one, as for a newcomer: where there are records already, all take another way.
    store = Store(tmp_path / "tollway.db")
    steps = statements = 0

    def ran(event: dict[str, Any]) -> None:
        nonlocal steps, statements
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        statements += 1

    def traced(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ran)

    made = Made()
    apsw.connection_hooks.append(traced)
    try:
        made.fill(store)
    finally:
        apsw.connection_hooks.remove(traced)
    # As counted, which is the same every time: 18.71 calls, 124 steps, a statement for 7.56
    # records. One call more for each claim, the fewest of the records, would be 18.89.
    assert made.calls < 18.83 * made.records
    assert steps < 125 * made.records
    assert statements < made.records / 7.4


@pytest.fixture
def server() -> Iterator[TellingServer]:
    made = TellingServer()
    yield made
    made.remove()


@pytest.mark.postgresql
def test_a_server_gets_many_new_rows_in_few_statements(
    server: TellingServer, tmp_path: Path
) -> None:
    store = Store(tmp_path / "tollway.db", server.url)
    server.asked()
    made = Made()
    made.fill(store)
    asked = server.asked()
    # As counted: 46.75 calls for a record, give or take a hundred in all, and 402 statements.
    assert made.calls < 46.9 * made.records
    assert len(asked.reads) + len(asked.others) < 412
    stored = [each for each in asked.others if re.match(r'(INSERT INTO|COPY) "?shop_order"?', each)]
    assert stored and all(each.startswith("COPY") for each in stored)
