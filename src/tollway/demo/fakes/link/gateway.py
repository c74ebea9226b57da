"""The numbers that the gateway issued, its answers, and how it misbehaves on request."""

import json
import time
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any
from xml.sax.saxutils import escape

from tollway.demo.fakes.link.messages import (
    Message,
    MessageError,
    check_get,
    check_update,
    read_message,
)

Answer = dict[str, Any]
_STALL_S = 3600.0


class LinkGateway:
    """One merchant at one carrier: its token and secret, the address it has subscribed, and a
    format for numbers in which # is a digit."""

    def __init__(self, token: str, secret: str, cities: set[str], numbers: str) -> None:
        self._token, self._secret = token, secret
        self._cities, self._numbers = cities, numbers
        self._lock = Lock()
        self._fault: dict[str, Any] = {}
        self.journal: list[dict[str, Any]] = []

    def control(self, fault: dict[str, Any]) -> None:
        """`{"fault": "cut" | "stall" | "refuse" | "xml" | "text" | "S07" | "none"}`."""
        self._fault = fault

    @property
    def fault(self) -> str:
        return str(self._fault.get("fault", "none"))

    def answer(self, content_type: str, body: bytes) -> Answer:
        try:
            message = read_message(content_type, body, self._token, self._secret)
            with self._lock:
                return self._work(message)
        except MessageError as error:
            self.journal.append({"event": "refused", "code": error.code, "words": error.words})
            return {"success": "false", "errorCode": error.code, "errorMsg": error.words}

    def _work(self, message: Message) -> Answer:
        if self.fault.startswith("S"):
            raise MessageError(self.fault, "on request")
        if self.fault == "refuse":
            words = self._fault.get("reason", "余额不足")
            return {"success": "false", "errorCode": "S13", "errorMsg": words}
        if message.kind == "TMS_WAYBILL_GET":
            return self._issue(message.content)
        if message.kind == "TMS_WAYBILL_DISCARD":
            return self._discard(message.content)
        if message.kind == "TMS_WAYBILL_UPDATE":
            return self._update(message.content)
        return self._subscriptions(message.content)

    def _issue(self, content: dict[str, Any]) -> Answer:
        check_get(content)
        if content["sender"]["address"].get("city") not in self._cities:
            return {"success": "false", "errorCode": "S13", "errorMsg": "发货地址未订购"}
        given = []
        for order in content["tradeOrderInfoDtos"]:
            number = self._next_number()
            self.journal.append(
                {"event": "issued", "objectId": order["objectId"], "number": number}
            )
            given.append(
                {
                    "objectId": order["objectId"],
                    "waybillCode": number,
                    "printData": _print_data(content, order, number),
                }
            )
        # `success` is a text here, as some sources show it.
        return {"success": "true", "waybillCloudPrintResponseList": given}

    def _discard(self, content: dict[str, Any]) -> Answer:
        number = content.get("waybillCode")
        if content.keys() != {"cpCode", "waybillCode"} or not isinstance(number, str):
            raise MessageError("S12", "parameter: waybillCode")
        is_known = any(each.get("number") == number for each in self.journal)
        if is_known:
            self.journal.append({"event": "discarded", "number": number})
            return {"success": True, "discardResult": True}
        return {"success": False, "errorCode": "S13", "errorMsg": "面单号不存在"}

    def _update(self, content: dict[str, Any]) -> Answer:
        check_update(content)
        number = content["waybillCode"]
        events = {each["event"] for each in self.journal if each.get("number") == number}
        if "issued" not in events or "discarded" in events:
            return {"success": False, "errorCode": "S13", "errorMsg": "面单号不存在"}
        self.journal.append({"event": "updated", "number": number})
        return {
            "success": "true",
            "waybillCode": number,
            "printData": _print_data(content, content, number),
        }

    def _subscriptions(self, content: dict[str, Any]) -> Answer:
        if content.keys() != {"cpCode"}:
            raise MessageError("S12", "parameter: cpCode")
        issued = sum(each["event"] == "issued" for each in self.journal)
        branch = {
            "branchCode": "571001",
            "quantity": 1000 - issued,
            "allocatedQuantity": issued,
            "cancelQuantity": sum(each["event"] == "discarded" for each in self.journal),
            "printQuantity": 0,
            "shippAddressCols": [
                {"province": "浙江省", "city": city, "district": "余杭区", "detail": "良睦路 1 号"}
                for city in sorted(self._cities)
            ],
        }
        subscribed = [{"cpCode": content["cpCode"], "branchAccountCols": [branch]}]
        return {"success": True, "waybillApplySubscriptionCols": subscribed}

    def _next_number(self) -> str:
        running = str(1 + sum(each["event"] == "issued" for each in self.journal))
        digits = iter(running.zfill(self._numbers.count("#")))
        return "".join(next(digits) if each == "#" else each for each in self._numbers)


def _print_data(content: dict[str, Any], order: dict[str, Any], number: str) -> str:
    to = order["recipient"]["address"]
    data = {
        "cpCode": content["cpCode"],
        "recipient": order["recipient"],
        "sender": content["sender"],
        "routingInfo": {
            "sortation": {"name": to.get("city", "")},
            "consolidation": {"name": f"{to.get('city', '')}集包", "code": "755"},
            "origin": {"name": content["sender"]["address"].get("city", ""), "code": "571"},
            "routeCode": "755-D12-03",
        },
        "waybillCode": number,
    }
    text = {"data": data, "signature": "MD:fake", "templateURL": order["templateUrl"]}
    return json.dumps(text, ensure_ascii=False)


def as_xml(name: str, value: Any) -> str:
    """An answer as XML: the members of a list have its name without the `List` or `Cols`."""
    if isinstance(value, dict):
        inner = "".join(as_xml(key, each) for key, each in value.items())
    elif isinstance(value, list):
        inner = "".join(as_xml("item", each) for each in value)
    else:
        inner = escape(str(value).lower() if isinstance(value, bool) else str(value))
    return f"<{name}>{inner}</{name}>"


def handler_of(gateway: LinkGateway) -> type[BaseHTTPRequestHandler]:
    """The HTTP side: messages on /gateway/link.do, and the two paths that control it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.path == "/control":
                gateway.control(json.loads(body))
                self._send("application/json", b"{}")
            elif self.path == "/gateway/link.do":
                self._message(gateway.answer(self.headers.get("Content-Type", ""), body))
            else:
                self.send_error(404)

        def do_GET(self) -> None:
            lines = [json.dumps(each, ensure_ascii=False) for each in gateway.journal]
            self._send("application/x-ndjson", "".join(f"{each}\n" for each in lines).encode())

        def _message(self, answer: Answer) -> None:
            if gateway.fault == "stall":
                time.sleep(_STALL_S)
            if gateway.fault == "cut":
                self.close_connection = True
            elif gateway.fault == "xml":
                self._send("text/xml;charset=UTF-8", as_xml("response", answer).encode())
            elif gateway.fault == "text":
                self._send("text/html", b"<html>502</html>")
            else:
                content = json.dumps(answer, ensure_ascii=False).encode()
                self._send("application/json;charset=UTF-8", content)

        def _send(self, content_type: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing of each request."""

    return Handler
