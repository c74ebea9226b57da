"""Refuses a connection pooler that gives each transaction another connection to the server.

Behind such a pooler, notifications of changes never arrive, and prepared statements and settings
are lost between two transactions: revoked tokens would go on working. A pooler that gives each
client its own connection works, if it applies the settings that the gateway sends.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import asyncpg

from tollway.store.database import StoreUnavailableError

_Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
_CHANNEL = "tollway_pooler"
_ADVICE = "let the URL name PostgreSQL itself"
BY_TRANSACTION = (
    "it is a connection pooler that gives each transaction another connection (PgBouncer in "
    f"transaction mode), but a gateway needs fixed ones: {_ADVICE}"
)
DROPS_SETTINGS = (
    "it is a connection pooler that drops the settings of a connection ({names}), but charges rely "
    f"on them: {_ADVICE}"
)
REFUSES_SETTINGS = (
    "it is a connection pooler that refuses the settings of a connection ({problem}), but charges "
    f"rely on them: {_ADVICE}"
)


async def refuse_pooler(
    connection: _Connection,
    connect_again: Callable[[], Awaitable[_Connection]],
    settings: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Raises if the connection leads to a pooler that cannot be used."""
    # A pooler gives out its own process ids, by which clients cancel queries through it.
    if await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid():
        return
    other = await connect_again()
    try:
        if not await _is_notified(connection, other, timeout_s):
            raise StoreUnavailableError(BY_TRANSACTION)
    finally:
        other.terminate()
    rows = await connection.fetch(
        "SELECT name, setting FROM pg_settings WHERE name = ANY($1)", list(settings)
    )
    lost = [row["name"] for row in rows if row["setting"] != settings[row["name"]]]
    if lost:
        raise StoreUnavailableError(DROPS_SETTINGS.format(names=", ".join(sorted(lost))))


async def _is_notified(connection: _Connection, other: _Connection, timeout_s: float) -> bool:
    """Whether one connection receives a notification that the other sends."""
    word, received = secrets.token_hex(8), asyncio.Event()

    def on_notification(_: object, __: int, ___: str, payload: object) -> None:
        if payload == word:
            received.set()

    await connection.add_listener(_CHANNEL, on_notification)
    try:
        await other.execute(f"SELECT pg_notify('{_CHANNEL}', '{word}')")
        async with asyncio.timeout(timeout_s):
            await received.wait()
    except TimeoutError:
        return False
    finally:
        await connection.remove_listener(_CHANNEL, on_notification)
    return True
