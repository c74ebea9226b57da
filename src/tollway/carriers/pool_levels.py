"""How many numbers the pools have left, and how fast they are taken."""

from collections.abc import Mapping
from math import ceil

import msgspec
from sqlalchemy import bindparam, exists, func, select, text

from tollway.carriers.pools import SHARED, Pool
from tollway.store.database import Database
from tollway.store.query import Query, of_many
from tollway.store.schema.carriers import carrier, carrier_link, waybill, waybill_number

COUNTED_MAX = 100_000
# Of all pools together, but at least so many of each.
_COUNTED_OF_ALL = 1_000_000
_COUNTED_MIN = 1000

_WITH_POOL = Query(
    lambda: (
        select(carrier.c.wp_code)
        .where(
            exists().where(
                waybill_number.c.wp_code == carrier.c.wp_code, waybill_number.c.owner_id == SHARED
            ),
            # A connected carrier issues its own numbers, whatever is left in a pool.
            ~exists().where(carrier_link.c.wp_code == carrier.c.wp_code),
        )
        .order_by(carrier.c.wp_code)
    )
)
_left = (
    select(waybill_number.c.number)
    .where(
        waybill_number.c.wp_code == bindparam("of_carrier"),
        waybill_number.c.owner_id == SHARED,
        waybill_number.c.is_taken == 0,
    )
    .limit(bindparam("most"))
    .subquery()
)
_COUNT = Query(lambda: select(func.count()).select_from(_left))


# Every pool, found by the index of the pools: from each owner and carrier to the next one.
_POOLS = Query(
    lambda: text("""
WITH RECURSIVE owner(owner_id) AS (
    SELECT min(owner_id) FROM waybill_number
    UNION ALL
    SELECT (SELECT min(next.owner_id) FROM waybill_number AS next
        WHERE next.owner_id > owner.owner_id)
    FROM owner WHERE owner.owner_id IS NOT NULL
), pool(owner_id, wp_code) AS (
    SELECT owner.owner_id, (SELECT min(first.wp_code) FROM waybill_number AS first
        WHERE first.owner_id = owner.owner_id)
    FROM owner WHERE owner.owner_id IS NOT NULL
    UNION ALL
    SELECT pool.owner_id, (SELECT min(next.wp_code) FROM waybill_number AS next
        WHERE next.owner_id = pool.owner_id AND next.wp_code > pool.wp_code)
    FROM pool WHERE pool.wp_code IS NOT NULL
)
SELECT wp_code, owner_id FROM pool WHERE wp_code IS NOT NULL ORDER BY wp_code, owner_id
""")
)
_LEVELS = of_many("""
SELECT value ->> 0, value ->> 1, (
    SELECT count(*) FROM (
        SELECT number FROM waybill_number
        WHERE owner_id = value ->> 1 AND wp_code = value ->> 0 AND is_taken = 0
        ORDER BY number LIMIT CAST(:most AS bigint)) AS left_over
), (
    SELECT count(*) FROM (
        SELECT number FROM waybill_number
        WHERE owner_id = value ->> 1 AND wp_code = value ->> 0 AND is_taken = 1
        ORDER BY number LIMIT CAST(:most AS bigint)) AS taken
) FROM {wanted}
""")


class PoolLevels(msgspec.Struct, frozen=True):
    """All pools. Where a pool has `most` numbers left or taken, it may have more."""

    pools: list[Pool]
    most: int


async def known_pools(database: Database) -> list[tuple[str, str]]:
    """The carrier and the shop of each pool, if any number of it is left or taken."""
    rows = await database.fetch_long(_POOLS)
    return [(str(wp_code), str(owner_id)) for wp_code, owner_id in rows]


async def pool_levels(database: Database) -> PoolLevels:
    """How full the pools are, at a cost that does not grow with the numbers that were ever taken;
    `list_pools` counts them all. Of many pools fewer numbers of each are counted."""
    pools = await known_pools(database)
    most = min(COUNTED_MAX, max(_COUNTED_MIN, _COUNTED_OF_ALL // max(1, len(pools))))
    wanted = msgspec.json.encode(pools).decode()
    rows = await database.fetch_long(_LEVELS, wanted=wanted, most=most)
    found = [
        Pool(wp_code, owner_id or None, int(left), int(taken))
        for wp_code, owner_id, left, taken in rows
    ]
    return PoolLevels(found, most)


async def numbers_left(
    database: Database, needed: Mapping[str, float] | None = None
) -> dict[str, int]:
    """By carrier; leaves out those without a shared pool, and those that issue their own. Of each
    pool so many are counted as are needed of it, but at least `COUNTED_MAX`."""
    left = {}
    for (wp_code,) in await database.fetch_long(_WITH_POOL):
        most = max(COUNTED_MAX, ceil((needed or {}).get(wp_code, 0)))
        ((count,),) = await database.fetch_long(_COUNT, of_carrier=wp_code, most=most)
        left[str(wp_code)] = int(count)
    return left


_DAY_S = 86_400
_AHEAD_S = 60
# The newest waybills are enough to know the pace.
_PACED_MAX = 5000
_newest = (
    select(waybill.c.wp_code, waybill.c.asked_at_s)
    # A waybill may be dated a second ahead; what is later was dated by a clock that was ahead.
    .where(waybill.c.asked_at_s.between(bindparam("since_s"), bindparam("until_s")))
    .order_by(waybill.c.asked_at_s.desc())
    .limit(_PACED_MAX)
    .subquery()
)
_PACE = Query(
    lambda: select(_newest.c.wp_code, func.count(), func.min(_newest.c.asked_at_s)).group_by(
        _newest.c.wp_code
    )
)


async def numbers_a_day(database: Database, now_s: int) -> dict[str, float]:
    """By carrier, how many numbers a day are taken at the pace of the last 24 hours."""
    span = {"since_s": now_s - _DAY_S, "until_s": now_s + _AHEAD_S}
    rows = await database.fetch_long(_PACE, "pools", **span)
    counted = sum(int(count) for _, count, _ in rows)
    span_s = _DAY_S
    if counted >= _PACED_MAX:
        span_s = max(60, now_s - min(int(first_s) for _, _, first_s in rows))
    return {str(wp_code): int(count) * _DAY_S / span_s for wp_code, count, _ in rows}
