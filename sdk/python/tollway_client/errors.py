"""What a call can fail with.

TollwayError
├── TransportError            no answer arrived; the gateway may have done what was asked
├── UnexpectedAnswerError     an answer that is none of a gateway's, for example from a proxy
│   └── UnavailableError      a proxy could not reach the gateway, which may be restarting
├── RefusedError              an envelope with another code than 0
│   ├── ParameterError        100: the request is wrong
│   ├── TimedOutError         101
│   ├── OwnerUnknownError     103: no such shop or user
│   ├── SystemFaultError      200
│   ├── RetryLaterError       202
│   │   └── ThrottledError    202: too many calls in a second
│   ├── OperationClosedError  203
│   ├── PermissionMissingError  204: the account or the token may not do this
│   ├── UsedUpError           204: too few calls or credits left, or the token's of a day
│   ├── NotAuthorizedError    302: the owner has not approved; has the link to ask for it
│   ├── CredentialInvalidError  401
│   └── NotFoundError         404: the account has no such receipt, waybill, token or webhook
│       └── UnknownPathError  404: the gateway has no such path, or not for this method
├── CarrierRefusedError       the call succeeded, but the carrier issued no waybill
└── SignatureError            a webhook that the gateway did not send, or sent long ago
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Optional


class TollwayError(Exception):
    """The base of all errors of this package.

    `idempotency_key` is that of the call, if it had one: with it the call can be repeated within a
    day, and is not charged again if it was charged.
    """

    idempotency_key: Optional[str] = None

    def __reduce__(self) -> "tuple[Any, ...]":
        # An error is made from more than its text. Without this, the first one would end a pool of
        # processes, which could not hand it on.
        return _restored, (type(self), self.args, self.__dict__)


class TransportError(TollwayError):
    """No answer arrived, also after the retries."""


class UnexpectedAnswerError(TollwayError):
    """An answer that is not an envelope, or not that of the operation."""

    def __init__(
        self, status: int, body: bytes, headers: Optional[Mapping[str, str]] = None
    ) -> None:
        headers = headers or {}
        self.status = status
        self.body = body
        self.retry_after_s = _retry_after_s(headers)
        super().__init__(_unexpected(status, body, headers.get("location")))


class UnavailableError(UnexpectedAnswerError):
    """A proxy in front of the gateway has no answer of it, also after the retries: the same call
    can succeed later. `status` is 429, 502, 503 or 504. As after a `TransportError`, the gateway
    may have done what was asked."""


class RefusedError(TollwayError):
    """The gateway answered with a code other than 0.

    `reason` is a name of `tollway_client.reasons.CODES`, or None if the gateway sent none.
    """

    def __init__(
        self,
        envelope: Mapping[str, Any],
        reason: Optional[str],
        request_id: str,
        status: int,
        retry_after_s: Optional[float],
    ) -> None:
        self.envelope = envelope
        self.code: int = envelope["code"]
        self.message: str = envelope["msg"]
        self.data: Mapping[str, Any] = envelope["data"]
        self.reason = reason
        self.request_id = request_id
        self.status = status
        self.retry_after_s = retry_after_s
        named = f"{self.code} {reason}" if reason else str(self.code)
        super().__init__(f"{named}: {self.message} (request {request_id})")

    @property
    def is_retryable(self) -> bool:
        """Whether the same request can succeed later without a change."""
        return self.code in (101, 200, 202)


class ParameterError(RefusedError):
    pass


class TimedOutError(RefusedError):
    pass


class OwnerUnknownError(RefusedError):
    pass


class SystemFaultError(RefusedError):
    pass


class RetryLaterError(RefusedError):
    pass


class ThrottledError(RetryLaterError):
    pass


class OperationClosedError(RefusedError):
    pass


class PermissionMissingError(RefusedError):
    pass


class UsedUpError(RefusedError):
    pass


class NotAuthorizedError(RefusedError):
    @property
    def authorize_url(self) -> str:
        """What the shop or user opens to approve."""
        return str(self.data["authorize_url"])

    @property
    def expires_at(self) -> int:
        """Until when the link can be opened, in seconds since 1970."""
        return int(self.data["expires_at"])


class CredentialInvalidError(RefusedError):
    pass


class NotFoundError(RefusedError):
    pass


class UnknownPathError(NotFoundError):
    pass


class CarrierRefusedError(TollwayError):
    """The carrier issued no waybill, and nothing was charged; `result` is the whole answer."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"{result.errorMsg} (request {result.meta.request_id})")
        self.result = result
        self.idempotency_key = result.meta.idempotency_key


class SignatureError(TollwayError):
    """The signature of a webhook is missing, wrong or too old."""


_BY_CODE: dict[int, type[RefusedError]] = {
    100: ParameterError,
    101: TimedOutError,
    103: OwnerUnknownError,
    200: SystemFaultError,
    202: RetryLaterError,
    203: OperationClosedError,
    204: PermissionMissingError,
    302: NotAuthorizedError,
    401: CredentialInvalidError,
    404: NotFoundError,
}
_BY_REASON: dict[str, type[RefusedError]] = {
    "THROTTLED": ThrottledError,
    "CALLS_USED_UP": UsedUpError,
    "CREDITS_USED_UP": UsedUpError,
    "TOKEN_DAY_USED_UP": UsedUpError,
    "PATH_UNKNOWN": UnknownPathError,
    "METHOD_WRONG": UnknownPathError,
}


def refused(envelope: Mapping[str, Any], headers: Mapping[str, str], status: int) -> RefusedError:
    """The error of an answer."""
    reason = headers.get("x-tollway-reason")
    kind = _BY_REASON.get(reason or "") or _BY_CODE.get(envelope["code"], RefusedError)
    return kind(
        envelope,
        reason,
        headers.get("x-request-id", ""),
        status,
        _retry_after_s(headers),
    )


# What proxies answer in place of a gateway that they cannot reach.
_UNAVAILABLE = (429, 502, 503, 504)


def not_answered(status: int, body: bytes, headers: Mapping[str, str]) -> UnexpectedAnswerError:
    """The error of an answer that is not an envelope."""
    kind = UnavailableError if status in _UNAVAILABLE else UnexpectedAnswerError
    return kind(status, body, headers)


def _unexpected(status: int, body: bytes, location: Optional[str]) -> str:
    if status in _UNAVAILABLE:
        return (
            f"HTTP status {status} of a proxy in front of the gateway, which is not available now: "
            "try again later."
        )
    found = repr(body[:200])
    if location is not None:
        found = f"it redirects to {location}, so use that address"
    return f"HTTP status {status}, and not the answer of a gateway: {found}"


def _restored(
    kind: "type[TollwayError]", args: "tuple[Any, ...]", attributes: Mapping[str, Any]
) -> TollwayError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def _retry_after_s(headers: Mapping[str, str]) -> Optional[float]:
    """How long to wait: proxies ask for seconds, or for a moment by their own clock."""
    asked = headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        return float(asked)
    until = _moment(asked)
    if until is None:
        return None
    now = _moment(headers.get("date", "")) or datetime.now(timezone.utc)
    return max(0.0, (until - now).total_seconds())


def _moment(text: str) -> Optional[datetime]:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
