"""Cainiao's LINK gateway: its messages, and the connector that sends them.

A message is a form whose `logistics_interface` is a JSON text and whose `data_digest` signs it. The
answer is JSON or XML and not signed: only the connection authenticates it. LINK has no message that
asks what became of an order, so an unknown outcome stays unknown until the operator decides
(`tollway reconcile --decide`). docs/operate/carriers.md lists what was not verified against the
real service.
"""

import base64
import hashlib
from typing import Any
from xml.etree import ElementTree

import httpx2
import msgspec

from tollway.carriers.carrier_links import OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.connector import (
    AnswerUnusableError,
    Cancelled,
    ConnectorError,
    Declined,
    Issued,
    IssueOrder,
    LinkRefusedError,
    NoLookUpError,
    OrderRef,
    OutcomeUnknownError,
    TurnedAwayError,
    Updated,
)
from tollway.carriers.connectors.http_exchange import exchange
from tollway.carriers.labels.print_data import Party, routing_of

ISSUE = "TMS_WAYBILL_GET"
CANCEL = "TMS_WAYBILL_DISCARD"
UPDATE = "TMS_WAYBILL_UPDATE"
SUBSCRIPTIONS = "TMS_WAYBILL_SUBSCRIPTION_QUERY"

# Codes of the LINK gateway itself. With these it has not forwarded the message; with any other (S06
# timeout, S07 system error, …) it may have.
_NOT_PASSED_ON = frozenset({"S01", "S02", "S03", "S04", "S05", "S10", "S11", "S12"})
# The codes about the link, not about one message: a wrong signature, an unknown sender.
_LINK_REFUSED = frozenset({"S02", "S03"})
# The carrier's own refusal.
_REFUSED = "S13"
# Orders of shops outside of Cainiao's own platforms.
_CHANNEL = "OTHERS"
# The item of a parcel, which LINK requires and a waybill's request need not name.
_GOODS = "商品"
_LISTS = frozenset(
    {"waybillCloudPrintResponseList", "waybillApplySubscriptionCols", "branchAccountCols"}
    | {"shippAddressCols"}
)
_XML_DEPTH_MAX = 12


class Subscription(msgspec.Struct, frozen=True):
    """A branch that issues numbers for this merchant, how many are left, and where it picks up."""

    branch_code: str
    quantity: int
    allocated: int
    cancelled: int
    printed: int
    addresses: list[str]


def issue_content(wp_code: str, order: IssueOrder, template_url: str) -> str:
    """Asks for one parcel of one order."""
    item = {"name": order.goods_name or _GOODS, "count": 1}
    wanted = {
        "objectId": order.ref.task_id,
        "orderInfo": {"orderChannelsType": _CHANNEL, "tradeOrderList": [order.ref.order_sn]},
        "packageInfo": {"id": order.ref.task_id, "items": [item]},
        "recipient": _party(order.recipient),
        "templateUrl": template_url,
        "userId": order.ref.owner_id,
    }
    content = {
        "cpCode": wp_code,
        "sender": _party(order.sender),
        "tradeOrderInfoDtos": [wanted],
        "needEncrypt": False,
    }
    return msgspec.json.encode(content).decode()


def update_content(wp_code: str, order: IssueOrder, number: str, template_url: str) -> str:
    """Names the waybill, and the whole of its new receiver."""
    content = {
        "cpCode": wp_code,
        "waybillCode": number,
        "objectId": order.ref.task_id,
        "recipient": _party(order.recipient),
        "sender": _party(order.sender),
        "templateUrl": template_url,
    }
    return msgspec.json.encode(content).decode()


def _party(of: Party) -> dict[str, Any]:
    address = msgspec.structs.asdict(of.address)
    return {"name": of.name, "mobile": of.mobile, "phone": "", "address": {"town": "", **address}}


def signed_form(opened: OpenedCarrierLink, message: str, content: str) -> dict[str, str]:
    return {
        "msg_type": message,
        "logistic_provider_id": opened.link.provider_id,
        "to_code": opened.link.to_code,
        "logistics_interface": content,
        "data_digest": digest(content, opened.secret),
    }


def digest(content: str, secret: str) -> str:
    """MD5 is weak, but the other side computes it: the connection itself must be trusted."""
    raw = hashlib.md5(f"{content}{secret}".encode(), usedforsecurity=False).digest()
    return base64.b64encode(raw).decode()


def read_answer(body: bytes) -> dict[str, Any]:
    """An answer, in JSON or XML."""
    try:
        text = body.decode().strip()
        found = _from_xml(text) if text.startswith("<") else msgspec.json.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError, ElementTree.ParseError):
        raise OutcomeUnknownError("The answer is neither JSON nor XML of LINK.") from None
    # Anything else is not taken for a refusal: if there is a number after all, it would be lost.
    if not isinstance(found, dict) or _said(found.get("success")) not in ("true", "false"):
        raise OutcomeUnknownError("The answer does not say whether the message succeeded.")
    return found


def _from_xml(text: str) -> Any:
    # Declared entities could make a short answer endless.
    if "<!" in text:
        raise ValueError("a document type")
    root = ElementTree.fromstring(text)  # noqa: S314 - without a document type
    return _value(root, 0)


def _value(element: ElementTree.Element, depth: int) -> Any:
    if depth > _XML_DEPTH_MAX:
        raise ValueError("too deep")
    if element.tag in _LISTS:
        return [_value(each, depth + 1) for each in element]
    if len(element):
        return {each.tag: _value(each, depth + 1) for each in element}
    return element.text or ""


def _is_true(value: object) -> bool:
    return _said(value) == "true"


def _said(value: object) -> str:
    return str(value).strip().lower() if isinstance(value, bool | str) else ""


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _has_number(value: object) -> bool:
    """Whether there is a number anywhere in an answer, in whatever form."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if each.get("waybillCode") not in (None, "", [], {}):
                return True
            left += each.values()
        elif isinstance(each, list):
            left += each
    return False


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _count(value: object) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 16 else 0


class CainiaoConnector:
    """One carrier behind the LINK gateway."""

    def __init__(
        self, client: httpx2.AsyncClient, carrier: Carrier, opened: OpenedCarrierLink
    ) -> None:
        self._client = client
        self._wp_code = carrier.wp_code
        self._opened = opened

    async def issue(self, order: IssueOrder) -> Issued | Declined:
        content = issue_content(self._wp_code, order, self._opened.link.template_url)
        answer = await self._ask(ISSUE, content)
        given = _objects(answer.get("waybillCloudPrintResponseList"))
        mine = [each for each in given if each.get("objectId") == order.ref.task_id]
        if not _is_true(answer["success"]):
            if _has_number(answer):
                raise AnswerUnusableError("The answer is a refusal with a number.")
            return _declined(answer)
        if len(mine) != 1 or not _text(mine[0].get("waybillCode")):
            raise AnswerUnusableError("The answer has no number for this order.")
        print_data = _text(mine[0].get("printData"))
        return Issued(_text(mine[0]["waybillCode"]), routing_of(print_data), print_data or None)

    async def look_up(self, order: OrderRef) -> Issued | None:  # noqa: ARG002 - of any order
        raise NoLookUpError("LINK has no message that asks what became of an order.")

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:  # noqa: ARG002
        content = {"cpCode": self._wp_code, "waybillCode": number}
        answer = await self._ask(CANCEL, msgspec.json.encode(content).decode())
        if _is_true(answer["success"]) and _is_true(answer.get("discardResult")):
            return Cancelled(number)
        return _declined(answer)

    async def update(self, order: IssueOrder, number: str) -> Updated | Declined:
        content = update_content(self._wp_code, order, number, self._opened.link.template_url)
        answer = await self._ask(UPDATE, content)
        if not _is_true(answer["success"]):
            return _declined(answer)
        print_data = _text(answer.get("printData"))
        if _text(answer.get("waybillCode")) != number or not print_data:
            raise AnswerUnusableError("The answer has no print data for this waybill.")
        return Updated(routing_of(print_data), print_data)

    async def subscriptions(self) -> list[Subscription]:
        """The branches that issue numbers for this merchant."""
        answer = await self._ask(
            SUBSCRIPTIONS, msgspec.json.encode({"cpCode": self._wp_code}).decode()
        )
        if not _is_true(answer["success"]):
            raise AnswerUnusableError("The carrier refused: {why}", why=_declined(answer).reason)
        return [
            _subscription(branch)
            for each in _objects(answer.get("waybillApplySubscriptionCols"))
            for branch in _objects(each.get("branchAccountCols"))
        ]

    async def _ask(self, message: str, content: str) -> dict[str, Any]:
        """Sends one message, once."""
        link = self._opened.link
        form = signed_form(self._opened, message, content)
        request = self._client.build_request("POST", link.url, data=form)
        answer = read_answer(await exchange(self._client, request, link.deadline_ms / 1000))
        code = _text(answer.get("errorCode"))
        is_of_gateway = code.startswith("S") and code[1:].isdecimal() and code != _REFUSED
        if is_of_gateway and not _is_true(answer["success"]):
            raise gateway_error(code)
        return answer


def _declined(answer: dict[str, Any]) -> Declined:
    return Declined(_text(answer.get("errorMsg")) or _text(answer.get("errorCode")))


def _subscription(branch: dict[str, Any]) -> Subscription:
    return Subscription(
        _text(branch.get("branchCode")),
        _count(branch.get("quantity")),
        _count(branch.get("allocatedQuantity")),
        _count(branch.get("cancelQuantity")),
        _count(branch.get("printQuantity")),
        [
            "".join(_text(each.get(name)) for name in ("province", "city", "district", "detail"))
            for each in _objects(branch.get("shippAddressCols"))
        ],
    )


def gateway_error(code: str) -> ConnectorError:
    """What an answer means that comes from the gateway, not from the carrier behind it."""
    if code in _LINK_REFUSED:
        return LinkRefusedError(
            "The carrier's gateway refused the link with {code}: check its secret and provider.",
            code=code,
        )
    if code in _NOT_PASSED_ON:
        return TurnedAwayError(
            "The carrier's gateway refused the message with {code}: check the link.", code=code
        )
    return OutcomeUnknownError(
        "The carrier's gateway has no answer of the carrier: {code}.", code=code
    )
