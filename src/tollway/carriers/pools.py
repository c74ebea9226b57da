"""The numbers an operator has loaded, per carrier, for one shop or for all.

The row of a number that was issued is never deleted, only marked as taken. So a number is issued
once, even if its waybill is cancelled, the gateway restarts or the number is loaded again.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec
from sqlalchemy import Integer, bindparam, exists, func, select, text

from tollway.carriers.carriers import known_carrier
from tollway.carriers.number_formats import number_problem
from tollway.contract.language import Sentence
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Row, Transaction
from tollway.store.many_rows import ManyRows
from tollway.store.query import Query, alike, equals, insert_row, of_many
from tollway.store.schema.carriers import waybill, waybill_number

# The owner_id of the pool that all shops share.
SHARED = ""
_CHUNK_NUMBERS = 5000
# How many of the next numbers are checked if one is on a waybill, and how many if that was not
# enough. More would hold up the charges in the same transaction.
_LOOKED_AT = (1000, 2000)
# A carrier and a shop.
Wanted = tuple[str, str]


class TryAgain:
    """More numbers at the head of a pool are on waybills than one transaction may skip: the next
    transaction goes on from there."""


_TRY_AGAIN = TryAgain()
# A number; None if the pools have none left.
Taken = str | TryAgain | None
# Takes the next number of each carrier for each shop.
TakeNumbers = Callable[[Transaction, Sequence[Wanted]], Awaitable[Sequence[Taken]]]


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


_ADD = ManyRows(waybill_number, Query(lambda: insert_row(waybill_number).on_conflict_do_nothing()))
# The next numbers of some pools, so many of each, read from the index, at the same cost however
# many a pool has. Each says whether it is on a waybill already: its carrier may have issued it
# before it was loaded.
_NEXT_EMBEDDED = Query(
    lambda: text("""
SELECT json_group_array(json_array(value ->> 0, value ->> 1, json((
    SELECT json_group_array(json_array(number, EXISTS (
        SELECT 1 FROM waybill
        WHERE waybill.number = next.number AND waybill.wp_code = next.wp_code)))
    FROM (
        SELECT wp_code, number FROM waybill_number
        WHERE owner_id = value ->> 1 AND wp_code = value ->> 0 AND is_taken = 0
        ORDER BY number LIMIT :of_each) AS next))))
FROM json_each(:wanted)
""")
)
# Takes each pool's numbers up to the last one found. CROSS JOIN fixes the order of the tables:
# after an ANALYZE, the planner would otherwise scan all numbers of a pool.
_TAKE_EMBEDDED = Query(
    lambda: text("""
UPDATE waybill_number SET is_taken = 1
WHERE (wp_code, number) IN (
    SELECT next.wp_code, next.number FROM json_each(:taken) CROSS JOIN waybill_number AS next
    WHERE next.owner_id = value ->> 1 AND next.wp_code = value ->> 0 AND next.is_taken = 0
        AND next.number <= value ->> 2)
""")
)
# By ctid, because the planner would otherwise read the whole table. The comparison of rows, not of
# columns, has an order that only the index of the pools has: with the key of the table, a planner
# without statistics scans all taken numbers of the carrier. OFFSET 0, because a plan that is made
# while there are few waybills would otherwise read all of them for good.
_TAKE_SHARED = Query(
    lambda: text("""
UPDATE waybill_number SET is_taken = 1
WHERE ctid = ANY (ARRAY(
    SELECT candidate.ctid FROM json_array_elements(CAST(:wanted AS json)) AS wanted(value)
    CROSS JOIN LATERAL (
        SELECT ctid FROM waybill_number
        WHERE (owner_id, wp_code, is_taken) >= (value ->> 1, value ->> 0, 0)
            AND (owner_id, wp_code, is_taken) <= (value ->> 1, value ->> 0, 0)
        ORDER BY owner_id, wp_code, is_taken, number
        LIMIT CAST(value ->> 2 AS integer) FOR UPDATE SKIP LOCKED
    ) AS candidate))
RETURNING wp_code, owner_id, number, EXISTS (
    SELECT 1 FROM waybill
    WHERE waybill.number = waybill_number.number AND waybill.wp_code = waybill_number.wp_code
    OFFSET 0)
""")
)
_of_carrier = waybill_number.c.wp_code == bindparam("of_carrier")
_TAKE_GIVEN = Query(
    lambda: (
        waybill_number.update()
        .where(_of_carrier, waybill_number.c.number == bindparam("given"))
        .values(is_taken=1)
    )
)
_candidate, _head = waybill_number.alias("candidate"), waybill_number.alias("head")
_of_head = (
    select(_head.c.number)
    .where(equals(_head, wp_code="of_carrier", owner_id="of_owner"), _head.c.is_taken == 0)
    .order_by(_head.c.number)
    .limit(bindparam("most", type_=Integer))
)
_issued_of_head = (
    select(_candidate.c.number)
    .where(
        _candidate.c.wp_code == bindparam("of_carrier"),
        _candidate.c.number.in_(_of_head),
        exists().where(alike(waybill, _candidate, "number", "wp_code")),
    )
    .with_for_update(skip_locked=True)
)
# Takes those of a pool's next numbers that are on waybills.
_TAKE_ISSUED = Query(
    lambda: (
        waybill_number.update()
        .where(_of_carrier, waybill_number.c.number.in_(_issued_of_head))
        .values(is_taken=1)
    )
)
_NOT_TAKEN = Query(
    lambda: (
        select(waybill_number.c.number)
        .where(
            _of_carrier,
            waybill_number.c.owner_id.in_((bindparam("of_owner"), SHARED)),
            waybill_number.c.is_taken == 0,
        )
        .limit(1)
    )
)
_ON_WAYBILLS = of_many(
    "SELECT value ->> 0 FROM {wanted} WHERE EXISTS (SELECT 1 FROM waybill "
    "WHERE waybill.number = value ->> 0 AND waybill.wp_code = value ->> 1)"
)
_up_to = (
    waybill_number.c.owner_id == bindparam("of_owner"),
    _of_carrier,
    waybill_number.c.is_taken == 0,
    waybill_number.c.number <= bindparam("up_to"),
)
_COUNT_UP_TO = Query(lambda: select(func.count()).select_from(waybill_number).where(*_up_to))
_REMOVE_UP_TO = Query(
    lambda: waybill_number.delete().where(
        _of_carrier,
        waybill_number.c.number.in_(
            select(waybill_number.c.number)
            .where(*_up_to)
            .order_by(waybill_number.c.number)
            .limit(_CHUNK_NUMBERS)
        ),
        waybill_number.c.is_taken == 0,
    )
)
_taken = func.sum(waybill_number.c.is_taken)
_POOLS = Query(
    lambda: (
        select(waybill_number.c.wp_code, waybill_number.c.owner_id, func.count() - _taken, _taken)
        .group_by(waybill_number.c.wp_code, waybill_number.c.owner_id)
        .order_by(waybill_number.c.wp_code, waybill_number.c.owner_id)
    )
)


async def add_numbers(
    database: Database,
    wp_code: str,
    owner_id: str,
    numbers: Iterable[str],
    on_reject: Callable[[Rejected], None],
    runtime: Runtime = UNATTENDED,
) -> PoolLoad:
    """Loads the numbers that fit and are new, one chunk per commit, and rejects the others."""
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
            on_reject(each)
        result.read += len(chunk)
        result.rejected += len(rejected)
        result.loaded += len(chunk) - len(rejected)
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


async def count_up_to(reader: Reader, wp_code: str, owner_id: str, up_to: str) -> int:
    """How many numbers of a pool, in the order in which they are issued, are left up to one."""
    asked = {"of_carrier": wp_code, "of_owner": owner_id, "up_to": up_to}
    ((count,),) = await reader.fetch_all(_COUNT_UP_TO, **asked)
    return int(count)


async def remove_up_to(
    database: Database, wp_code: str, owner_id: str, up_to: str, runtime: Runtime
) -> int:
    """Removes these numbers, one chunk per commit; returns how many."""

    asked = {"of_carrier": wp_code, "of_owner": owner_id, "up_to": up_to}

    async def work(transaction: Transaction) -> int:
        removed = await transaction.execute(_REMOVE_UP_TO, **asked)
        if removed:
            after = {"shop": owner_id or None, "removed": removed, "up_to": up_to}
            await record_act(transaction, runtime, "pool remove", f"carrier {wp_code}", after=after)
        return removed

    total = 0
    while removed := await database.write(work):
        total += removed
    return total


async def take_numbers(transaction: Transaction, wanted: Sequence[Wanted]) -> list[Taken]:
    """The next number for each: from the shop's own pool, or else from the shared one."""
    asked = Counter(wanted)
    own = await _take(transaction, asked)
    short: Counter[Wanted] = Counter()
    for pool, count in asked.items():
        short[pool[0], SHARED] += count - len(own.get(pool, ()))
    shared = await _take(transaction, +short)
    left = {pool: iter(taken) for pool, taken in own.items()}
    left_shared = {wp_code: iter(taken) for (wp_code, _), taken in shared.items()}
    none: Iterator[Taken] = iter(())
    return [
        next(left.get(pool, none), None) or next(left_shared.get(pool[0], none), None)
        for pool in wanted
    ]


async def _take(
    transaction: Transaction, wanted: Mapping[Wanted, int]
) -> dict[Wanted, list[Taken]]:
    """Takes up to as many numbers from each pool as are wanted. Numbers that are on a waybill
    already are skipped, and stay marked as taken; if there are too many to skip, TryAgain stands in
    for the numbers that are missing."""
    take = _take_shared if transaction.is_shared else _take_embedded
    taken: defaultdict[Wanted, list[Taken]] = defaultdict(list)
    missing = Counter(wanted)
    for looked_at in (*_LOOKED_AT, 0):
        if not missing:
            break
        asked, missing = missing, Counter()
        for wp_code, owner_id, number, is_issued in sorted(await take(transaction, asked)):
            if is_issued:
                missing[wp_code, owner_id] += 1
            else:
                taken[wp_code, owner_id].append(number)
        for wp_code, owner_id in missing:
            # The numbers after it are often on waybills too, thousands of them.
            if most := looked_at // len(missing):
                its = {"of_carrier": wp_code, "of_owner": owner_id}
                await transaction.execute(_TAKE_ISSUED, **its, most=most)
    for pool, count in missing.items():
        taken[pool] += [_TRY_AGAIN] * count
    return taken


async def are_held_elsewhere(transaction: Transaction, of: Wanted) -> bool:
    """Whether a pool that gave no number has some after all: other transactions hold its last ones,
    and may or may not commit."""
    wp_code, owner_id = of
    found = await transaction.fetch_one(_NOT_TAKEN, of_carrier=wp_code, of_owner=owner_id)
    return found is not None


async def take_given(transaction: Transaction, wp_code: str, number: str) -> None:
    """Marks a number that the carrier issued as taken, so that no pool issues it again."""
    await transaction.execute(_TAKE_GIVEN, of_carrier=wp_code, given=number)


async def _take_embedded(transaction: Transaction, wanted: Mapping[Wanted, int]) -> Sequence[Row]:
    by_count: defaultdict[int, list[Wanted]] = defaultdict(list)
    for pool, count in wanted.items():
        by_count[count].append(pool)
    rows: list[Row] = []
    last = []
    for count, pools in by_count.items():
        asked = {"wanted": _text(pools), "of_each": count}
        ((found,),) = await transaction.fetch_all(_NEXT_EMBEDDED, **asked)
        for wp_code, owner_id, numbers in msgspec.json.decode(found):
            rows += [(wp_code, owner_id, number, is_issued) for number, is_issued in numbers]
            last += [(wp_code, owner_id, number) for number, _ in numbers[-1:]]
    if last and await transaction.execute(_TAKE_EMBEDDED, taken=_text(last)) != len(rows):
        # Not a StoreError, which would fail the other calls of the batch too.
        raise AssertionError("a pool has numbers that cannot be taken: run `tollway audit`")
    return rows


async def _take_shared(transaction: Transaction, wanted: Mapping[Wanted, int]) -> Sequence[Row]:
    asked = _text([(*pool, count) for pool, count in wanted.items()])
    return await transaction.fetch_all(_TAKE_SHARED, wanted=asked)


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
    transaction: Transaction, wp_code: str, owner_id: str, chunk: Sequence[tuple[int, str]]
) -> list[Rejected]:
    """Stores the numbers that no waybill has, and returns the others."""
    wanted = _text([(number, wp_code) for _, number in chunk])
    issued = {number for (number,) in await transaction.fetch_all(_ON_WAYBILLS, wanted=wanted)}
    why = Sentence("it was issued before")
    given = [Rejected(*each, why) for each in chunk if each[1] in issued]
    new = [each for each in chunk if each[1] not in issued]
    return given + await _store_new(transaction, wp_code, owner_id, new)


async def _store_new(
    transaction: Transaction, wp_code: str, owner_id: str, chunk: Sequence[tuple[int, str]]
) -> list[Rejected]:
    """Stores numbers in one statement; if some exist already, one by one, to find out which."""
    rows = [(wp_code, number, owner_id, 0) for _, number in chunk]
    with suppress(_SomeKnownError):
        async with transaction.savepoint():
            if await transaction.put_rows(_ADD, rows) == len(rows):
                return []
            raise _SomeKnownError
    known = []
    for position, number in chunk:
        if not await transaction.put_rows(_ADD, [(wp_code, number, owner_id, 0)]):
            known.append(Rejected(position, number, Sentence("it was loaded before")))
    return known
