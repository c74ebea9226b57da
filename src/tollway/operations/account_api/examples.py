"""An example of each endpoint of the account API, together with those of the operations.

A test sends the requests with its own ids. The answers are made up.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import msgspec

from tollway.contract.reasons import Reason
from tollway.contract.receipt import CHARGED, Outcome, Receipt, ReceiptConsent
from tollway.contract.sample_refusal import SAMPLE_BASE, sample_data
from tollway.ledger.tokens import IssuedToken, Token
from tollway.operations.account_api.balance import (
    AccountState,
    BalanceLeft,
    LimitsLeft,
    PermittedOperation,
    Usage,
    UsageDay,
)
from tollway.operations.account_api.consents import ConsentEntry, Consents, Link
from tollway.operations.account_api.history import Calls, Entries, LedgerEntry, ListedCall
from tollway.operations.account_api.operation import RateLimit
from tollway.operations.account_api.tokens import Tokens
from tollway.operations.account_api.waybills import WaybillLabel, WaybillLabels, WaybillState
from tollway.operations.account_api.webhooks import (
    Alerts,
    BalanceAlert,
    Deliveries,
    Done,
    Webhooks,
    WebhookSecret,
)
from tollway.operations.demo_data import SHOPS
from tollway.operations.examples import EXAMPLES, Example
from tollway.operations.waybills.demo import WP_CODE
from tollway.webhooks.delivery_log import Delivery
from tollway.webhooks.endpoints import EndpointSecret, WebhookEndpoint

ACCOUNT_ID, TOKEN_ID, WEBHOOK_ID = "acc_7f3k9d2m5q8r", "tok_5m2p8r4t7w3x", "whk_9c4f2h6k8n3q"
EVENT_ID, OBJECT_ID = "evt_3d6g9j2m5p8s", "wb_7f3k9d2m5q8r"
REQUEST_ID = "649a71fadf2403f9c2b7e1d058"
WEBHOOK_URL = "https://shop.example/events"
_AT_S = 1_769_832_000
_AT_MS = _AT_S * 1000
_DAY_S = 86_400
_OWNER_ID = SHOPS[0].owner_id
_NUMBER = "YT8800000000042"
_PDF = "JVBERi0xLjQK…"

_TOKEN = Token(
    id=TOKEN_ID,
    account_id=ACCOUNT_ID,
    kind="live",
    label="order robot",
    start="tw_live_4k7m",
    issued_at_s=_AT_S,
    expires_at_s=_AT_S + 90 * _DAY_S,
    revoked_at_s=None,
    last_used_at_s=None,
    client_id=None,
)
# Not a valid token: its checksum is missing.
_ISSUED = IssuedToken("tw_live_4k7m…", _TOKEN)
_RECEIPT = Receipt(
    REQUEST_ID,
    ACCOUNT_ID,
    "orders",
    _AT_MS,
    Outcome.CHARGED,
    0,
    "SUCCESS",
    CHARGED.en,
    amount=1,
    unit="credits",
    balance_before=1000,
    balance_after=999,
    token_id=TOKEN_ID,
    consent=ReceiptConsent("shop", _OWNER_ID, "con_2b5d8f3h6k9m"),
    owner_kind="shop",
    owner_id=_OWNER_ID,
)
_WAYBILL = WaybillState(
    object_id=OBJECT_ID,
    owner_id=_OWNER_ID,
    order_sn="TRIAL-000001",
    wp_code=WP_CODE,
    state="issued",
    waybill_code=_NUMBER,
    price=10,
    asked_at_s=_AT_S,
    issued_at_s=_AT_S,
    cancelled_at_s=None,
    printed_at_s=None,
)
_WEBHOOK = WebhookEndpoint(WEBHOOK_ID, WEBHOOK_URL, _AT_S, None, None)
_SECRET = "whsec_bm90IGEgc2VjcmV0…"  # noqa: S105 - an example
_DELIVERY = Delivery(
    number=42,
    event_id=EVENT_ID,
    type="balance.low",
    subject="balance:credits",
    at_ms=_AT_MS,
    state="delivered",
    attempts=1,
    next_at_ms=_AT_MS,
    status=204,
    settled_at_ms=_AT_MS + 120,
)
_ALERTS = Alerts([BalanceAlert("credits", 500)])
_RECEIVER = {
    "receiver_province": "上海市",
    "receiver_city": "上海市",
    "receiver_town": "黄浦区",
    "receiver_address": "南京东路 100 号",
    "receiver_phone": "13912345678",
    "receiver_name": "韩梅梅",
}


def _fixed(answer: msgspec.Struct, **request: Any) -> Example:
    return Example(lambda _: request, answer)


def _last_week(today: date) -> Mapping[str, Any]:
    return {"from_date": (today - timedelta(days=6)).isoformat(), "to_date": today.isoformat()}


_BY_PATH: Mapping[str, Example] = {
    "balance": _fixed(
        AccountState(
            ACCOUNT_ID,
            "Example Ltd.",
            [BalanceLeft("credits", 999, 0, 1)],
            [PermittedOperation("orders", "credits", 1, is_open=True)],
        )
    ),
    "limits": _fixed(LimitsLeft([RateLimit("orders", 10, 9)])),
    "usage": Example(_last_week, Usage([UsageDay("2026-01-31", "orders", 12, 12, 1)])),
    "entries": _fixed(
        Entries(
            [
                LedgerEntry(
                    2, "charge", -1, 999, _AT_MS, "orders", REQUEST_ID, TOKEN_ID, note=None
                ),
                LedgerEntry(1, "top_up", 1000, 1000, _AT_MS - 1000, None, None, None, "invoice 7"),
            ],
            None,
        ),
        unit="credits",
        limit=20,
    ),
    "requests": _fixed(
        Calls(
            [ListedCall(REQUEST_ID, _AT_MS, "orders", 0, "SUCCESS", 1, "credits", is_test=False)],
            None,
        ),
        limit=20,
    ),
    "receipt": Example(
        lambda _: {"request_id": REQUEST_ID},
        _RECEIPT,
        msgspec.structs.replace(_RECEIPT, why=CHARGED.zh),
    ),
    "tokens": _fixed(Tokens([_TOKEN])),
    "tokens/make": _fixed(_ISSUED, label="order robot", expires_days=90),
    "tokens/rotate": _fixed(_ISSUED, token_id=TOKEN_ID, overlap_s=3600),
    "tokens/revoke": _fixed(
        msgspec.structs.replace(_TOKEN, revoked_at_s=_AT_S + 60), token_id=TOKEN_ID
    ),
    "consents": _fixed(
        Consents(
            [
                ConsentEntry(
                    "con_2b5d8f3h6k9m",
                    "shop",
                    _OWNER_ID,
                    "orders",
                    _AT_S,
                    _AT_S + 365 * _DAY_S,
                    None,
                    holds=True,
                )
            ],
            None,
        ),
        limit=100,
    ),
    "consents/link": _fixed(
        Link(**sample_data(Reason.NOT_AUTHORIZED, SAMPLE_BASE, _AT_S)),
        scope="orders",
        owner_id=_OWNER_ID,
    ),
    "waybills": _fixed(_WAYBILL, object_id=OBJECT_ID),
    "waybills/label": _fixed(
        WaybillLabel(_NUMBER, "application/pdf", _PDF), object_id=OBJECT_ID, format="pdf"
    ),
    "waybills/labels": _fixed(
        WaybillLabels([_NUMBER], "application/pdf", _PDF), object_ids=[OBJECT_ID]
    ),
    "waybills/cancel": _fixed(
        msgspec.structs.replace(_WAYBILL, state="cancelled", cancelled_at_s=_AT_S + 60),
        object_id=OBJECT_ID,
    ),
    "waybills/receiver": _fixed(_WAYBILL, object_id=OBJECT_ID, **_RECEIVER),
    "webhooks": _fixed(Webhooks([_WEBHOOK])),
    "webhooks/make": _fixed(EndpointSecret(_WEBHOOK, _SECRET), url=_WEBHOOK.url),
    "webhooks/rotate": _fixed(WebhookSecret(_SECRET), webhook_id=WEBHOOK_ID),
    "webhooks/end": _fixed(Done(True), webhook_id=WEBHOOK_ID),
    "webhooks/test": _fixed(Done(True)),
    "webhooks/deliveries": _fixed(Deliveries([_DELIVERY], None), webhook_id=WEBHOOK_ID, limit=20),
    "webhooks/redeliver": _fixed(Done(True), webhook_id=WEBHOOK_ID, event_id=EVENT_ID),
    "alerts": _fixed(_ALERTS),
    "alerts/set": _fixed(_ALERTS, unit="credits", below=500),
}
RECEIPT_EXAMPLE = _RECEIPT
ALL_EXAMPLES: Mapping[str, Example] = {
    **EXAMPLES,
    **{"account_" + path.replace("/", "_"): example for path, example in _BY_PATH.items()},
}
