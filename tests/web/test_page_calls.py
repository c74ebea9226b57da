"""Calls that pages make: how many tokens they need."""

import asyncio
from typing import Any

from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tollway.ledger.tokens import list_tokens
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import Database
from tollway.web.page_calls import PageCalls


async def _succeed(*_: Any) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    return {"code": 0, "msg": "success", "data": None}, {}


def test_calls_at_once_share_the_token_that_the_first_of_them_makes(store: Store) -> None:
    account_id = new_caller(store).account_id

    async def work(database: Database) -> int:
        calls = PageCalls(database, _succeed)
        before = len(await list_tokens(database, account_id))
        await asyncio.gather(
            *(
                calls(RUNTIME, account_id, each, {}, kind="test", language="en")
                for each in OPERATIONS[:2] * 5
            )
        )
        return len(await list_tokens(database, account_id)) - before

    assert store.do(work) == 2
