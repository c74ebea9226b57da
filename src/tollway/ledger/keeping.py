"""Answers kept for repetition: a request with an Idempotency-Key is done and paid once.

The answer is stored, sealed, in the commit that charges for it. The same request with the same key
then gets it again for nothing; another request with that key is refused.
"""

import msgspec
from sqlalchemy import bindparam, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from tollway.ledger.charges import Acted, Charge, Keeping
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query
from tollway.store.settlement_tables import kept_answer

KEPT_MS = 24 * 3600 * 1000


class KeptAnswer(msgspec.Struct, frozen=True):
    """An answer that was given before, and to which request."""

    request_id: str
    fingerprint: bytes
    sealed: bytes


_of_key = (
    kept_answer.c.account_id == bindparam("of_account"),
    kept_answer.c.key == bindparam("of_key"),
)
_FIND = Query(
    select(*(kept_answer.c[name] for name in KeptAnswer.__struct_fields__)).where(
        *_of_key, kept_answer.c.at_ms > bindparam("older_ms")
    )
)
_KEEP = Query(
    insert(kept_answer)
    .values({column.name: bindparam(column.name) for column in kept_answer.c})
    .on_conflict_do_nothing()
)
_DROP = Query(kept_answer.delete().where(*_of_key, kept_answer.c.at_ms <= bindparam("older_ms")))
_primary_key = tuple_(kept_answer.c.account_id, kept_answer.c.key)
# Whoever sweeps waits for nobody: what is in use is swept out the next time.
_DROP_ALL = Query(
    kept_answer.delete().where(
        _primary_key.in_(
            select(kept_answer.c.account_id, kept_answer.c.key)
            .where(kept_answer.c.at_ms <= bindparam("older_ms"))
            .with_for_update(skip_locked=True)
        )
    )
)


async def find_kept(reader: Reader, account_id: str, key: str, now_ms: int) -> KeptAnswer | None:
    row = await reader.fetch_one(
        _FIND, of_account=account_id, of_key=key, older_ms=now_ms - KEPT_MS
    )
    return None if row is None else KeptAnswer(*row)


async def keep(transaction: Transaction, charge: Charge, keeping: Keeping, acted: Acted) -> bool:
    """Keeps an answer, unless another one was kept under the key in the meantime.

    It is kept as the answer of the request that paid, which may be an earlier one without the key.
    """
    # One that has had its day and is not swept out yet must not be in the way.
    await transaction.execute(
        _DROP, of_account=charge.account_id, of_key=keeping.key, older_ms=charge.at_ms - KEPT_MS
    )
    kept = await transaction.execute(
        _KEEP,
        account_id=charge.account_id,
        key=keeping.key,
        request_id=acted.replay_of or charge.request_id,
        at_ms=charge.at_ms,
        fingerprint=keeping.fingerprint,
        sealed=keeping.seal(acted.data),
    )
    return kept == 1


async def sweep_kept(database: Database, now_ms: int) -> int:
    """Drops the answers whose time is over."""
    return await database.write(lambda tx: tx.execute(_DROP_ALL, older_ms=now_ms - KEPT_MS))
