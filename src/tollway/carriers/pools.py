"""The numbers an operator has loaded, per carrier, for one shop or for all.

A number's row is never deleted, only marked as taken. So a number is issued once, even if its
waybill is cancelled, the gateway restarts or the number is loaded again.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, ScalarSelect, bindparam, exists, func, literal, select

from tollway.carriers.carriers import known_carrier
from tollway.carriers.number_formats import number_problem
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, insert
from tollway.store.schema.carriers import carrier, waybill, waybill_number

# The owner_id of the pool that all shops share.
SHARED = ""
_CHUNK_NUMBERS = 5000
# Takes the next number of a carrier for a shop, if there is one.
TakeNumber = Callable[[Transaction, str, str], Awaitable[str | None]]


class Rejected(msgspec.Struct, frozen=True):
    """A number that was not loaded; `position` counts from 1."""

    position: int
    number: str
    reason: str


class PoolLoad(msgspec.Struct):
    """How many numbers were read, loaded and rejected."""

    read: int = 0
    loaded: int = 0
    rejected: int = 0


class Pool(msgspec.Struct, frozen=True):
    """One pool; without an owner_id it is the one that all shops share."""

    wp_code: str
    owner_id: str | None
    left: int
    taken: int


class _SomeKnownError(Exception):
    """Not all of a chunk's numbers are new."""


_ADD = Query(
    insert(waybill_number)
    .values(
        wp_code=bindparam("wp_code"),
        number=bindparam("number"),
        owner_id=bindparam("owner_id"),
        is_taken=0,
    )
    .on_conflict_do_nothing()
)
_candidate = waybill_number.alias("candidate")


def _next_of(pool: ColumnElement[str]) -> ScalarSelect[Any]:
    return (
        select(_candidate.c.number)
        .where(
            _candidate.c.wp_code == bindparam("of_carrier"),
            _candidate.c.owner_id == pool,
            _candidate.c.is_taken == 0,
        )
        .order_by(_candidate.c.number)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )


# Of the shop's own pool if that has any, else of the shared one.
_TAKE = Query(
    waybill_number.update()
    .where(
        waybill_number.c.wp_code == bindparam("of_carrier"),
        waybill_number.c.number
        == func.coalesce(_next_of(bindparam("of_owner")), _next_of(literal(SHARED))),
    )
    .values(is_taken=1)
    .returning(waybill_number.c.number)
)
_taken = func.sum(waybill_number.c.is_taken)
_POOLS = Query(
    select(waybill_number.c.wp_code, waybill_number.c.owner_id, func.count() - _taken, _taken)
    .group_by(waybill_number.c.wp_code, waybill_number.c.owner_id)
    .order_by(waybill_number.c.wp_code, waybill_number.c.owner_id)
)


async def add_numbers(
    database: Database,
    wp_code: str,
    owner_id: str,
    numbers: Iterable[str],
    set_aside: Callable[[Rejected], None],
    progress: Callable[[int], None] = lambda _: None,
    runtime: Runtime = UNATTENDED,
) -> PoolLoad:
    """Loads the numbers that fit and are new, a chunk in each commit; the others are set aside."""
    number_format = (await known_carrier(database, wp_code)).number_format
    result = PoolLoad()
    stream = enumerate(numbers, 1)
    while chunk := list(islice(stream, _CHUNK_NUMBERS)):
        rejected = list(_misfits(chunk, number_format))
        unfit = {each.position for each in rejected}
        fitting = [each for each in chunk if each[0] not in unfit]
        rejected += await database.write(
            partial(_store_recorded, wp_code, owner_id, fitting, runtime)
        )
        for each in sorted(rejected, key=lambda each: each.position):
            set_aside(each)
        result.read += len(chunk)
        result.rejected += len(rejected)
        result.loaded += len(chunk) - len(rejected)
        progress(len(chunk))
    return result


async def _store_recorded(
    wp_code: str,
    owner_id: str,
    chunk: Sequence[tuple[int, str]],
    runtime: Runtime,
    transaction: Transaction,
) -> list[Rejected]:
    rejected = await _store(transaction, wp_code, owner_id, chunk)
    after = {"shop": owner_id or None, "loaded": len(chunk) - len(rejected)}
    await record_act(transaction, runtime, "pool add", f"carrier {wp_code}", after=after)
    return rejected


async def take_number(transaction: Transaction, wp_code: str, owner_id: str) -> str | None:
    """The next number for a shop: of its own pool if that has any, else of the shared one."""
    row = await transaction.fetch_one(_TAKE, of_carrier=wp_code, of_owner=owner_id)
    return None if row is None else str(row[0])


async def list_pools(reader: Reader) -> list[Pool]:
    return [
        Pool(wp_code, owner_id or None, int(left), int(taken))
        for wp_code, owner_id, left, taken in await reader.fetch_all(_POOLS)
    ]


def _misfits(chunk: Iterable[tuple[int, str]], number_format: str) -> Iterator[Rejected]:
    for position, number in chunk:
        problem = number_problem(number_format, number)
        if problem is not None:
            yield Rejected(position, number, problem)


async def _store(
    transaction: Transaction, wp_code: str, owner_id: str, chunk: Iterable[tuple[int, str]]
) -> list[Rejected]:
    """Stores numbers in one statement; if some were there already, one by one, to learn which."""
    chunk = list(chunk)
    rows = [{"wp_code": wp_code, "number": each[1], "owner_id": owner_id} for each in chunk]
    with suppress(_SomeKnownError):
        async with transaction.savepoint():
            if await transaction.execute_many(_ADD, rows) == len(rows):
                return []
            raise _SomeKnownError
    known = []
    for position, number in chunk:
        if not await transaction.execute(_ADD, wp_code=wp_code, number=number, owner_id=owner_id):
            known.append(Rejected(position, number, "it was loaded before"))
    return known


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


_DAY_S = 86_400
# Of very many the newest are enough to know the pace.
_PACED_MAX = 5000
_newest = (
    select(waybill.c.wp_code, waybill.c.asked_at_s)
    .where(waybill.c.asked_at_s >= bindparam("since_s"))
    .order_by(waybill.c.asked_at_s.desc())
    .limit(_PACED_MAX)
    .subquery()
)
_PACE = Query(
    select(_newest.c.wp_code, func.count(), func.min(_newest.c.asked_at_s)).group_by(
        _newest.c.wp_code
    )
)


async def numbers_a_day(database: Database, now_s: int) -> dict[str, float]:
    """By carrier, how many numbers a day are taken at the pace of the last 24 hours."""
    rows = await database.fetch_long(_PACE, "pools", since_s=now_s - _DAY_S)
    counted = sum(int(count) for _, count, _ in rows)
    span_s = _DAY_S
    if counted >= _PACED_MAX:
        span_s = max(60, now_s - min(int(first_s) for _, _, first_s in rows))
    return {str(wp_code): int(count) * _DAY_S / span_s for wp_code, count, _ in rows}
