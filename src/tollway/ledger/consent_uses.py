"""The reads that the owner of a grant can see: one row per successful call, in the call's commit.

A row stays as long as the entry of the call's charge, because the audit compares the two.
"""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Integer, bindparam, exists, func, or_, select

from tollway.ledger.archiving import NO_END_MS, old_rows
from tollway.ledger.charges import GrantKey
from tollway.store.database import Transaction
from tollway.store.query import Query, alike, equals, insert_row
from tollway.store.schema.consent import consent, consent_use
from tollway.store.schema.ledger import entry

_ADD_USE = Query(lambda: insert_row(consent_use))
_before_ms, _now_ms = (bindparam(name, type_=BigInteger) for name in ("before_ms", "now_ms"))
_of_grant = equals(consent_use, owner_kind="of_kind", owner_id="of_owner", consent_id="of_consent")
OLD_USES = Query(
    lambda: select(func.count()).select_from(consent_use).where(consent_use.c.at_ms < _before_ms)
)
# The grants whose oldest use is old; one that is dated in the future is as old as the next one.
OLD_GRANTS = Query(
    lambda: (
        select(consent.c.owner_kind, consent.c.owner_id, consent.c.id)
        .where(
            select(consent_use.c.at_ms)
            .where(
                alike(consent_use, consent, "owner_kind", "owner_id"),
                consent_use.c.consent_id == consent.c.id,
                consent_use.c.at_ms <= _now_ms,
            )
            .order_by(consent_use.c.request_id)
            .limit(1)
            .scalar_subquery()
            < _before_ms
        )
        .order_by(consent.c.owner_kind, consent.c.owner_id, consent.c.id)
    )
)
_OLDEST = Query(
    lambda: (
        select(
            consent_use.c.request_id,
            consent_use.c.at_ms,
            # Only the charge: the refund of a call may stay longer.
            exists().where(
                entry.c.request_id == consent_use.c.request_id, entry.c.kind == "charge"
            ),
        )
        .where(_of_grant)
        .order_by(consent_use.c.request_id)
        .limit(bindparam("most", type_=Integer))
    )
)
_DROP = Query(
    lambda: consent_use.delete().where(
        _of_grant,
        consent_use.c.request_id <= bindparam("last"),
        # Redundant, but lets the planner skip partitions of newer months.
        or_(consent_use.c.at_ms < _before_ms, consent_use.c.at_ms > _now_ms),
    )
)
_from_ms, _to_ms = (bindparam(name, type_=BigInteger) for name in ("from_ms", "to_ms"))
_MONTH = Query(
    lambda: select(
        select(func.count())
        .select_from(consent_use)
        .where(consent_use.c.at_ms >= _from_ms, consent_use.c.at_ms < _to_ms)
        .scalar_subquery(),
        exists().where(entry.c.at_ms < _to_ms),
    )
)

# In the order of the table's columns.
Use = tuple[object, ...]


def use_of(
    grant: GrantKey,
    request_id: str,
    at_ms: int,
    operation: str,
    replay_of: str | None = None,
    records: int | None = None,
) -> Use:
    key = (grant.owner_kind, grant.owner_id, grant.consent_id, request_id)
    return (*key, at_ms, operation, replay_of, records)


async def add_uses(transaction: Transaction, uses: Sequence[Use]) -> None:
    if transaction.is_shared:
        await transaction.execute_many(_ADD_USE, uses)
    else:
        await transaction.insert_rows(consent_use, uses)


async def uses_of_month(transaction: Transaction, from_ms: int, to_ms: int) -> int | None:
    """How many uses a month has; None while entries of the month exist."""
    row = await transaction.fetch_one(_MONTH, from_ms=from_ms, to_ms=to_ms)
    assert row is not None
    uses, has_entries = row
    return None if has_entries else int(uses)


async def remove_old(
    transaction: Transaction,
    most: int,
    *,
    grant: GrantKey,
    before_ms: int,
    now_ms: int = NO_END_MS,
) -> int:
    """Removes some of the oldest uses of a grant whose entries are gone; returns how many."""
    its = {
        "of_kind": grant.owner_kind,
        "of_owner": grant.owner_id,
        "of_consent": grant.consent_id,
    }
    async with transaction.with_new_plan():
        rows = await transaction.fetch_all(_OLDEST, **its, most=most)
        old, _ = old_rows(rows, 1, before_ms, now_ms, is_kept=lambda row: bool(row[2]))
        if not old:
            return 0
        limits = {"before_ms": before_ms, "now_ms": now_ms}
        return await transaction.execute(_DROP, **its, last=old[-1][0], **limits)
