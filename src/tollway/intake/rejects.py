"""Rejected records of pushes: kept with their reason until they are replayed.

They are sealed, since a rejected record can have personal data too. A record's id is derived from
its kind and content, so that a record pushed twice is kept once.
"""

import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec
from sqlalchemy import Integer, String, bindparam, func, or_, select, tuple_

from tollway.intake.json_records import as_text
from tollway.intake.loading import Loader, RecordKind, store_within
from tollway.intake.raw_records import IntakeError
from tollway.intake.record_problems import RecordError, read_object
from tollway.intake.sources import find_source
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.key_file import SealError
from tollway.store.postgresql.durability import wait_for_standby
from tollway.store.query import Query, changed, insert_row
from tollway.store.schema.intake import rejected_record
from tollway.store.sealing import Sealer

logger = logging.getLogger("tollway.push")

# Of one source. They wait for an operator, and a faulty source must not fill the disk meanwhile.
KEPT_MAX, KEPT_MAX_MIB = 10_000, 64
_DROPPED_AT_ONCE = 500

# The source of records from a file that an operator uploaded; no source can have this name.
UPLOAD = "uploaded file"


class RejectsFullError(Exception):
    """Too many rejected records of a source wait for the operator to keep any more."""


class Rejected(msgspec.Struct, frozen=True):
    """A record that was rejected, and why."""

    id: str
    source: str
    kind: str
    reason: str
    received_at_s: int


class OpenedReject(msgspec.Struct, frozen=True):
    """A rejected record with its content; None if that was altered, or its key is missing."""

    rejected: Rejected
    record: str | None


class ReplayResult(msgspec.Struct, frozen=True):
    """The outcome of a replay."""

    stored: int
    unchanged: int
    rejected: int


_KEEP = Query(lambda: insert_row(rejected_record).on_conflict_do_nothing())
_COLUMNS = tuple(rejected_record.c[name] for name in Rejected.__struct_fields__)
_LIST = Query(
    lambda: select(*_COLUMNS).order_by(rejected_record.c.received_at_s, rejected_record.c.id)
)
_PAGE = Query(
    lambda: (
        select(*_COLUMNS)
        .order_by(rejected_record.c.source, rejected_record.c.id)
        .where(
            tuple_(rejected_record.c.source, rejected_record.c.id)
            > tuple_(bindparam("after_source", type_=String), bindparam("after_id", type_=String))
        )
        .limit(bindparam("most", type_=Integer))
    )
)
_is_wanted = rejected_record.c.id == bindparam("wanted")
_WHOLE = Query(lambda: select(*_COLUMNS, rejected_record.c.sealed).where(_is_wanted))
_CORRECT = Query(
    lambda: changed(rejected_record, sealed="corrected", reason="why").where(_is_wanted)
)
_FORGET = Query(lambda: rejected_record.delete().where(_is_wanted))
_of_source = rejected_record.c.source == bindparam("of_source")
_FORGET_SOME = Query(
    lambda: rejected_record.delete().where(
        _of_source,
        rejected_record.c.id.in_(
            select(rejected_record.c.id).where(_of_source).limit(_DROPPED_AT_ONCE)
        ),
    )
)
_COUNT = Query(lambda: select(func.count()).select_from(rejected_record).where(_of_source))
_full = (
    select(rejected_record.c.source)
    .where(rejected_record.c.source != UPLOAD)
    .group_by(rejected_record.c.source)
    .having(
        or_(
            func.count() >= KEPT_MAX,
            func.sum(func.length(rejected_record.c.sealed)) >= KEPT_MAX_MIB * 2**20,
        )
    )
)
FULL_SOURCES = Query(lambda: _full.order_by(rejected_record.c.source))
_IS_FULL = Query(lambda: _full.where(_of_source))


def sealed_reject(
    sealer: Sealer, key: bytes, source: str, kind: str, record: bytes, reason: str, at_s: int
) -> dict[str, object]:
    """A rejected record as it is stored. Its id is an HMAC with the source's key: without that key,
    the content of a sealed record cannot be guessed by brute force."""
    # No kind has a line break in its name.
    named = kind.encode() + b"\n" + record
    record_id = hmac.digest(key, named, hashlib.sha256).hex()[:24]
    return {
        "source": source,
        "id": record_id,
        "kind": kind,
        "reason": reason,
        "received_at_s": at_s,
        "sealed": sealer.seal(record, record_context(source, record_id)),
    }


async def keep_rejects(transaction: Transaction, rejects: Sequence[dict[str, object]]) -> None:
    """Keeps rejected records of one source; raises RejectsFullError if too many of it are kept."""
    is_full = await transaction.fetch_one(_IS_FULL, of_source=rejects[0]["source"]) is not None
    if not await transaction.execute_many(_KEEP, rejects):
        # A record that was already kept is acknowledged too.
        await wait_for_standby(transaction)
    elif is_full:
        raise RejectsFullError


async def list_rejected(reader: Reader) -> list[Rejected]:
    """The oldest first."""
    return [Rejected(*row) for row in await reader.fetch_all(_LIST)]


async def rejects_page(
    reader: Reader, after_source: str, after_id: str, most: int
) -> list[Rejected]:
    """Rejected records in the order of source and id, after a given one."""
    rows = await reader.fetch_all(_PAGE, after_source=after_source, after_id=after_id, most=most)
    return [Rejected(*row) for row in rows]


async def open_reject(reader: Reader, sealer: Sealer, record_id: str) -> OpenedReject:
    row = await reader.fetch_one(_WHOLE, wanted=record_id)
    if row is None:
        raise _no_reject(record_id)
    *facts, sealed = row
    rejected = Rejected(*facts)
    try:
        record = sealer.open(sealed, record_context(rejected.source, record_id))
    except SealError:
        return OpenedReject(rejected, None)
    # Every byte that is not UTF-8 is escaped by fast code: Python's own escapes of as many bytes
    # would hold all calls up for a quarter of a second.
    return OpenedReject(rejected, as_text(record).encode(errors="backslashreplace").decode())


async def correct_reject(
    database: Database,
    sealer: Sealer,
    kinds: Mapping[str, RecordKind],
    record_id: str,
    record: str,
    runtime: Runtime,
) -> str:
    """Stores a corrected record; returns what is still wrong with it, or nothing if it is
    stored."""
    opened = (await open_reject(database, sealer, record_id)).rejected
    kind = kinds[opened.kind]
    loader = kind.make_loader(sealer)
    content, subject = record.encode(), f"source {opened.source}"

    async def note(transaction: Transaction, *, stored: bool) -> None:
        after = {"record": record_id, "stored": stored}
        await record_act(transaction, runtime, "record mend", subject, after=after)

    try:
        await _settle(database, sealer, kind, loader, opened, content, partial(note, stored=True))
    except RecordError as error:
        reason = str(error)

        async def keep(transaction: Transaction) -> None:
            sealed = sealer.seal(content, record_context(opened.source, record_id))
            await transaction.execute(_CORRECT, wanted=record_id, corrected=sealed, why=reason)
            await note(transaction, stored=False)

        await database.write(keep)
        return reason
    return ""


def _no_reject(record_id: str) -> IntakeError:
    return IntakeError(
        "There is no rejected record {record_id}: `tollway intake rejected list` shows them all.",
        record_id=record_id,
    )


@transactional
async def forget_reject(transaction: Transaction, record_id: str, runtime: Runtime) -> None:
    """Drops a rejected record that is not wanted any more."""
    if not await transaction.execute(_FORGET, wanted=record_id):
        raise _no_reject(record_id)
    await record_act(transaction, runtime, "record drop", f"record {record_id}")


async def count_rejects(reader: Reader, source: str) -> int:
    ((count,),) = await reader.fetch_all(_COUNT, of_source=source)
    return int(count)


async def forget_rejects(database: Database, source: str, runtime: Runtime) -> int:
    """Drops all rejected records of a source, some per commit; returns how many."""
    total = removed = await _forget_some(database, source, runtime)
    while removed == _DROPPED_AT_ONCE:
        removed = await _forget_some(database, source, runtime)
        total += removed
    return total


@transactional
async def _forget_some(transaction: Transaction, source: str, runtime: Runtime) -> int:
    removed = await transaction.execute(_FORGET_SOME, of_source=source)
    after = {"removed": removed}
    await record_act(transaction, runtime, "record drop", f"source {source}", after=after)
    return removed


async def _settle(
    database: Database,
    sealer: Sealer,
    kind: RecordKind,
    loader: Loader,
    of: Rejected,
    record: bytes,
    note: Callable[[Transaction], Awaitable[None]] | None = None,
) -> int:
    """Stores and forgets a record; returns how many rows changed. Raises RecordError for a wrong
    one, or one that its source may not push; an uploaded file may have any record."""
    values, is_own = read_object(record), None
    if of.source != UPLOAD:
        speaks_for = (await find_source(database, sealer, of.source)).speaks_for
        speaks_for.check(kind.spoken_for, values)
        is_own = partial(speaks_for.has, kind.spoken_for[0])
    good = loader.check(values, of.received_at_s)
    if loader.months is not None:
        await loader.months.make_for(database, [good])

    async def store(transaction: Transaction) -> int:
        changed = await store_within(transaction, loader, [good], is_own)
        await transaction.execute(_FORGET, wanted=of.id)
        if note is not None:
            await note(transaction)
        return changed

    return await database.write(store)


async def replay(
    database: Database, sealer: Sealer, kinds: Mapping[str, RecordKind], only_id: str | None
) -> ReplayResult:
    """Checks one rejected record or all of them again; stores and forgets those that pass."""
    wanted = [each.id for each in await list_rejected(database)]
    if only_id is not None:
        if only_id not in wanted:
            raise _no_reject(only_id)
        wanted = [only_id]
    counts = dict.fromkeys(ReplayResult.__struct_fields__, 0)
    # One loader per kind, because it remembers which months it has created.
    loaders = {name: kind.make_loader(sealer) for name, kind in kinds.items()}
    for record_id in wanted:
        row = await database.fetch_one(_WHOLE, wanted=record_id)
        if row is None:
            continue
        *facts, sealed = row
        of = Rejected(*facts)
        try:
            record = sealer.open(sealed, record_context(of.source, of.id))
            is_changed = await _settle(
                database, sealer, kinds[of.kind], loaders[of.kind], of, record
            )
            outcome = "stored" if is_changed else "unchanged"
        except RecordError:
            outcome = "rejected"
        except SealError as error:
            if only_id is not None:
                raise
            # It must not keep those after it from being tried.
            logger.error(
                "rejected record %s of %s is left as it is: %s", record_id, of.source, error
            )
            outcome = "rejected"
        counts[outcome] += 1
    return ReplayResult(**counts)


def record_context(source: str, record_id: str) -> bytes:
    return f"rejected_record\0{source}\0{record_id}".encode()
