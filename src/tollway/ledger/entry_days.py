"""Sums of a balance's entries by day, kind and operation, made with the sums of usage.

A statement reads them instead of all entries. Days are those of UTC, whatever the time zone. If a
statement cuts a day in two, it reads that day's entries, found by number: numbers follow the
commits, which is nearly but not quite the order of times.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, func, select

from tollway.store.database import Reader, Transaction
from tollway.store.many_rows import adds
from tollway.store.query import Query, equals
from tollway.store.schema.ledger import entry_day, usage_cursor

DAY_MS = 86_400_000
_DAY_MINUTES = 1440
_Key = tuple[str, str, int, str, str]  # account, unit, number of the day, kind, operation

# Later entries have higher numbers, so the first number stays.
_ADD = adds(entry_day, "entries", "amount", latest=("last_number",))
_cursor = select(usage_cursor.c.number).where(
    equals(usage_cursor, account_id="of_account", unit="of_unit")
)
_NUMBERS = Query(
    lambda: select(
        func.min(entry_day.c.first_number),
        func.max(entry_day.c.last_number),
        _cursor.scalar_subquery(),
    ).where(
        equals(entry_day, account_id="of_account", unit="of_unit"),
        entry_day.c.day.between(
            bindparam("first_day", type_=BigInteger), bindparam("last_day", type_=BigInteger)
        ),
    )
)


async def numbers_of_span(
    reader: Reader, account_id: str, unit: str, span_ms: range, newest: int
) -> list[range]:
    """The numbers among which the entries of a time span are, up to the newest: those of its days,
    and those that are in no sum yet. Not all of these entries are within the span."""
    row = await reader.fetch_one(
        _NUMBERS,
        of_account=account_id,
        of_unit=unit,
        first_day=span_ms.start // DAY_MS,
        last_day=(span_ms.stop - 1) // DAY_MS,
    )
    first, last, summed = row or (None, None, None)
    of_days = [] if first is None else [range(first, min(last, newest) + 1)]
    return [*of_days, range((summed or 0) + 1, newest + 1)]


class EntryGroup(NamedTuple):
    """The entries of a balance of one minute, kind and operation, among those that are added up."""

    minute: int
    kind: str
    operation: str | None
    entries: int
    amount: int
    first_number: int
    last_number: int


class EntryDays:
    """Sums of entries, to be added to the stored sums."""

    def __init__(self) -> None:
        self._sums: dict[_Key, list[int]] = {}

    def count(self, account_id: str, unit: str, groups: Iterable[EntryGroup]) -> None:
        for each in groups:
            key = (account_id, unit, each.minute // _DAY_MINUTES, each.kind, each.operation or "")
            counted = self._sums.setdefault(key, [0, 0, each.first_number, each.last_number])
            counted[0] += each.entries
            counted[1] += int(each.amount)
            counted[2] = min(counted[2], each.first_number)
            counted[3] = max(counted[3], each.last_number)

    async def put(self, transaction: Transaction) -> None:
        # A fixed lock order prevents deadlocks.
        rows = [(*key, *counted) for key, counted in sorted(self._sums.items())]
        await transaction.put_rows(_ADD, rows)
