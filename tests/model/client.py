"""An HTTP client of one gateway: calls, receipts and signed pushes, as the interface has them."""

import base64
import hashlib
import hmac
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.model.expected.accounts import Between
from tests.model.expected.history import Span
from tests.model.expected.outcomes import Ask

# The gateway ends a connection that is idle for longer; a new one is made then.
_IDLE_S = 3
_TIMEOUT_S = 60
_PATHS = {
    "product_analysis": "/papi/tool/accounts/goods-analysis",
    "coupon_claims": "/papi/tool/waimai/partner_couponList",
    "promotion_material": "/papi/tool/affiliate/promotion",
    "orders": "/papi/tool/erps/paging-orders",
}
_BOUNDARY = "a-boundary-that-nothing-contains"


class Answer(NamedTuple):
    """What came back, and when: on the monotonic clock, and on that of the wall."""

    status: int
    headers: Mapping[str, str]
    body: Any
    span: Span
    at: Between

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")


class Client:
    """One connection, used by one thread."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        self._used_s = time.monotonic()

    def close(self) -> None:
        self._connection.close()

    def call(self, ask: Ask, *, as_multipart: bool = True) -> Answer:
        headers = {} if ask.token is None else {"Authorization": f"Bearer {ask.token}"}
        if ask.key is not None:
            headers["Idempotency-Key"] = ask.key
        method, path, body = "POST", _PATHS[ask.operation], b""
        if ask.operation == "product_analysis":
            method, path = "GET", f"{path}?{urlencode(ask.parameters)}"
        elif ask.operation == "promotion_material":
            headers["Content-Type"] = "application/json"
            body = json.dumps(ask.parameters).encode()
        elif as_multipart:
            headers["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
            body = _multipart(ask.parameters)
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(ask.parameters).encode()
        if ask.fault == "METHOD_WRONG":
            method = "PUT"
        if ask.fault == "PATH_UNKNOWN":
            path = path.replace("/papi/", "/papi/v1/")
        return self._send(method, path, headers, body)

    def receipt(self, token: str, request_id: str) -> Answer:
        headers = {"Authorization": f"Bearer {token}"}
        return self._send("GET", f"/receipts/{request_id}", headers, b"")

    def push(self, kind: str, source: str, secret: str, body: bytes, message_id: str) -> Answer:
        """Signed as Standard Webhooks describes."""
        timestamp = str(int(time.time()))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{message_id}.{timestamp}.".encode() + body
        signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        headers = {
            "webhook-source": source,
            "webhook-id": message_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{signature}",
        }
        return self._send("POST", f"/push/{kind}", headers, body)

    def _send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        sent_s, sent_ms = time.monotonic(), int(time.time() * 1000)
        if sent_s - self._used_s > _IDLE_S:
            self._connection.close()
        self._connection.request(method, path, body or None, headers)
        response = self._connection.getresponse()
        text = response.read()
        answered_s, answered_ms = time.monotonic(), int(time.time() * 1000) + 1
        self._used_s = answered_s
        return Answer(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            json.loads(text),
            Span(sent_s, answered_s),
            Between(sent_ms, answered_ms),
        )


def _multipart(fields: Mapping[str, Any]) -> bytes:
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return f"{''.join(parts)}--{_BOUNDARY}--\r\n".encode()
