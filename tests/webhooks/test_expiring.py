"""What expires soon is reported once, and costs little from then on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from sqlalchemy import select

from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.tokens import issue_token
from tollway.store.database import Database, Row
from tollway.store.open import open_sealer
from tollway.store.query import Query
from tollway.store.schema.webhooks import webhook_delivery
from tollway.webhooks.endpoints import add_endpoint, end_endpoint
from tollway.webhooks.polled_events import watch

DAY_S = 86_400
RECORDED = Query(select(webhook_delivery.c.endpoint_id, webhook_delivery.c.event_id))


class Counting:
    """A database that counts what is read from it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("fetch"):
            self.reads += 1
        return getattr(self._database, name)


async def _reads(database: Database) -> int:
    counting = Counting(database)
    await watch(cast("Database", counting), RUNTIME)
    return counting.reads


Add = Callable[[], Awaitable[str]]


async def _account(database: Database, store: Store, name: str) -> tuple[str, Add]:
    """An account, and what adds a webhook to it and says its id."""
    sealer = open_sealer(store.url, store.key_file)
    account = (await open_account(database, RUNTIME, name)).id

    async def add() -> str:
        url = "https://hooks.example/"
        return (await add_endpoint(database, sealer, RUNTIME, account, url, 0)).endpoint.id

    return account, add


async def _recorded(database: Database) -> Sequence[Row]:
    return sorted(await database.fetch_all(RECORDED))


async def test_what_was_reported_is_not_looked_up_one_by_one(
    own_database: Database, own_store: Store
) -> None:
    """An account can have a thousand tokens and more that expire within a week, and every worker
    looks every ten seconds, between calls."""
    account, add = await _account(own_database, own_store, "many")
    await add()
    none = await _reads(own_database)
    for _ in range(20):
        await issue_token(own_database, RUNTIME, account, lifetime_s=DAY_S)
    await watch(own_database, RUNTIME)
    assert len(await _recorded(own_database)) == 20
    assert await _reads(own_database) == none


async def test_a_webhook_that_comes_later_is_not_notified_again(
    own_database: Database, own_store: Store
) -> None:
    account, add = await _account(own_database, own_store, "later")
    first = await add()
    await issue_token(own_database, RUNTIME, account, lifetime_s=DAY_S)
    await watch(own_database, RUNTIME)
    recorded = await _recorded(own_database)
    assert [endpoint_id for endpoint_id, _ in recorded] == [first]
    for _ in range(2):
        await add()
        await watch(own_database, RUNTIME)
        await end_endpoint(own_database, RUNTIME, account, first)
        assert await _recorded(own_database) == recorded
