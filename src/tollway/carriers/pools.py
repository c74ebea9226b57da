"""The numbers an operator has loaded, per carrier, for one shop or for all.

A number's row is never deleted, only marked as taken. So a number is issued once, even if its
waybill is cancelled, the gateway restarts or the number is loaded again.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec
from sqlalchemy import bindparam, exists, func, select, text

from tollway.carriers.carriers import known_carrier
from tollway.carriers.number_formats import number_problem
from tollway.contract.language import Sentence
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Row, Transaction
from tollway.store.query import Query, insert
from tollway.store.schema.carriers import carrier, waybill, waybill_number

# The owner_id of the pool that all shops share.
SHARED = ""
_CHUNK_NUMBERS = 5000
# A carrier and a shop.
Wanted = tuple[str, str]
# Takes the next number of each carrier for each shop, if there is one.
TakeNumbers = Callable[[Transaction, Sequence[Wanted]], Awaitable[list[str | None]]]


class Rejected(msgspec.Struct, frozen=True):
    """A number that was not loaded; `position` counts from 1."""

    position: int
    number: str
    reason: Sentence


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
# How many are wanted of each pool. Numbers are found one after the other along the index, which
# has no more to do if a pool has many, and taken by their keys.
_NEXT_EMBEDDED = Query(
    text("""
WITH RECURSIVE next (wp_code, owner_id, wanted, number) AS (
    SELECT value ->> 0, value ->> 1, value ->> 2, (
        SELECT min(number) FROM waybill_number
        WHERE wp_code = value ->> 0 AND owner_id = value ->> 1 AND is_taken = 0)
    FROM json_each(:wanted)
    UNION ALL
    SELECT wp_code, owner_id, wanted - 1, (
        SELECT min(candidate.number) FROM waybill_number AS candidate
        WHERE candidate.wp_code = next.wp_code AND candidate.owner_id = next.owner_id
            AND candidate.is_taken = 0 AND candidate.number > next.number)
    FROM next WHERE wanted > 1 AND number IS NOT NULL)
SELECT json_group_array(json_array(wp_code, owner_id, number)) FROM next WHERE number IS NOT NULL
""")
)
_TAKE_EMBEDDED = Query(
    text("""
UPDATE waybill_number SET is_taken = 1
WHERE (wp_code, number) IN (SELECT value ->> 0, value ->> 2 FROM json_each(:taken))
""")
)
# By their positions in the table: a planner would rather read all of it.
_TAKE_SHARED = Query(
    text("""
UPDATE waybill_number SET is_taken = 1
WHERE ctid = ANY (ARRAY(
    SELECT candidate.ctid FROM json_array_elements(CAST(:wanted AS json)) AS wanted(value)
    CROSS JOIN LATERAL (
        SELECT ctid FROM waybill_number
        WHERE wp_code = value ->> 0 AND owner_id = value ->> 1 AND is_taken = 0
        ORDER BY number LIMIT CAST(value ->> 2 AS integer) FOR UPDATE SKIP LOCKED
    ) AS candidate))
RETURNING wp_code, owner_id, number
""")
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


async def take_numbers(transaction: Transaction, wanted: Sequence[Wanted]) -> list[str | None]:
    """The next number for each: of the shop's own pool if that has any, else of the shared one."""
    asked = Counter(wanted)
    own = await _take(transaction, asked)
    short: Counter[Wanted] = Counter()
    for pool, count in asked.items():
        short[pool[0], SHARED] += count - len(own.get(pool, ()))
    shared = await _take(transaction, +short)
    left = {pool: iter(numbers) for pool, numbers in own.items()}
    left_shared = {wp_code: iter(numbers) for (wp_code, _), numbers in shared.items()}
    none: Iterator[str] = iter(())
    return [
        next(left.get(pool, none), None) or next(left_shared.get(pool[0], none), None)
        for pool in wanted
    ]


async def _take(transaction: Transaction, wanted: Mapping[Wanted, int]) -> dict[Wanted, list[str]]:
    """Takes as many numbers of each pool as it has, up to those that are wanted."""
    if not wanted:
        return {}
    asked = _text([(*pool, count) for pool, count in wanted.items()])
    take = _take_shared if transaction.is_shared else _take_embedded
    taken: defaultdict[Wanted, list[str]] = defaultdict(list)
    for wp_code, owner_id, number in sorted(await take(transaction, asked)):
        taken[wp_code, owner_id].append(number)
    return taken


async def _take_embedded(transaction: Transaction, wanted: str) -> Sequence[Row]:
    ((found,),) = await transaction.fetch_all(_NEXT_EMBEDDED, wanted=wanted)
    rows: list[Row] = msgspec.json.decode(found)
    if rows and await transaction.execute(_TAKE_EMBEDDED, taken=found) != len(rows):
        # No StoreError, with which the other calls of the batch would fail too.
        raise AssertionError("a pool has numbers that cannot be taken: run `tollway audit`")
    return rows


async def _take_shared(transaction: Transaction, wanted: str) -> Sequence[Row]:
    return await transaction.fetch_all(_TAKE_SHARED, wanted=wanted)


def _text(content: object) -> str:
    return msgspec.json.encode(content).decode()


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
            known.append(Rejected(position, number, Sentence("it was loaded before")))
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
