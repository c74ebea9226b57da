"""Webhooks, as the Python SDK checks them."""

import json
import time
from typing import Any

import pytest

from tests.docs.pages import DOCS, blocks_of
from tollway.webhooks.signature import key_of, sign
from tollway_client.errors import SignatureError
from tollway_client.webhooks import verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
AT_S = 1_614_265_330
BODY = json.dumps({"type": "balance.low", "timestamp": "2021-02-25", "data": {"left": 5}}).encode()


def _headers(secret: str = SECRET) -> dict[str, str]:
    signature = sign(key_of(secret), "msg_1", str(AT_S), BODY)
    return {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(AT_S), "Webhook-Signature": signature}


def test_the_example_of_the_standard_is_accepted() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": str(AT_S),
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verify(b'{"test": 2432232314}', headers, SECRET, now_s=AT_S).id == headers["webhook-id"]


def test_while_a_secret_is_replaced_either_is_accepted() -> None:
    for signed_with in (SECRET, OTHER):
        event = verify(BODY, _headers(signed_with), [OTHER, SECRET], now_s=AT_S)
        assert (event.id, event.type, event.data) == ("msg_1", "balance.low", {"left": 5})


@pytest.mark.parametrize(
    ("changes", "body", "now_s"),
    [
        ({}, BODY + b" ", AT_S),
        ({}, BODY, AT_S + 301),
        ({}, BODY, AT_S - 301),
        ({"Webhook-Id": "msg_2"}, BODY, AT_S),
        ({"Webhook-Timestamp": str(AT_S + 1)}, BODY, AT_S),
        ({"Webhook-Timestamp": "soon"}, BODY, AT_S),
        ({"Webhook-Signature": ""}, BODY, AT_S),
        ({"Webhook-Signature": "v1,AAAA v2,é"}, BODY, AT_S),
        # As some servers decode bytes that are no text.
        ({"Webhook-Id": "msg_\udcff"}, BODY, AT_S),
        ({"Webhook-Signature": "v1,\udcff"}, BODY, AT_S),
        (_headers(OTHER), BODY, AT_S),
    ],
)
def test_anything_else_is_refused(changes: dict[str, str], body: bytes, now_s: int) -> None:
    with pytest.raises(SignatureError):
        verify(body, {**_headers(), **changes}, SECRET, now_s=now_s)


def test_the_example_of_the_page_runs() -> None:
    pages = [DOCS / "call/webhooks.md", DOCS / "call/webhooks.zh.md"]
    example, chinese = (
        [each.text for each in blocks_of(page) if each.language == "python"] for page in pages
    )
    assert example == chinese
    names: dict[str, Any] = {}
    exec(example[0], names)
    now = str(int(time.time()))
    headers = {**_headers(), "Webhook-Timestamp": now}
    headers["Webhook-Signature"] = sign(key_of(SECRET), "msg_1", now, BODY)
    assert names["receive"](BODY, headers, SECRET) == 204
    assert names["receive"](BODY + b" ", headers, SECRET) == 401


def test_a_decoded_body_is_refused_with_what_to_give() -> None:
    decoded: Any = BODY.decode()
    with pytest.raises(TypeError, match="as the bytes that arrived"):
        verify(decoded, _headers(), SECRET, now_s=AT_S)
