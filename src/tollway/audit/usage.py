"""Usage against entries: are the sums by day what the counted entries took?

Entries behind the cursor of a balance are not counted yet, and are left out; so is a balance whose
entries were dropped before they were counted, until the cursor has passed them. The sums by minute
and by hour are dropped after a while; as long as they are there, they are made in the same
statement.
"""

from collections.abc import Iterator

from sqlalchemy import and_, exists, func, literal, select, union_all

from tollway.audit.check import Breach, Check
from tollway.store.database import Row
from tollway.store.schema.ledger import archived_balance, entry, usage, usage_cursor

_DAY_S = 86_400

# A union that is added up, and not a join, because any of them may be missing.
_parts = union_all(
    select(
        usage.c.account_id, usage.c.unit, usage.c.amount.label("summed"), literal(0).label("taken")
    ).where(usage.c.span_s == _DAY_S),
    select(usage_cursor.c.account_id, usage_cursor.c.unit, usage_cursor.c.skipped, literal(0)),
    select(entry.c.account_id, entry.c.unit, literal(0), -entry.c.amount)
    .join(
        usage_cursor,
        and_(
            usage_cursor.c.account_id == entry.c.account_id,
            usage_cursor.c.unit == entry.c.unit,
            entry.c.number <= usage_cursor.c.number,
        ),
    )
    .where(entry.c.kind == "charge"),
    select(
        archived_balance.c.account_id,
        archived_balance.c.unit,
        literal(0),
        -archived_balance.c.charge,
    ).join(
        usage_cursor,
        and_(
            usage_cursor.c.account_id == archived_balance.c.account_id,
            usage_cursor.c.unit == archived_balance.c.unit,
            archived_balance.c.number <= usage_cursor.c.number,
        ),
    ),
).subquery("parts")
_is_behind = exists().where(
    archived_balance.c.account_id == _parts.c.account_id,
    archived_balance.c.unit == _parts.c.unit,
    usage_cursor.c.account_id == _parts.c.account_id,
    usage_cursor.c.unit == _parts.c.unit,
    archived_balance.c.number > usage_cursor.c.number,
)
_wrong = (
    select(
        _parts.c.account_id,
        _parts.c.unit,
        func.sum(_parts.c.summed),
        func.sum(_parts.c.taken),
    )
    .where(~_is_behind)
    .group_by(_parts.c.account_id, _parts.c.unit)
    .having(func.sum(_parts.c.summed) != func.sum(_parts.c.taken))
)


def _tell(row: Row) -> Iterator[Breach]:
    account_id, unit, summed, taken = row
    yield Breach("usage", account_id, unit, f"the days add up to {summed}, the entries to {taken}")


USAGE = Check("usage", "the sums by day are what the entries took", usage, _wrong, _tell)
