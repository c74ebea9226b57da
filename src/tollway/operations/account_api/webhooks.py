"""Webhooks of the account: where they go, their secrets, their log, and alerts."""

from functools import partial
from typing import Annotated

import msgspec

from tollway.contract.fields import Field, Text, Whole
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger import LedgerError
from tollway.ledger.token_makers import hold_tokens
from tollway.ledger.usage import midnight_s
from tollway.operations.account_api.balance import UNITS, unknown_unit
from tollway.operations.account_api.operation import (
    AccountCall,
    AccountDependencies,
    Nothing,
    endpoint,
)
from tollway.webhooks.addresses import AddressError
from tollway.webhooks.delivery_log import Delivery, deliver_again, list_deliveries
from tollway.webhooks.endpoints import (
    EndpointSecret,
    WebhookEndpoint,
    end_endpoint,
    list_endpoints,
    make_endpoint,
    rotate_secret,
)
from tollway.webhooks.events import send_test_event
from tollway.webhooks.polled_events import list_alerts, set_alert

_MOST = 2**62
_ENDPOINT_ID = Field(Text(max_length=64), "The id of the webhook.")
_PUBLIC_URL = Phrase("an https address that the internet can reach", "可从公网访问的 https 地址")


class Webhooks(msgspec.Struct, frozen=True):
    """The oldest first."""

    webhooks: list[WebhookEndpoint]


class MakeWebhookRequest(msgspec.Struct, frozen=True):
    url: Annotated[str, Field(Text(max_length=500), "Where events are sent: an https address.")]


class WebhookRequest(msgspec.Struct, frozen=True):
    webhook_id: Annotated[str, _ENDPOINT_ID]


class DeliveriesRequest(msgspec.Struct, frozen=True):
    webhook_id: Annotated[str, _ENDPOINT_ID]
    before: Annotated[
        int,
        Field(
            Whole(1, _MOST),
            "Only deliveries with a smaller number; for the next page.",
            other_spelling="next_before",
        ),
    ] = _MOST
    limit: Annotated[int, Field(Whole(1, 100), "Deliveries per page; 50 if left out.")] = 50


class RedeliverRequest(msgspec.Struct, frozen=True):
    webhook_id: Annotated[str, _ENDPOINT_ID]
    event_id: Annotated[str, Field(Text(max_length=100), "The id of the event.")]


class Deliveries(msgspec.Struct, frozen=True):
    """The newest first. `next_before` is null on the last page."""

    deliveries: list[Delivery]
    next_before: int | None


class WebhookSecret(msgspec.Struct, frozen=True):
    """The new secret: the only time it is shown. The old one signs too, for a day."""

    secret: str


class Done(msgspec.Struct, frozen=True):
    done: bool


class BalanceAlert(msgspec.Struct, frozen=True):
    unit: str
    below: int


class Alerts(msgspec.Struct, frozen=True):
    alerts: list[BalanceAlert]


class AlertRequest(msgspec.Struct, frozen=True):
    unit: Annotated[
        str, Field(Text(max_length=128), "The balance: credits, or calls: and an operation.")
    ]
    below: Annotated[
        int, Field(Whole(0, 10**15), "Below which amount to notify; 0 ends the alert.")
    ]


@endpoint("webhooks", "The webhooks of the account")
async def _list(parts: AccountDependencies, _: Nothing, call: AccountCall) -> Webhooks:
    return Webhooks(await list_endpoints(parts.database, call.account_id))


@endpoint("webhooks/make", "Add a webhook", Reason.ACCOUNT_LIMIT_REACHED, is_for_unlimited=True)
async def _make(
    parts: AccountDependencies, request: MakeWebhookRequest, call: AccountCall
) -> EndpointSecret:
    try:
        return await make_endpoint(
            parts.database,
            parts.vault.sealer,
            parts.addresses,
            parts.runtime,
            call.account_id,
            request.url,
            _day_start_s(parts, call),
            partial(hold_tokens, [call.token_id]),
        )
    except AddressError as error:
        raise _wrong_url(error) from None
    except LedgerError:
        # The caller's token was revoked while the name was looked up.
        raise Refusal(Reason.CREDENTIAL_INVALID) from None


def _wrong_url(error: AddressError) -> Refusal:
    return Refusal(
        Reason.PARAMETER_INVALID, field="url", problem=error.sentence, expected=_PUBLIC_URL
    )


def _day_start_s(parts: AccountDependencies, call: AccountCall) -> int:
    return midnight_s(call.at_s, parts.zone)


def _unknown(field: str) -> Refusal:
    return Refusal(Reason.ITEM_UNKNOWN, field=field)


@endpoint(
    "webhooks/rotate",
    "A new secret for a webhook",
    Reason.ITEM_UNKNOWN,
    Reason.ACCOUNT_LIMIT_REACHED,
    is_for_unlimited=True,
)
async def _rotate(
    parts: AccountDependencies, request: WebhookRequest, call: AccountCall
) -> WebhookSecret:
    secret = await rotate_secret(
        parts.database,
        parts.vault.sealer,
        parts.runtime,
        call.account_id,
        request.webhook_id,
        _day_start_s(parts, call),
    )
    if secret is None:
        raise _unknown("webhook_id")
    return WebhookSecret(secret)


@endpoint("webhooks/end", "End a webhook", Reason.ITEM_UNKNOWN, is_for_unlimited=True)
async def _end(parts: AccountDependencies, request: WebhookRequest, call: AccountCall) -> Done:
    if not await end_endpoint(parts.database, parts.runtime, call.account_id, request.webhook_id):
        raise _unknown("webhook_id")
    return Done(True)


@endpoint("webhooks/test", "Send a test event", Reason.ACCOUNT_LIMIT_REACHED, is_for_unlimited=True)
async def _test(parts: AccountDependencies, _: Nothing, call: AccountCall) -> Done:
    day_start_s = _day_start_s(parts, call)
    return Done(await send_test_event(parts.database, parts.runtime, call.account_id, day_start_s))


@endpoint("webhooks/deliveries", "The log of a webhook", Reason.ITEM_UNKNOWN)
async def _deliveries(
    parts: AccountDependencies, request: DeliveriesRequest, call: AccountCall
) -> Deliveries:
    found = await list_deliveries(
        parts.database, call.account_id, request.webhook_id, request.before, request.limit + 1
    )
    if not found:
        known = await list_endpoints(parts.database, call.account_id)
        if request.webhook_id not in [each.id for each in known]:
            raise _unknown("webhook_id")
    shown, is_last = list(found[: request.limit]), len(found) <= request.limit
    return Deliveries(shown, None if is_last else shown[-1].number)


@endpoint(
    "webhooks/redeliver", "Deliver an event again", Reason.ITEM_UNKNOWN, is_for_unlimited=True
)
async def _redeliver(
    parts: AccountDependencies, request: RedeliverRequest, call: AccountCall
) -> Done:
    now_ms = parts.runtime.at_ms()
    key = (call.account_id, request.webhook_id, request.event_id)
    if not await deliver_again(parts.database, *key, now_ms):
        raise _unknown("event_id")
    return Done(True)


async def _alerts_of(parts: AccountDependencies, account_id: str) -> Alerts:
    found = await list_alerts(parts.database, account_id)
    return Alerts([BalanceAlert(unit, below) for unit, below in found])


@endpoint("alerts", "The alerts of low balances")
async def _alerts(parts: AccountDependencies, _: Nothing, call: AccountCall) -> Alerts:
    return await _alerts_of(parts, call.account_id)


@endpoint(
    "alerts/set",
    "Set an alert of a low balance",
    Reason.ACCOUNT_LIMIT_REACHED,
    is_for_unlimited=True,
)
async def _set_alert(
    parts: AccountDependencies, request: AlertRequest, call: AccountCall
) -> Alerts:
    if request.unit not in UNITS:
        raise unknown_unit()
    day_start_s = _day_start_s(parts, call)
    await set_alert(parts.database, call.account_id, request.unit, request.below, day_start_s)
    return await _alerts_of(parts, call.account_id)


ENDPOINTS = (_list, _make, _rotate, _end, _test, _deliveries, _redeliver, _alerts, _set_alert)
