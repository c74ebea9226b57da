"""The request for a token and its errors: OAuth 2 client credentials (RFC 6749, section 4.4).

It has no envelope: requests and answers have the shape that OAuth libraries expect.
"""

import base64
import binascii
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote_plus

import msgspec

from tollway.contract.parsing import read_form
from tollway.contract.reasons import Refusal

TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
# The path that clients of the original service use; the answer is the same.
ORIGINAL_TOKEN_PATH = "/api/proxy/oauth/token"  # noqa: S105 - a path
GRANT_TYPE = "client_credentials"
# Far above any id and secret, even with every character escaped.
_BASIC_MAX = 1024


class TokenAnswer(msgspec.Struct, frozen=True):
    """A token that was obtained."""

    access_token: str
    token_type: str
    expires_in: int


class Fault(NamedTuple):
    """An error of OAuth, the HTTP status that it comes with, and what to do."""

    error: str
    status: int
    sentence: str


class TokenRefusal(Enum):
    """Every reason why no token is given."""

    FORM_UNREADABLE = Fault(
        "invalid_request",
        400,
        "The request body is not a form: send multipart/form-data or "
        "application/x-www-form-urlencoded, each parameter once.",
    )
    GRANT_TYPE_MISSING = Fault("invalid_request", 400, f"Send grant_type={GRANT_TYPE}.")
    CREDENTIALS_TWICE = Fault(
        "invalid_request",
        400,
        "Send the id and secret of the client once: as HTTP Basic or in the form, not both.",
    )
    GRANT_TYPE_UNKNOWN = Fault(
        "unsupported_grant_type", 400, f"The only grant_type here is {GRANT_TYPE}."
    )
    SCOPE_UNKNOWN = Fault(
        "invalid_scope", 400, "There are no scopes here: leave scope out. The account decides."
    )
    # One sentence whatever is wrong, so that guessing reveals nothing.
    CLIENT_INVALID = Fault(
        "invalid_client", 401, "Client invalid: send the client_id and client_secret of a client."
    )
    METHOD_WRONG = Fault("invalid_request", 405, "Send a POST.")
    BODY_TIMED_OUT = Fault("invalid_request", 408, "The request body did not arrive whole in time.")
    BODY_TOO_LARGE = Fault("invalid_request", 413, "The request body is too large for this form.")
    TOO_MANY_TOKENS = Fault(
        "too_many_requests",
        429,
        "The client obtained too many tokens lately: use each until it expires.",
    )
    FAILED = Fault("server_error", 500, "It was not your fault: try again later.")
    STORE_AWAY = Fault("temporarily_unavailable", 503, "Try again in a moment.")
    NOT_LOOKED_UP = Fault("temporarily_unavailable", 503, "Too many ask at once: try again soon.")

    @property
    def is_unauthenticated(self) -> bool:
        """Whether any client can cause it without valid credentials, and it is no failure of the
        gateway."""
        return self.value.status < 500 or self is TokenRefusal.NOT_LOOKED_UP


class TokenRefusedError(Exception):
    """No token is given; the reason says why."""

    def __init__(self, reason: TokenRefusal, retry_after_s: int | None = None) -> None:
        super().__init__(reason.name)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Credentials(NamedTuple):
    """The id and secret that a client sent; empty if it sent none."""

    client_id: str
    client_secret: str


def read_request(authorization: str | None, content_type: str, body: bytes) -> Credentials:
    """The credentials of a request; raises TokenRefusedError if anything else in it is wrong."""
    try:
        form = read_form(content_type, body)
    except Refusal:
        raise TokenRefusedError(TokenRefusal.FORM_UNREADABLE) from None
    # A parameter without a value counts as left out.
    sent = {name: value for name, value in form.items() if value}
    if "grant_type" not in sent:
        raise TokenRefusedError(TokenRefusal.GRANT_TYPE_MISSING)
    if sent["grant_type"] != GRANT_TYPE:
        raise TokenRefusedError(TokenRefusal.GRANT_TYPE_UNKNOWN)
    if "scope" in sent:
        raise TokenRefusedError(TokenRefusal.SCOPE_UNKNOWN)
    return _credentials(authorization, sent)


def _credentials(authorization: str | None, sent: Mapping[str, str]) -> Credentials:
    in_form = Credentials(sent.get("client_id", ""), sent.get("client_secret", ""))
    if authorization is None:
        return in_form
    if in_form.client_secret:
        raise TokenRefusedError(TokenRefusal.CREDENTIALS_TWICE)
    basic = _basic(authorization)
    # Libraries that use Basic may repeat the client's id in the form, which is no second secret.
    if in_form.client_id not in ("", basic.client_id):
        raise TokenRefusedError(TokenRefusal.CREDENTIALS_TWICE)
    return basic


def _basic(authorization: str) -> Credentials:
    """The id and secret of the header, each of which is also urlencoded there."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic" or len(encoded) > _BASIC_MAX:
            raise ValueError
        text = base64.b64decode(encoded.strip(), validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise TokenRefusedError(TokenRefusal.CLIENT_INVALID) from None
    client_id, _, secret = text.partition(":")
    return Credentials(unquote_plus(client_id), unquote_plus(secret))
