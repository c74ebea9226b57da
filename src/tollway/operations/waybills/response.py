"""What an answer has, in the spellings of the wire."""

import msgspec


class WaybillResult(msgspec.Struct, frozen=True):
    """The payload. `code` is the carrier's verdict: 1 issued, 0 refused, for which see errorMsg."""

    orderSn: str | None
    objectId: str
    printData: str
    waybillCode: str
    parentWaybillCode: str | None
    code: int
    errorMsg: str | None
    withholding_money: int
