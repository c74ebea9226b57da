"""The stages of a request for a receipt, and the recording of calls that are not charged."""

from functools import partial

import msgspec

from tollway.contract.envelope import encode_data
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.receipt import RECEIPTS_NAME, RECEIPTS_PATH, FreeReason
from tollway.ledger.caller_cache import Caller
from tollway.ledger.idempotency import OF_PAGES
from tollway.ledger.receipts import find_receipt
from tollway.ledger.refused_calls import RefusedCall, RefusedCallLog
from tollway.operations.catalogue import ALL_OPERATIONS
from tollway.pipeline.call import KEY_HEADER, Call
from tollway.pipeline.dry_run import DRY_RUN_HEADER
from tollway.store.database import Database


def route_receipt(call: Call) -> None:
    """Stage: is the request a GET."""
    if call.method != "GET":
        raise Refusal(Reason.METHOD_WRONG, allowed="GET")
    call.operation_name = RECEIPTS_NAME


def permit_receipt(_: Call) -> None:
    """Any token may ask for receipts; which of them it sees, `ReadReceipt` decides."""


class ReadReceipt:
    """Stage: the receipt of one of the account's own calls; for a test token, of test calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, call: Call) -> None:
        wanted = call.path.removeprefix(RECEIPTS_PATH)
        account_id = call.caller.account_id
        receipt = await find_receipt(self._database, account_id, wanted, call.language)
        if (
            receipt is None
            or (call.caller.is_test and not receipt.is_test)
            or not sees_receipt(call.caller, receipt.operation)
        ):
            raise Refusal(Reason.RECEIPT_UNKNOWN)
        call.data = encode_data(receipt)


_CHARGED_AS = {operation.name: operation.charged_as for operation in ALL_OPERATIONS}


def sees_receipt(caller: Caller, operation: str) -> bool:
    """Whether a token may see a receipt: one that is limited sees those of its operations."""
    return caller.limits is None or caller.limits.allows(_CHARGED_AS.get(operation, operation))


_OF_PAGES = OF_PAGES.encode()


def record_refused(
    refused_calls: RefusedCallLog, call: Call, code: int, reason: str, refusal: Refusal | None
) -> None:
    """Records a call of an account that was not charged."""
    if not code and _is_look_of_page(call):
        return
    caller, at_ms = call.caller, int(call.at_s * 1000)
    cause = reason if code else _why_not(call)
    key = (caller.account_id, call.operation_name, cause, int(caller.is_test))
    refused_calls.add_made(at_ms, key, partial(_refused, call, at_ms, code, cause, refusal))


def _is_look_of_page(call: Call) -> bool:
    """Whether one of our pages asked for a price, or shows a paid answer again: that is no call of
    the account. A read that an owner can see is recorded all the same."""
    if call.is_dry_run:
        return call.headers[DRY_RUN_HEADER].startswith(_OF_PAGES)
    owner_sees_it = call.grant is not None and not call.caller.is_test
    is_kept = call.replay_of is not None and call.idempotency_key is None and not owner_sees_it
    return is_kept and call.headers.get(KEY_HEADER, b"").startswith(_OF_PAGES)


# Refusals whose messages name parameters, of those that the operation has, and never their values.
_NAMES_PARAMETERS = {
    Reason.PARAMETER_MISSING,
    Reason.PARAMETER_UNKNOWN,
    Reason.PARAMETER_INVALID,
    Reason.SPELLINGS_CONFLICT,
    Reason.WINDOW_BACKWARDS,
    Reason.WINDOW_TOO_LONG,
    Reason.WAYBILL_DIFFERS,
    Reason.FILTER_NEEDS_ENHANCED,
}


def _said(refusal: Refusal | None) -> str | None:
    if refusal is None or refusal.reason not in _NAMES_PARAMETERS:
        return None
    both = Phrase(refusal.message("en"), refusal.message("zh"))
    return msgspec.json.encode(both).decode()


def _refused(
    call: Call, at_ms: int, code: int, reason: str, refusal: Refusal | None
) -> RefusedCall:
    return RefusedCall(
        call.caller.account_id,
        call.request_id,
        at_ms,
        call.operation_name,
        code,
        reason,
        call.replay_of,
        call.client_ids.request_id or None,
        int(call.caller.is_test),
        0,
        *_owner_of(call),
        _said(refusal),
    )


def _owner_of(call: Call) -> tuple[str | None, str | None]:
    """The shop or user that a call named; none if it was refused before that was decoded."""
    need = call.operation.consent if hasattr(call, "operation") else None
    request = getattr(call, "request", None)
    owner_id = None if need is None else getattr(request, need.field, None)
    if need is None or owner_id is None:
        return None, None
    return need.whose.value, str(owner_id)


def _why_not(call: Call) -> str:
    if call.is_dry_run:
        return FreeReason.DRY_RUN.value
    if call.replay_of is not None:
        return FreeReason.REPLAYED.value
    if call.caller.is_test:
        return FreeReason.TEST.value
    if call.operation.batch_of is not None:
        return FreeReason.BATCH.value
    return (FreeReason.NOT_DONE if call.price else FreeReason.FREE).value
