"""The answers to a waybill request: issued, or refused by the carrier."""

from tollway.carriers.vault import Vault
from tollway.carriers.waybills import StoredWaybill
from tollway.contract.envelope import encode_data
from tollway.ledger.charges import ActResult
from tollway.operations.waybills.operation import WaybillResult, refused_waybill


def issued(stored: StoredWaybill, vault: Vault) -> bytes:
    """The answer for an issued waybill; the gateway sends the same for a repetition, with 0."""
    result = WaybillResult(
        orderSn=stored.waybill.order_sn,
        objectId=stored.waybill.object_id,
        printData=stored.print_data(vault),
        waybillCode=stored.waybill.number or "",
        parentWaybillCode=stored.waybill.parent_number,
        code=1,
        errorMsg=None,
        withholding_money=stored.waybill.price,
    )
    return encode_data(result)


def refused(order_sn: str, why: str) -> ActResult:
    """The answer if the carrier refuses: nothing is issued, nothing is paid."""
    return ActResult(encode_data(refused_waybill(order_sn, why)), is_paid=False)
