"""Loading many records: checked one by one, stored chunk by chunk, each chunk in one commit.

Memory use stays flat however long the file is. Stopping half-way loses nothing: the same file can
be loaded again, which is idempotent.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from time import time
from typing import Any, Protocol, Self, cast

import msgspec

from tollway.intake.raw_records import RawRecord
from tollway.store.database import Database, Transaction
from tollway.store.months import MonthsOf
from tollway.store.postgresql.durability import wait_for_standby
from tollway.store.sealing import Sealer

CHUNK_RECORDS = 2000
# Records are kept whole until their chunk is done, and can be large.
_CHUNK_BYTES = 8 * 1024 * 1024
# The data of so many records stays in the processor's cache.
_CHECKED_AT_ONCE = 200
# Each owner takes a lock in the transaction; by default, a server has space for 64 per connection.
_OWNERS_AT_ONCE = 64


# Whether a source speaks for a shop or channel.
IsOwn = Callable[[str], bool]


class Loader(Protocol):
    """How the records of one kind are checked and stored."""

    # The months of its table, if that is partitioned by month.
    months: MonthsOf | None = None
    # The owner of a record, if storing it locks this owner.
    owner_of: Callable[[Any], str] | None = None

    @property
    def check_lines(self) -> Callable[[Sequence[bytes]], Sequence[Any]] | None:
        """The typed records of many JSON texts, in less time than one by one; None for each that is
        not certainly good, for `check` to decide."""
        return None

    def check(self, values: dict[str, object], received_s: int) -> Any:
        """The typed record; raises a ValueError from `record_problems` that says what is wrong. Of
        two versions without a time of their own, the one received later counts."""

    async def store(self, transaction: Transaction, records: Sequence[Any]) -> int:
        """Stores records; returns how many rows changed."""

    @property
    def store_own(
        self,
    ) -> Callable[[Transaction, Sequence[Any], IsOwn], Awaitable[int]] | None:
        """Stores records of a source, but raises NotOwnError if a stored row that they replace is
        not its own; None if no record can replace a row of another shop or channel."""
        return None


class Batch(Protocol):
    """Checked records, arranged for `store` as far as possible without a database."""

    @classmethod
    def of(cls, records: Sequence[Any]) -> Self: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


class RecordKind(msgspec.Struct, frozen=True):
    """One kind of record: `tollway import NAME` loads it, and `POST /push/NAME` if it is pushed.

    `record_types` are the records that a file can have, whose fields are its columns. If a second
    process reads a large file, it sends the records of a chunk as a `batch_type`.
    """

    name: str
    help: str
    make_loader: Callable[[Sealer | None], Loader]
    # Its loader needs the keys that seal personal data.
    is_sealed: bool = False
    is_pushed: bool = False
    # For whom a source must speak to push it: a shop or a channel, and the field that names it.
    spoken_for: tuple[str, str] = ("shop", "owner_id")
    chunk_records: int = CHUNK_RECORDS
    batch_type: type[Batch] | None = None
    record_types: tuple[type[msgspec.Struct], ...] = ()


class Reject(msgspec.Struct, frozen=True):
    """A record that was set aside."""

    line: int
    reason: str
    record: str


class LoadResult(msgspec.Struct):
    """What loading came to."""

    read: int = 0
    stored: int = 0
    changed: int = 0
    rejected: int = 0


class CheckedChunk(msgspec.Struct):
    """Records that were read and checked together: the good ones, perhaps as a batch, the rejected
    ones, and how far into the file they reach."""

    good: Any
    rejects: list[Reject]
    at_byte: int = 0

    @property
    def read(self) -> int:
        return len(self.good) + len(self.rejects)


async def load(
    database: Database,
    loader: Loader,
    chunks: Iterable[CheckedChunk],
    on_reject: Callable[[Reject], None],
    progress: Callable[[LoadResult, int], None],
    so_far: LoadResult | None = None,
) -> LoadResult:
    """Stores every good record; calls `progress` with the result so far and the byte reached."""
    result = so_far or LoadResult()
    for chunk in chunks:
        result.read += chunk.read
        result.rejected += len(chunk.rejects)
        for reject in chunk.rejects:
            on_reject(reject)
        if chunk.good:
            result.changed += await store_records(database, loader, chunk.good)
            result.stored += len(chunk.good)
        progress(result, chunk.at_byte)
    return result


def checked_chunks(
    loader: Loader,
    records: Iterable[RawRecord],
    chunk_records: int = CHUNK_RECORDS,
    text_of: Callable[[RawRecord], str] = RawRecord.text,
) -> Iterator[CheckedChunk]:
    """Checks records, and yields them in chunks; `text_of` gives the text of a rejected one."""
    # The same time for all: within a file, the order of its records decides.
    received_s = int(time())
    checked, size = CheckedChunk([], []), 0
    for some in _together(records, min(_CHECKED_AT_ONCE, chunk_records)):
        _add_checked(checked, loader, some, received_s, text_of)
        checked.at_byte = some[-1].at_byte
        size += sum([len(raw.source) for raw in some])
        if checked.read >= chunk_records or size >= _CHUNK_BYTES:
            yield checked
            checked, size = CheckedChunk([], []), 0
    if checked.read:
        yield checked


def _add_checked(
    checked: CheckedChunk,
    loader: Loader,
    some: Sequence[RawRecord],
    received_s: int,
    text_of: Callable[[RawRecord], str],
) -> None:
    certain = _certainly_good(loader, some)
    if all(each is not None for each in certain):
        checked.good += certain
        return
    for raw, good in zip(some, certain, strict=True):
        try:
            checked.good.append(_check(loader, raw, received_s) if good is None else good)
        except ValueError as error:
            checked.rejects.append(Reject(raw.line, str(error), text_of(raw)))


def _together(records: Iterable[RawRecord], most: int) -> Iterator[list[RawRecord]]:
    some: list[RawRecord] = []
    size = 0
    for raw in records:
        some.append(raw)
        size += len(raw.source)
        if len(some) >= most or size >= _CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _certainly_good(loader: Loader, some: Sequence[RawRecord]) -> Sequence[Any]:
    # The records of a file are all JSON, or none is.
    if loader.check_lines is None or not isinstance(some[0].source, bytes):
        return [None] * len(some)
    # A line that was found to be no record has nothing to check.
    return loader.check_lines([b"" if raw.read else cast(bytes, raw.source) for raw in some])


def _check(loader: Loader, raw: RawRecord, received_s: int) -> Any:
    if raw.values is None:
        raise ValueError(raw.problem)
    return loader.check(raw.values, received_s)


async def store_records(
    database: Database,
    loader: Loader,
    records: Sequence[Any] | Batch,
    is_own: IsOwn | None = None,
) -> int:
    """Stores checked records; returns how many rows changed. Those of a source raise NotOwnError
    if they would change what is not its own.

    In one transaction; but in several for many owners on a shared database, because all its
    transactions share one lock table, and fail when it is full.
    """
    if loader.months is not None:
        await loader.months.make_for(database, records)
    if not database.is_shared or loader.owner_of is None:
        return await database.write(partial(_store, loader, records, is_own))
    by_owner: dict[str, list[Any]] = {}
    for record in records:
        by_owner.setdefault(loader.owner_of(record), []).append(record)
    changed, owners = 0, iter(by_owner.values())
    while some := list(chain.from_iterable(islice(owners, _OWNERS_AT_ONCE))):
        changed += await database.write(partial(_store, loader, some, is_own))
    return changed


async def _store(
    loader: Loader, records: Any, is_own: IsOwn | None, transaction: Transaction
) -> int:
    changed = await store_within(transaction, loader, records, is_own)
    if not changed:
        # Unchanged records are acknowledged too.
        await wait_for_standby(transaction)
    return changed


async def store_within(
    transaction: Transaction, loader: Loader, records: Any, is_own: IsOwn | None
) -> int:
    """Stores records, of a source if `is_own` is given."""
    if is_own is None or loader.store_own is None:
        return await loader.store(transaction, records)
    return await loader.store_own(transaction, records, is_own)
