"""Makes this process's gateway die at a boundary, or commit falsely. Nothing of this is in `src`.

The queries of a transaction show what it does. Just before its commit is where its
work ends; just after is where the engine gives back its result, which no other code has seen yet.
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import parse_qs

import httpx2

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
from tollway.carriers.connectors import signed_form as cainiao
from tollway.carriers.connectors import signed_form as cainiao_wire
from tollway.ledger import entries, holds
from tollway.ledger import idempotency as idempotency_key
from tollway.store.database import Row, Transaction
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.query import CompiledQuery, Query
from tollway.store.sqlite.writer import Writer

Work = Callable[[Transaction], Awaitable[Any]]
_WORKS = {
    holds._INSERT: HOLD,
    holds._CAPTURE: CAPTURE,
    holds._RELEASE: RELEASE,
    idempotency_key._KEEP: KEPT,
    pools._TAKE_EMBEDDED: POOL,
    pools._TAKE_SHARED: POOL,
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

    def __init__(self, boundary: Boundary | None, sabotage: str | None, report_file: str) -> None:
        self._boundary = boundary
        self._falsely, self._every = FALSE_COMMITS[sabotage] if sabotage else (set(), 1)
        self._report_file = report_file
        self._done: Counter[tuple[str, str]] = Counter()

    def passes(self, side: str, works: Iterable[str]) -> None:
        for work in works:
            self._done[side, work] += 1
            if self._boundary == (side, work, self._done[side, work]):
                self._die()

    def is_false(self, works: set[str]) -> bool:
        if not works & self._falsely:
            return False
        self._done["false", ""] += 1
        return self._done["false", ""] % self._every == 0

    def _die(self) -> NoReturn:
        report = os.open(self._report_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(report, f"{self._boundary}\n".encode())
        os.killpg(os.getpgrp(), signal.SIGKILL)
        raise AssertionError("still alive")


class MarkedTransaction:
    """Records what is done in a transaction."""

    def __init__(self, inner: Transaction, *, is_late: bool) -> None:
        self.is_shared = inner.is_shared
        self._inner = inner
        self._is_late = is_late
        self._in_part = False
        self.works: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        row = await self._inner.fetch_one(query, **values)
        if row is not None:
            self._note(query)
        return row

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        rows = await self._inner.fetch_all(query, **values)
        if rows:
            self._note(query)
        return rows

    async def execute(self, query: Query, **values: object) -> int:
        changed = await self._inner.execute(query, **values)
        if changed:
            self._note(query)
        return changed

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        before, self._in_part = set(self.works), True
        try:
            async with self._inner.savepoint():
                yield
        except BaseException:
            self.works = before
            raise
        finally:
            self._in_part = False

    def _note(self, query: Query) -> None:
        # A charge outside of any part is one of a whole group.
        is_plain = query is entries.TAKE and not self._in_part
        work = PLAIN if is_plain else _WORKS.get(query)
        if work is not None:
            self.works.add(_LATE.get(work, work) if self._is_late else work)


class _FalseCommit(Exception):  # noqa: N818 - no error, but what was asked for
    """Raised at the end of work so that it is rolled back."""


class _MarkedWork:
    """A piece of work, up to where its commit begins."""

    def __init__(self, work: Work, fate: Fate) -> None:
        self._work = work
        self._fate = fate
        self._is_late = getattr(work, "__qualname__", "").startswith("Reconciler.")
        self._works: set[str] = set()
        self.result: Any = None

    async def __call__(self, transaction: Transaction) -> Any:
        marked = MarkedTransaction(transaction, is_late=self._is_late)
        self.result = await self._work(marked)
        self._works = marked.works
        self._fate.passes("before", self._works)
        if self._fate.is_false(self._works):
            raise _FalseCommit
        return self.result

    def is_committed(self) -> Any:
        self._fate.passes("after", self._works)
        return self.result


def doom(boundary: Boundary | None, sabotage: str | None, report_file: str) -> None:
    """Makes what is committed and sent from now on pass its fate."""
    fate = Fate(boundary, sabotage, report_file)
    embedded, shared, exchange = Writer._commit, PostgresqlDatabase._commit, cainiao.exchange
    at_once = PostgresqlDatabase._run

    def commit_embedded(self: Writer, work: Work) -> Any:
        marked = _MarkedWork(work, fate)
        try:
            embedded(self, marked)
        except _FalseCommit:
            return marked.result
        return marked.is_committed()

    async def commit_shared(self: PostgresqlDatabase, work: Work) -> Any:
        marked = _MarkedWork(work, fate)
        try:
            await shared(self, marked)
        except _FalseCommit:
            return marked.result
        return marked.is_committed()

    async def run_shared(
        self: PostgresqlDatabase, compiled: CompiledQuery, arguments: tuple[object, ...]
    ) -> list[Row]:
        # A statement that commits by itself has no boundary but its two ends.
        works = [PLAIN, KEPT] if _has_keys(arguments) else [PLAIN]
        fate.passes("before", works)
        rows = await at_once(self, compiled, arguments)
        fate.passes("after", works)
        return rows

    async def marked_exchange(
        client: httpx2.AsyncClient, request: httpx2.Request, deadline_s: float
    ) -> bytes:
        works = [_MESSAGES[parse_qs(request.content.decode())["msg_type"][0]]]
        fate.passes("before", works)
        body = await exchange(client, request, deadline_s)
        fate.passes("after", works)
        return body

    Writer._commit = commit_embedded  # type: ignore[method-assign]
    PostgresqlDatabase._commit = commit_shared  # type: ignore[method-assign]
    PostgresqlDatabase._run = run_shared  # type: ignore[method-assign]
    cainiao.exchange = marked_exchange


def _has_keys(arguments: tuple[object, ...]) -> bool:
    """Whether a batch keeps answers: only then are there bytes in its columns."""
    columns = [each for each in arguments if isinstance(each, list)]
    return any(isinstance(value, bytes) for column in columns for value in column)
