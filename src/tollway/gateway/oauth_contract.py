"""How a client obtains a token: OAuth 2 client credentials (RFC 6749, section 4.4).

Outside of the envelope: requests and answers have the shape that OAuth libraries expect.
"""

from enum import Enum
from typing import NamedTuple

import msgspec

TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
GRANT_TYPE = "client_credentials"


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


class Unobtained(Enum):
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
    # One sentence whatever is wrong, so that nothing is learned by trying.
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
