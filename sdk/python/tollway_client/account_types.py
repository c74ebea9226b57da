"""The answers of the account API.

Made by `make sdk` from the gateway's descriptors: do not edit."""

from dataclasses import dataclass
from typing import Optional

from tollway_client._json import Payload


@dataclass(frozen=True)
class BalanceLeft:
    """One balance: what is available, set aside, and charged in all."""

    unit: str
    amount: int
    held: int
    posted: int


@dataclass(frozen=True)
class PermittedOperation:
    """An operation that the account may call."""

    operation: str
    unit: str
    price: int
    is_open: bool


@dataclass(frozen=True)
class AccountState(Payload):
    """The account, its balances, and what it may call at which price."""

    account_id: str
    name: str
    balances: list[BalanceLeft]
    operations: list[PermittedOperation]


@dataclass(frozen=True)
class RateLimit:
    """How many calls of an operation a second the account has, and how many are left now."""

    operation: str
    limit: int
    remaining: int


@dataclass(frozen=True)
class LimitsLeft(Payload):
    """The limits as the gateway that answers sees them."""

    limits: list[RateLimit]


@dataclass(frozen=True)
class UsageDay:
    """The calls of one operation on one day: those charged, their amount, and all others."""

    date: str
    operation: str
    charged_calls: int
    amount: int
    other_calls: int


@dataclass(frozen=True)
class Usage(Payload):
    days: list[UsageDay]


@dataclass(frozen=True)
class LedgerEntry:
    """One entry. `amount` is what became available: a charge is negative."""

    number: int
    kind: str
    amount: int
    balance_after: int
    at_ms: int
    operation: Optional[str]
    request_id: Optional[str]
    token_id: Optional[str]
    note: Optional[str]


@dataclass(frozen=True)
class Entries(Payload):
    """The newest first. `next_before` is null on the last page."""

    entries: list[LedgerEntry]
    next_before: Optional[int]


@dataclass(frozen=True)
class ListedCall:
    """One call; its receipt says more about it. `more` counts further calls with the same
    operation and reason in the same minute, which are not listed."""

    request_id: str
    at_ms: int
    operation: str
    code: int
    reason: str
    amount: int
    unit: Optional[str]
    is_test: bool
    more: int = 0


@dataclass(frozen=True)
class Calls(Payload):
    """The newest first. `next_cursor` is null on the last page."""

    requests: list[ListedCall]
    next_cursor: Optional[str]


@dataclass(frozen=True)
class ReceiptConsent:
    """The consent that a call was made under."""

    owner_kind: str
    owner_id: str
    consent_id: str


@dataclass(frozen=True)
class ReceiptHold:
    """What was set aside for a call, until when, and whether it was captured or released."""

    id: str
    state: str
    amount: int
    deadline_at_ms: int
    settled_at_ms: Optional[int]


@dataclass(frozen=True)
class ReceiptWaybill:
    """The waybill that a call asked for; a warning is about a part of an address."""

    object_id: str
    wp_code: str
    number: Optional[str]
    state: str
    parent_number: Optional[str]
    warnings: list[str]


@dataclass(frozen=True)
class Receipt(Payload):
    """One call. `amount` is what it took, or what is set aside for it; the balances are those
    around that. `code` and `reason` are what it was answered with, if that is known yet."""

    request_id: str
    account_id: str
    operation: str
    at_ms: int
    outcome: str
    code: Optional[int]
    reason: Optional[str]
    why: str
    amount: int = 0
    unit: Optional[str] = None
    balance_before: Optional[int] = None
    balance_after: Optional[int] = None
    token_id: Optional[str] = None
    replay_of: Optional[str] = None
    client_request_id: Optional[str] = None
    consent: Optional[ReceiptConsent] = None
    hold: Optional[ReceiptHold] = None
    waybill: Optional[ReceiptWaybill] = None
    is_test: bool = False


@dataclass(frozen=True)
class TokenLimits:
    """What a token is limited to; None where it is not."""

    operations: Optional[list[str]] = None
    networks: Optional[list[str]] = None
    credits_per_day: Optional[int] = None
    calls_per_day: Optional[int] = None


@dataclass(frozen=True)
class Token(Payload):
    """A token as the operator sees it: never the token itself, only how it starts."""

    id: str
    account_id: str
    kind: str
    label: str
    start: str
    issued_at_s: int
    expires_at_s: Optional[int]
    revoked_at_s: Optional[int]
    last_used_at_s: Optional[int]
    client_id: Optional[str]
    limits: TokenLimits = TokenLimits(
        operations=None, networks=None, credits_per_day=None, calls_per_day=None
    )


@dataclass(frozen=True)
class Tokens(Payload):
    """The oldest first, without their texts."""

    tokens: list[Token]


@dataclass(frozen=True)
class IssuedToken(Payload):
    """A token just issued; the only time its text is seen."""

    text: str
    token: Token


@dataclass(frozen=True)
class ConsentEntry:
    """One consent; `holds` says whether it can be used now."""

    id: str
    owner_kind: str
    owner_id: str
    scope: str
    granted_at_s: int
    expires_at_s: Optional[int]
    revoked_at_s: Optional[int]
    holds: bool


@dataclass(frozen=True)
class Consents(Payload):
    """In the order of their ids. `next_after` is null on the last page."""

    consents: list[ConsentEntry]
    next_after: Optional[str]


@dataclass(frozen=True)
class Link(Payload):
    """Where the owner can approve, and until when, in seconds since 1970."""

    authorize_url: str
    expires_at: int


@dataclass(frozen=True)
class WaybillState(Payload):
    """A waybill. `state` is pending, issued, refused or cancelled. Its receiver can be changed
    until `printed_at_s`, when its label was first written."""

    object_id: str
    owner_id: str
    order_sn: str
    wp_code: str
    state: str
    waybill_code: Optional[str]
    price: int
    asked_at_s: int
    issued_at_s: Optional[int]
    cancelled_at_s: Optional[int]
    printed_at_s: Optional[int]


@dataclass(frozen=True)
class WaybillLabel(Payload):
    """The label as a file; `content` is base64."""

    waybill_code: str
    content_type: str
    content: str


@dataclass(frozen=True)
class WaybillLabels(Payload):
    """The labels in one file; `content` is base64."""

    waybill_codes: list[str]
    content_type: str
    content: str


@dataclass(frozen=True)
class WebhookEndpoint:
    """An endpoint, as it is shown."""

    id: str
    url: str
    made_at_s: int
    rotated_at_s: Optional[int]
    ended_at_s: Optional[int]


@dataclass(frozen=True)
class Webhooks(Payload):
    """The oldest first."""

    webhooks: list[WebhookEndpoint]


@dataclass(frozen=True)
class EndpointSecret(Payload):
    """An endpoint with the secret that was made for it just now."""

    endpoint: WebhookEndpoint
    secret: str


@dataclass(frozen=True)
class WebhookSecret(Payload):
    """The new secret: the only time it is shown. The old one signs too, for a day."""

    secret: str


@dataclass(frozen=True)
class Done(Payload):
    done: bool


@dataclass(frozen=True)
class Delivery:
    """One event to one endpoint. `status` is the HTTP status of the last answer."""

    number: int
    event_id: str
    type: str
    subject: str
    at_ms: int
    state: str
    attempts: int
    next_at_ms: int
    status: Optional[int]
    settled_at_ms: Optional[int]


@dataclass(frozen=True)
class Deliveries(Payload):
    """The newest first. `next_before` is null on the last page."""

    deliveries: list[Delivery]
    next_before: Optional[int]


@dataclass(frozen=True)
class BalanceAlert:
    unit: str
    below: int


@dataclass(frozen=True)
class Alerts(Payload):
    alerts: list[BalanceAlert]
