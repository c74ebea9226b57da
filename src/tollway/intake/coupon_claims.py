"""Coupon claims: the records of such a file, and where they are stored.

A coupon's code names its claim for good. A later record of the same code replaces the earlier one,
and moves it if it says another sid, type or time of claim. The counts by hour follow in the same
transaction, because totals and pages are taken from them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec
from sqlalchemy import BigInteger, Integer, bindparam, literal_column, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from tollway.intake.values import Id, Name, Seconds, fen_of
from tollway.store.database import Transaction
from tollway.store.query import Query
from tollway.store.schema import coupon_claim, coupon_claim_hour
from tollway.store.upsert import upsert

DELIVERY, FLASH = 4, 6
DELIVERY_COUPON = "WAIMAI_COUPON"
_HOUR_S = 3600
_CODES_AT_ONCE = 500


class ClaimRecord(msgspec.Struct, frozen=True):
    """One line of a file. `coupon_type` may be left out for food delivery, which has but one."""

    coupon_code: Id
    sid: Id
    type: int
    claim_time: Seconds
    coupon_name: Name
    money: Decimal
    min_use_money: Decimal
    begin_time: Seconds
    end_time: Seconds
    app_key: Id
    coupon_type: Name | None = None


class ClaimRow(NamedTuple):
    """A claim as it is stored: the table's columns, in their order."""

    sid: str
    claim_type: int
    newest_first: int
    coupon_code: str
    coupon_name: str
    coupon_type: str
    money_fen: int
    min_use_fen: int
    begin_at_s: int
    end_at_s: int
    app_key: str

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Where the claim stands in the list: its key."""
        return self[:4]

    @property
    def hour(self) -> tuple[str, int, int]:
        """The bucket it is counted in."""
        return self.sid, self.claim_type, -self.newest_first // _HOUR_S


_STORED = Query(
    select(*(coupon_claim.c[name] for name in ClaimRow._fields))
    .where(coupon_claim.c.coupon_code.in_([bindparam(f"code_{n}") for n in range(_CODES_AT_ONCE)]))
    # So that what is decided by them is still true when it is written.
    .with_for_update()
)
_REMOVE = Query(
    coupon_claim.delete().where(
        coupon_claim.c.sid == bindparam("old_sid"),
        coupon_claim.c.claim_type == bindparam("old_type"),
        coupon_claim.c.newest_first == bindparam("old_newest_first"),
        coupon_claim.c.coupon_code == bindparam("old_code"),
    )
)
_key = tuple(coupon_claim.primary_key.columns)
_REMOVE_OLD = Query(
    coupon_claim.delete()
    .where(
        tuple_(*_key).in_(
            select(*_key)
            .where(
                coupon_claim.c.sid == bindparam("old_sid"),
                coupon_claim.c.claim_type == bindparam("old_type"),
                coupon_claim.c.newest_first > -bindparam("before_s", type_=BigInteger),
            )
            .order_by(*_key)
            .limit(bindparam("most", type_=Integer))
        )
    )
    .returning(*(coupon_claim.c[name] for name in ClaimRow._fields))
)
_FORGET_EMPTY = Query(
    coupon_claim_hour.delete().where(
        coupon_claim_hour.c.sid == bindparam("its_sid"),
        coupon_claim_hour.c.claim_type == bindparam("its_type"),
        coupon_claim_hour.c.hour == bindparam("its_hour"),
        coupon_claim_hour.c.claims == literal_column("0"),
    )
)
# Not the same statement as the other: a claim that somebody else brings to this place at the same
# moment must be a conflict, since it would be counted twice.
_PUT = Query(coupon_claim.insert().values({c.name: bindparam(c.name) for c in coupon_claim.c}))
_REPLACE = upsert(coupon_claim)
_new_hour = insert(coupon_claim_hour).values(
    {column.name: bindparam(column.name) for column in coupon_claim_hour.c}
)
_COUNT_UP = Query(
    _new_hour.on_conflict_do_update(
        index_elements=list(coupon_claim_hour.primary_key.columns),
        set_={"claims": coupon_claim_hour.c.claims + _new_hour.excluded.claims},
    )
)
# Not one statement with the other: a row of less than nothing may not even be proposed.
_COUNT_DOWN = Query(
    coupon_claim_hour.update()
    .values(claims=coupon_claim_hour.c.claims - bindparam("fewer"))
    .where(
        coupon_claim_hour.c.sid == bindparam("its_sid"),
        coupon_claim_hour.c.claim_type == bindparam("its_type"),
        coupon_claim_hour.c.hour == bindparam("its_hour"),
    )
)


class CouponClaims:
    """The loader of coupon claims."""

    def check(self, values: dict[str, object]) -> ClaimRow:
        record = msgspec.convert(values, ClaimRecord, strict=False)
        if record.end_time < record.begin_time:
            raise ValueError("Expected a time not before begin_time - at `$.end_time`")
        return ClaimRow(
            record.sid,
            record.type,
            -record.claim_time,
            record.coupon_code,
            record.coupon_name,
            _coupon_type(record),
            fen_of(record.money, "money"),
            fen_of(record.min_use_money, "min_use_money"),
            record.begin_time,
            record.end_time,
            record.app_key,
        )

    async def store(self, transaction: Transaction, records: Sequence[ClaimRow]) -> int:
        # Of several records of one code the last one counts.
        newest = {row.coupon_code: row for row in records}
        stored = await _stored(transaction, list(newest))
        changed = [row for code, row in newest.items() if stored.get(code) != row]
        # In the order of the key, which spares the engine half of its way.
        changed.sort()
        moves = [(stored.get(row.coupon_code), row) for row in changed]
        moves = [(old, row) for old, row in moves if old is None or old.place != row.place]
        left = [old for old, _ in moves if old is not None]
        come = [row for _, row in moves]
        await transaction.execute_many(_REMOVE, [old.place for old in left])
        await transaction.execute_many(_PUT, come)
        moved = set(come)
        await transaction.execute_many(_REPLACE, [row for row in changed if row not in moved])
        await _recount(transaction, left=left, come=come)
        return len(changed)


async def remove_old(
    transaction: Transaction, sid: str, claim_type: int, before_s: int, most: int
) -> int:
    """Removes some claims of a sid that were made earlier; how many that were."""
    rows = await transaction.fetch_all(
        _REMOVE_OLD, old_sid=sid, old_type=claim_type, before_s=before_s, most=most
    )
    removed = [ClaimRow._make(row) for row in rows]
    await _recount(transaction, left=removed, come=())
    await transaction.execute_many(_FORGET_EMPTY, sorted({row.hour for row in removed}))
    return len(removed)


def _coupon_type(record: ClaimRecord) -> str:
    if record.type == DELIVERY:
        if record.coupon_type not in (None, DELIVERY_COUPON):
            raise ValueError(f"Expected {DELIVERY_COUPON} for type 4 - at `$.coupon_type`")
        return DELIVERY_COUPON
    if record.type != FLASH:
        raise ValueError("Expected 4 (food delivery) or 6 (flash purchase) - at `$.type`")
    if record.coupon_type is None:
        raise ValueError("Object missing required field `coupon_type` for type 6")
    return record.coupon_type


async def _stored(transaction: Transaction, codes: Sequence[str]) -> dict[str, ClaimRow]:
    """The stored claims among these codes."""
    stored: dict[str, ClaimRow] = {}
    for start in range(0, len(codes), _CODES_AT_ONCE):
        asked = codes[start : start + _CODES_AT_ONCE]
        # The query has a fixed number of places; those left over ask for the last code again.
        places = [*asked, *[asked[-1]] * (_CODES_AT_ONCE - len(asked))]
        values = {f"code_{n}": code for n, code in enumerate(places)}
        for row in await transaction.fetch_all(_STORED, **values):
            claim = ClaimRow._make(row)
            stored[claim.coupon_code] = claim
    return stored


async def _recount(
    transaction: Transaction, *, left: Iterable[ClaimRow], come: Iterable[ClaimRow]
) -> None:
    counts = Counter(row.hour for row in come)
    counts.subtract(row.hour for row in left)
    # Everybody in the same order, so that nobody waits for one who waits for them.
    up = [(*hour, more) for hour, more in sorted(counts.items()) if more > 0]
    down = [(-more, *hour) for hour, more in sorted(counts.items()) if more < 0]
    await transaction.execute_many(_COUNT_UP, up)
    await transaction.execute_many(_COUNT_DOWN, down)
