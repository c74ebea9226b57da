"""The interface of the store: what an engine offers to the packages above.

Work that writes is an `async` function over a `Transaction`. An engine may run it on an event loop
(PostgreSQL) or drive it to its end on its writer thread (SQLite): such work therefore awaits
nothing but its transaction.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Table

from tollway.store.many_rows import ManyRows, Rows
from tollway.store.query import Query, RecordQuery

Row = tuple[Any, ...]
# The parameters of one row: by name, or, for many rows at high speed, in the query's own order.
RowValues = Mapping[str, object] | tuple[object, ...]
RowAtOnce = Callable[[RecordQuery, Mapping[str, object]], Row | None]
T = TypeVar("T")
P = ParamSpec("P")


class StoreError(Exception):
    """The store could not do what was asked; nothing was committed, except perhaps after
    CommitUnknownError."""


class DuplicateKeyError(Exception):
    """A new row has the key of one that is stored already."""


class SumTooLargeError(Exception):
    """What a query adds up does not fit into the integers of the database."""


class StoreBusyError(StoreError):
    """Another writer held the database for too long."""


class StoreLockedError(StoreBusyError):
    """Another writer held a row for longer than the lock timeout."""


class StoreCrowdedError(StoreBusyError):
    """No connection to the database was free in time."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached or written: disk full, input/output error, shut down."""


class CommitUnknownError(StoreUnavailableError):
    """The database failed during a commit: it may have been made or not."""


class Timings(Protocol):
    """Where an engine reports how long its reads and commits took."""

    def read(self, elapsed_s: float) -> None: ...

    def wrote(self, elapsed_s: float) -> None: ...


class NoTimings:
    """For commands, which have no metrics."""

    def read(self, elapsed_s: float) -> None: ...

    def wrote(self, elapsed_s: float) -> None: ...


class Reader(Protocol):
    """Reads on a database or within a transaction. Several gateways can serve a shared one."""

    is_shared: bool

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]: ...

    async def fetch_one(self, query: Query, **values: object) -> Row | None: ...


class Transaction(Reader, Protocol):
    """One atomic piece of work: all of it is committed, or none.

    Work that changes neither records nor versions may set `keeps_records`: then reads of records
    (`RecordQuery`) need not notice its commit. Work that changes a version must set
    `changes_versions`.
    """

    keeps_records: bool
    changes_versions: bool

    async def execute(self, query: Query, **values: object) -> int:
        """Runs a query and returns how many rows it changed."""

    async def execute_many(self, query: Query, rows: Iterable[RowValues]) -> int:
        """Runs a query once per row and returns how many rows it changed in all."""

    async def insert_rows(self, table: Table, rows: Rows) -> None:
        """Stores new rows, given in the order of the table's columns. If a row exists already, an
        embedded database raises DuplicateKeyError, and a savepoint must undo the rows before it; a
        shared one treats it as a conflict with another writer."""

    async def put_rows(self, query: ManyRows, rows: Sequence[tuple[Any, ...]]) -> int:
        """Stores rows that may exist already; the query decides how to resolve that. No two rows
        may have the same key. Returns how many rows it changed."""

    async def is_alone(self, job: int) -> bool:
        """Whether no other node is doing this job; if so, none starts it before this commit."""

    async def lock_names(self, names: Iterable[str]) -> None:
        """Locks these names, in a fixed order, until this work is committed."""

    async def allow_long_statements(self) -> None:
        """Lets the statements that follow take longer than a call would wait for them."""

    def with_new_plan(self) -> AbstractAsyncContextManager[None]:
        """Plans each statement in its block for its own values. That takes longer, but suits
        statements that are rare, or touch one month of many, better than a generic plan."""

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """If its block raises, only that part of the work is undone."""

    def first_part(self) -> AbstractAsyncContextManager[None]:
        """A savepoint for the first part of the work, before which it changes nothing: an embedded
        database can then undo it without copying every page before changing it."""


class Database(Reader, Protocol):
    """An open database."""

    dialect: str

    @property
    def row_at_once(self) -> "RowAtOnce | None":
        """Reads the first row of a query of records without waiting; None if reads have to wait.
        On a database that has it, no read ever waits or needs a task."""

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Runs work in one transaction; returns only after its commit is durable.

        After a conflict with another transaction the work is undone and retried: so it may change
        nothing but the database."""

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        """Runs one statement that is a transaction of its own, in one round trip; returns only
        after its commit is durable."""

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        """Like fetch_all, for a read that may take long: it delays no other read.

        A caller has one long read at a time; StoreBusyError if it waits too long."""

    def change_mark(self) -> object:
        """A value that differs from an earlier one if anything was committed in between."""

    def record_mark(self) -> object:
        """The same, but it need not differ if all those commits kept records and versions."""

    async def close(self) -> None: ...


def transactional(
    work: Callable[Concatenate[Transaction, P], Awaitable[T]],
) -> Callable[Concatenate[Database, P], Coroutine[Any, Any, T]]:
    """Makes a function of a whole transaction: its callers give the database, and it works in a
    transaction of its own, with the rules of `Database.write`."""

    @wraps(work)
    async def write(database: Database, /, *given: P.args, **named: P.kwargs) -> T:
        return await database.write(lambda transaction: work(transaction, *given, **named))

    return write
