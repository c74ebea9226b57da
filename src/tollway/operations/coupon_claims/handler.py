"""The work of the coupon-claim query: reads one page of claims that are ready, and puts in their
times.

Nothing is cached: a page is read from its rows each time, at the same cost for every page. Any
account may ask for any sid.
"""

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from tollway.contract.envelope import encode_data, encoded_list
from tollway.contract.fields import seconds_of
from tollway.contract.operation import CallInfo
from tollway.operations.coupon_claims.operation import CouponClaims, CouponClaimsRequest
from tollway.operations.coupon_claims.queries import Window, read_page
from tollway.operations.coupon_claims.records import BEFORE_TIME
from tollway.store.database import Database

# The minutes of a week and some more: a window has at most seven days.
_MINUTES_MAX = 16_384
_SECONDS = [b"%02d" % second for second in range(60)]


class CouponClaimsHandler:
    """Answers the coupon-claim query from one database."""

    def __init__(self, database: Database, zone: ZoneInfo) -> None:
        self._database = database
        self._zone = zone
        self._until_second = lru_cache(_MINUTES_MAX)(self._make_until_second)

    async def __call__(self, request: CouponClaimsRequest, call: CallInfo) -> bytes:
        start_s, end_s = (
            seconds_of(each, self._zone) for each in (request.startTime, request.endTime)
        )
        window = Window(request.sid, request.type, start_s, end_s)
        offset = (request.page - 1) * request.limit
        total, claims = await read_page(self._database, window, offset, request.limit)
        until_second = self._until_second
        records = [
            until_second(-claim.newest_first // 60)
            + _SECONDS[-claim.newest_first % 60]
            + claim.ready
            for claim in claims
        ]
        return encode_data(
            CouponClaims(
                total=total,
                dataList=encoded_list(records),
                withholding_money=call.price,
            )
        )

    def _make_until_second(self, minute: int) -> bytes:
        """What claims of one minute begin with. Offsets from UTC are whole minutes since 1972."""
        began = datetime.fromtimestamp(minute * 60, self._zone)
        return BEFORE_TIME + f"{began:%Y-%m-%d %H:%M:}".encode()
