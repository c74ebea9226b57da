"""Plans are made once per connection: also those that were made for empty tables must serve."""

import asyncio
import re
from collections.abc import Iterator

import pytest

from tests.store.on_postgresql import opened
from tests.support.postgresql import run_on
from tests.support.stores import Store
from tollway.operations.coupon_claims.queries import _JOINED, _JOINED_AND_COUNTED
from tollway.operations.orders.queries import _GUESSED
from tollway.operations.product_analysis.queries import _FIGURES, _PARTS_ALONE
from tollway.operations.promotion_material.queries import _PAGE
from tollway.store.query import JointQuery

pytestmark = pytest.mark.postgresql

CALL_TIMEOUT_S = 30
# The table of versions has one row, and no index is asked for it.
SCAN = re.compile(r"Seq Scan on (?!version\b)")


@pytest.fixture
def vacuumed(store: Store) -> Store:
    run_on(store.url, "VACUUM")
    return store


def queries() -> Iterator[JointQuery]:
    yield from _GUESSED.values()
    yield from (_JOINED, _JOINED_AND_COUNTED)
    yield _PAGE
    yield _FIGURES
    yield _PARTS_ALONE


def texts() -> Iterator[str]:
    """Of one read and of several."""
    for query in queries():
        yield query.postgresql.text
        yield query.together_postgresql


def plans(store: Store, call_timeout_s: float | None) -> list[str]:
    """As they are kept: without any value."""

    async def work() -> list[str]:
        database = opened(store.url, call_timeout_s)
        found = []
        async with database._session() as session:
            for number, text in enumerate(texts()):
                await session.execute(f"PREPARE its_{number} AS {text}")
                nothing = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", text))))
                rows = await session.fetch(f"EXPLAIN EXECUTE its_{number}({nothing})")
                found.append("\n".join(row[0] for row in rows))
        await database.close()
        return found

    return asyncio.run(work())


def test_a_gateway_reads_by_index_also_with_plans_of_empty_tables(vacuumed: Store) -> None:
    assert [plan for plan in plans(vacuumed, CALL_TIMEOUT_S) if SCAN.search(plan)] == []


def test_a_command_chooses_by_size(vacuumed: Store) -> None:
    assert any(SCAN.search(plan) for plan in plans(vacuumed, None))
