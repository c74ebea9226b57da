"""Which host is used, and what those who look for one at the same time make of it."""

import asyncio
from typing import Any, cast

import pytest

from tollway.store.database import StoreUnavailableError
from tollway.store.postgresql.hosts import Connection, Hosts

pytestmark = pytest.mark.postgresql

AT_ONCE = 5


class TwoHosts(Hosts):
    """The first gives no answer, as soon as it is let go; the second will do, while it is there."""

    def __init__(self) -> None:
        super().__init__("postgresql://me@one,two/ledger", 5, "read-write")
        self.let_go = asyncio.Event()
        self.is_second_there = True
        self.moves: list[bool] = []
        self.on_move = self.moves.append

    async def _try(self, index: int) -> Connection:
        if index == 0:
            await self.let_go.wait()
            raise StoreUnavailableError("no answer") from TimeoutError()
        if not self.is_second_there:
            raise StoreUnavailableError("away") from ConnectionRefusedError()
        return cast(Any, object())


async def test_of_all_who_find_another_host_only_the_first_says_so() -> None:
    """Those that come later would end what the others do there already."""
    hosts = TwoHosts()
    trying = [asyncio.ensure_future(hosts.connect()) for _ in range(AT_ONCE)]
    await asyncio.sleep(0)
    hosts.let_go.set()
    await asyncio.gather(*trying)
    assert hosts.moves == [True]
    await hosts.connect()
    assert hosts.moves == [True]


async def test_a_host_counts_as_silent_only_until_one_answers() -> None:
    hosts = TwoHosts()
    hosts.let_go.set()
    hosts.is_second_there = False
    with pytest.raises(StoreUnavailableError, match="one: no answer within 2 s; two: conn"):
        await hosts.connect()
    assert hosts.is_silent
    hosts.is_second_there = True
    hosts._again_at_s = 0
    await hosts.connect()
    assert not hosts.is_silent


async def test_a_failure_that_comes_late_says_nothing_about_a_success_since() -> None:
    hosts = TwoHosts()
    hosts.is_second_there = False
    late = asyncio.ensure_future(hosts.connect())
    await asyncio.sleep(0)
    # Found by another task meanwhile.
    hosts._found(1, is_first=True, is_silent=False)
    hosts.let_go.set()
    with pytest.raises(StoreUnavailableError):
        await late
    assert not hosts.is_silent
    hosts.is_second_there = True
    await hosts.connect()
