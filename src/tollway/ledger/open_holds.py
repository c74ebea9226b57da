"""The holds that are not decided yet: which they are, and how many."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import ColumnElement, bindparam, func, literal_column, select

from tollway.ledger.holds import HOLD_COLUMNS, Hold
from tollway.store.database import Reader
from tollway.store.query import Query
from tollway.store.settlement_tables import IS_HELD, hold

# Written out, and not a parameter: only so does a planner know that the index fits.
_is_held: ColumnElement[bool] = literal_column(IS_HELD)
_OPEN = Query(
    select(*HOLD_COLUMNS).where(_is_held).order_by(hold.c.deadline_at_ms).limit(bindparam("most"))
)
_COUNT = Query(
    select(
        func.count(),
        func.count().filter(hold.c.deadline_at_ms < bindparam("now_ms")),
    ).where(_is_held)
)


class OpenHolds(msgspec.Struct, frozen=True):
    """How many holds are open, and how many of them are past their deadline."""

    open: int
    overdue: int


async def open_holds(reader: Reader, most: int) -> Sequence[Hold]:
    """The holds that are not decided yet, those with the earliest deadline first."""
    return [Hold(*row) for row in await reader.fetch_all(_OPEN, most=most)]


async def count_open_holds(reader: Reader, now_ms: int) -> OpenHolds:
    row = await reader.fetch_one(_COUNT, now_ms=now_ms)
    assert row is not None
    return OpenHolds(*map(int, row))
