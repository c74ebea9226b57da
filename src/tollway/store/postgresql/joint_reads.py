"""Batches the reads of many calls into one statement: a round trip costs more than most reads.

Reads of one query that wait at the same moment are sent together, with a list for each parameter,
and the rows are dealt out. While a statement is under way, new reads wait for its end, a few
milliseconds at most; then they are sent in a statement of their own. So a single read is sent at
once, and a slow statement delays no other read by more than that. If a statement for many takes too
long, perhaps because of one of the reads, it is cancelled and each read is sent alone. A statement
starts after all its reads were asked for, and each read sees one snapshot, as if it were alone.
"""

import asyncio
from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple, Protocol

from tollway.store.database import Row, StoreError
from tollway.store.postgresql.errors import StatementCancelledError
from tollway.store.query import JointQuery

# The rows of a batch are read one after another: in a larger one, the first read would wait long.
_TOGETHER_MAX = 32
# How long a read waits for the end of a statement that is under way.
_PATIENCE_S = 0.005


class Send(Protocol):
    """Sends a statement with its arguments, and returns its rows; every wait is bounded. Cancels a
    statement that takes longer than `within_s`."""

    async def __call__(
        self, text: str, arguments: tuple[object, ...], within_s: float | None = None
    ) -> list[Row]: ...


class _Asked(NamedTuple):
    arguments: tuple[object, ...]
    rows: asyncio.Future[list[Row]]


class JointReads:
    """The reads of one database that can be sent together."""

    def __init__(self, send: Send, together_s: float | None) -> None:
        self._send = send
        self._together_s = together_s
        self._queues: dict[JointQuery, _Queue] = {}

    async def read(self, query: JointQuery, values: Mapping[str, object]) -> list[Row]:
        queue = self._queues.get(query)
        if queue is None:
            queue = self._queues[query] = _Queue(query, self._send, self._together_s)
        rows = queue.ask(query.postgresql.arguments(values))
        try:
            return await rows
        except asyncio.CancelledError:
            queue.end_unwanted()
            raise


class _Queue:
    """The reads of one query."""

    def __init__(self, query: JointQuery, send: Send, together_s: float | None) -> None:
        self._query = query
        self._send = send
        self._together_s = together_s
        self._waiting: list[_Asked] = []
        self._due: asyncio.Handle | None = None
        self._under_way: dict[asyncio.Task[Any] | None, list[_Asked]] = {}

    def ask(self, arguments: tuple[object, ...]) -> asyncio.Future[list[Row]]:
        loop = asyncio.get_running_loop()
        asked = _Asked(arguments, loop.create_future())
        self._waiting.append(asked)
        if len(self._waiting) >= _TOGETHER_MAX:
            self._begin()
        elif self._due is None:
            # Without a statement under way, wait only for the reads of this turn of the loop.
            if self._under_way:
                self._due = loop.call_later(_PATIENCE_S, self._begin)
            else:
                self._due = loop.call_soon(self._begin)
        return asked.rows

    def end_unwanted(self) -> None:
        """Cancels statements whose rows no call waits for any more."""
        for task, asked in self._under_way.items():
            if task is not None and all(each.rows.done() for each in asked):
                task.cancel()

    def _begin(self) -> None:
        """Sends the reads that wait."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        asked, self._waiting = self._waiting, []
        self._start(asked)

    def _start(self, asked: list[_Asked]) -> None:
        wanted = [each for each in asked if not each.rows.done()]
        if wanted:
            task = asyncio.get_running_loop().create_task(self._answer(wanted))
            self._under_way[task] = wanted
            task.add_done_callback(self._ended)

    async def _answer(self, asked: list[_Asked]) -> None:
        try:
            rows_of_each = await self._read(asked)
        except Exception as error:
            if len(asked) > 1 and _may_be_of_one(error):
                for each in asked:
                    self._start([each])
                return
            for each in asked:
                if not each.rows.done():
                    each.rows.set_exception(error if len(asked) == 1 else _own(error))
            return
        # Starts the next statement, so that the server works while these rows are processed.
        self._ended(asyncio.current_task())
        for each, rows in zip(asked, rows_of_each, strict=True):
            if not each.rows.done():
                each.rows.set_result(rows)

    def _ended(self, task: asyncio.Task[Any] | None) -> None:
        if self._under_way.pop(task, None) is not None and self._waiting:
            self._begin()

    async def _read(self, asked: list[_Asked]) -> list[list[Row]]:
        if len(asked) == 1:
            return [await self._send(self._query.postgresql.text, asked[0].arguments)]
        lists = tuple(zip(*[each.arguments for each in asked], strict=True))
        rows_of_each: list[list[Row]] = [[] for _ in asked]
        found = await self._send(self._query.together_postgresql, lists, self._together_s)
        for row in found:
            rows_of_each[row[0] - 1].append(row[1:])
        return rows_of_each


def _may_be_of_one(error: Exception) -> bool:
    """Whether one of many reads may have caused the error, by a number that is too large or by
    taking long."""
    return isinstance(error, StatementCancelledError) or not isinstance(error, StoreError)


def _own(error: Exception) -> Exception:
    """A copy of the error for each call, because each adds to its traceback."""
    own = copy(error).with_traceback(error.__traceback__)
    own.__cause__ = error.__cause__
    return own
