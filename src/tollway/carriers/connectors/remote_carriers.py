"""The connectors of one process: one HTTP client for all carriers, one breaker for each.

Each has a guard around its protocol, which does once for all what no protocol may get wrong.

A message passes the carrier's breaker and ends soon after its deadline at the latest. A number must
be in the carrier's format, since it goes into barcodes and printer commands. Sorting codes that fit
on no label are left out. A refusal is cut to what a caller may see. Whatever else a protocol raises
leaves the outcome unknown, because the carrier may have done what it was asked.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import CarrierLink, OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.breaker import Breaker
from tollway.carriers.connectors.connector import (
    AnswerUnusableError,
    Cancelled,
    Connector,
    ConnectorError,
    Declined,
    Issued,
    IssueOrder,
    NoLookUpError,
    NotSentError,
    OrderRef,
    OutcomeUnknownError,
    Updated,
    UpdatingConnector,
)
from tollway.carriers.connectors.protocols import PROTOCOLS, Protocols
from tollway.carriers.labels.print_data import (
    PLACE_NAME_MAX,
    SORTING_CODE_MAX,
    Place,
    RoutingInfo,
)
from tollway.carriers.number_formats import number_problem
from tollway.contract.language import Phrase

# Few gateways have remote carriers: the HTTP client is loaded for the first message to one.
if TYPE_CHECKING:
    import httpx2

A = TypeVar("A", Issued, Updated)
_log = logging.getLogger("tollway.carriers")
_REASON_MAX = 200
_NO_REASON = Phrase("The carrier refused, and gave no reason.", "快递公司拒绝，且未说明原因。")
_TAKES_NO_CHANGES = Phrase(
    "This carrier takes no changes of a receiver.", "该快递公司不支持更改收件人。"
)
# A protocol must keep the deadline itself, since only it knows what was sent by then. This timeout
# is for one that does not, and ends before the message is old enough to be given up.
_DEADLINE_FACTOR = 1.25


class GuardedConnector:
    """One carrier over its link, whichever protocol it speaks."""

    def __init__(
        self,
        inner: Connector,
        carrier: Carrier,
        link: CarrierLink,
        breaker: Breaker,
        *,
        is_counted: bool = True,
    ) -> None:
        self._inner = inner
        self._carrier = carrier
        self._ends_after_s = link.deadline_ms / 1000 * _DEADLINE_FACTOR
        self._guard = breaker.message if is_counted else breaker.uncounted_message

    async def issue(self, order: IssueOrder) -> Issued | Declined:
        async with self._message("issue"):
            answer = await self._inner.issue(order)
            if isinstance(answer, Issued):
                self._check_number(order.ref, answer.number)
                return self._for_labels(order.ref, answer)
            return _passed_on(answer)

    async def look_up(self, order: OrderRef) -> Issued | None:
        async with self._message("look_up"):
            answer = await self._inner.look_up(order)
            if answer is None:
                return None
            self._check_number(order, answer.number)
            return self._for_labels(order, answer)

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:
        async with self._message("cancel"):
            answer = await self._inner.cancel(order, number)
            return answer if isinstance(answer, Cancelled) else _passed_on(answer)

    async def update(self, order: IssueOrder, number: str) -> Updated | Declined:
        inner = self._inner
        if not isinstance(inner, UpdatingConnector):
            return Declined(_TAKES_NO_CHANGES)
        async with self._message("update"):
            answer = await inner.update(order, number)
            if isinstance(answer, Updated):
                return self._for_labels(order.ref, answer)
            return _passed_on(answer)

    @asynccontextmanager
    async def _message(self, what: str) -> AsyncIterator[None]:
        wp_code = self._carrier.wp_code
        with self._guard():
            try:
                async with asyncio.timeout(self._ends_after_s):
                    yield
            except NoLookUpError:
                # No message was sent; the reconciler reports that a person has to decide.
                raise
            except ConnectorError as error:
                _log.warning("%s at carrier %s: %s", what, wp_code, error)
                raise
            except TimeoutError:
                _log.warning("%s at carrier %s had no answer before its deadline", what, wp_code)
                raise OutcomeUnknownError("There was no answer before the deadline.") from None
            except Exception:
                _log.exception("%s at carrier %s failed on this side", what, wp_code)
                raise OutcomeUnknownError("The message failed on this side.") from None

    def _check_number(self, ref: OrderRef, number: str) -> None:
        problem = number_problem(self._carrier.number_format, number)
        if problem is not None:
            _log.error(
                "Carrier %s gave a number for task %s that cannot be used: %s. Correct the "
                "carrier's number format, or ask the carrier.",
                self._carrier.wp_code,
                ref.task_id,
                problem,
            )
            raise AnswerUnusableError("The carrier gave a number that is not in its format.")

    def _for_labels(self, ref: OrderRef, answer: A) -> A:
        """The answer without the sorting codes that fit on no label: they would stay with the
        waybill, and a long text takes seconds to draw. The waybill is good without them."""
        routing = answer.routing
        if routing is None or (usable := _usable(routing)) == routing:
            return answer
        _log.warning(
            "Carrier %s gave sorting codes for task %s that are too long or not printable: they "
            "are left out.",
            self._carrier.wp_code,
            ref.task_id,
        )
        return msgspec.structs.replace(answer, routing=usable)


def _usable(routing: RoutingInfo) -> RoutingInfo:
    def text(given: str, most: int) -> str:
        return given if len(given) <= most and given.isprintable() else ""

    def place(given: Place) -> Place:
        return Place(text(given.name, PLACE_NAME_MAX), text(given.code, SORTING_CODE_MAX))

    return RoutingInfo(
        sortation=place(routing.sortation),
        consolidation=place(routing.consolidation),
        origin=place(routing.origin),
        route_code=text(routing.route_code, SORTING_CODE_MAX),
    )


def _passed_on(answer: Declined) -> Declined:
    """The carrier's own words, without what a caller should not get."""
    en, zh = map(_printable, map(answer.said, ("en", "zh")))
    if not (en and zh):
        return Declined(_NO_REASON)
    return Declined(en if en == zh else Phrase(en, zh))


def _printable(text: str) -> str:
    return "".join(each for each in text if each.isprintable()).strip()[:_REASON_MAX]


class Remotes:
    """Makes connectors; the breakers, which know each carrier's health, outlive them."""

    def __init__(
        self,
        client: "httpx2.AsyncClient | None" = None,
        now_s: Callable[[], float] = time.monotonic,
        protocols: Protocols = PROTOCOLS,
    ) -> None:
        self._client = client
        self._now_s = now_s
        self._protocols = protocols
        self._breakers: dict[str, Breaker] = {}

    def connector(
        self, carrier: Carrier, opened: OpenedCarrierLink, *, is_counted: bool = True
    ) -> GuardedConnector:
        """Raises NotSentError while the protocol of the link is not installed. Messages that are
        not counted neither open the breaker nor serve as its probe."""
        try:
            make = self._protocols.named(opened.link.protocol)
        except CarrierError as error:
            _log.error("carrier %s cannot be asked: %s", carrier.wp_code, error)
            raise NotSentError.of(error.sentence) from None
        breaker = self._breakers.get(carrier.wp_code)
        if breaker is None:
            breaker = self._breakers[carrier.wp_code] = Breaker(carrier.wp_code, self._now_s)
        inner = make(self._open_client(), carrier, opened)
        return GuardedConnector(inner, carrier, opened.link, breaker, is_counted=is_counted)

    def is_refusing(self, wp_code: str) -> bool:
        """Whether a message to a carrier would not be sent now."""
        breaker = self._breakers.get(wp_code)
        return breaker is not None and breaker.is_refusing

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """By wp_code, for the metrics."""
        return self._breakers

    def _open_client(self) -> "httpx2.AsyncClient":
        if self._client is None:
            from tollway.carriers.connectors.http_exchange import open_client  # noqa: PLC0415

            self._client = open_client()
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
