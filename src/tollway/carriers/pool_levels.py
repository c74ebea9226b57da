"""How many numbers are left in the pools that all shops share, for monitoring.

Counted up to a limit: a pool may have millions, and an alarm is about the last thousands.
"""

from sqlalchemy import bindparam, exists, func, select

from tollway.carriers.pools import SHARED
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.carriers import carrier, waybill_number

COUNTED_MAX = 100_000

_WITH_POOL = Query(
    select(carrier.c.wp_code)
    .where(
        exists().where(
            waybill_number.c.wp_code == carrier.c.wp_code, waybill_number.c.owner_id == SHARED
        )
    )
    .order_by(carrier.c.wp_code)
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
_COUNT = Query(select(func.count()).select_from(_left))


async def numbers_left(database: Database) -> dict[str, int]:
    """By carrier; one without a shared pool, such as one that is asked for numbers, is left out."""
    left = {}
    for (wp_code,) in await database.fetch_long(_WITH_POOL):
        ((count,),) = await database.fetch_long(_COUNT, of_carrier=wp_code)
        left[str(wp_code)] = int(count)
    return left
