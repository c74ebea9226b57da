"""A balance that is low is reported once, however many nodes look."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from sqlalchemy import func, select

from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.store.database import Database, Row
from tollway.store.open import open_sealer
from tollway.store.query import Query
from tollway.store.schema.webhooks import webhook_delivery
from tollway.webhooks.endpoints import add_endpoint
from tollway.webhooks.polled_events import _HIGH_AGAIN, _LOW, set_alert, watch

BODIES = Query(select(webhook_delivery.c.body))
RECORDED = Query(select(func.count()).select_from(webhook_delivery))


class Late:
    """A database as a node sees it that has looked some time ago."""

    def __init__(self, database: Database, seen: dict[Query, list[Row]]) -> None:
        self._database = database
        self._seen = seen

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        found = self._seen.get(query)
        return await self._database.fetch_all(query, **values) if found is None else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def test_a_low_balance_is_reported_once_also_if_a_node_is_late(own_store: Store) -> None:
    sealer = open_sealer(own_store.url, own_store.key_file)

    async def work(database: Database) -> list[int]:
        account = (await open_account(database, RUNTIME, "late")).id
        await top_up(database, RUNTIME, account, "credits", 50)
        await add_endpoint(database, sealer, RUNTIME, account, "https://late.example/", 0)
        await set_alert(database, account, "credits", 100, 0)
        reported = []
        was_high = {_HIGH_AGAIN: [(account, "credits")]}
        was_low = {_LOW: [(account, "credits")]}
        looks: list[tuple[dict[Query, list[Row]], int]]
        looks = [({}, 0), (was_high, 0), ({}, 100), (was_low, 0)]
        for seen, more in looks:
            if more:
                await top_up(database, RUNTIME, account, "credits", more)
            await watch(cast("Database", Late(database, seen)), RUNTIME)
            await watch(database, RUNTIME)
            ((recorded,),) = await database.fetch_all(RECORDED)
            reported.append(int(recorded))
        return reported

    assert own_store.do(work) == [1, 1, 1, 1]


def test_it_is_reported_as_it_is_when_it_is_recorded(own_store: Store) -> None:
    sealer = open_sealer(own_store.url, own_store.key_file)

    async def work(database: Database) -> dict[str, Any]:
        account = (await open_account(database, RUNTIME, "changed")).id
        await top_up(database, RUNTIME, account, "credits", 50)
        await add_endpoint(database, sealer, RUNTIME, account, "https://changed.example/", 0)
        await set_alert(database, account, "credits", 60, 0)
        # Seen before calls were charged, and before the alert was changed.
        seen = {_LOW: [(account, "credits")]}
        await watch(cast("Database", Late(database, seen)), RUNTIME)
        ((body,),) = await database.fetch_all(BODIES)
        return cast("dict[str, Any]", msgspec.json.decode(body)["data"])

    assert own_store.do(work) == {"unit": "credits", "left": 50, "below": 60}
