"""What an endpoint of the account API is made of."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.labels.layout import LabelStyle
from tollway.carriers.vault import Vault
from tollway.consent.links import ConsentLinks
from tollway.contract.fields import InvalidValueError
from tollway.contract.language import Phrase
from tollway.contract.operation import OF_A_BODY, Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.runtime import Runtime
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import Database
from tollway.webhooks.addresses import Addresses

PATH = "/account/v1/"
_OF_ANY = (
    Reason.PARAMETER_REPEATED,
    Reason.BODY_UNREADABLE,
    Reason.TIMED_OUT,
    Reason.INTERNAL,
    Reason.THROTTLED,
    Reason.STORE_UNAVAILABLE,
    Reason.LIVE_TOKEN_NEEDED,
    Reason.TOKEN_NOT_FOR_THIS,
    Reason.TOKEN_NOT_FROM_HERE,
    Reason.CREDENTIAL_INVALID,
    Reason.PATH_UNKNOWN,
    Reason.METHOD_WRONG,
)


class RateLimit(msgspec.Struct, frozen=True):
    """How many calls of an operation a second the account has, and how many are left now."""

    operation: str
    limit: int
    remaining: int


class AccountCall(msgspec.Struct, frozen=True):
    """The caller of a request, and the time."""

    account_id: str
    token_id: str
    token_expires_at_s: int | None
    at_s: float
    language: str
    rate_limits: Callable[[], Sequence[RateLimit]]
    # Whether the token may see receipts of this operation.
    sees: Callable[[str], bool]
    # Whether the token has any limits: operations, addresses, or a daily cap.
    is_limited: bool = False


def check_unlimited(call: AccountCall) -> None:
    """Refuses a limited token: with another token or a webhook it would escape its limits, and the
    alerts and events of the account are not for one of its programs to change."""
    if call.is_limited:
        raise Refusal(Reason.TOKEN_CANNOT_MAKE)


class AccountDependencies(msgspec.Struct, frozen=True):
    """What the handlers use."""

    database: Database
    links: ConsentLinks
    runtime: Runtime
    zone: ZoneInfo
    vault: Vault
    remotes: Remotes
    addresses: Addresses
    label_style: LabelStyle
    call_timeout_s: float
    # Drawing is CPU-bound: one label at a time, of many in one document too. One per account waits.
    drawing: BoundedSlots = msgspec.field(
        default_factory=lambda: BoundedSlots(1, "too many labels are drawn at once")
    )


Handler = Callable[[Any, AccountCall], Awaitable[msgspec.Struct]]


@dataclass(frozen=True)
class AccountOperation(Operation):
    """An endpoint of the account API."""

    # A token that is limited to operations must name this one too.
    needs: str = ""

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        body = () if self.encoding is Encoding.QUERY else OF_A_BODY
        return (*self.of_parameters, *_OF_ANY, *body, *self.own_reasons)


Work = Callable[[AccountDependencies, Any, AccountCall], Awaitable[msgspec.Struct]]


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint and the work it does."""

    operation: AccountOperation
    handle: Work


def endpoint(
    path: str,
    title: str,
    *reasons: Reason,
    changes: bool = False,
    is_for_unlimited: bool = False,
    needs: str = "",
) -> Callable[[Work], Endpoint]:
    """Makes a function an endpoint, with the request and response types that it declares, and
    reasons of its own. An endpoint that only reads is a GET with a query; one that changes
    something, as all that only an unlimited token may use do, is a POST with JSON."""

    def declare(work: Work) -> Endpoint:
        declared = inspect.signature(work)
        _, request, _ = declared.parameters.values()
        is_post = changes or is_for_unlimited
        operation = AccountOperation(
            name="account_" + path.replace("/", "_"),
            title=title,
            method="POST" if is_post else "GET",
            path=PATH + path,
            encoding=Encoding.JSON if is_post else Encoding.QUERY,
            request_type=request.annotation,
            response_type=declared.return_annotation,
            unit=Unit.CREDITS,
            default_price=0,
            own_reasons=(Reason.TOKEN_CANNOT_MAKE, *reasons) if is_for_unlimited else reasons,
            needs=needs,
        )
        return Endpoint(operation, _for_unlimited(work) if is_for_unlimited else work)

    return declare


def _for_unlimited(work: Work) -> Work:
    async def checked(parts: AccountDependencies, request: Any, call: AccountCall) -> Any:
        check_unlimited(call)
        return await work(parts, request, call)

    return checked


class OneOf(msgspec.Struct, frozen=True):
    """One of a few texts."""

    values: tuple[str, ...]

    @property
    def expected(self) -> Phrase:
        return Phrase(f"one of {', '.join(self.values)}", f"以下之一：{'、'.join(self.values)}")

    def read(self, raw: object) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        if text not in self.values:
            raise InvalidValueError(Phrase("it is not one of the known values", "不是已知取值"))
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.values)}


NOT_OURS = Phrase("it is not one of ours", "不是本接口给出的值")


def from_page_before(name: str) -> Phrase:
    """What to send for the next page of a list: a field of the answer before."""
    return Phrase(f"the {name} of the page before", f"上一页的 {name}")


class Nothing(msgspec.Struct, frozen=True):
    """A request without parameters."""
