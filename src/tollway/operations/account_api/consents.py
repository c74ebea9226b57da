"""The consents that the account has, and links to ask for them."""

import re
from typing import Annotated

import msgspec
from sqlalchemy import bindparam, select

from tollway.consent.grants import ID_PREFIX, Grant, GrantRequest
from tollway.consent.owners import credential_of
from tollway.contract.fields import Field, InvalidValueError, Text, Whole
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.runtime import id_pattern
from tollway.operations.account_api.operation import (
    NOT_OURS,
    AccountCall,
    AccountDependencies,
    OneOf,
    endpoint,
    from_page_before,
)
from tollway.operations.catalogue import OPERATIONS
from tollway.store.query import Query
from tollway.store.schema.consent import consent

_NEEDS = [each.consent for each in OPERATIONS if each.consent is not None]
_ID = id_pattern(ID_PREFIX)
_SCOPES = {need.scope: need.whose for need in _NEEDS}


class _PageStart(Text, frozen=True):
    """The id that a page ended with."""

    @property
    def expected(self) -> Phrase:
        return from_page_before("next_after")

    def read(self, raw: object) -> str:
        text = super().read(raw)
        if re.fullmatch(_ID, text) is None:
            raise InvalidValueError(NOT_OURS)
        return text

    def schema(self) -> dict[str, object]:
        return super().schema() | {"pattern": _ID}


class ConsentsRequest(msgspec.Struct, frozen=True):
    after: Annotated[
        str,
        Field(
            _PageStart(max_length=64),
            "Only consents after this one; for the next page.",
            other_spelling="next_after",
        ),
    ] = ""
    limit: Annotated[int, Field(Whole(1, 1000), "Consents per page; 100 if left out.")] = 100


class ConsentEntry(msgspec.Struct, frozen=True):
    """One consent; `holds` says whether it can be used now."""

    id: str
    owner_kind: str
    owner_id: str
    scope: str
    granted_at_s: int
    expires_at_s: int | None
    revoked_at_s: int | None
    holds: bool


class Consents(msgspec.Struct, frozen=True):
    """In the order of their ids. `next_after` is null on the last page."""

    consents: list[ConsentEntry]
    next_after: str | None


_PAGE = Query(
    lambda: (
        select(*(consent.c[name] for name in Grant.__struct_fields__))
        .where(consent.c.account_id == bindparam("of_account"), consent.c.id > bindparam("after"))
        .order_by(consent.c.id)
        .limit(bindparam("count"))
    )
)


@endpoint("consents", "The consents of shops and users")
async def _list(
    parts: AccountDependencies, request: ConsentsRequest, call: AccountCall
) -> Consents:
    # A long read: an account may have the grants of very many shops.
    rows = await parts.database.fetch_long(
        _PAGE,
        call.account_id,
        of_account=call.account_id,
        after=request.after,
        count=request.limit + 1,
    )
    entries = [_shown(Grant(*row), call.at_s) for row in rows[: request.limit]]
    is_last = len(rows) <= request.limit
    return Consents(entries, None if is_last else entries[-1].id)


def _shown(grant: Grant, now_s: float) -> ConsentEntry:
    *plain, _ = ConsentEntry.__struct_fields__
    return ConsentEntry(**{name: getattr(grant, name) for name in plain}, holds=grant.holds(now_s))


class LinkRequest(msgspec.Struct, frozen=True):
    scope: Annotated[str, Field(OneOf(tuple(_SCOPES)), "What the consent is to be for.")]
    owner_id: Annotated[str, Field(Text(max_length=64), "The shop, or the user.")]


class Link(msgspec.Struct, frozen=True):
    """Where the owner can approve, and until when, in seconds since 1970."""

    authorize_url: str
    expires_at: int


@endpoint(
    "consents/link", "A link that asks an owner for consent", Reason.OWNER_UNKNOWN, changes=True
)
async def _link(parts: AccountDependencies, request: LinkRequest, call: AccountCall) -> Link:
    kind = _SCOPES[request.scope]
    if await credential_of(parts.database, kind, request.owner_id) is None:
        raise Refusal(Reason.OWNER_UNKNOWN, field="owner_id")
    asked = GrantRequest(call.account_id, kind, request.owner_id, request.scope)
    link = parts.links.make(asked, call.at_s, is_sandbox=False)
    return Link(link.url, link.expires_at_s)


ENDPOINTS = (_list, _link)
