"""What the rest of the gateway needs to know of waybill issuing."""

from tollway.contract.operation import ConsentNeed, Encoding, Operation, OwnerKind, Unit
from tollway.contract.reasons import Reason
from tollway.operations.waybills.request import WaybillRequest
from tollway.operations.waybills.response import WaybillResult

WAYBILLS = Operation(
    name="waybills",
    title="Waybill issuing",
    method="POST",
    path="/papi/tool/erps/getwaybillfreewn",
    encoding=Encoding.JSON,
    request_type=WaybillRequest,
    response_type=WaybillResult,
    unit=Unit.CREDITS,
    default_price=10,
    codes=(0, 100, 101, 103, 200, 202, 203, 204, 302, 401, 404),
    consent=ConsentNeed(
        whose=OwnerKind.SHOP,
        field="owner_id",
        scope="waybills",
        asks="issue waybills for your shop",
    ),
    own_reasons=(
        Reason.SHOP_CODE_WRONG,
        Reason.CARRIER_UNKNOWN,
        Reason.WAYBILL_DIFFERS,
        Reason.CARRIER_UNREACHABLE,
        Reason.CARRIER_SILENT,
    ),
    may_be_free=True,
)
