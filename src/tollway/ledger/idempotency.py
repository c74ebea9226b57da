"""Answers stored for replay: a request with an Idempotency-Key is done and paid once.

The answer is stored, sealed, in the commit that charges for it. The same request with the same key
then gets it again for free; a different request with that key is refused.

A request that waits for a carrier reserves its key in the commit that holds its price, with an
empty answer. From then on a different request with that key is refused. The same request passes as
if nothing were stored, and finds what the first one began.

A key expires after a day, by the clock of a shared database. An embedded database uses one that a
jump of the machine's clock does not mislead, whether that jumps ahead or back.
"""

import msgspec
from sqlalchemy import Integer, String, and_, bindparam, func, or_, select

from tollway.ledger.charges import ActResult, Charge, IdempotencyKey
from tollway.ledger.request_log import time_of
from tollway.ledger.runtime import cautious_clock
from tollway.store.clock import earlier_ms
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, equals, insert_row
from tollway.store.schema.consent import receiver_erasure
from tollway.store.schema.ledger import idempotency_key, is_reserved
from tollway.store.small_commits import PieceBudget, delete_oldest

KEPT_MS = 24 * 3600 * 1000
_AHEAD_MS = 2000
_SWEEP_PIECES_MAX = 200
_NOT_YET = b""


class KeptAnswer(msgspec.Struct, frozen=True):
    """A stored answer and the request that got it, or a key that a request has reserved."""

    request_id: str
    fingerprint: bytes
    sealed: bytes
    # Whether it may contain receivers that the shop has erased since.
    is_erased: bool = False

    def is_reserved_for(self, idempotency_key: IdempotencyKey) -> bool:
        """Whether the same request has begun, and may not have ended yet."""
        return self.sealed == _NOT_YET and idempotency_key.is_same(self.fingerprint)


_of_key = equals(idempotency_key, account_id="of_account", key="of_key")
_read_before_ms = (
    select(receiver_erasure.c.read_before_ms)
    .where(receiver_erasure.c.owner_id == bindparam("of_shop", type_=String))
    .scalar_subquery()
)
_FIND = Query(
    lambda: select(
        idempotency_key.c.request_id,
        idempotency_key.c.fingerprint,
        idempotency_key.c.sealed,
        _read_before_ms,
    ).where(_of_key, idempotency_key.c.at_ms > bindparam("older_ms"))
)
_is_reserved_by = and_(is_reserved, idempotency_key.c.request_id == bindparam("reserved_by"))
_new = insert_row(idempotency_key)
_KEEP = Query(
    lambda: _new.on_conflict_do_update(
        index_elements=[*idempotency_key.primary_key],
        set_={c.name: _new.excluded[c.name] for c in idempotency_key.c if not c.primary_key},
        # Also replaces an expired answer that is not swept yet.
        where=or_(idempotency_key.c.at_ms <= bindparam("older_ms"), _is_reserved_by),
    )
)
_KEYS = Query(
    lambda: (
        select(idempotency_key.c.key, idempotency_key.c.request_id, idempotency_key.c.at_ms)
        .where(
            idempotency_key.c.account_id == bindparam("of_account"),
            idempotency_key.c.key >= bindparam("first"),
            idempotency_key.c.key < bindparam("end"),
            idempotency_key.c.at_ms > bindparam("older_ms"),
        )
        .order_by(idempotency_key.c.key.desc())
        .limit(bindparam("most", type_=Integer))
    )
)
# Prefix of header values that the gateway's own pages send, such as keys: no header from outside
# can contain a newline.
OF_PAGES = "\n"
_OLDEST = Query(lambda: select(func.min(idempotency_key.c.at_ms)))
_FREE = Query(lambda: idempotency_key.delete().where(_of_key, _is_reserved_by))
_DROP_OLDEST = delete_oldest(idempotency_key, idempotency_key.c.at_ms)
_DROP_DATED_AHEAD = delete_oldest(
    idempotency_key, idempotency_key.c.at_ms, idempotency_key.c.at_ms > bindparam("after")
)
# Later than any answer.
_LATEST_MS = 2**62


def _older_ms(reader: Reader, now_ms: int) -> int:
    """Answers stored up to this time have expired, swept or not. An embedded database uses this
    machine's clock, which may have jumped ahead: then a repeated request would be charged."""
    if not reader.is_shared:
        now_ms = min(now_ms, cautious_clock().at_ms())
    return now_ms - KEPT_MS


async def find_kept(
    reader: Reader, account_id: str, key: str, now_ms: int, shop_id: str | None = None
) -> KeptAnswer | None:
    """The answer under a key; `shop_id` is the shop whose data the call reads, if any."""
    row = await reader.fetch_one(
        _FIND,
        of_account=account_id,
        of_key=key,
        older_ms=_older_ms(reader, now_ms),
        of_shop=shop_id,
    )
    if row is None:
        return None
    request_id, fingerprint, sealed, read_before_ms = row
    # Decided by when the call began, not by when it was stored: it may have waited for a lock.
    began_ms = time_of(request_id)
    is_erased = read_before_ms is not None and (
        # A time more than a day ahead is of an erasure while the clock was ahead.
        began_ms <= read_before_ms < now_ms + KEPT_MS
        # The clock was ahead when the call began. Of several nodes, one may be ahead now.
        or (not reader.is_shared and began_ms > now_ms + _AHEAD_MS)
    )
    return KeptAnswer(request_id, fingerprint, sealed, is_erased)


async def kept_keys(
    reader: Reader, account_id: str, prefix: str, now_ms: int, most: int
) -> list[tuple[str, str, int]]:
    """The last of an account's keys with this prefix and a stored answer, each with the request
    that paid and when."""
    rows = await reader.fetch_all(
        _KEYS,
        of_account=account_id,
        first=prefix,
        end=prefix + "\x7f",
        older_ms=_older_ms(reader, now_ms),
        most=most,
    )
    return [(key, request_id, int(at_ms)) for key, request_id, at_ms in rows]


async def keep(
    transaction: Transaction,
    charge: Charge,
    idempotency_key: IdempotencyKey,
    result: ActResult,
) -> bool:
    """Stores an answer, unless another one was stored under the key meanwhile. For a call that
    waits for a carrier, only reserves the key; one by its `reserved_by` is replaced.

    The answer belongs to the request that paid, which may be an earlier one without a key.
    """
    kept = await transaction.execute(
        _KEEP,
        account_id=charge.account_id,
        key=idempotency_key.key,
        request_id=result.replay_of or charge.request_id,
        at_ms=charge.at_ms + (0 if transaction.is_shared else cautious_clock().ahead_ms()),
        fingerprint=idempotency_key.fingerprint,
        sealed=idempotency_key.seal(result.data) if result.is_success else _NOT_YET,
        older_ms=_older_ms(transaction, charge.at_ms),
        reserved_by=idempotency_key.reserved_by,
    )
    return kept == 1


async def free_key(transaction: Transaction, account_id: str, key: str, request_id: str) -> None:
    """Frees a key that a request has reserved: nothing was done."""
    await transaction.execute(_FREE, of_account=account_id, of_key=key, reserved_by=request_id)


async def oldest_kept_s(reader: Reader, now_ms: int) -> float:
    """The age of the oldest stored answer; much more than a day means that the sweep cannot keep
    up."""
    ((at_ms,),) = await reader.fetch_all(_OLDEST)
    return 0 if at_ms is None else max(0, now_ms - int(at_ms)) / 1000


async def sweep_kept(database: Database, now_ms: int) -> int:
    """Deletes the oldest answers that have expired by both the node's and the database's clock, as
    many as one run may; returns how many."""
    older_ms = await earlier_ms(database, now_ms) - KEPT_MS
    budget = PieceBudget(_SWEEP_PIECES_MAX)
    swept = await budget.sweep(database, _DROP_OLDEST, until=older_ms)
    clock = cautious_clock()
    if not database.is_shared and clock.trusted_s() * 1000 > KEPT_MS:
        # What was stored while the clock was ahead would stay until that time comes. All that is
        # dated so was stored more than a day ago: since then answers were dated by this clock.
        latest_ms = now_ms + clock.ahead_ms()
        ahead = (now_ms + KEPT_MS, latest_ms - KEPT_MS), (latest_ms + KEPT_MS, _LATEST_MS)
        for after_ms, until_ms in ahead:
            swept += await budget.sweep(database, _DROP_DATED_AHEAD, after=after_ms, until=until_ms)
    return swept
