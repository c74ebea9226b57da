"""How many numbers the pools have left, and how fast they are taken."""

from sqlalchemy import bindparam, exists, func, select

from tollway.carriers.pools import SHARED
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.carriers import carrier, carrier_link, waybill, waybill_number

COUNTED_MAX = 100_000

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
    .limit(COUNTED_MAX)
    .subquery()
)
_COUNT = Query(lambda: select(func.count()).select_from(_left))


async def numbers_left(database: Database) -> dict[str, int]:
    """By carrier; leaves out those without a shared pool, and those that issue their own."""
    left = {}
    for (wp_code,) in await database.fetch_long(_WITH_POOL):
        ((count,),) = await database.fetch_long(_COUNT, of_carrier=wp_code)
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
