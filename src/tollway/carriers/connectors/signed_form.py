"""Signed forms: a protocol for carriers, or adapters to them, that sign their answers too and can
look up what became of an order.

A message is a form whose `logistics_interface` is a JSON text and whose `data_digest` signs it, as
in Cainiao's LINK (`cainiao_link.py`). An answer is such a form too, with those two fields.
"""

import asyncio
import hmac
import time
from typing import Any
from urllib.parse import parse_qs

import httpx2
import msgspec

from tollway.carriers.carrier_links import OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.cainiao_link import (
    CANCEL,
    ISSUE,
    UPDATE,
    digest,
    gateway_error,
    signed_form,
)
from tollway.carriers.connectors.connector import (
    AnswerUnusableError,
    Cancelled,
    ConnectorError,
    Declined,
    Issued,
    IssueOrder,
    OrderRef,
    OutcomeUnknownError,
    Updated,
)
from tollway.carriers.connectors.http_exchange import exchange
from tollway.carriers.labels.print_data import RoutingInfo

LOOK_UP = "TMS_WAYBILL_QUERY"
# The prefix of codes from a gateway in front of the carrier.
_GATEWAY_CODE = "S"
NOT_FOUND = "WAYBILL_NOT_FOUND"


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What every answer says; which fields are filled depends on the message."""

    success: bool
    object_id: str
    waybill_code: str = ""
    routing_info: RoutingInfo | None = None
    error_code: str = ""
    error_msg: str = ""

    @property
    def is_of_gateway(self) -> bool:
        """Whether the answer comes from the gateway, not from the carrier behind it."""
        code = self.error_code
        return not self.success and code.startswith(_GATEWAY_CODE) and code[1:].isdecimal()


def read_answer(opened: OpenedCarrierLink, ref: OrderRef, body: bytes) -> Answer:
    """The answer to a message about this order, if the carrier has signed it."""
    try:
        fields = parse_qs(body.decode(), strict_parsing=True, max_num_fields=10)
        content, signature = fields["logistics_interface"][0], fields["data_digest"][0]
    except (ValueError, KeyError):
        raise OutcomeUnknownError("The carrier's answer is not a signed form.") from None
    if not hmac.compare_digest(digest(content, opened.secret).encode(), signature.encode()):
        raise OutcomeUnknownError("The carrier's answer has a wrong digest.")
    try:
        answer = msgspec.json.decode(content, type=Answer)
    except (msgspec.MsgspecError, UnicodeError):
        raise AnswerUnusableError("The content of the carrier's answer cannot be read.") from None
    if answer.object_id != ref.task_id:
        # Signed, but not the answer to this message: for example a replayed one.
        raise AnswerUnusableError("The carrier's answer is about another order.")
    return answer


def _parcel(order: IssueOrder) -> dict[str, Any]:
    return {
        "waybillType": order.waybill_type,
        "sender": order.sender,
        "recipient": order.recipient,
    }


_LOOK_UP_FIRST_PAUSE_S = 0.05


class SignedFormConnector:
    """One carrier that speaks signed forms."""

    def __init__(
        self, client: httpx2.AsyncClient, carrier: Carrier, opened: OpenedCarrierLink
    ) -> None:
        self._client = client
        self._wp_code = carrier.wp_code
        self._opened = opened
        self._deadline_s = opened.link.deadline_ms / 1000

    async def issue(self, order: IssueOrder) -> Issued | Declined:
        answer = await self._ask(ISSUE, order.ref, _parcel(order))
        return _issued(answer) if answer.success else Declined(answer.error_msg)

    async def look_up(self, order: OrderRef) -> Issued | None:
        answer = await self._look_up_until_answered(order)
        if answer.success:
            return _issued(answer)
        if answer.error_code == NOT_FOUND:
            return None
        raise AnswerUnusableError("The carrier does not say whether it knows an order.")

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:
        answer = await self._ask(CANCEL, order, {"waybillCode": number})
        return Cancelled(number) if answer.success else Declined(answer.error_msg)

    async def update(self, order: IssueOrder, number: str) -> Updated | Declined:
        answer = await self._ask(UPDATE, order.ref, {**_parcel(order), "waybillCode": number})
        return Updated(answer.routing_info) if answer.success else Declined(answer.error_msg)

    async def _ask(
        self, message: str, ref: OrderRef, more: dict[str, Any], deadline_s: float | None = None
    ) -> Answer:
        """Sends one message, once."""
        content = {
            "cpCode": self._wp_code,
            "objectId": ref.task_id,
            "userId": ref.owner_id,
            "tradeOrderList": [ref.order_sn],
            **more,
        }
        form = signed_form(self._opened, message, msgspec.json.encode(content).decode())
        request = self._client.build_request("POST", self._opened.link.url, data=form)
        within_s = self._deadline_s if deadline_s is None else deadline_s
        body = await exchange(self._client, request, within_s)
        answer = read_answer(self._opened, ref, body)
        if answer.is_of_gateway:
            raise gateway_error(answer.error_code)
        return answer

    async def _look_up_until_answered(self, ref: OrderRef) -> Answer:
        """Looks an order up, and retries it with backoff until the deadline: that changes nothing
        at the carrier."""
        ends_at_s = time.monotonic() + self._deadline_s
        pause_s = _LOOK_UP_FIRST_PAUSE_S
        while True:
            try:
                return await self._ask(LOOK_UP, ref, {}, ends_at_s - time.monotonic())
            except ConnectorError:
                if time.monotonic() + pause_s >= ends_at_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s *= 2


def _issued(answer: Answer) -> Issued:
    return Issued(answer.waybill_code, answer.routing_info)
