"""How much work an answer is for the database, as a count that a busy machine does not change.

The embedded engine counts the steps of its virtual machine, the shared one the blocks it read.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import apsw
import pytest

from tollway.store.database import Row
from tollway.store.open import OpenDatabase
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.joint_reads import JointReads


async def work_of(database: OpenDatabase, ask: Callable[[], Awaitable[object]]) -> int:
    """How much work the reads behind an answer were."""
    if isinstance(database, PostgresqlDatabase):
        return await _blocks(database, ask)
    steps: list[int] = []
    assert database._records is not None
    # Otherwise it would be opened with its first read, and that would not be counted.
    database._long_reader = database._long_reader or database._connect()
    connections = database._reader, database._long_reader, database._records.opened()
    readers: list[apsw.Connection] = [each.raw for each in connections]
    for raw in readers:
        raw.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
    await ask()
    for raw in readers:
        raw.trace_v2(0, None)
    return sum(steps)


async def _blocks(database: PostgresqlDatabase, ask: Callable[[], Awaitable[object]]) -> int:
    asked: list[tuple[str, tuple[Any, ...]]] = []
    send = database._send_read

    async def watch(
        text: str, arguments: tuple[Any, ...], within_s: float | None = None
    ) -> Sequence[Row]:
        asked.append((text, arguments))
        return await send(text, arguments, within_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_send_read", watch)
        patch.setattr(database, "_joint_reads", JointReads(watch, None))
        await ask()
    blocks = 0
    async with database._session() as session:
        for text, arguments in asked:
            explained = await session.fetchval(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", *arguments
            )
            plan = json.loads(explained)[0]["Plan"]
            blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return blocks
