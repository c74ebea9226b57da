"""The answers of the account API.

Made by `make sdk` from the gateway's descriptors: do not edit."""

from dataclasses import dataclass
from typing import Optional

from tollway_client._json import Payload


@dataclass(frozen=True)
class BalanceLeft:
    """One balance: what is available, set aside, and charged in all."""

    unit: str
    """credits, or calls: and the operation's name."""
    amount: int
    """What is available."""
    held: int
    """What is set aside for calls whose outcome is not known yet."""
    posted: int
    """What was charged in all."""


@dataclass(frozen=True)
class PermittedOperation:
    """An operation that the account may call."""

    operation: str
    """The operation's name, as in the address of its page here."""
    unit: str
    """The balance that pays: credits, or calls: and the operation's name."""
    price: int
    """What a successful call takes."""
    is_open: bool
    """Whether it can be called now."""


@dataclass(frozen=True)
class AccountState(Payload):
    """The account, its balances, and what it may call at which price."""

    account_id: str
    """Id of the account."""
    name: str
    """Its name."""
    balances: list[BalanceLeft]
    """The account's balances."""
    operations: list[PermittedOperation]
    """What the account may call, and at which price."""


@dataclass(frozen=True)
class RateLimit:
    """How many calls of an operation a second the account has, and how many are left now."""

    operation: str
    """The operation's name, as in the address of its page here."""
    limit: int
    """How many calls a second."""
    remaining: int
    """How many calls are left of this second."""


@dataclass(frozen=True)
class LimitsLeft(Payload):
    """The limits as the gateway that answers sees them."""

    limits: list[RateLimit]
    """One for each operation."""


@dataclass(frozen=True)
class UsageDay:
    """The calls of one operation on one day: those charged, their amount, and all others."""

    date: str
    """The day, as YYYY-MM-DD."""
    operation: str
    """The operation's name, as in the address of its page here."""
    charged_calls: int
    """Calls that were charged."""
    amount: int
    """What they took."""
    other_calls: int
    """Live calls that were not charged."""


@dataclass(frozen=True)
class Usage(Payload):
    days: list[UsageDay]
    """One for each day and operation that had calls, the oldest first."""


@dataclass(frozen=True)
class LedgerEntry:
    """One entry. `amount` is what became available: a charge is negative."""

    number: int
    """Its number in this balance; without gaps."""
    kind: str
    """top_up, correction, charge, hold or release."""
    amount: int
    """What became available by it; negative for a charge."""
    balance_after: int
    """What was available after it."""
    at_ms: int
    """When, in milliseconds since 1970."""
    operation: Optional[str]
    """The operation's name; of a refund, that of the call it refunds; null for other top-ups and
    corrections."""
    request_id: Optional[str]
    """The X-Request-Id of the call; of a refund, of the call it refunds; null for other top-ups
    and corrections."""
    token_id: Optional[str]
    """Id of the token; null unless a call made the entry."""
    note: Optional[str]
    """What the operator noted; null if nothing."""


@dataclass(frozen=True)
class Entries(Payload):
    """The newest first. `next_before` is null on the last page."""

    entries: list[LedgerEntry]
    """The entries, the newest first."""
    next_before: Optional[int]
    """The before of the next page; null on the last one."""


@dataclass(frozen=True)
class ListedCall:
    """One call; its receipt says more about it. `more` counts further calls with the same
    operation and reason in the same minute, which are not listed."""

    request_id: str
    """The X-Request-Id of the call."""
    at_ms: int
    """When, in milliseconds since 1970."""
    operation: str
    """The operation's name, as in the address of its page here."""
    code: int
    """Code of the answer; 0 means success."""
    reason: str
    """Name of the reason; SUCCESS if it was charged; of another success, why it was not, such as
    REPLAYED."""
    amount: int
    """What it took; 0 unless it was charged."""
    unit: Optional[str]
    """The balance that paid; null unless it was charged."""
    is_test: bool
    """Whether it was made with a test token."""
    more: int = 0
    """Further calls with the same operation and reason in the same minute, which are not listed."""


@dataclass(frozen=True)
class Calls(Payload):
    """The newest first. `next_cursor` is null on the last page."""

    requests: list[ListedCall]
    """The calls, the newest first."""
    next_cursor: Optional[str]
    """The cursor of the next page; null on the last one."""


@dataclass(frozen=True)
class ReceiptConsent:
    """The consent that a call was made under."""

    owner_kind: str
    """shop or user."""
    owner_id: str
    """Id of the shop or user."""
    consent_id: str
    """Id of the consent."""


@dataclass(frozen=True)
class ReceiptHold:
    """What was set aside for a call, until when, and whether it was captured or released."""

    id: str
    """Its id."""
    state: str
    """held, captured or released."""
    amount: int
    """How much is or was set aside."""
    deadline_at_ms: int
    """By when it should be settled, in milliseconds since 1970; later it stays, and is reported
    as overdue."""
    settled_at_ms: Optional[int]
    """When it was settled, in milliseconds since 1970; null while it is open."""


@dataclass(frozen=True)
class ReceiptRefund:
    """What was given back of what a call took, and when."""

    amount: int
    """How much was given back."""
    at_ms: int
    """When, in milliseconds since 1970."""


@dataclass(frozen=True)
class ReceiptWaybill:
    """The waybill that a call asked for; a warning is about a part of an address."""

    object_id: str
    """The objectId of the waybill's answer."""
    wp_code: str
    """Carrier short code."""
    number: Optional[str]
    """Waybill number; null if none was issued."""
    state: str
    """pending, issued, refused or cancelled."""
    parent_number: Optional[str]
    """Waybill number of the order's first parcel; null for a single parcel."""
    warnings: list[str]
    """Doubts about parts of the addresses."""


@dataclass(frozen=True)
class Receipt(Payload):
    """One call. `amount` is what it took, or what is set aside for it; the balances are those
    around that. `code` and `reason` are what it was answered with, if that is known yet."""

    request_id: str
    """The X-Request-Id of the call."""
    account_id: str
    """Id of the account."""
    operation: str
    """The operation's name, as in the address of its page here."""
    at_ms: int
    """When, in milliseconds since 1970."""
    outcome: str
    """charged, not_charged or held."""
    code: Optional[int]
    """Code of its answer; null while it is not known."""
    reason: Optional[str]
    """Name of the reason; null while it is not known."""
    why: str
    """Why it was charged or not, in a sentence."""
    amount: int = 0
    """What it took, or what is set aside for it."""
    unit: Optional[str] = None
    """The balance that paid; null if none did."""
    balance_before: Optional[int] = None
    """What was available before it; null if no balance changed."""
    balance_after: Optional[int] = None
    """What was available after it; null if no balance changed."""
    token_id: Optional[str] = None
    """Id of the token that made the call; null if it is not known."""
    replay_of: Optional[str] = None
    """The call whose answer was given again; null if none was."""
    client_request_id: Optional[str] = None
    """The X-Request-Id that the request had; null without one."""
    consent: Optional[ReceiptConsent] = None
    """The consent it was made under; null if it needs none."""
    hold: Optional[ReceiptHold] = None
    """What was set aside for it; null if nothing was."""
    refund: Optional[ReceiptRefund] = None
    """What was given back of it since; null if nothing was."""
    waybill: Optional[ReceiptWaybill] = None
    """The waybill that it asked for; null if none."""
    is_test: bool = False
    """Whether it was made with a test token."""
    owner_kind: Optional[str] = None
    """shop or user; null if it named none."""
    owner_id: Optional[str] = None
    """Whose data it asked for, also if that was refused; null if it named none."""
    msg: Optional[str] = None
    """What its answer said of a wrong parameter; null if none was, or if it is not known."""


@dataclass(frozen=True)
class TokenLimits:
    """What a token is limited to; None where it is not."""

    operations: Optional[list[str]] = None
    """The operations it is for; null for all."""
    networks: Optional[list[str]] = None
    """The networks it may be used from; null for all."""
    credits_per_day: Optional[int] = None
    """How many credits it may spend in a day; null for any number."""
    calls_per_day: Optional[int] = None
    """How many calls may succeed in a day; null for any number."""


@dataclass(frozen=True)
class Token(Payload):
    """A token as the operator sees it: never the token itself, only how it starts."""

    id: str
    """Its id."""
    account_id: str
    """Id of the account."""
    kind: str
    """live or test."""
    label: str
    """What it is for."""
    start: str
    """How it starts."""
    issued_at_s: int
    """When it was issued, in seconds since 1970."""
    expires_at_s: Optional[int]
    """When it expires, in seconds since 1970; null for never."""
    revoked_at_s: Optional[int]
    """When it was revoked, in seconds since 1970; null if it was not."""
    last_used_at_s: Optional[int]
    """When it was last used, in seconds since 1970; null if never."""
    client_id: Optional[str]
    """The OAuth client that obtained it; null if none did."""
    limits: TokenLimits = TokenLimits(
        operations=None, networks=None, credits_per_day=None, calls_per_day=None
    )
    """What it is limited to."""


@dataclass(frozen=True)
class Tokens(Payload):
    """The oldest first, without their texts. Of over 1,000, some that ended are left out."""

    tokens: list[Token]
    """The tokens, the oldest first, without their texts."""


@dataclass(frozen=True)
class IssuedToken(Payload):
    """A token just issued; the only time its text is seen."""

    text: str
    """The token, shown only here."""
    token: Token
    """What is known of it."""


@dataclass(frozen=True)
class ConsentEntry:
    """One consent; `holds` says whether it can be used now."""

    id: str
    """Its id."""
    owner_kind: str
    """shop or user."""
    owner_id: str
    """Id of the shop or user."""
    scope: str
    """What it is for: waybills, orders or promotion."""
    granted_at_s: int
    """When it was given, in seconds since 1970."""
    expires_at_s: Optional[int]
    """When it expires, in seconds since 1970; null for never."""
    revoked_at_s: Optional[int]
    """When it was revoked, in seconds since 1970; null if it was not."""
    holds: bool
    """Whether it can be used now."""


@dataclass(frozen=True)
class Consents(Payload):
    """In the order of their ids. `next_after` is null on the last page."""

    consents: list[ConsentEntry]
    """The consents, in the order of their ids."""
    next_after: Optional[str]
    """The after of the next page; null on the last one."""


@dataclass(frozen=True)
class Link(Payload):
    """Where the owner can approve, and until when, in seconds since 1970."""

    authorize_url: str
    """Where the owner can approve."""
    expires_at: int
    """Until when the link works, in seconds since 1970."""


@dataclass(frozen=True)
class WaybillState(Payload):
    """A waybill. `state` is pending, issued, refused or cancelled. Its receiver can be changed
    until `printed_at_s`, when its label was first written."""

    object_id: str
    """The objectId of the waybill's answer."""
    owner_id: str
    """Id of the shop or user."""
    order_sn: str
    """Order number."""
    wp_code: str
    """Carrier short code."""
    state: str
    """pending, issued, refused or cancelled."""
    waybill_code: Optional[str]
    """Waybill number; null if none was issued."""
    price: int
    """What it costs, in credits."""
    asked_at_s: int
    """When it was asked for, in seconds since 1970."""
    issued_at_s: Optional[int]
    """When it was issued, in seconds since 1970; null if it was not."""
    cancelled_at_s: Optional[int]
    """When it was cancelled, in seconds since 1970; null if it was not."""
    printed_at_s: Optional[int]
    """When its label was first written, in seconds since 1970; until then, null, its receiver
    can be changed."""


@dataclass(frozen=True)
class WaybillLabel(Payload):
    """The label as a file; `content` is base64."""

    waybill_code: str
    """Waybill number."""
    content_type: str
    """The file's media type, such as application/pdf."""
    content: str
    """The file, as base64."""


@dataclass(frozen=True)
class WaybillLabels(Payload):
    """The labels in one file; `content` is base64."""

    waybill_codes: list[str]
    """Waybill numbers, in the order of the pages."""
    content_type: str
    """The file's media type, such as application/pdf."""
    content: str
    """The file, as base64."""


@dataclass(frozen=True)
class WebhookEndpoint:
    """An endpoint, as it is shown."""

    id: str
    """Its id."""
    url: str
    """Where events are sent."""
    made_at_s: int
    """When it was added, in seconds since 1970."""
    rotated_at_s: Optional[int]
    """When it got a new secret, in seconds since 1970; null if never."""
    ended_at_s: Optional[int]
    """When it was ended, in seconds since 1970; null if it was not."""


@dataclass(frozen=True)
class Webhooks(Payload):
    """The oldest first."""

    webhooks: list[WebhookEndpoint]
    """The webhooks, the oldest first; ended ones too."""


@dataclass(frozen=True)
class EndpointSecret(Payload):
    """An endpoint with the secret that was made for it just now."""

    endpoint: WebhookEndpoint
    """The webhook."""
    secret: str
    """The secret, shown only here: it starts with whsec_."""


@dataclass(frozen=True)
class WebhookSecret(Payload):
    """The new secret: the only time it is shown. The old one signs too, for a day."""

    secret: str
    """The new secret, shown only here. The old one signs too, for a day."""


@dataclass(frozen=True)
class Done(Payload):
    done: bool
    """True; false for a test event if there is no webhook."""


@dataclass(frozen=True)
class Delivery:
    """One event to one endpoint. `status` is the HTTP status of the last answer."""

    number: int
    """Its number, for the next page."""
    event_id: str
    """Id of the event, which is its webhook-id header."""
    type: str
    """Type of the event, such as balance.low."""
    subject: str
    """What the event is about; order holds within a subject."""
    at_ms: int
    """When, in milliseconds since 1970."""
    state: str
    """waiting, delivered or failed."""
    attempts: int
    """How often it was tried."""
    next_at_ms: int
    """When it is tried next, in milliseconds since 1970."""
    status: Optional[int]
    """HTTP status of the last answer; null if there was none."""
    settled_at_ms: Optional[int]
    """When it was settled, in milliseconds since 1970; null while it is open."""


@dataclass(frozen=True)
class Deliveries(Payload):
    """The newest first. `next_before` is null on the last page."""

    deliveries: list[Delivery]
    """The deliveries, the newest first."""
    next_before: Optional[int]
    """The before of the next page; null on the last one."""


@dataclass(frozen=True)
class BalanceAlert:
    unit: str
    """credits, or calls: and the operation's name."""
    below: int
    """Below which amount an event is sent."""


@dataclass(frozen=True)
class Alerts(Payload):
    alerts: list[BalanceAlert]
    """The alerts."""
