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
    LINK_REFUSED,
    NOT_PASSED_ON,
    UPDATE,
    digest,
    signed_form,
)
from tollway.carriers.connectors.connector import (
    AnswerUnusableError,
    Cancelled,
    ConnectorError,
    Declined,
    Issued,
    IssueOrder,
    LinkRefusedError,
    OrderRef,
    OutcomeUnknownError,
    TurnedAwayError,
    Updated,
)
from tollway.carriers.connectors.http_exchange import exchange
from tollway.carriers.labels.print_data import Party, RoutingInfo

LOOK_UP = "TMS_WAYBILL_QUERY"
# The prefix of codes from a gateway in front of the carrier.
_GATEWAY_CODE = "S"
NOT_FOUND = "WAYBILL_NOT_FOUND"


class _Order(msgspec.Struct, frozen=True, rename="camel"):
    cp_code: str
    object_id: str
    user_id: str
    trade_order_list: list[str]


class _IssueContent(_Order, frozen=True, rename="camel"):
    waybill_type: int
    sender: Party
    recipient: Party


class _CancelContent(_Order, frozen=True, rename="camel"):
    waybill_code: str


class _UpdateContent(_IssueContent, frozen=True, rename="camel"):
    waybill_code: str


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


def issue_content(wp_code: str, order: IssueOrder) -> str:
    return msgspec.json.encode(_IssueContent(**_whole(wp_code, order))).decode()


def update_content(wp_code: str, order: IssueOrder, number: str) -> str:
    content = _UpdateContent(**_whole(wp_code, order), waybill_code=number)
    return msgspec.json.encode(content).decode()


def look_up_content(wp_code: str, ref: OrderRef) -> str:
    return msgspec.json.encode(_Order(**_order(wp_code, ref))).decode()


def cancel_content(wp_code: str, ref: OrderRef, number: str) -> str:
    content = _CancelContent(**_order(wp_code, ref), waybill_code=number)
    return msgspec.json.encode(content).decode()


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


def _whole(wp_code: str, order: IssueOrder) -> dict[str, Any]:
    return {
        **_order(wp_code, order.ref),
        "waybill_type": order.waybill_type,
        "sender": order.sender,
        "recipient": order.recipient,
    }


def _order(wp_code: str, ref: OrderRef) -> dict[str, Any]:
    return {
        "cp_code": wp_code,
        "object_id": ref.task_id,
        "user_id": ref.owner_id,
        "trade_order_list": [ref.order_sn],
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
        content = issue_content(self._wp_code, order)
        answer = await self._ask(ISSUE, order.ref, content, self._deadline_s)
        return _issued(answer) if answer.success else Declined(answer.error_msg)

    async def look_up(self, order: OrderRef) -> Issued | None:
        content = look_up_content(self._wp_code, order)
        answer = await self._ask_until_answered(LOOK_UP, order, content)
        if answer.success:
            return _issued(answer)
        if answer.error_code == NOT_FOUND:
            return None
        raise AnswerUnusableError("The carrier does not say whether it knows an order.")

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:
        content = cancel_content(self._wp_code, order, number)
        answer = await self._ask(CANCEL, order, content, self._deadline_s)
        return Cancelled(number) if answer.success else Declined(answer.error_msg)

    async def update(self, order: IssueOrder, number: str) -> Updated | Declined:
        content = update_content(self._wp_code, order, number)
        answer = await self._ask(UPDATE, order.ref, content, self._deadline_s)
        return Updated(answer.routing_info) if answer.success else Declined(answer.error_msg)

    async def _ask(self, message: str, ref: OrderRef, content: str, deadline_s: float) -> Answer:
        """Sends one message, once."""
        form = signed_form(self._opened, message, content)
        request = self._client.build_request("POST", self._opened.link.url, data=form)
        answer = read_answer(self._opened, ref, await exchange(self._client, request, deadline_s))
        if answer.is_of_gateway:
            raise _gateway_error(answer.error_code)
        return answer

    async def _ask_until_answered(self, message: str, ref: OrderRef, content: str) -> Answer:
        """Sends a read-only message, and retries it with backoff until the deadline."""
        ends_at_s = time.monotonic() + self._deadline_s
        pause_s = _LOOK_UP_FIRST_PAUSE_S
        while True:
            try:
                left_s = ends_at_s - time.monotonic()
                return await self._ask(message, ref, content, left_s)
            except ConnectorError:
                if time.monotonic() + pause_s >= ends_at_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s *= 2


def _issued(answer: Answer) -> Issued:
    return Issued(answer.waybill_code, answer.routing_info)


def _gateway_error(code: str) -> ConnectorError:
    if code in LINK_REFUSED:
        return LinkRefusedError(
            "The carrier's gateway refused the link with {code}: check its secret and provider.",
            code=code,
        )
    if code in NOT_PASSED_ON:
        return TurnedAwayError(
            "The carrier's gateway refused the message with {code}: check the link.", code=code
        )
    return OutcomeUnknownError("The carrier's gateway has no answer of the carrier.")
