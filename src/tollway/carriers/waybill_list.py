"""Waybills, newest first and page by page, by what an operator looks for.

A page reads a bounded number of rows, whatever the filter, and says where the next page begins: so
it costs the same with ten waybills as with ten million. Finding a rare one may take several pages.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, Integer, bindparam, literal_column, or_, select

from tollway.carriers.waybills import WAYBILL_COLUMNS, Waybill
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.carriers import IS_PENDING, waybill

# Rows that a page scans at most, when a filter excludes most of them.
SCANNED_MAX = 2000
_END_S = 2**53
# Sorts after every object id.
_AFTER_ALL = "~"
_LAST_MS = 16**11 - 1
# A waybill is dated a second after its id was made, at most.
_AHEAD_S = 2
_POSITION = re.compile(r"([0-9]{1,12}):(\w{1,64})")


class WaybillFilter(NamedTuple):
    """Which waybills are wanted; empty and None match everything."""

    account_id: str = ""
    wp_code: str = ""
    state: str = ""
    # The number of an order, or of a waybill.
    number: str = ""
    since_s: int = 0
    until_s: int | None = None

    def passes(self, each: Waybill) -> bool:
        return (
            self.account_id in ("", each.account_id)
            and self.wp_code in ("", each.wp_code)
            and self.state in ("", each.state)
        )


class Position(NamedTuple):
    """Where a page begins: after this waybill."""

    asked_at_s: int
    object_id: str

    def __str__(self) -> str:
        return f"{self.asked_at_s}:{self.object_id}"


class WaybillPage(NamedTuple):
    """Waybills, and where the next page begins; None at the end."""

    waybills: Sequence[Waybill]
    before: Position | None


def position_in(text: str) -> Position | None:
    """The position in an address; None if it has none, or one that cannot be read."""
    found = _POSITION.fullmatch(text)
    return Position(int(found[1]), found[2]) if found else None


_since, _until, _before = (
    bindparam(name, type_=BigInteger) for name in ("since_s", "until_s", "before_s")
)
_rows = (
    select(*WAYBILL_COLUMNS)
    .where(waybill.c.asked_at_s >= _since, waybill.c.asked_at_s < _until)
    .limit(bindparam("most", type_=Integer))
)
_by_time = _rows.where(
    waybill.c.asked_at_s <= _before,
    or_(waybill.c.asked_at_s < _before, waybill.c.object_id > bindparam("before_id")),
).order_by(waybill.c.asked_at_s.desc(), waybill.c.object_id)
_NEWEST = Query(_by_time)
# A literal, not a parameter: otherwise the planner does not use the partial index.
_PENDING = Query(lambda: _by_time.where(literal_column(IS_PENDING)))
_OF_ORDER = Query(lambda: _by_time.where(waybill.c.order_sn == bindparam("wanted")))
_OF_NUMBER = Query(lambda: _by_time.where(waybill.c.number == bindparam("wanted")))
# By id, because that index exists; an id begins with its time.
_OF_ACCOUNT = Query(
    lambda: _rows.where(
        waybill.c.account_id == bindparam("of_account"),
        waybill.c.object_id < bindparam("before_id"),
        waybill.c.object_id >= bindparam("first_id"),
    ).order_by(waybill.c.object_id.desc())
)


async def waybills_page(
    database: Database, wanted: WaybillFilter, size: int, before: Position | None = None
) -> WaybillPage:
    """The newest waybills, or those before a position."""
    read: list[Waybill] = []
    for most in (size + 1, SCANNED_MAX):
        read = await _read(database, wanted, most, before)
        found = [each for each in read if wanted.passes(each)]
        if len(found) > size:
            return WaybillPage(found[:size], _position(found[size - 1]))
        if len(read) < most:
            return WaybillPage(found, None)
    return WaybillPage(found, _position(read[-1]))


async def _read(
    database: Database, wanted: WaybillFilter, most: int, before: Position | None
) -> list[Waybill]:
    """The newest rows of the source that excludes most of what is not wanted."""
    before_s, before_id = before or (_END_S, "")
    until_s = _END_S if wanted.until_s is None else wanted.until_s
    values: dict[str, object] = {"since_s": wanted.since_s, "until_s": until_s, "most": most}
    place = {"before_s": before_s, "before_id": before_id}
    query = _NEWEST
    if wanted.number:
        query, values["wanted"] = _OF_ORDER, wanted.number
    elif wanted.state == "pending":
        query = _PENDING
    elif wanted.account_id:
        query, values["of_account"] = _OF_ACCOUNT, wanted.account_id
        place = {
            "before_id": min(before_id or _AFTER_ALL, _first_id(until_s)),
            "first_id": _first_id(wanted.since_s - _AHEAD_S),
        }
    rows = await database.fetch_long(query, "waybills", **values, **place)
    if wanted.number and not rows:
        rows = await database.fetch_long(_OF_NUMBER, "waybills", **values, **place)
    return [Waybill(*row) for row in rows]


def _first_id(at_s: int) -> str:
    """A lower bound of the ids of all waybills that were asked for from this time on."""
    return f"wb_{min(max(0, at_s) * 1000, _LAST_MS):011x}"


def _position(last: Waybill) -> Position:
    return Position(last.asked_at_s, last.object_id)
