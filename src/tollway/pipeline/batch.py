"""Stage: a call with many requests of one operation. Each is a call of its own.

So each has its own answer, charge, receipt and consent; a refused one costs nothing and does not
affect the others. Like any calls that arrive together, they share commits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from itertools import count as numbers
from typing import Any

import msgspec

from tollway.contract.envelope import encode_data
from tollway.contract.fields import is_unicode
from tollway.contract.operation import Operation
from tollway.operations.waybills.more_calls import WaybillBatch, WaybillBatchItem
from tollway.pipeline.call import KEY_HEADER, Answer, Call
from tollway.pipeline.decode import listed_together
from tollway.pipeline.envelope import REASON_HEADER
from tollway.pipeline.replay import read_key
from tollway.telemetry.requests import new_request_id

# How many requests of a batch begin in one turn of the event loop. With all of them in one, calls
# of others would wait for a hundred.
_BEGUN_TOGETHER = 8
_OF_CALLER = (b"authorization", b"x-forwarded-for")
# Runs a call whose parameters are given, from decoding on.
RunItem = Callable[[Call, Mapping[str, Any]], Awaitable[Answer]]


class _Envelope(msgspec.Struct):
    code: int
    msg: str
    data: msgspec.Raw


class _Data(msgspec.Struct):
    withholding_money: int = 0
    authorize_url: str | None = None
    expires_at: int | None = None


class Batch:
    """Runs every request of a call, all at once, and answers with their results.

    `count` counts the call itself where nodes share a limit. An Idempotency-Key gives each request
    a key of its own, so a repetition does only what was not done before.
    """

    def __init__(
        self, run_item: RunItem, count: Callable[[Call], Awaitable[object] | None]
    ) -> None:
        self._run_item = run_item
        self._count = count

    async def __call__(self, call: Call) -> None:
        operation = call.operation.batch_of
        assert operation is not None
        key = read_key(call)
        counting = self._count(call)
        if counting is not None:
            await counting
        call.is_settled = True
        requests = call.request.waybills
        items = [_item(call, operation, key, number) for number in range(len(requests))]
        answers = await asyncio.gather(*map(self._run_in_turn, numbers(), items, requests))
        results = [
            _result(item, request, answer)
            for item, request, answer in zip(items, requests, answers, strict=True)
        ]
        call.ignored = listed_together(call.ignored, *(item.ignored for item in items))
        # The batch itself is free.
        call.price = 0
        call.data = encode_data(WaybillBatch(results, sum(item.charged for item in items)))

    async def _run_in_turn(self, number: int, item: Call, raw: Mapping[str, Any]) -> Answer:
        for _ in range(number // _BEGUN_TOGETHER):
            await asyncio.sleep(0)
        return await self._run_item(item, raw)


def _item(call: Call, operation: Operation, key: str | None, number: int) -> Call:
    # Those that say who calls, for the case that it must be looked at again.
    headers = {name: call.headers[name] for name in _OF_CALLER if name in call.headers}
    if key is not None:
        # A hash, so that its length is valid and it collides with no other key.
        digest = sha256(f"{key} {number}".encode()).hexdigest()
        headers[KEY_HEADER] = f"batch {digest}".encode()
    item = Call(
        new_request_id(call.at_s),
        call.method,
        call.path,
        b"",
        headers,
        call.body,
        call.at_s,
        call.client,
    )
    item.operation, item.operation_name = operation, call.operation_name
    item.caller_reading, item.directory = call.caller_reading, call.directory
    item.caller, item.environment, item.price = call.caller, call.environment, call.price
    item.account_id, item.language, item.client_ids = (
        call.account_id,
        call.language,
        call.client_ids,
    )
    return item


def _result(item: Call, request: Mapping[str, Any], answer: Answer) -> WaybillBatchItem:
    envelope = msgspec.json.decode(answer.body, type=_Envelope)
    data = msgspec.json.decode(envelope.data, type=_Data)
    waybill: Any = None if envelope.code else envelope.data
    return WaybillBatchItem(
        order_sn=_order_sn(request),
        request_id=item.request_id,
        code=envelope.code,
        reason=dict(answer.headers).get(REASON_HEADER, b"SUCCESS").decode(),
        msg=envelope.msg,
        waybill=waybill,
        authorize_url=data.authorize_url,
        expires_at=data.expires_at,
    )


def _order_sn(request: Mapping[str, Any]) -> str | None:
    """The order number as sent; None if it is not a text."""
    order_sn = request.get("order_sn", request.get("orderSn"))
    if type(order_sn) is int:
        # As in any request, a number stands for its digits.
        return str(order_sn)
    # Half a surrogate pair was refused, and cannot be sent back: the answer would fail to encode,
    # though the rest of the batch is issued and paid.
    return order_sn if isinstance(order_sn, str) and is_unicode(order_sn) else None
