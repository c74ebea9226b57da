"""The work of the coupon-claim query: reads one page of ready claims, and inserts their times.

No answer is cached: each call reads its page from the rows, at the same cost for every page. Any
account may ask for any sid.
"""

from collections.abc import Awaitable
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from tollway.contract.envelope import LIST_TO_COME, NUMBER_TO_COME, parts_around
from tollway.contract.operation import CallInfo
from tollway.contract.time_fields import seconds_of
from tollway.operations.coupon_claims.operation import CouponClaims, CouponClaimsRequest
from tollway.operations.coupon_claims.queries import ClaimPages, JoinedPage, ReadyClaim, Window
from tollway.operations.coupon_claims.records import BEFORE_TIME
from tollway.store.concurrency import read_at_once
from tollway.store.database import Database

# A little more than the minutes of a week: a window has at most seven days.
_MINUTES_MAX = 16_384
_HOUR_S, _DAY_S = 3600, 86_400
# The first day of the year 2200: later than any claim, and long before the calendar ends.
_FOREVER_S = 7_258_118_400
_BETWEEN = b"," + BEFORE_TIME
_SECONDS = [b"%02d" % second for second in range(60)]


class CouponClaimsHandler:
    def __init__(self, database: Database, zone: ZoneInfo) -> None:
        self._database = database
        self._pages = ClaimPages(database)
        self._zone = zone
        self._until_second = lru_cache(_MINUTES_MAX)(self._make_until_second)
        self._offset_of_days = lru_cache(256)(self._find_offset)

    def __call__(self, request: CouponClaimsRequest, call: CallInfo) -> Awaitable[bytes] | bytes:
        start_s = min(seconds_of(request.startTime, self._zone), _FOREVER_S)
        end_s = min(seconds_of(request.endTime, self._zone), _FOREVER_S)
        window = Window(request.sid, request.type, start_s, end_s)
        offset, size = (request.page - 1) * request.limit, request.limit
        utc_offset_s = self._offset_of_days(start_s // _DAY_S, end_s // _DAY_S + 1)
        if utc_offset_s is None:
            return read_at_once(self._database, self._read(window, offset, size, call))
        page = JoinedPage(offset, size, utc_offset_s, _BETWEEN)
        joined = self._pages.read_at_once(window, page)
        if joined is not None:
            total, claims = joined
            return _answer(call, total, claims and BEFORE_TIME, claims)
        return read_at_once(self._database, self._read_joined(window, page, call))

    async def _read_joined(self, window: Window, page: JoinedPage, call: CallInfo) -> bytes:
        joined = await self._pages.read_joined(window, page)
        if joined is not None:
            total, claims = joined
            return _answer(call, total, claims and BEFORE_TIME, claims)
        return await self._read(window, page.offset, page.size, call)

    async def _read(self, window: Window, offset: int, size: int, call: CallInfo) -> bytes:
        total, claims = await self._pages.read(window, offset, size)
        return _answer(call, total, b",".join(map(self.record, claims)))

    def record(self, claim: ReadyClaim) -> bytes:
        """A claim as it is answered."""
        minute, second = divmod(-claim.newest_first, 60)
        return self._until_second(minute) + _SECONDS[second] + claim.ready

    def _find_offset(self, first_day: int, last_day: int) -> int | None:
        """How far the gateway's time zone is ahead of UTC in all of these days; None if that
        changes. Looking once an hour is enough: it changes at most once between two hours."""
        hours = range(first_day * _DAY_S, last_day * _DAY_S + 1, _HOUR_S)
        offsets = {
            datetime.fromtimestamp(at_s, UTC).astimezone(self._zone).utcoffset() for at_s in hours
        }
        only = offsets.pop()
        return None if offsets or only is None else int(only.total_seconds())

    def _make_until_second(self, minute: int) -> bytes:
        """What claims of one minute begin with. Offsets from UTC are whole minutes since 1972."""
        began = datetime.fromtimestamp(minute * 60, self._zone)
        return BEFORE_TIME + f"{began:%Y-%m-%d %H:%M:}".encode()


_BEFORE, _AFTER = parts_around(
    CouponClaims(total=NUMBER_TO_COME, dataList=LIST_TO_COME, withholding_money=NUMBER_TO_COME)
)


def _answer(call: CallInfo, total: int, *claims: bytes) -> bytes:
    """The answer around the encoded claims, which may come in several pieces."""
    return b"".join((_BEFORE % total, *claims, _AFTER % call.price))
