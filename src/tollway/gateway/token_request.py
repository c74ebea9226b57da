"""From a request to the client's id and secret: in the form, or as HTTP Basic."""

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote_plus

from tollway.contract.parsing import read_form
from tollway.contract.reasons import Refusal
from tollway.gateway.oauth_contract import GRANT_TYPE, Unobtained


class UnobtainedError(Exception):
    """No token is given; the reason says why."""

    def __init__(self, reason: Unobtained, retry_after_s: int | None = None) -> None:
        super().__init__(reason.name)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Credentials(NamedTuple):
    """What a client says that it is; empty where it says nothing."""

    client_id: str
    client_secret: str


def read_request(authorization: str | None, content_type: str, body: bytes) -> Credentials:
    """The credentials of a request that asks for what there is here."""
    try:
        form = read_form(content_type, body)
    except Refusal:
        raise UnobtainedError(Unobtained.FORM_UNREADABLE) from None
    # What is sent without a value counts as left out.
    sent = {name: value for name, value in form.items() if value}
    if "grant_type" not in sent:
        raise UnobtainedError(Unobtained.GRANT_TYPE_MISSING)
    if sent["grant_type"] != GRANT_TYPE:
        raise UnobtainedError(Unobtained.GRANT_TYPE_UNKNOWN)
    if "scope" in sent:
        raise UnobtainedError(Unobtained.SCOPE_UNKNOWN)
    return _credentials(authorization, sent)


def _credentials(authorization: str | None, sent: Mapping[str, str]) -> Credentials:
    in_form = Credentials(sent.get("client_id", ""), sent.get("client_secret", ""))
    if authorization is None:
        return in_form
    if in_form.client_secret:
        raise UnobtainedError(Unobtained.CREDENTIALS_TWICE)
    basic = _basic(authorization)
    # Libraries that use Basic may name the client in the form too, which is no second secret.
    if in_form.client_id not in ("", basic.client_id):
        raise UnobtainedError(Unobtained.CREDENTIALS_TWICE)
    return basic


def _basic(authorization: str) -> Credentials:
    """The id and secret of the header, each of which is urlencoded there once more."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        text = base64.b64decode(encoded.strip(), validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        raise UnobtainedError(Unobtained.CLIENT_INVALID) from None
    client_id, _, secret = text.partition(":")
    return Credentials(unquote_plus(client_id), unquote_plus(secret))
