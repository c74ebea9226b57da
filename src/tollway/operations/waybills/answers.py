"""The answers to a waybill request: issued, or refused by the carrier."""

from tollway.carriers.waybills import Waybill
from tollway.contract.envelope import encode_data
from tollway.ledger.charges import ActResult
from tollway.operations.waybills.operation import WaybillResult, refused_waybill


def issued(waybill: Waybill, print_data: str) -> bytes:
    """The answer for an issued waybill; the gateway sends the same for a repetition, with 0."""
    result = WaybillResult(
        orderSn=waybill.order_sn,
        objectId=waybill.object_id,
        printData=print_data,
        waybillCode=waybill.number or "",
        parentWaybillCode=waybill.parent_number,
        code=1,
        errorMsg=None,
        withholding_money=waybill.price,
    )
    return encode_data(result)


def refused(order_sn: str, why: str) -> ActResult:
    """The answer if the carrier refuses: nothing is issued, nothing is paid."""
    return ActResult(encode_data(refused_waybill(order_sn, why)), is_paid=False)
