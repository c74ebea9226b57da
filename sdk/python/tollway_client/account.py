"""The account API, for threads.

Made by `make sdk` from the gateway's descriptors: do not edit."""

from datetime import date
from typing import Optional, Union

from tollway_client._core import Operation
from tollway_client._drivers import SyncDriver
from tollway_client.account_types import (
    AccountState,
    Alerts,
    Calls,
    Consents,
    Deliveries,
    Done,
    EndpointSecret,
    Entries,
    IssuedToken,
    LimitsLeft,
    Link,
    Receipt,
    Token,
    Tokens,
    Usage,
    WaybillLabel,
    WaybillLabels,
    WaybillState,
    Webhooks,
    WebhookSecret,
)

_ACCOUNT_BALANCE = Operation("account_balance", "GET", "/account/v1/balance", "query", "always")
_ACCOUNT_LIMITS = Operation("account_limits", "GET", "/account/v1/limits", "query", "always")
_ACCOUNT_USAGE = Operation("account_usage", "GET", "/account/v1/usage", "query", "always")
_ACCOUNT_ENTRIES = Operation("account_entries", "GET", "/account/v1/entries", "query", "always")
_ACCOUNT_REQUESTS = Operation("account_requests", "GET", "/account/v1/requests", "query", "always")
_ACCOUNT_RECEIPT = Operation("account_receipt", "GET", "/account/v1/receipt", "query", "always")
_ACCOUNT_TOKENS = Operation("account_tokens", "GET", "/account/v1/tokens", "query", "always")
_ACCOUNT_TOKENS_MAKE = Operation(
    "account_tokens_make", "POST", "/account/v1/tokens/make", "json", "unsent"
)
_ACCOUNT_TOKENS_ROTATE = Operation(
    "account_tokens_rotate", "POST", "/account/v1/tokens/rotate", "json", "unsent"
)
_ACCOUNT_TOKENS_REVOKE = Operation(
    "account_tokens_revoke", "POST", "/account/v1/tokens/revoke", "json", "unsent"
)
_ACCOUNT_CONSENTS = Operation("account_consents", "GET", "/account/v1/consents", "query", "always")
_ACCOUNT_CONSENTS_LINK = Operation(
    "account_consents_link", "POST", "/account/v1/consents/link", "json", "unsent"
)
_ACCOUNT_WAYBILLS = Operation("account_waybills", "GET", "/account/v1/waybills", "query", "always")
_ACCOUNT_WAYBILLS_LABEL = Operation(
    "account_waybills_label", "GET", "/account/v1/waybills/label", "query", "always"
)
_ACCOUNT_WAYBILLS_LABELS = Operation(
    "account_waybills_labels", "POST", "/account/v1/waybills/labels", "json", "unsent"
)
_ACCOUNT_WAYBILLS_CANCEL = Operation(
    "account_waybills_cancel", "POST", "/account/v1/waybills/cancel", "json", "unsent"
)
_ACCOUNT_WAYBILLS_RECEIVER = Operation(
    "account_waybills_receiver", "POST", "/account/v1/waybills/receiver", "json", "unsent"
)
_ACCOUNT_WEBHOOKS = Operation("account_webhooks", "GET", "/account/v1/webhooks", "query", "always")
_ACCOUNT_WEBHOOKS_MAKE = Operation(
    "account_webhooks_make", "POST", "/account/v1/webhooks/make", "json", "unsent"
)
_ACCOUNT_WEBHOOKS_ROTATE = Operation(
    "account_webhooks_rotate", "POST", "/account/v1/webhooks/rotate", "json", "unsent"
)
_ACCOUNT_WEBHOOKS_END = Operation(
    "account_webhooks_end", "POST", "/account/v1/webhooks/end", "json", "unsent"
)
_ACCOUNT_WEBHOOKS_TEST = Operation(
    "account_webhooks_test", "POST", "/account/v1/webhooks/test", "json", "unsent"
)
_ACCOUNT_WEBHOOKS_DELIVERIES = Operation(
    "account_webhooks_deliveries", "GET", "/account/v1/webhooks/deliveries", "query", "always"
)
_ACCOUNT_WEBHOOKS_REDELIVER = Operation(
    "account_webhooks_redeliver", "POST", "/account/v1/webhooks/redeliver", "json", "unsent"
)
_ACCOUNT_ALERTS = Operation("account_alerts", "GET", "/account/v1/alerts", "query", "always")
_ACCOUNT_ALERTS_SET = Operation(
    "account_alerts_set", "POST", "/account/v1/alerts/set", "json", "unsent"
)


class Account:
    """What a caller can know and change of its account."""

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver

    def balance(self) -> AccountState:
        """Balances, prices and permissions."""
        return self._driver.run(_ACCOUNT_BALANCE, AccountState, {})

    def limits(self) -> LimitsLeft:
        """What is left of the limits now."""
        return self._driver.run(_ACCOUNT_LIMITS, LimitsLeft, {})

    def usage(self, *, from_date: Union[date, str], to_date: Union[date, str]) -> Usage:
        """Use by day and operation.

        from_date: The first day. Send a date as YYYY-MM-DD.
        to_date: The last day; at most 31 days in all. Send a date as YYYY-MM-DD.
        """
        return self._driver.run(_ACCOUNT_USAGE, Usage, {"from_date": from_date, "to_date": to_date})

    def entries(
        self,
        *,
        unit: Optional[str] = None,
        before: Optional[Union[int, str]] = None,
        limit: Optional[Union[int, str]] = None,
    ) -> Entries:
        """The ledger of one balance.

        unit: The balance: credits, or calls: and an operation. Send a text of 1 to 128
            characters.
        before: Only entries with a smaller number; for the next page. Send a whole number from
            1 to 4611686018427387904.
        limit: Entries per page; 50 if left out. Send a whole number from 1 to 100.
        """
        return self._driver.run(
            _ACCOUNT_ENTRIES, Entries, {"unit": unit, "before": before, "limit": limit}
        )

    def requests(
        self, *, cursor: Optional[str] = None, limit: Optional[Union[int, str]] = None
    ) -> Calls:
        """The calls of the account.

        cursor: The next_cursor of the page before. Send a text of 1 to 2000 characters.
        limit: Calls per page; 50 if left out. Send a whole number from 1 to 100.
        """
        return self._driver.run(_ACCOUNT_REQUESTS, Calls, {"cursor": cursor, "limit": limit})

    def receipt(self, *, request_id: str) -> Receipt:
        """The receipt of a call.

        request_id: The X-Request-Id of the call. Send a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_RECEIPT, Receipt, {"request_id": request_id})

    def tokens(self) -> Tokens:
        """The tokens of the account."""
        return self._driver.run(_ACCOUNT_TOKENS, Tokens, {})

    def tokens_make(
        self,
        *,
        label: str,
        kind: Optional[str] = None,
        expires_days: Optional[Union[int, str]] = None,
        operations: Optional[str] = None,
        addresses: Optional[str] = None,
        credits_per_day: Optional[Union[int, str]] = None,
        calls_per_day: Optional[Union[int, str]] = None,
    ) -> IssuedToken:
        """Make a token.

        label: What the token is for. Send a text of 1 to 100 characters.
        kind: live, or test for the sandbox; live if left out. Send one of live, test.
        expires_days: After how many days it expires. Never later than the token that makes it.
            Send a whole number from 1 to 3650.
        operations: The operations it is for, with commas between them; account for this API.
            Send some of product_analysis, coupon_claims, promotion_material, waybills, orders,
            account, with commas.
        addresses: The addresses or networks it may be used from, with commas between them. Send
            at most 50 addresses like 203.0.113.7 or networks like 203.0.113.0/24.
        credits_per_day: How many credits it may spend in a day. Send a whole number from 0 to
            1000000000000000.
        calls_per_day: How many calls may succeed in a day. Send a whole number from 0 to
            1000000000000000.
        """
        return self._driver.run(
            _ACCOUNT_TOKENS_MAKE,
            IssuedToken,
            {
                "label": label,
                "kind": kind,
                "expires_days": expires_days,
                "operations": operations,
                "addresses": addresses,
                "credits_per_day": credits_per_day,
                "calls_per_day": calls_per_day,
            },
        )

    def tokens_rotate(
        self, *, token_id: str, overlap_s: Optional[Union[int, str]] = None
    ) -> IssuedToken:
        """Replace a token by a new one.

        token_id: The id of the token. Send a text of 1 to 64 characters.
        overlap_s: For how many seconds the old token still works; a day if left out. Send a
            whole number from 0 to 2592000.
        """
        return self._driver.run(
            _ACCOUNT_TOKENS_ROTATE, IssuedToken, {"token_id": token_id, "overlap_s": overlap_s}
        )

    def tokens_revoke(self, *, token_id: str) -> Token:
        """Revoke a token.

        token_id: The id of the token. Send a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_TOKENS_REVOKE, Token, {"token_id": token_id})

    def consents(
        self, *, after: Optional[str] = None, limit: Optional[Union[int, str]] = None
    ) -> Consents:
        """The consents of shops and users.

        after: Only consents after this one; for the next page. Send the next_after of the page
            before.
        limit: Consents per page; 100 if left out. Send a whole number from 1 to 1000.
        """
        return self._driver.run(_ACCOUNT_CONSENTS, Consents, {"after": after, "limit": limit})

    def consents_link(self, *, scope: str, owner_id: str) -> Link:
        """A link that asks an owner for consent.

        scope: What the consent is to be for. Send one of promotion, waybills, orders.
        owner_id: The shop, or the user. Send a text of 1 to 64 characters.
        """
        return self._driver.run(
            _ACCOUNT_CONSENTS_LINK, Link, {"scope": scope, "owner_id": owner_id}
        )

    def waybills(self, *, object_id: str) -> WaybillState:
        """The state of a waybill.

        object_id: The objectId of the waybill's answer. Send a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_WAYBILLS, WaybillState, {"object_id": object_id})

    def waybills_label(self, *, object_id: str, format: Optional[str] = None) -> WaybillLabel:
        """The label of a waybill as a file.

        object_id: The objectId of the waybill's answer. Send a text of 1 to 64 characters.
        format: The kind of file; pdf if left out. Send one of pdf, png, zpl.
        """
        return self._driver.run(
            _ACCOUNT_WAYBILLS_LABEL, WaybillLabel, {"object_id": object_id, "format": format}
        )

    def waybills_labels(self, *, object_ids: list[str]) -> WaybillLabels:
        """One PDF with the labels of many waybills.

        object_ids: The objectIds of the waybills' answers; a page for each, in this order. Send
            a list of 1 to 100, each a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_WAYBILLS_LABELS, WaybillLabels, {"object_ids": object_ids})

    def waybills_cancel(self, *, object_id: str) -> WaybillState:
        """Cancel a waybill.

        object_id: The objectId of the waybill's answer. Send a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_WAYBILLS_CANCEL, WaybillState, {"object_id": object_id})

    def waybills_receiver(
        self,
        *,
        object_id: str,
        receiver_province: str,
        receiver_city: str,
        receiver_town: str,
        receiver_address: str,
        receiver_phone: str,
        receiver_name: str,
    ) -> WaybillState:
        """Change the receiver of a waybill that is not printed yet.

        object_id: The objectId of the waybill's answer. Send a text of 1 to 64 characters.
        receiver_province: Receiver province. Send a text of 1 to 64 characters.
        receiver_city: Receiver city. Send a text of 1 to 64 characters.
        receiver_town: Receiver district. Send a text of 1 to 64 characters.
        receiver_address: Receiver street address. Send a text of 1 to 255 characters.
        receiver_phone: Receiver phone. Send a mobile number, or a fixed line with its area
            code.
        receiver_name: Receiver name. Send a text of 1 to 39 characters.
        """
        return self._driver.run(
            _ACCOUNT_WAYBILLS_RECEIVER,
            WaybillState,
            {
                "object_id": object_id,
                "receiver_province": receiver_province,
                "receiver_city": receiver_city,
                "receiver_town": receiver_town,
                "receiver_address": receiver_address,
                "receiver_phone": receiver_phone,
                "receiver_name": receiver_name,
            },
        )

    def webhooks(self) -> Webhooks:
        """The webhooks of the account."""
        return self._driver.run(_ACCOUNT_WEBHOOKS, Webhooks, {})

    def webhooks_make(self, *, url: str) -> EndpointSecret:
        """Add a webhook.

        url: Where events are sent: an https address. Send a text of 1 to 500 characters.
        """
        return self._driver.run(_ACCOUNT_WEBHOOKS_MAKE, EndpointSecret, {"url": url})

    def webhooks_rotate(self, *, webhook_id: str) -> WebhookSecret:
        """A new secret for a webhook.

        webhook_id: The id of the webhook. Send a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_WEBHOOKS_ROTATE, WebhookSecret, {"webhook_id": webhook_id})

    def webhooks_end(self, *, webhook_id: str) -> Done:
        """End a webhook.

        webhook_id: The id of the webhook. Send a text of 1 to 64 characters.
        """
        return self._driver.run(_ACCOUNT_WEBHOOKS_END, Done, {"webhook_id": webhook_id})

    def webhooks_test(self) -> Done:
        """Send a test event."""
        return self._driver.run(_ACCOUNT_WEBHOOKS_TEST, Done, {})

    def webhooks_deliveries(
        self,
        *,
        webhook_id: str,
        before: Optional[Union[int, str]] = None,
        limit: Optional[Union[int, str]] = None,
    ) -> Deliveries:
        """The log of a webhook.

        webhook_id: The id of the webhook. Send a text of 1 to 64 characters.
        before: Only deliveries with a smaller number; for the next page. Send a whole number
            from 1 to 4611686018427387904.
        limit: Deliveries per page; 50 if left out. Send a whole number from 1 to 100.
        """
        return self._driver.run(
            _ACCOUNT_WEBHOOKS_DELIVERIES,
            Deliveries,
            {"webhook_id": webhook_id, "before": before, "limit": limit},
        )

    def webhooks_redeliver(self, *, webhook_id: str, event_id: str) -> Done:
        """Deliver an event again.

        webhook_id: The id of the webhook. Send a text of 1 to 64 characters.
        event_id: The id of the event. Send a text of 1 to 100 characters.
        """
        return self._driver.run(
            _ACCOUNT_WEBHOOKS_REDELIVER, Done, {"webhook_id": webhook_id, "event_id": event_id}
        )

    def alerts(self) -> Alerts:
        """The alerts of low balances."""
        return self._driver.run(_ACCOUNT_ALERTS, Alerts, {})

    def alerts_set(self, *, unit: str, below: Union[int, str]) -> Alerts:
        """Set an alert of a low balance.

        unit: The balance: credits, or calls: and an operation. Send a text of 1 to 128
            characters.
        below: Below which amount to notify; 0 ends the alert. Send a whole number from 0 to
            1000000000000000.
        """
        return self._driver.run(_ACCOUNT_ALERTS_SET, Alerts, {"unit": unit, "below": below})
