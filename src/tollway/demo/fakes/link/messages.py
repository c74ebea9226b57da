"""What a LINK message must look like; one that does not gets the gateway's code."""

import base64
import hashlib
import json
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

_FIELDS = {"msg_type", "logistic_provider_id", "to_code", "logistics_interface", "data_digest"}
_KNOWN = {"TMS_WAYBILL_GET", "TMS_WAYBILL_DISCARD", "TMS_WAYBILL_UPDATE"} | {
    "TMS_WAYBILL_SUBSCRIPTION_QUERY"
}
_ORDERS_MAX, _TRADES_MAX = 10, 100
_CHANNELS = {"TB", "TM", "JD", "PDD", "DY", "OTHERS"}


class MessageError(Exception):
    """A message that is not accepted: the code of the gateway, and its words."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(code, words)
        self.code, self.words = code, words


class Message(NamedTuple):
    kind: str
    content: dict[str, Any]


def read_message(content_type: str, body: bytes, token: str, secret: str) -> Message:
    """A message of the merchant with this token, signed with this secret."""
    if not content_type.startswith("application/x-www-form-urlencoded"):
        raise MessageError("S01", "not a form")
    pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True)
    fields = dict(pairs)
    if (
        len(fields) != len(pairs)
        or fields.keys() - _FIELDS
        or _FIELDS - {"to_code"} - fields.keys()
    ):
        raise MessageError("S12", "fields of the form")
    if fields["logistic_provider_id"] != token:
        raise MessageError("S03", "unknown logistic_provider_id")
    text = fields["logistics_interface"]
    signed = hashlib.md5(text.encode() + secret.encode(), usedforsecurity=False).digest()
    if fields["data_digest"] != base64.b64encode(signed).decode():
        raise MessageError("S02", "data_digest")
    if fields["msg_type"] not in _KNOWN:
        raise MessageError("S04", "msg_type")
    try:
        content = json.loads(text)
    except ValueError:
        raise MessageError("S05", "logistics_interface is not JSON") from None
    if not isinstance(content, dict):
        raise MessageError("S05", "logistics_interface is not an object")
    return Message(fields["msg_type"], content)


def check_get(content: dict[str, Any]) -> None:
    """Every field that the gateway documents, and no other."""
    _only(content, {"cpCode", "sender", "tradeOrderInfoDtos", "needEncrypt"}, {"needEncrypt"})
    _text(content, "cpCode")
    if content.get("needEncrypt") not in (True, False, None):
        raise _amiss("needEncrypt")
    _party(content, "sender")
    orders = content["tradeOrderInfoDtos"]
    if not isinstance(orders, list) or not 0 < len(orders) <= _ORDERS_MAX:
        raise _amiss("tradeOrderInfoDtos")
    for order in orders:
        _check_order(order)


def check_update(content: dict[str, Any]) -> None:
    needed = {"cpCode", "waybillCode", "objectId", "recipient", "sender", "templateUrl"}
    _only(content, needed)
    for name in ("cpCode", "waybillCode", "objectId"):
        _text(content, name)
    for name in ("recipient", "sender"):
        _party(content, name)


def _check_order(order: Any) -> None:
    needed = {"objectId", "orderInfo", "packageInfo", "recipient", "templateUrl", "userId"}
    _only(order, needed)
    _text(order, "objectId")
    _text(order, "userId")
    if not str(order["templateUrl"]).startswith(("http://", "https://")):
        raise _amiss("templateUrl")
    info = order["orderInfo"]
    _only(info, {"orderChannelsType", "tradeOrderList"})
    trades = info["tradeOrderList"]
    if info["orderChannelsType"] not in _CHANNELS:
        raise _amiss("orderChannelsType")
    if not isinstance(trades, list) or not 0 < len(trades) <= _TRADES_MAX or not all(trades):
        raise _amiss("tradeOrderList")
    package = order["packageInfo"]
    _only(package, {"id", "items"}, {"id"})
    if not isinstance(package["items"], list) or not package["items"]:
        raise _amiss("items")
    for item in package["items"]:
        _only(item, {"name", "count"})
        if not item["name"] or type(item["count"]) is not int or item["count"] < 1:
            raise _amiss("items")
    _party(order, "recipient")


def _party(content: dict[str, Any], name: str) -> None:
    party = content[name]
    _only(party, {"name", "mobile", "phone", "address"}, {"mobile", "phone"})
    _text(party, "name")
    if not (party.get("mobile") or party.get("phone")):
        raise _amiss(f"{name}.mobile")
    address = party["address"]
    _only(address, {"province", "city", "district", "town", "detail"}, {"city", "district", "town"})
    _text(address, "province")
    _text(address, "detail")


def _only(value: Any, names: set[str], optional: set[str] | None = None) -> None:
    if not isinstance(value, dict):
        raise _amiss("an object")
    unknown, missing = value.keys() - names, names - (optional or set()) - value.keys()
    if unknown or missing:
        raise _amiss(", ".join(sorted(unknown | missing)))


def _text(value: dict[str, Any], name: str) -> None:
    if not isinstance(value.get(name), str) or not value[name]:
        raise _amiss(name)


def _amiss(name: str) -> MessageError:
    return MessageError("S12", f"parameter: {name}")
