"""Promotion material is kept in memory where the database is embedded: each page is the one that
would be read, after every change and at every moment."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from tests.support.orders import sealer_of
from tests.support.stores import Store
from tollway.contract.operation import CallInfo
from tollway.intake.loading import store_records
from tollway.operations.promotion_material import SUBJECT, handler, queries
from tollway.operations.promotion_material.demo import make_materials
from tollway.operations.promotion_material.handler import MaterialCache, PromotionMaterialHandler
from tollway.operations.promotion_material.operation import PromotionMaterialRequest
from tollway.operations.promotion_material.queries import read_page
from tollway.operations.promotion_material.records import MaterialRecord
from tollway.operations.promotion_material.storage import MaterialLoader
from tollway.operations.remaking import remake
from tollway.store.cache_versions import Versions
from tollway.store.database import Database

pytestmark = pytest.mark.sqlite

NOW_MS = 1_750_000_000_000
PROMOTION_ID, UNKNOWN_ID = 37104, 99_999


def materials(count: int) -> list[MaterialRecord]:
    """Each begins and ends at moments of its own, around the present."""
    chance = Random(count)
    made = make_materials(7, count, NOW_MS / 1000, 5, "http://a.example")
    return [
        msgspec.structs.replace(
            each,
            display_start_ms=NOW_MS + chance.randrange(-50, 50),
            display_end_ms=NOW_MS + chance.randrange(50, 150),
        )
        for each in made
        if each.promotion_id == PROMOTION_ID
    ]


async def load(database: Database, records: Sequence[MaterialRecord]) -> None:
    await store_records(database, MaterialLoader(), list(records))


class Reads:
    """A database that counts what is read of it."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        self.count += name.startswith("fetch_")
        return getattr(self._inner, name)


async def same_page(kept: MaterialCache, database: Any, now_ms: int, page: int, size: int) -> bytes:
    found = await kept.page(database, PROMOTION_ID, now_ms, page=page, size=size)
    asked = await read_page(database, PROMOTION_ID, now_ms, page=page, size=size)
    assert found == asked, (now_ms - NOW_MS, page, size)
    return found


async def test_each_page_is_the_one_that_would_be_read_whatever_the_moment(
    own_database: Database,
) -> None:
    await load(own_database, materials(40))
    kept, chance = MaterialCache(0), Random(1)
    # Back, forwards, then any moment: a clock may be set.
    moments = [120, *range(-60, 160), *(chance.randrange(-60, 160) for _ in range(100))]
    seen = set()
    for moment in moments:
        page, size = chance.randrange(1, 6), chance.randrange(1, 11)
        seen.add(await same_page(kept, own_database, NOW_MS + moment, page, size))
    assert len(seen) > 100
    assert await kept.page(own_database, UNKNOWN_ID, NOW_MS, page=1, size=10) == b""


async def test_a_page_of_what_is_kept_reads_nothing(own_database: Database) -> None:
    await load(own_database, materials(40))
    kept, counted = MaterialCache(0), Reads(own_database)
    for moment in range(100):
        for promotion_id in (PROMOTION_ID, UNKNOWN_ID):
            await kept.page(counted, promotion_id, NOW_MS + moment, page=1, size=10)
    assert counted.count <= 4


@pytest.mark.parametrize("most", ["_MATERIALS_MAX", "_BYTES_MAX"])
def test_of_too_many_materials_each_page_is_read(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    monkeypatch.setattr(queries, most, 30)

    async def work(database: Database) -> None:
        await load(database, materials(40))
        kept, counted = MaterialCache(0), Reads(database)
        assert await same_page(kept, counted, NOW_MS, 1, 10)
        before = counted.count
        await same_page(kept, counted, NOW_MS + 1, 2, 10)
        # A page for each of both, and its size is not asked for again.
        assert counted.count == before + 2

    own_store.do(work)


async def test_what_is_kept_has_a_bound(
    own_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "_KEPT_BYTES_MAX", 100_000)
    await load(own_database, materials(40))
    kept = MaterialCache(0)
    for number in range(2000):
        await same_page(kept, own_database, NOW_MS, 1, 10)
        await kept.page(own_database, number, NOW_MS, page=1, size=10)
        assert kept._bytes <= 100_000
        assert len(kept._promotions) <= 500


async def test_the_next_call_sees_every_change(own_database: Database, own_store: Store) -> None:
    """One by a loader, one by another process, and one that makes ready records again; also if it
    came after the versions were read for that call, whose body was late."""
    records = materials(12)
    needed = {"adzone_id": 3, "promotion_id": PROMOTION_ID, "site_id": 2, "platform_user_id": 1}
    request = PromotionMaterialRequest(**needed)
    mistake = "CAST(replace(CAST(ready AS TEXT), 'total_count', 'total_cuont') AS BLOB)"
    versions = Versions(own_database)
    handler = PromotionMaterialHandler(own_database, versions, lambda: NOW_MS / 1000)

    async def answer() -> bytes:
        found = handler(request, CallInfo("account", 1))
        # Nothing is waited for.
        assert isinstance(found, bytes)
        return found

    await load(own_database, records)
    before = await answer()
    renamed = [msgspec.structs.replace(each, nick=f"{each.nick}, new") for each in records]
    await load(own_database, renamed)
    after = await answer()
    assert b", new" in after and b", new" not in before
    await asyncio.to_thread(own_store.do, lambda other: load(other, records))
    assert await answer() == before
    # Not as a gateway would: no version is raised. A new process reads it so.
    own_store.run(f"UPDATE promotion_material SET ready = {mistake}")
    assert await answer() == before
    handler = PromotionMaterialHandler(own_database, versions, lambda: NOW_MS / 1000)
    assert b"total_cuont" in await answer()
    assert SUBJECT.ready is not None
    remade = await remake(own_database, sealer_of(own_store), SUBJECT.ready)
    assert remade.changed == len(records)
    assert await answer() == before
