"""The export of the coupon claims of a channel, and its file."""

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import BigInteger, String, bindparam, func, select

from tollway.contract.fields import Field, Text
from tollway.contract.operation import CallInfo, Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.time_fields import Seconds, seconds_of, span_s
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import (
    CLAIM_TYPES,
    COUPON_CLAIMS,
    SID,
    CouponRecord,
)
from tollway.operations.coupon_claims.queries import ClaimPages, ReadyClaim, Window
from tollway.operations.coupon_claims.schema import coupon_claim
from tollway.operations.exports import (
    RECORDS_PER_PRICE,
    Export,
    Line,
    Position,
    lines_after,
    lines_values,
    not_a_line,
    paid_hundreds,
    priced_export,
    stream_of,
    window_of,
)
from tollway.operations.subject import Handler, MoreCall, Priced, Services, Stream
from tollway.store.database import Database
from tollway.store.query import Query, equals


class ClaimsExportRequest(msgspec.Struct, frozen=True):
    startTime: Annotated[
        int | datetime, Field(Seconds(), "Start of the claim window, seconds timestamp; included.")
    ]
    endTime: Annotated[
        int | datetime, Field(Seconds(), "End of the claim window; excluded. Any length.")
    ]
    sid: Annotated[str, Field(SID, "Channel user identifier.")]
    type: Annotated[
        int,
        Field(CLAIM_TYPES, "4 = food delivery; 6 = flash purchase."),
    ]


class ClaimsFileRequest(msgspec.Struct, frozen=True):
    export_id: Annotated[str, Field(Text(max_length=1000), "The export_id of the export.")]
    after: Annotated[
        str | None,
        Field(
            Text(max_length=128),
            "The couponCode of the last whole line that arrived; from the first if left out.",
        ),
    ] = None


def _check(request: ClaimsExportRequest, zone: ZoneInfo) -> None:
    if span_s(request.startTime, request.endTime, zone) <= 0:
        raise Refusal(Reason.WINDOW_BACKWARDS, start="startTime", end="endTime")


CLAIMS_EXPORT = Operation(
    name="coupon_claims_export",
    title="Export of coupon claims",
    method="POST",
    path=f"{COUPON_CLAIMS.path}/export",
    encoding=Encoding.JSON,
    request_type=ClaimsExportRequest,
    response_type=Export,
    unit=Unit.CREDITS,
    default_price=COUPON_CLAIMS.default_price,
    check=_check,
    own_reasons=(Reason.WINDOW_BACKWARDS,),
    belongs_to=COUPON_CLAIMS.name,
    not_taken=("page", "limit"),
    is_measured=True,
)
CLAIMS_FILE = Operation(
    name="coupon_claims_export_file",
    title="The file of an export of coupon claims",
    method="GET",
    path=f"{CLAIMS_EXPORT.path}/file",
    encoding=Encoding.QUERY,
    request_type=ClaimsFileRequest,
    response_type=CouponRecord,
    unit=Unit.CREDITS,
    default_price=0,
    belongs_to=COUPON_CLAIMS.name,
    is_file=True,
)

_of_sid = equals(coupon_claim, sid="wanted_sid", claim_type="wanted_type")
_LINES = Query(
    lambda: lines_after(*(coupon_claim.c[name] for name in ReadyClaim._fields), of=[_of_sid])
)
_OF_ITS_SECOND = Query(
    lambda: (
        select(func.count())
        .select_from(coupon_claim)
        .where(
            _of_sid,
            coupon_claim.c.newest_first == bindparam("second", type_=BigInteger),
            coupon_claim.c.coupon_code <= bindparam("last_code", type_=String),
        )
    )
)
_POSITION = Query(
    lambda: select(coupon_claim.c.newest_first).where(
        _of_sid, coupon_claim.c.coupon_code == bindparam("wanted")
    )
)


def _export_handler(services: Services) -> Handler:
    pages = ClaimPages(services.database)

    async def handle(request: ClaimsExportRequest, call: CallInfo) -> Priced:
        start_s, end_s = (
            seconds_of(each, services.zone) for each in (request.startTime, request.endTime)
        )
        # Claims have no time of storage. So the window may not extend into the future, and the file
        # has no more lines than are paid for.
        end_s = max(start_s, min(end_s, services.runtime.at_s()))
        window = Window(request.sid, request.type, start_s, end_s)
        records, _ = await pages.read(window, 0, 1)
        lines_max = paid_hundreds(records) * RECORDS_PER_PRICE
        return priced_export(services, call, CLAIMS_FILE.path, [*window, lines_max], records, {})

    return handle


def _file_handler(services: Services) -> Handler:
    # Not a replica: one that lags would leave out claims that are paid for.
    database, shown = services.database, CouponClaimsHandler(services.database, services.zone)
    pages = ClaimPages(database)

    async def handle(request: ClaimsFileRequest, call: CallInfo) -> Stream:
        *sealed, lines_max = window_of(services, call, CLAIMS_FILE.path, request.export_id)
        window = Window(*sealed)
        values = {"wanted_sid": window.sid, "wanted_type": window.claim_type}
        after = None
        if request.after is not None:
            row = await database.fetch_one(_POSITION, **values, wanted=request.after)
            if row is None or not window.start_s <= -row[0] < window.end_s:
                raise not_a_line()
            after = Position(row[0], request.after)
            lines_max -= await _lines_up_to(database, pages, window, after, call.account_id)

        async def read(position: Position | None, most: int) -> list[Line]:
            span = lines_values(window.start_s, window.end_s, position, most)
            rows = await database.fetch_long(_LINES, call.account_id, **values, **span)
            claims = map(ReadyClaim._make, rows)
            return [
                Line(Position(each.newest_first, each.coupon_code), shown.record(each) + b"\n")
                for each in claims
            ]

        return stream_of(read, after, lines_max)

    return handle


async def _lines_up_to(
    database: Database, pages: ClaimPages, window: Window, last: Position, account_id: str
) -> int:
    """How many lines the file has up to and including this one."""
    at_s = -last.newest_first
    newer, _ = await pages.read(window._replace(start_s=min(at_s + 1, window.end_s)), 0, 1)
    ((of_its_second,),) = await database.fetch_long(
        _OF_ITS_SECOND,
        account_id,
        wanted_sid=window.sid,
        wanted_type=window.claim_type,
        second=last.newest_first,
        last_code=last.id,
    )
    return newer + int(of_its_second)


EXPORTS = (MoreCall(CLAIMS_EXPORT, _export_handler), MoreCall(CLAIMS_FILE, _file_handler))
