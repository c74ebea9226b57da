"""Rejected records of pushes: kept with their reason until they are replayed.

They are sealed, since a rejected record can have personal data too. A record's id follows from its
content, so that one pushed twice is kept once.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import bindparam, select

from tollway.intake.files import IntakeError
from tollway.intake.loading import Loader, RecordKind
from tollway.intake.record_problems import read_object
from tollway.intake.sources import find_source
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, insert
from tollway.store.replication_barrier import wait_for_standby
from tollway.store.schema.intake import rejected_record
from tollway.store.sealing import Sealer


class Rejected(msgspec.Struct, frozen=True):
    """A record that was set aside, and why."""

    id: str
    source: str
    kind: str
    reason: str
    received_at_s: int


class Replay(msgspec.Struct, frozen=True):
    """The outcome of a replay."""

    stored: int
    unchanged: int
    rejected: int


_insert = insert(rejected_record).values({c.name: bindparam(c.name) for c in rejected_record.c})
_KEEP = Query(_insert.on_conflict_do_nothing())
_LIST = Query(
    select(*(rejected_record.c[name] for name in Rejected.__struct_fields__)).order_by(
        rejected_record.c.received_at_s, rejected_record.c.id
    )
)
_FIND = Query(
    select(rejected_record.c.source, rejected_record.c.sealed, rejected_record.c.kind).where(
        rejected_record.c.id == bindparam("wanted")
    )
)
_FORGET = Query(rejected_record.delete().where(rejected_record.c.id == bindparam("wanted")))


def sealed_reject(
    sealer: Sealer, key: bytes, source: str, kind: str, record: bytes, reason: str, at_s: int
) -> dict[str, object]:
    """A rejected record as it is kept. Its id is made with the source's key: without it, the
    content of a sealed record cannot be guessed by trying."""
    record_id = hmac.digest(key, record, hashlib.sha256).hex()[:24]
    return {
        "source": source,
        "id": record_id,
        "kind": kind,
        "reason": reason,
        "received_at_s": at_s,
        "sealed": sealer.seal(record, record_context(source, record_id)),
    }


async def keep_rejects(transaction: Transaction, rejects: Sequence[dict[str, object]]) -> None:
    if not await transaction.execute_many(_KEEP, rejects):
        # A record that was already kept is acknowledged too.
        await wait_for_standby(transaction)


async def list_rejected(reader: Reader) -> list[Rejected]:
    """The oldest first."""
    return [Rejected(*row) for row in await reader.fetch_all(_LIST)]


async def replay(
    database: Database, sealer: Sealer, kinds: Mapping[str, RecordKind], only_id: str | None
) -> Replay:
    """Checks one rejected record or all of them again; stores and forgets those that pass."""
    wanted = [each.id for each in await list_rejected(database)]
    if only_id is not None:
        if only_id not in wanted:
            raise IntakeError(f"There is no rejected record {only_id}.")
        wanted = [only_id]
    stored = unchanged = rejected = 0
    for record_id in wanted:
        row = await database.fetch_one(_FIND, wanted=record_id)
        if row is None:
            continue
        kind = kinds[row[2]]
        loader = kind.make_loader(sealer)
        source = await find_source(database, sealer, row[0])
        check = partial(source.speaks_for.check, kind.spoken_for)
        good = _check_again(loader, check, sealer.open(row[1], record_context(row[0], record_id)))
        if good is None:
            rejected += 1
        elif await database.write(partial(_settle, loader, record_id, good)):
            stored += 1
        else:
            unchanged += 1
    return Replay(stored, unchanged, rejected)


def _check_again(loader: Loader, check: Callable[[dict[str, object]], None], record: bytes) -> Any:
    try:
        values = read_object(record)
        check(values)
        return loader.check(values)
    except ValueError:
        return None


async def _settle(loader: Loader, record_id: str, good: Any, transaction: Transaction) -> int:
    changed = await loader.store(transaction, [good])
    await transaction.execute(_FORGET, wanted=record_id)
    return changed


def record_context(source: str, record_id: str) -> bytes:
    return f"rejected_record\0{source}\0{record_id}".encode()
