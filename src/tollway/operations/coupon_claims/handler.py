"""The work of the coupon-claim query: reads one page, and encodes it for the wire.

Nothing is cached: a page is read from its rows each time, at the same cost for every page. Any
account may ask for any sid.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from tollway.contract.envelope import encode_data
from tollway.contract.fields import seconds_of
from tollway.contract.operation import CallInfo
from tollway.operations.coupon_claims.operation import (
    CouponClaims,
    CouponClaimsRequest,
    CouponRecord,
)
from tollway.operations.coupon_claims.queries import Claim, Window, read_page
from tollway.store.database import Database


class CouponClaimsHandler:
    """Answers the coupon-claim query from one database."""

    def __init__(self, database: Database, zone: ZoneInfo) -> None:
        self._database = database
        self._zone = zone

    async def __call__(self, request: CouponClaimsRequest, call: CallInfo) -> bytes:
        start_s, end_s = (
            seconds_of(each, self._zone) for each in (request.startTime, request.endTime)
        )
        window = Window(request.sid, request.type, start_s, end_s)
        offset = (request.page - 1) * request.limit
        total, claims = await read_page(self._database, window, offset, request.limit)
        return encode_data(
            CouponClaims(
                total=total,
                dataList=[self._record(request.sid, claim) for claim in claims],
                withholding_money=call.price,
            )
        )

    def _record(self, sid: str, claim: Claim) -> CouponRecord:
        claimed_at = datetime.fromtimestamp(-claim.newest_first, self._zone)
        return CouponRecord(
            # Written without the offset from UTC, and several times faster than strftime.
            couponTime=claimed_at.isoformat(" ", "seconds")[:19],
            money=_yuan(claim.money_fen),
            minUseMoney=_yuan(claim.min_use_fen),
            couponName=claim.coupon_name,
            couponType=claim.coupon_type,
            couponCode=claim.coupon_code,
            beginTime=str(claim.begin_at_s),
            endTime=str(claim.end_at_s),
            appKey=claim.app_key,
            sid=sid,
        )


def _yuan(fen: int) -> str:
    return f"{fen // 100}.{fen % 100:02}"
