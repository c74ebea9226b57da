"""Sealing records again with the current key, while calls go on.

Opens and reseals a few hundred records at a time; each is replaced only if it is still the one that
was read (compare and swap). The database shows what is done, so a run that is killed is simply
restarted: it reads all records, and writes those that are left.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from sqlalchemy import Column, Table, bindparam, select

from tollway.carriers.carrier_links import secret_context
from tollway.carriers.waybills import WaybillKey
from tollway.identity.second_factor import factor_context
from tollway.intake.rejects import record_context
from tollway.intake.sources import secrets_context as source_context
from tollway.operations.catalogue import ALL_TABLES
from tollway.operations.exports import KEPT_S
from tollway.operations.orders.records import receiver_context
from tollway.operations.orders.schema import shop_order
from tollway.pipeline.replay import answer_context
from tollway.settings import Settings
from tollway.store.clock import common_ms
from tollway.store.database import Database, Row, StoreError
from tollway.store.durable_files import locked_folder
from tollway.store.key_check import files_of, key_file_of, use_files
from tollway.store.key_file import add_key, drop_keys, read_keys, use_key
from tollway.store.keys import left_of
from tollway.store.last_runs import last_runs, note_run
from tollway.store.query import Query
from tollway.store.schema import sealed_tables
from tollway.store.schema.carriers import carrier_link, waybill
from tollway.store.schema.identity import second_factor
from tollway.store.schema.intake import push_source, rejected_record
from tollway.store.schema.ledger import idempotency_key
from tollway.store.schema.webhooks import webhook_endpoint
from tollway.store.sealing import Sealer, load_sealer
from tollway.store.serving_nodes import nodes_without_key
from tollway.store.small_commits import RowPieces, replace_rows
from tollway.webhooks.endpoints import secrets_context as endpoint_context

# An old key stays until nothing was sealed with it for this long: an import that was started before
# keeps using the key that it read, and export ids, which are sealed too, are valid for a day.
_UNUSED_S = KEPT_S + 3600
_LAST_FOUND = "old keys found beside key {}"


class _Sealed(NamedTuple):
    """A sealed column, and the context that each seal is bound to, made from other columns."""

    sealed: Column[bytes]
    of: Sequence[Column[str]]
    context: Callable[..., bytes]


def _waybill_context(account: str, owner: str, order_sn: str, wp_code: str, task: str) -> bytes:
    return WaybillKey(account, owner, order_sn, wp_code).context(task)


def _columns(table: Table, *names: str) -> list[Column[str]]:
    return [table.c[name] for name in names]


_SEALED = (
    _Sealed(shop_order.c.sealed, _columns(shop_order, "owner_id", "order_sn"), receiver_context),
    _Sealed(
        waybill.c.sealed,
        _columns(waybill, "account_id", "owner_id", "order_sn", "wp_code", "object_id"),
        _waybill_context,
    ),
    _Sealed(
        carrier_link.c.sealed_secret,
        _columns(carrier_link, "wp_code", "protocol", "url", "provider_id", "to_code"),
        secret_context,
    ),
    _Sealed(push_source.c.sealed_secrets, _columns(push_source, "name"), source_context),
    _Sealed(rejected_record.c.sealed, _columns(rejected_record, "source", "id"), record_context),
    _Sealed(webhook_endpoint.c.sealed_secrets, _columns(webhook_endpoint, "id"), endpoint_context),
    _Sealed(
        idempotency_key.c.sealed, _columns(idempotency_key, "account_id", "key"), answer_context
    ),
    _Sealed(
        second_factor.c.sealed_secret, _columns(second_factor, "kind", "subject_id"), factor_context
    ),
)
assert {each.sealed.table for each in _SEALED} == set(sealed_tables(ALL_TABLES))


class Rotated(msgspec.Struct, frozen=True):
    """The progress of a rotation. `restart` names the gateways that must be restarted next; no old
    key is dropped before `wait_s` have passed."""

    current: int
    added: int | None = None
    resealed: int = 0
    dropped: list[int] = []
    old: list[int] = []
    restart: list[str] = []
    wait_s: int = 0

    def in_words(self, file: str, *, is_shared: bool) -> list[str]:
        lines = []
        if self.added is not None and self.added != self.current:
            lines.append(f"Key {self.added} is in {file}, and is not used yet.")
        else:
            lines.append(
                f"Key {self.current} is in use. Records encrypted with it now: {self.resealed:,}."
            )
        if self.restart:
            # One machine alone serves a SQLite file.
            first = f"Copy {file} to every node and restart" if is_shared else "Restart"
            lines.append(f"{first} {', '.join(self.restart)}, then run this again.")
        elif self.dropped:
            named = " and ".join(f"key {key_id}" for key_id in self.dropped)
            lines.append(f"Dropped: {named}. Backups from before need the key file of their time.")
        elif self.wait_s:
            lines.append(
                "The old keys stay until nothing was encrypted with them for "
                f"{_UNUSED_S // 3600} hours: end imports that were started before, and in "
                f"{-(-self.wait_s // 3600)} hours run this with --drop."
            )
        elif self.old:
            lines.append(
                "Nothing needs the old keys any more: run this with --drop to remove them."
            )
        return lines


class Rotation:
    """Switches to a new key. Takes each step only when every serving gateway is ready for it."""

    def __init__(self, database: Database, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._files = files_of(settings)
        self._path = key_file_of(settings).present()
        self._now_ms = now_ms

    async def go_on(self, *, drop: bool) -> Rotated:
        try:
            with locked_folder(self._path.parent):
                return await self._go_on(drop=drop)
        except BlockingIOError:
            raise StoreError(
                f"Another `keys rotate` is at work on {self._path.parent}: wait until it is done."
            ) from None

    async def _go_on(self, *, drop: bool) -> Rotated:
        # Refuses a key file of another database before changing anything in it.
        await use_files(self._database, self._files, ALL_TABLES)
        keys, current = read_keys(self._path)
        added = None
        if len(keys) == 1:
            added = add_key(self._path)
            await use_files(self._database, self._files, ALL_TABLES)
        newest = max(*keys, added or 0)
        behind = await self._behind(newest)
        if behind:
            return Rotated(current, newest if newest > current else None, restart=behind)
        if newest > current:
            use_key(self._path, newest)
        sealer = load_sealer(self._path)
        resealed, wait_s = await self._reseal(sealer)
        restart = await self._behind(newest, sealing=True)
        old = sorted(key_id for key_id in keys if key_id != newest)
        if drop and not restart and not wait_s:
            # A gateway may have sealed with an old key until the check above.
            more, wait_s = await self._reseal(sealer)
            resealed += more
        if restart or wait_s or not drop:
            return Rotated(newest, added, resealed, old=old, restart=restart, wait_s=wait_s)
        return Rotated(newest, added, resealed, drop_keys(self._path, left_of))

    async def _reseal(self, sealer: Sealer) -> tuple[int, int]:
        """How many records were sealed with another key, and how long old keys must stay."""
        now_s = await self._now_s()
        run = (await last_runs(self._database)).get(_LAST_FOUND.format(sealer.current))
        # No later than now: a clock that was ahead must not make the wait longer.
        since_s = now_s if run is None else min(run.at_s, now_s)
        # If this run is killed, the waiting time starts over.
        await self._note(sealer, now_s)
        resealed = await reseal(self._database, sealer)
        if resealed:
            since_s = await self._now_s()
        await self._note(sealer, since_s)
        return resealed, max(0, since_s + _UNUSED_S - await self._now_s())

    async def _note(self, sealer: Sealer, at_s: int) -> None:
        await note_run(self._database, _LAST_FOUND.format(sealer.current), at_s)

    async def _now_s(self) -> int:
        return await common_ms(self._database, self._now_ms()) // 1000

    async def _behind(self, key_id: int, *, sealing: bool = False) -> list[str]:
        return await nodes_without_key(self._database, key_id, self._now_ms(), sealing=sealing)


async def reseal(database: Database, sealer: Sealer) -> int:
    """Seals everything with the current key; returns how many records were sealed with another."""
    return sum([await _reseal(database, sealer, each) for each in _SEALED])


async def _reseal(database: Database, sealer: Sealer, kind: _Sealed) -> int:
    key = list(kind.sealed.table.primary_key.columns)
    same = [column == bindparam(f"old_{column.name}") for column in key]
    replace = Query(
        kind.sealed.table.update()
        .values({kind.sealed.name: bindparam("new_sealed")})
        .where(*same, kind.sealed == bindparam("old_sealed"))
    )
    count, width = 0, len(key)
    again = partial(_sealed_again, sealer, kind, width)
    async for rows in RowPieces(select(*key, kind.sealed, *kind.of), width).read(database):
        # An empty value is a reserved key without an answer, or was erased.
        old = [row for row in rows if row[width] and row[width][0] != sealer.current]
        await replace_rows(database, replace, again, old)
        count += len(old)
    return count


def _sealed_again(sealer: Sealer, kind: _Sealed, width: int, rows: Sequence[Row]) -> list[Row]:
    made = []
    for row in rows:
        sealed, context = bytes(row[width]), kind.context(*row[width + 1 :])
        made.append((sealer.seal(sealer.open(sealed, context), context), *row[:width], sealed))
    return made
