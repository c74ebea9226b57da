"""Erasing the receivers of a shop, while calls go on.

Reads a few hundred rows at a time and replaces each by one without its receiver, if it is still the
row that was read (compare and swap). The database shows what is done, so an erasure that is killed
is simply restarted: it reads all rows, and writes those that are left.

- Orders lose the receiver, the place and the remark. Everything that is counted stays.
- Waybills lose their print data. A waybill that is still
  pending at its carrier, or whose receiver is being changed there, needs its receiver: the erasure
  waits for it.
- Of answers under an Idempotency-Key only the key stays, so that no repetition is charged. If a
  call read before the erasure and its answer is stored after it, that answer is not replayed.
- Rejected records of the shop are deleted, also those that were sent as another kind.
"""

import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from tollway.consent.erasures import Erasure, count_erased, end_erasure, orders_erased
from tollway.contract.operation import OwnerKind
from tollway.intake.record_problems import read_object
from tollway.intake.rejects import record_context
from tollway.intake.sources import list_sources
from tollway.ledger.request_log import first_id, time_of
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import RECORD_KINDS
from tollway.operations.orders.records import OrderRow, erased_order
from tollway.operations.orders.schema import shop_order
from tollway.pipeline.replay import erased_answer
from tollway.store.clock import common_ms
from tollway.store.database import Database, Row, Transaction
from tollway.store.key_file import SealError
from tollway.store.query import Query, alike
from tollway.store.schema.carriers import IS_CHANGING, waybill
from tollway.store.schema.consent import consent, consent_use
from tollway.store.schema.intake import rejected_record
from tollway.store.schema.ledger import idempotency_key
from tollway.store.sealing import Sealer
from tollway.store.small_commits import Columns, RowPieces, ScannedPieces, replace_rows

logger = logging.getLogger("tollway.gateway")

# A waybill may be dated a second ahead, and the clocks of nodes differ.
_AHEAD_S = 2
_NEVER_S = 2**53

_of_shop = bindparam("of_shop", type_=String)
_before_s, _later_s = (bindparam(name, type_=BigInteger) for name in ("before_s", "later_s"))

_ORDERS = RowPieces(select(*shop_order.c).where(shop_order.c.owner_id == _of_shop), 3)
_ERASED = ("province", "city", "town", "remark", "sealed", "ready")
_ERASE_ORDER = Query(
    lambda: (
        shop_order.update()
        .values({name: bindparam(f"new_{name}") for name in _ERASED})
        .where(
            *(column == bindparam(f"old_{column.name}") for column in shop_order.primary_key),
            # If a newer version of the order has arrived meanwhile, its number differs.
            shop_order.c.change_no == bindparam("old_change"),
        )
    )
)


def _is_old(at_s: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether a row of this date was stored when the erasure was requested: what came after that
    has no date in the future. Time passes while rows are read, so `_Dates` looks once more."""
    return or_(at_s <= _before_s, at_s > _later_s)


def _is_old_waybill(of: Columns) -> ColumnElement[bool]:
    return and_(of.owner_id == _of_shop, _is_old(of.asked_at_s))


_waybill = (waybill.c.account_id, waybill.c.object_id)
_WAYBILLS = ScannedPieces(
    waybill,
    lambda of: (of.state, of.changing_until_s, of.sealed, of.asked_at_s),
    lambda of: and_(_is_old_waybill(of), func.length(of.sealed) > 0),
)
_ERASE_WAYBILL = Query(
    lambda: (
        waybill.update()
        .values(sealed=bindparam("new_sealed"))
        .where(
            *(column == bindparam(f"old_{column.name}") for column in _waybill),
            waybill.c.sealed == bindparam("old_sealed"),
            waybill.c.state == bindparam("old_state"),
            literal_column(f"NOT ({IS_CHANGING})"),
        )
    )
)

_answer = (idempotency_key.c.account_id, idempotency_key.c.key)


def _issued_with(of: Columns) -> tuple[ColumnElement[bool], ...]:
    return (waybill.c.request_id == of.request_id, _is_old_waybill(waybill.c))


def _has_receivers(of: Columns) -> ColumnElement[bool]:
    was_read = exists().where(
        or_(
            of.request_id < bindparam("read_before", type_=String),
            of.request_id >= bindparam("read_later", type_=String),
        ),
        consent.c.owner_kind == OwnerKind.SHOP.value,
        consent.c.owner_id == _of_shop,
        alike(consent_use, consent, "owner_kind", "owner_id"),
        consent_use.c.consent_id == consent.c.id,
        consent_use.c.request_id == of.request_id,
    )
    # A repeated answer is stored under the request that paid, whose use may have been deleted. It
    # may be stored long after the erasure was requested: if a carrier was slow, or the waybill was
    # not erased yet.
    was_issued = exists().where(*_issued_with(of))
    # A reserved key has no answer yet.
    is_kept = func.length(of.sealed) > bindparam("erased_bytes", type_=BigInteger)
    return and_(is_kept, or_(was_read, was_issued))


_ANSWERS = ScannedPieces(
    idempotency_key,
    lambda of: (
        of.sealed,
        of.request_id,
        select(func.min(waybill.c.asked_at_s)).where(*_issued_with(of)).scalar_subquery(),
    ),
    _has_receivers,
)
_ERASE_ANSWER = Query(
    lambda: (
        idempotency_key.update()
        .values(sealed=bindparam("new_sealed"))
        .where(
            *(column == bindparam(f"old_{column.name}") for column in _answer),
            idempotency_key.c.sealed == bindparam("old_sealed"),
        )
    )
)

_reject = (rejected_record.c.source, rejected_record.c.id)
_REJECTED = RowPieces(
    select(
        *_reject,
        rejected_record.c.sealed,
        rejected_record.c.received_at_s,
    ).where(_is_old(rejected_record.c.received_at_s)),
    2,
)
# The fields in which records with receivers name their shop.
_NAMES_SHOP = {
    kind.spoken_for[1]
    for kind in RECORD_KINDS.values()
    if kind.is_sealed and kind.spoken_for[0] == OwnerKind.SHOP.value
}
_DROP_REJECTED = Query(
    lambda: rejected_record.delete().where(
        *(column == bindparam(f"old_{column.name}") for column in _reject),
        rejected_record.c.sealed == bindparam("old_sealed"),
    )
)


async def erase(
    database: Database, sealer: Sealer, runtime: Runtime, erasure: Erasure, read_lag_s: int
) -> Erasure:
    """Erases what can be erased now, and ends the erasure if that is everything. Calls may read a
    replica that is up to `read_lag_s` behind."""
    began_s = time.monotonic()
    began_ms = await common_ms(database, runtime.at_ms())
    # A node whose clock is still ahead may have stored newer ones since the first attempt.
    has_late = erasure.waiting is None or not database.is_shared
    dates = _Dates(erasure.asked_at_s, began_ms / 1000 - began_s if has_late else _NEVER_S)
    work = _Erasing(database, sealer, erasure, dates)
    read_before_ms = erasure.read_before_ms or 0
    if erasure.waiting is None:
        await work.orders()
        # What is read from now on has no receivers, or only those of later orders. Other gateways
        # may read a replica even if the settings of this process name none.
        now_ms = await common_ms(database, runtime.at_ms())
        behind_s = read_lag_s if database.is_shared else 0
        read_before_ms = now_ms + (_AHEAD_S + behind_s) * 1000
        await orders_erased(database, erasure, read_before_ms)
        await work.rejected()
    waiting = await work.waybills()
    await work.answers(read_before_ms)
    return await end_erasure(database, runtime, erasure, waiting)


class _Dates:
    """Which rows were stored when an erasure was requested, by their dates. The database's clock is
    so many seconds ahead of the monotonic one."""

    def __init__(self, asked_at_s: int, after_running_s: float) -> None:
        self._before_s = asked_at_s + _AHEAD_S
        self._after_running_s = after_running_s

    @property
    def later_s(self) -> int:
        return int(self._after_running_s + time.monotonic()) + _AHEAD_S

    @property
    def values(self) -> dict[str, object]:
        """Parameters of the statements."""
        return {"before_s": self._before_s, "later_s": self.later_s}

    def are_old(self, at_s: int) -> bool:
        """For a row that was read just now."""
        return at_s <= self._before_s or at_s > self.later_s


class _Erasing:
    """One erasure, kind by kind."""

    def __init__(self, database: Database, sealer: Sealer, erasure: Erasure, dates: _Dates) -> None:
        self._database = database
        self._sealer = sealer
        self._erasure = erasure
        self._dates = dates
        self._shop = erasure.owner_id
        named = re.escape(self._shop.encode())
        self._whole_id = re.compile(b"(?<![0-9A-Za-z])" + named + b"(?![0-9A-Za-z])")

    async def orders(self) -> None:
        def make(rows: Sequence[Row]) -> list[Row]:
            made: list[Row] = []
            for old in map(OrderRow._make, rows):
                # Orders that came after the request stay as they are.
                if old.sealed and old.change_no <= self._erasure.last_change:
                    new = erased_order(old, self._sealer)
                    changed = [getattr(new, name) for name in _ERASED]
                    made.append((*changed, *old[:3], old.change_no))
            return made

        async for rows in _ORDERS.read(self._database, of_shop=self._shop):
            await self._put("orders", _ERASE_ORDER, make, rows)

    async def waybills(self) -> int:
        """Returns how many could not be erased yet."""
        while True:
            waiting = changed = 0
            async for rows in _WAYBILLS.read(self._database, **self._stored()):
                old = [row[:-1] for row in rows if self._dates.are_old(row[-1])]
                ended = [row for row in old if not _is_needed(*row[2:4])]
                erased = await self._put("waybills", _ERASE_WAYBILL, _erased_waybills, ended)
                waiting += len(old) - len(ended)
                changed += len(ended) - erased
            # Another transaction changed or erased some of them: check again.
            if not changed:
                return waiting

    async def answers(self, read_before_ms: int) -> None:
        erased_bytes = len(self._sealer.seal(b"", b""))

        def make(rows: Sequence[Row]) -> list[Row]:
            return [
                (erased_answer(self._sealer, *key), *key, bytes(sealed)) for *key, sealed in rows
            ]

        def is_old(request_id: str, asked_at_s: int | None) -> bool:
            began_ms = time_of(request_id)
            return (
                began_ms <= read_before_ms
                or self._dates.are_old(began_ms // 1000)
                or (asked_at_s is not None and self._dates.are_old(asked_at_s))
            )

        values = {
            "erased_bytes": erased_bytes,
            "read_before": first_id(read_before_ms + 1),
            "read_later": first_id(self._dates.later_s * 1000),
        }
        async for rows in _ANSWERS.read(self._database, **self._stored(), **values):
            old = [row[:-2] for row in rows if is_old(*row[-2:])]
            await self._put("answers", _ERASE_ANSWER, make, old)

    async def rejected(self) -> None:
        # All records from a source of only this shop belong to it, even invalid JSON.
        own = {
            each.name
            for each in await list_sources(self._database)
            if each.speaks_for.shop == (self._shop,) and not each.speaks_for.channel
        }

        def make(rows: Sequence[Row]) -> list[Row]:
            return [
                (source, record_id, bytes(sealed))
                for source, record_id, sealed in rows
                if source in own or self._is_own(source, record_id, sealed)
            ]

        async for rows in _REJECTED.read(self._database, **self._dates.values):
            old = [row[:-1] for row in rows if self._dates.are_old(row[-1])]
            await self._put("rejected", _DROP_REJECTED, make, old)

    def _is_own(self, source: str, record_id: str, sealed: bytes) -> bool:
        """Whether a rejected record is of the shop, whatever kind it was sent as. One that names no
        shop in the right field, or cannot be read, is if it contains its id."""
        try:
            record = self._sealer.open(bytes(sealed), record_context(source, record_id))
        except SealError as error:
            logger.error("rejected record %s of %s is left as it is: %s", record_id, source, error)
            return False
        with suppress(ValueError):
            values = read_object(record)
            named = [values[field] for field in _NAMES_SHOP if field in values]
            if named:
                return self._shop in (str(each).strip() for each in named)
            # As it is read: JSON can write every character in another way.
            record = str(values).encode(errors="surrogatepass")
        return self._whole_id.search(record) is not None

    async def _put(
        self,
        what: str,
        query: Query,
        make: Callable[[Sequence[Row]], list[Row]],
        rows: Sequence[Row],
    ) -> int:
        async def note(transaction: Transaction, erased: int) -> None:
            await count_erased(transaction, self._erasure, what, erased)

        return await replace_rows(self._database, query, make, rows, note)

    def _stored(self) -> dict[str, object]:
        """Parameters for what was stored when the erasure was requested."""
        return {"of_shop": self._shop, **self._dates.values}


def _is_needed(state: str, changing_until_s: int | None) -> bool:
    """Whether a carrier may still need the receiver. A waybill that was cancelled while it changed
    stays marked as changing."""
    return state == "pending" or (state == "issued" and changing_until_s is not None)


def _erased_waybills(rows: Sequence[Row]) -> list[Row]:
    return [
        (b"", account_id, object_id, bytes(sealed), state)
        for account_id, object_id, state, _, sealed in rows
    ]
