"""A carrier that gives its numbers itself, asked over HTTP in Cainiao's LINK form."""

import asyncio
import logging
import time

import httpx

from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.breaker import Breaker
from tollway.carriers.connectors.cainiao_wire import (
    CANCEL,
    ISSUE,
    LOOK_UP,
    NOT_FOUND,
    NOT_PASSED_ON,
    Answer,
    cancel_content,
    issue_content,
    look_up_content,
    read_answer,
    signed_form,
)
from tollway.carriers.connectors.connector import (
    Cancelled,
    ConnectorError,
    Declined,
    Issued,
    IssueOrder,
    NotSentError,
    OrderRef,
    OutcomeUnknownError,
)
from tollway.carriers.connectors.exchange import exchange
from tollway.carriers.formats import number_problem
from tollway.carriers.links import OpenedLink

_log = logging.getLogger("tollway.carriers")
_REASON_MAX = 200
_LOOK_UP_FIRST_PAUSE_S = 0.05


class CainiaoConnector:
    """The way to one carrier over its link."""

    def __init__(
        self, client: httpx.AsyncClient, carrier: Carrier, opened: OpenedLink, breaker: Breaker
    ) -> None:
        self._client = client
        self._carrier = carrier
        self._opened = opened
        self._breaker = breaker
        self._deadline_s = opened.link.deadline_ms / 1000

    async def issue(self, order: IssueOrder) -> Issued | Declined:
        content = issue_content(self._carrier.wp_code, order)
        with self._breaker.message():
            answer = await self._ask(ISSUE, order.ref, content, self._deadline_s)
            return self._issued(order.ref, answer) if answer.success else _declined(answer)

    async def look_up(self, order: OrderRef) -> Issued | None:
        content = look_up_content(self._carrier.wp_code, order)
        with self._breaker.message():
            answer = await self._ask_until_answered(LOOK_UP, order, content)
            if answer.success:
                return self._issued(order, answer)
            if answer.error_code == NOT_FOUND:
                return None
            raise OutcomeUnknownError("The carrier does not tell whether it knows an order.")

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:
        content = cancel_content(self._carrier.wp_code, order, number)
        with self._breaker.message():
            answer = await self._ask(CANCEL, order, content, self._deadline_s)
            return Cancelled(number) if answer.success else _declined(answer)

    async def _ask(self, message: str, ref: OrderRef, content: str, deadline_s: float) -> Answer:
        """Sends one message, once."""
        try:
            form = signed_form(self._opened, message, content)
            body = await exchange(self._client, self._opened.link.url, form, deadline_s)
            answer = read_answer(self._opened, ref, body)
            if answer.is_of_gateway:
                raise _gateway_error(answer.error_code)
        except ConnectorError as error:
            _log.warning("%s to carrier %s: %s", message, self._carrier.wp_code, error)
            raise
        return answer

    async def _ask_until_answered(self, message: str, ref: OrderRef, content: str) -> Answer:
        """Sends a message that changes nothing, again and again until the deadline."""
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

    def _issued(self, ref: OrderRef, answer: Answer) -> Issued:
        number = answer.waybill_code
        problem = number_problem(self._carrier.number_format, number)
        if problem is not None:
            _log.error(
                "Carrier %s gave a number for task %s that cannot be used: %s. Correct the "
                "carrier's number format, or ask the carrier.",
                self._carrier.wp_code,
                ref.task_id,
                problem,
            )
            raise OutcomeUnknownError("The carrier gave a number that is not in its format.")
        return Issued(number, answer.routing_info)


def _declined(answer: Answer) -> Declined:
    """The carrier's own words, as far as they are fit to be passed on."""
    text = "".join(each for each in answer.error_msg if each.isprintable()).strip()
    return Declined(text[:_REASON_MAX] or "The carrier refused, and gave no reason.")


def _gateway_error(code: str) -> ConnectorError:
    if code in NOT_PASSED_ON:
        return NotSentError(f"The LINK gateway refused the message with {code}: check the link.")
    return OutcomeUnknownError("The LINK gateway has no answer of the carrier.")
