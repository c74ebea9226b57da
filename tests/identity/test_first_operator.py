"""The first operator of a gateway: made once, however many nodes start at once."""

import asyncio

from tests.support.stores import Store
from tollway.identity.people import Person, list_operators
from tollway.identity.sign_in_links import ensure_operator
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database


def test_nodes_that_start_at_once_make_one_operator(own_store: Store) -> None:
    async def work(database: Database) -> tuple[list[Person], list[Person]]:
        asked = (ensure_operator(database, Runtime()) for _ in range(8))
        return list(await asyncio.gather(*asked)), await list_operators(database)

    found, operators = own_store.do(work)
    assert len(operators) == 1
    assert {each.id for each in found} == {operators[0].id}
