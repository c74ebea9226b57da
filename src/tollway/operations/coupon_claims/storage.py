"""Storing coupon claims, and removing old ones by whole days, together with their counts.

A coupon's code identifies its claim for ever. Of two versions the one updated later stays; if both
have the same time, the one that arrived later. A version with another sid, type or claim time moves
the claim, but no source moves one out of a channel that it does not speak for. The counts by hour
change in the same transaction, because totals and pages are computed from them.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from zlib import crc32

from sqlalchemy import BigInteger, bindparam, select

from tollway.intake.loading import IsOwn, Loader
from tollway.intake.record_check import is_ahead
from tollway.intake.record_problems import NotOwnError
from tollway.operations.coupon_claims.counts import HOUR_S, forget_hours, recount
from tollway.operations.coupon_claims.records import (
    ClaimRow,
    UndatedClaim,
    checked_claim,
    ready_claim,
)
from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.operations.subject import Removal, Retained
from tollway.store.database import Database, DuplicateKeyError, Transaction
from tollway.store.many_rows import upserts
from tollway.store.months import DAY_S, Month, MonthsOf
from tollway.store.paging import sums_by_list
from tollway.store.query import Query, equals, listed, pieces
from tollway.store.small_commits import delete_first

# Codes share locks, because a transaction may have thousands of codes.
_LOCKS = 64


_listed = listed(500)
_STORED = Query(
    lambda: select(*(coupon_claim.c[name] for name in ClaimRow._fields)).where(
        coupon_claim.c.coupon_code.in_(_listed)
    )
)
_REMOVE = Query(
    lambda: coupon_claim.delete().where(
        equals(
            coupon_claim,
            sid="old_sid",
            claim_type="old_type",
            newest_first="old_newest_first",
            coupon_code="old_code",
        )
    )
)


class ClaimLoader(Loader):
    def __init__(self) -> None:
        self.months = MonthsOf(coupon_claim)
        self._expects_new = True

    def check(self, values: dict[str, object], received_s: int) -> ClaimRow:
        return checked_claim(values, received_s)

    async def store(self, transaction: Transaction, records: Sequence[ClaimRow]) -> int:
        """Stores the claims that are new or not older than the stored ones; returns how many of
        them are new or differ."""
        return await self.store_own(transaction, records, lambda _: True)

    async def store_own(
        self, transaction: Transaction, records: Sequence[ClaimRow], is_own: IsOwn
    ) -> int:
        """The same, but raises NotOwnError if stored ones are of a sid that is not the source's."""
        newest = {row.coupon_code: row for row in records}
        if len(newest) < len(records):
            newest = _newest_of(records)
        # Most files are all new, or all loaded before. A wrong guess only costs time. If claims are
        # divided by month, no single index shows whether one exists, so there is no such attempt.
        if self._expects_new and not transaction.is_shared:
            with suppress(DuplicateKeyError):
                return await _put_new(transaction, sorted(newest.values()))
        await _lock_codes(transaction, {crc32(code.encode()) % _LOCKS for code in newest})
        stored = await _stored(transaction, list(newest))
        self._expects_new = not stored
        foreign = {code for code, old in stored.items() if not is_own(old.sid)}
        if foreign:
            of_others = [row for row in records if row.coupon_code in foreign]
            raise NotOwnError("coupon_code", of_others)
        if stored:
            newest = {key: row for key, row in newest.items() if _is_later(row, stored.get(key))}
        # In key order, which halves the engine's work.
        later = sorted(newest.values())
        pairs = [(stored.get(row.coupon_code), row) for row in later]
        moves = [(old, row) for old, row in pairs if old is None or old.place != row.place]
        left = [old for old, _ in moves if old is not None]
        come = [row for _, row in moves]
        if left:
            async with transaction.with_new_plan():
                await transaction.execute_many(_REMOVE, [old.place for old in left])
        # Plain inserts: if another transaction inserts the same claim concurrently, that must be a
        # conflict, since the claim would be counted twice.
        await transaction.insert_rows(coupon_claim, [(*row, ready_claim(row)) for row in come])
        moved = set(come)
        stayed = [(*row, ready_claim(row)) for row in later if row not in moved]
        await transaction.put_rows(upserts(coupon_claim), stayed)
        await recount(transaction, left=[row.hour for row in left], come=[row.hour for row in come])
        return sum([old is None or old.content != row.content for old, row in pairs])


def _newest_of(records: Sequence[ClaimRow]) -> dict[str, ClaimRow]:
    newest: dict[str, ClaimRow] = {}
    for row in records:
        rival = newest.setdefault(row.coupon_code, row)
        if rival.updated_ms <= row.updated_ms:
            newest[row.coupon_code] = row
    return newest


def _is_later(row: ClaimRow, old: ClaimRow | None) -> bool:
    """Whether to store a version. An unchanged but later one is stored for its time, so that a
    version from between the two is then too old. But not without an `updated_at`: a file that is
    loaded again would be written once more."""
    # One so far ahead had the time of its receipt while the clock was ahead: none would be later.
    if old is None or is_ahead(old.updated_ms / 1000):
        return True
    if row.content != old.content:
        return row.updated_ms >= old.updated_ms
    return row.updated_ms > old.updated_ms and not isinstance(row, UndatedClaim)


async def _put_new(transaction: Transaction, claims: Sequence[ClaimRow]) -> int:
    """Stores claims that must all be new, which is faster than looking each of them up."""
    async with transaction.first_part():
        await transaction.insert_rows(coupon_claim, [(*row, ready_claim(row)) for row in claims])
    await recount(transaction, left=(), come=[row.hour for row in claims])
    return len(claims)


async def _lock_codes(transaction: Transaction, numbers: Iterable[int]) -> None:
    """Lets one transaction at a time change a code, so that stored claims cannot change between
    reading and writing."""
    await transaction.lock_names(f"coupon codes {number}" for number in numbers)


async def _stored(transaction: Transaction, codes: Sequence[str]) -> dict[str, ClaimRow]:
    """The stored claims among these codes."""
    stored: list[ClaimRow] = []
    for asked in pieces(codes, _listed):
        stored += map(ClaimRow._make, await transaction.fetch_all(_STORED, **asked))
    return {each.coupon_code: each for each in stored}


_is_old = coupon_claim.c.newest_first > -bindparam("before_s", type_=BigInteger)
_its_list = equals(coupon_claim, sid="old_sid", claim_type="old_type")
_REMOVE_OLD = Query(
    lambda: delete_first(coupon_claim, _is_old, _its_list).returning(
        *(coupon_claim.c[name] for name in ClaimRow._fields)
    )
)
_OLD_CLAIMS = sums_by_list(
    (coupon_claim_hour.c.sid, coupon_claim_hour.c.claim_type),
    coupon_claim_hour.c.claims,
    coupon_claim_hour.c.hour < bindparam("before_hour", type_=BigInteger),
    coupon_claim_hour.c.claims > 0,
)


async def remove_old(
    transaction: Transaction, most: int, *, sid: str, claim_type: int, before_s: int
) -> int:
    """Removes at most so many claims of a sid from before a time; returns how many."""
    await _lock_codes(transaction, range(_LOCKS))
    async with transaction.with_new_plan():
        rows = await transaction.fetch_all(
            _REMOVE_OLD, old_sid=sid, old_type=claim_type, before_s=before_s, most=most
        )
    hours = [ClaimRow._make(row).hour for row in rows]
    await recount(transaction, left=hours, come=())
    return len(rows)


def _day_start_s(before_ms: int) -> int:
    return before_ms // 1000 // DAY_S * DAY_S


async def _removals(database: Database, before_ms: int) -> Sequence[Removal]:
    before_s = _day_start_s(before_ms)
    lists = await database.fetch_long(_OLD_CLAIMS, before_hour=before_s // HOUR_S)
    return [
        partial(remove_old, sid=sid, claim_type=claim_type, before_s=before_s)
        for sid, claim_type, _ in lists
    ]


async def _count_old(database: Database, before_ms: int) -> int:
    hour = _day_start_s(before_ms) // HOUR_S
    old = await database.fetch_long(_OLD_CLAIMS, before_hour=hour)
    return sum(int(claims or 0) for _, _, claims in old)


async def _forget_month(transaction: Transaction, month: Month) -> int:
    return await forget_hours(transaction, month.start_s, month.end_s)


RETAINED_CLAIMS = Retained(
    kind="claims",
    keep_days=lambda settings: settings.keep_claims_days,
    table=coupon_claim,
    removals=_removals,
    count_old=_count_old,
    forget_month=_forget_month,
)
