"""What tests start is loaded and compiled before: otherwise each fork would do it again."""

import asyncio

import asyncpg
import pytest

from tests.support import forks
from tests.support.known_types import ARRAYS, ask, row_of
from tests.support.postgresql import server_url


@pytest.mark.sqlite
def test_a_fork_finds_every_query_compiled() -> None:
    done = forks.run("tests.support.uncompiled")
    assert not done.stderr
    not_compiled, queries = map(int, done.stdout.split())
    assert not_compiled == 0
    assert queries > 300


@pytest.mark.postgresql
def test_the_server_says_the_same_of_types_that_are_known() -> None:
    async def answer() -> list[dict[str, object]]:
        connection = await asyncpg.connect(server_url())
        try:
            types, _ = await ask(connection, list(ARRAYS), 10)
        finally:
            await connection.close()
        return [dict(row) for row in types if row["oid"] in ARRAYS]

    by_number = {row["oid"]: row for row in asyncio.run(answer())}
    assert by_number == {array: row_of(array) for array in ARRAYS}
