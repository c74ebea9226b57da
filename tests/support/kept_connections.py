"""Connections to the shared test server that are kept from one use to the next.

To make one takes longer than most of what tests do with it. One is kept for each of the databases
that were used last, by the main thread alone: every other thread makes its own.
"""

import asyncio
import atexit
import contextvars
import os
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

import asyncpg

from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.pool import _Member

T = TypeVar("T")
Connection = asyncpg.Connection
_KEPT_MAX = 6
_PLAIN = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_OF_CONNECTIONS = re.compile(r"pg_stat_activity|pg_terminate_backend|pg_advisory|set_config")
_PID = os.getpid()
# A server of a test's own may go away; this one does not.
_of_shared_server: set[str] = set()
_kept: OrderedDict[tuple[str, str], Connection] = OrderedDict()
_is_over = threading.Event()
_runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)


def keep_connections_to(url: str) -> None:
    """From now on; the server must stay until the end."""
    _of_shared_server.add(url)


def forget(*urls: str) -> None:
    """Closes what is kept for these databases: to copy one, or to drop it, it must be unused."""
    if _is_kept_here() and any(url in urls for _, url in _kept):
        run_kept(_close(lambda url: url in urls))


def is_plain(statements: tuple[str, ...]) -> bool:
    """Whether they only read or write rows. After others a new connection may be different, and
    those that look at connections must see none of ours."""
    return all(_PLAIN.match(each) and not _OF_CONNECTIONS.search(each) for each in statements)


def forget_all() -> None:
    """Has none used again; any thread may say so."""
    _is_over.set()


def run_kept(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, in a loop that stays."""
    if not _is_kept_here():
        return asyncio.run(work)
    return _runner.run(_and_end_others(work), context=contextvars.copy_context())


@asynccontextmanager
async def raw_connection(url: str) -> AsyncIterator[Connection]:
    """A connection with no settings."""
    connection = await _take("raw", url) or await asyncpg.connect(url, statement_cache_size=0)
    is_done = False
    try:
        yield connection
        is_done = True
    finally:
        # After an error nothing is known of it.
        await _give("raw", url, connection, is_good=is_done)


async def with_kept(
    url: str, database: PostgresqlDatabase, work: Callable[[Any], Awaitable[T]]
) -> T:
    """Does something with a database that was just opened, as if it had done something before."""
    pool = database._pool
    if (connection := await _take("settings", url)) is not None:
        member = _Member(connection, pool._generation, monotonic(), monotonic())
        pool._members.add(member)
        pool._free.append(member)
    try:
        result = await work(database)
        if not pool._is_closed and (free := pool._free_member()) is not None:
            pool._members.discard(free)
            await _give("settings", url, free.connection, is_good=True)
        return result
    finally:
        await database.close()


def lend(url: str, database: PostgresqlDatabase) -> None:
    """Has a database that was just opened use what is kept, and keep it when it is closed, where
    all of it is in `run_kept`."""
    pool: Any = database._pool
    connect, close = pool._connect, pool.close

    def is_in_loop() -> bool:
        return asyncio.get_running_loop() is _runner.get_loop()

    async def connect_or_take() -> Connection:
        return (is_in_loop() and await _take("settings", url)) or await connect()

    async def give_and_close() -> None:
        if is_in_loop() and not pool._is_closed and (free := pool._free_member()) is not None:
            pool._members.discard(free)
            await _give("settings", url, free.connection, is_good=True)
        await close()

    pool._connect, pool.close = connect_or_take, give_and_close


def _is_kept_here() -> bool:
    return threading.current_thread() is threading.main_thread() and os.getpid() == _PID


async def _and_end_others(work: Coroutine[Any, Any, T]) -> T:
    """Ends what it has left running, as `asyncio.run` does."""
    try:
        return await work
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.gather(*others, return_exceptions=True)
        await _end_threads()


async def _end_threads() -> None:
    """Those of `asyncio.to_thread`: a process that a test forks has better none."""
    loop: Any = asyncio.get_running_loop()
    executor, loop._default_executor = loop._default_executor, None
    if executor is not None:
        with ThreadPoolExecutor(1) as aside:
            await loop.run_in_executor(aside, executor.shutdown)


async def _take(kind: str, url: str) -> Connection | None:
    if not _is_kept_here():
        return None
    if _is_over.is_set():
        _is_over.clear()
        await _close(lambda _: True)
    connection = _kept.pop((kind, url), None)
    if connection is None:
        return None
    # What has come meanwhile is seen now, such as that the server has ended it.
    for _ in range(3):
        await asyncio.sleep(0)
    return None if connection.is_closed() else connection


async def _give(kind: str, url: str, connection: Connection, *, is_good: bool) -> None:
    if is_good and url in _of_shared_server and _is_kept_here() and not _is_over.is_set():
        _kept[kind, url] = connection
        if len(_kept) > _KEPT_MAX:
            _, oldest = _kept.popitem(last=False)
            await oldest.close()
    else:
        await connection.close()


async def _close(is_meant: Callable[[str], bool]) -> None:
    for kind, url in list(_kept):
        if is_meant(url):
            # The server may have ended it.
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await _kept.pop((kind, url)).close(timeout=1)


@atexit.register
def _end() -> None:
    if os.getpid() == _PID:
        if _kept:
            _runner.run(_close(lambda _: True))
        _runner.close()
