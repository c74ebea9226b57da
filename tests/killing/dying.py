"""Makes this process's gateway die at a boundary, or commit falsely. Nothing of this is in `src`.

What a transaction does is told from the queries that run in it.
"""

import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn

import httpx

from tests.killing.boundaries import (
    CAPTURE,
    HOLD,
    ISSUE,
    KEPT,
    LATE_CAPTURE,
    LATE_RELEASE,
    LOOK_UP,
    PLAIN,
    POOL,
    RELEASE,
    Boundary,
)
from tollway.carriers import pools
from tollway.carriers.connectors import cainiao, cainiao_wire
from tollway.ledger import entries, holds, keeping
from tollway.store.query import Query
from tollway.store.sqlite import writer
from tollway.store.sqlite.connection import Connection

_WORKS = {
    holds._INSERT: HOLD,
    holds._CAPTURE: CAPTURE,
    holds._RELEASE: RELEASE,
    keeping._KEEP: KEPT,
    pools._TAKE: POOL,
}
_LATE = {CAPTURE: LATE_CAPTURE, RELEASE: LATE_RELEASE}
_MESSAGES = {cainiao_wire.ISSUE: ISSUE, cainiao_wire.LOOK_UP: LOOK_UP}
# Every so many transactions with such work are rolled back, and answered as if they were not.
FALSE_COMMITS = {
    "charges are lost": ({PLAIN, KEPT, POOL}, 3),
    "holds are lost": ({HOLD}, 1),
}


class Fate:
    """Counts what is done, and ends all processes of the gateway when it is time."""

    def __init__(self, boundary: Boundary | None, told_in: str) -> None:
        self._boundary = boundary
        self._told_in = told_in
        self._done: Counter[tuple[str, str]] = Counter()

    def passes(self, side: str, works: Iterable[str]) -> None:
        for work in works:
            self._done[side, work] += 1
            if self._boundary == (side, work, self._done[side, work]):
                self._die()

    def _die(self) -> NoReturn:
        told = os.open(self._told_in, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(told, f"{self._boundary}\n".encode())
        os.killpg(os.getpgrp(), signal.SIGKILL)
        raise AssertionError("still alive")


class MarkedConnection(Connection):
    """Knows what the open transaction has done, and what its commit means."""

    fate: Fate
    falsely: tuple[set[str], int] | None = None

    def __init__(self, path: str, busy_timeout_ms: int) -> None:
        super().__init__(path, busy_timeout_ms)
        self._works: set[str] = set()
        self._in_part = False
        self._false = 0
        self.is_late = False

    def fetch_all(self, query: Query, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        rows = super().fetch_all(query, values)
        work = _WORKS.get(query)
        if query is entries.TAKE and not self._in_part:
            work = PLAIN
        if work is not None:
            self._works.add(_LATE.get(work, work) if self.is_late else work)
        return rows

    def run(self, script: str) -> None:
        self._in_part = script.startswith("SAVEPOINT")
        if script != "COMMIT":
            super().run(script)
            return
        works, self._works = self._works, set()
        self.fate.passes("before", works)
        super().run("ROLLBACK" if self._is_false(works) else "COMMIT")
        self.fate.passes("after", works)

    def _is_false(self, works: set[str]) -> bool:
        if self.falsely is None or not works & self.falsely[0]:
            return False
        self._false += 1
        return self._false % self.falsely[1] == 0


def doom(boundary: Boundary | None, sabotage: str | None, told_in: str) -> None:
    """Makes what is opened from now on die at the boundary."""
    fate = Fate(boundary, told_in)
    MarkedConnection.fate = fate
    MarkedConnection.falsely = None if sabotage is None else FALSE_COMMITS[sabotage]
    writer.Connection = MarkedConnection  # type: ignore[misc]
    commit, exchange = writer.Writer._commit, cainiao.exchange

    def marked_commit(self: writer.Writer, work: Callable[..., Awaitable[Any]]) -> Any:
        connection = self._connection
        assert isinstance(connection, MarkedConnection)
        connection.is_late = work.__qualname__.startswith("Reconciler.")
        return commit(self, work)

    async def marked_exchange(
        client: httpx.AsyncClient, url: str, form: Mapping[str, str], deadline_s: float
    ) -> bytes:
        works = [_MESSAGES[form["msg_type"]]]
        fate.passes("before", works)
        body = await exchange(client, url, form, deadline_s)
        fate.passes("after", works)
        return body

    writer.Writer._commit = marked_commit  # type: ignore[method-assign]
    cainiao.exchange = marked_exchange
