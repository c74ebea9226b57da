"""Outages of the database under load: what happens, how often, and what must hold after it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.load import assert_a_lost_entry_is_noticed
from tests.support.outage import Experience, assert_nothing_was_lost, call_through
from tests.support.pair import Pair
from tests.support.postgresql import Server

CALLS = 1_000_000
CLIENTS = 16
# Calls that find no database are answered within this time, all but one in a hundred: at the worst
# the hosts take most of it, and a busy machine the rest. Without the limits of the hosts, a call
# would wait for its own, 10 s.
REFUSED_WITHIN_S = 9.0
# How many calls are acknowledged before an outage, and how many after it.
_AROUND = 200


def through_restarts(
    folder: Path, today: date, question: dict[str, str], *, times: int
) -> list[float]:
    """PostgreSQL is restarted; gives how long each outage was."""
    server = Server(fsync="on", full_page_writes="on")

    async def restart() -> None:
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)

    try:
        with _served(folder, server.url, today) as world:
            return [world.goes_through(restart, question) for _ in range(times)]
    finally:
        server.remove()


def through_a_failover(folder: Path, today: date, question: dict[str, str]) -> float:
    """The primary is killed and its synchronous standby promoted; gives how long the outage was."""
    pair = Pair(is_synchronous=True)

    async def fail_over() -> None:
        await asyncio.to_thread(pair.fail_over)

    try:
        with _served(folder, pair.url, today) as world:
            return world.goes_through(fail_over, question)
    finally:
        pair.remove()


@contextmanager
def _served(folder: Path, url: str, today: date) -> Iterator["_World"]:
    """At the end of it, the gateway stops as it should, and a lost entry would have been seen."""
    world = _World(folder, url, today)
    try:
        yield world
    finally:
        status = world.gateway.stop()
    assert status == 0
    assert_a_lost_entry_is_noticed(world.store, world.acknowledged)


class _World:
    """A gateway of two workers on a database, and an account that calls it."""

    def __init__(self, folder: Path, url: str, today: date) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store = store_with_figures(folder / "tollway.db", today, url)
        self.caller: Caller = new_caller(self.store, calls=CALLS, rate_limit=1_000_000)
        self.gateway = Gateway(self.store, workers=2)
        self.processes = self.gateway.workers()
        self.acknowledged: list[str] = []

    def goes_through(
        self, outage: Callable[[], Awaitable[None]], question: dict[str, str]
    ) -> float:
        async def happening(experience: Experience) -> None:
            await experience.grows_by(_AROUND)
            await outage()
            await experience.grows_by(_AROUND)

        experience = asyncio.run(
            call_through(self.gateway, self.caller, question, clients=CLIENTS, happening=happening)
        )
        self._assert_service_held(experience)
        self.acknowledged += experience.acknowledged
        everything = Experience(acknowledged=self.acknowledged)
        assert_nothing_was_lost(self.store, self.caller, everything, calls=CALLS)
        return experience.outage_s()

    def _assert_service_held(self, experience: Experience) -> None:
        # A short outage may be waited for by all. A process that is held up long enough finds no
        # connection in time, and says 101: at most for the calls of one moment.
        assert {0} <= set(experience.codes) <= {0, 101, 202}, experience.codes
        assert experience.codes[101] <= CLIENTS, experience.codes
        assert experience.broken == 0, "and every one of them is answered"
        assert experience.slowest_refusal_s() < REFUSED_WITHIN_S
        assert self.gateway.workers() == self.processes, "by the very same processes"
