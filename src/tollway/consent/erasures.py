"""Erasing a shop's receivers: who requested it, how far it is, and what it erased.

A request is stored with its record in the trail; a gateway that serves the database does the work
in small pieces, and counts what it erased in the same transactions. So the counts are right even
after a kill, and the next start finishes the erasure.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec
from sqlalchemy import BigInteger, bindparam, select

from tollway.consent.owners import find_owner
from tollway.contract.operation import OwnerKind
from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.clock import common_s
from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.query import Query, changed, equals, upsert
from tollway.store.schema.consent import receiver_erasure

ACT = "shop erase-receivers"
LastChangeOf = Callable[[Transaction, str], Awaitable[int]]


class ErasureUnderWayError(LedgerError):
    """The previous erasure has not ended."""


class Erasure(msgspec.Struct, frozen=True):
    """The last erasure of a shop. `waiting` is None until all that can be erased at once is erased;
    then it is how many waybills a carrier still needs. Orders with a higher change number than
    `last_change` came in after the request. Calls that began before `read_before_ms` may have read
    receivers; until the orders are erased, it is that of the previous erasure, or None."""

    owner_id: str
    asked_at_s: int
    asked_by: str
    last_change: int
    finished_at_s: int | None = None
    waiting: int | None = None
    orders: int = 0
    waybills: int = 0
    answers: int = 0
    rejected: int = 0
    read_before_ms: int | None = None

    @property
    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in COUNTED}


COUNTED = ("orders", "waybills", "answers", "rejected")
_columns = [receiver_erasure.c[name] for name in Erasure.__struct_fields__]
_PUT = upsert(receiver_erasure)
_FIND = Query(lambda: select(*_columns).where(receiver_erasure.c.owner_id == bindparam("of_shop")))
_OPEN = Query(
    lambda: (
        select(*_columns)
        .where(receiver_erasure.c.finished_at_s.is_(None))
        .order_by(receiver_erasure.c.asked_at_s, receiver_erasure.c.owner_id)
    )
)
_same = (
    equals(receiver_erasure, owner_id="of_shop", asked_at_s="of_asked_s"),
    receiver_erasure.c.finished_at_s.is_(None),
)
_COUNT = {
    name: Query(
        receiver_erasure.update()
        .where(*_same)
        .values({name: receiver_erasure.c[name] + bindparam("more", type_=BigInteger)})
    )
    for name in COUNTED
}
_ORDERS_DONE = Query(lambda: changed(receiver_erasure, read_before_ms="before_ms").where(*_same))
_WAIT = Query(lambda: changed(receiver_erasure, waiting="now_waiting").where(*_same))
_FINISH = Query(
    lambda: (
        receiver_erasure.update().where(*_same).values(waiting=0, finished_at_s=bindparam("at_s"))
    )
)


@transactional
async def ask_erasure(
    transaction: Transaction, runtime: Runtime, shop_id: str, last_change_of: LastChangeOf
) -> Erasure:
    """Requests the erasure of all receivers of a shop that are stored now."""
    await find_owner(transaction, OwnerKind.SHOP, shop_id)
    await transaction.lock_names([f"erasure of {shop_id}"])
    before = await find_erasure(transaction, shop_id)
    if before is not None and before.finished_at_s is None:
        raise ErasureUnderWayError(
            "The receivers of shop {shop_id} are being erased already.", shop_id=shop_id
        )
    last_change = await last_change_of(transaction, shop_id)
    asked_at_s = await common_s(transaction, runtime.now_s())
    # Stored answers that were read before the last erasure are still not replayed.
    read_before_ms = None if before is None else before.read_before_ms
    asked = Erasure(shop_id, asked_at_s, runtime.by, last_change, read_before_ms=read_before_ms)
    await transaction.execute(_PUT, **msgspec.structs.asdict(asked))
    await record_act(transaction, runtime, ACT, f"shop {shop_id}")
    return asked


async def find_erasure(reader: Reader, shop_id: str) -> Erasure | None:
    row = await reader.fetch_one(_FIND, of_shop=shop_id)
    return None if row is None else Erasure(*row)


async def open_erasures(reader: Reader) -> list[Erasure]:
    """The erasures that have not ended, the oldest first."""
    return [Erasure(*row) for row in await reader.fetch_all(_OPEN)]


async def count_erased(transaction: Transaction, erasure: Erasure, what: str, rows: int) -> None:
    """Counts erased rows, in the transaction that erases them."""
    if rows:
        await transaction.execute(_COUNT[what], **_named(erasure), more=rows)


async def orders_erased(database: Database, erasure: Erasure, read_before_ms: int) -> None:
    """Stores up to when calls may have read receivers: such a call's answer may be stored only
    after stored answers were erased, and is then not replayed."""
    await database.write_statement(_ORDERS_DONE, **_named(erasure), before_ms=read_before_ms)


@transactional
async def end_erasure(
    transaction: Transaction, runtime: Runtime, erasure: Erasure, waiting: int
) -> Erasure:
    """Ends an erasure, unless waybills wait; the trail records what it erased as done by the person
    who requested it."""
    by = replace(runtime, by=erasure.asked_by)
    if waiting:
        await transaction.execute(_WAIT, **_named(erasure), now_waiting=waiting)
        is_ended = 0
    else:
        is_ended = await transaction.execute(_FINISH, **_named(erasure), at_s=runtime.at_s())
    now = await find_erasure(transaction, erasure.owner_id)
    assert now is not None
    if is_ended:
        subject = f"shop {erasure.owner_id}"
        await record_act(transaction, by, f"{ACT} done", subject, after=now.counts)
    return now


def _named(erasure: Erasure) -> dict[str, object]:
    return {"of_shop": erasure.owner_id, "of_asked_s": erasure.asked_at_s}
