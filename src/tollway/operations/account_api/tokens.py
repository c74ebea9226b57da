"""The account's tokens: list, make, rotate, revoke."""

from functools import partial
from typing import Annotated

import msgspec

from tollway.contract.addresses import NotNetworkError, networks
from tollway.contract.fields import Field, InvalidValueError, Text, Whole
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger import LedgerError
from tollway.ledger.entries import AMOUNT_MAX
from tollway.ledger.token_limits import ACCOUNT_API, NETWORKS_MAX, TokenLimits, read_limits
from tollway.ledger.token_makers import hold_tokens
from tollway.ledger.tokens import (
    LIFETIME_MAX_S,
    IssuedToken,
    Token,
    find_own_token,
    issue_token,
    list_own_tokens,
    replace_token,
    revoke_token,
)
from tollway.ledger.usage import midnight_s
from tollway.operations.account_api.operation import (
    AccountCall,
    AccountDependencies,
    Nothing,
    OneOf,
    check_unlimited,
    endpoint,
)
from tollway.operations.catalogue import BY_NAME

_DAY_S = 86_400
_TOKEN_ID = Field(Text(max_length=64), "The id of the token.")


class Tokens(msgspec.Struct, frozen=True):
    """The oldest first, without their texts. Of over 1,000, some that ended are left out."""

    tokens: list[Token]


class _Operations(Text, frozen=True):
    """Names of operations, with commas between them."""

    @property
    def expected(self) -> Phrase:
        listed = ", ".join([*BY_NAME, ACCOUNT_API])
        return Phrase(f"some of {listed}, with commas", f"以下若干项，用逗号分隔：{listed}")

    def read(self, raw: object) -> str:
        text = super().read(raw)
        if not {each.strip() for each in text.split(",")} <= {*BY_NAME, ACCOUNT_API}:
            raise InvalidValueError(Phrase("it names an unknown operation", "包含未知的接口名称"))
        return text


class _Networks(Text, frozen=True):
    """Addresses and networks, with commas between them."""

    @property
    def expected(self) -> Phrase:
        return Phrase(
            f"at most {NETWORKS_MAX} addresses like 203.0.113.7 or networks like 203.0.113.0/24",
            f"最多 {NETWORKS_MAX} 个地址或网段，如 203.0.113.7 或 203.0.113.0/24",
        )

    def read(self, raw: object) -> str:
        text = super().read(raw)
        try:
            found = networks(text.split(","))
        except NotNetworkError as error:
            meant = error.network
            if meant is not None:
                raise InvalidValueError(
                    Phrase(f"one should be {meant}", f"其中一个应写作 {meant}")
                ) from None
            raise InvalidValueError(
                Phrase("one is not an address or network", "包含无效的地址")
            ) from None
        if not 1 <= len(found) <= NETWORKS_MAX:
            raise InvalidValueError(
                Phrase(f"it has {len(found)} addresses", f"包含 {len(found)} 个地址")
            )
        return text


class MakeTokenRequest(msgspec.Struct, frozen=True):
    label: Annotated[str, Field(Text(max_length=100), "What the token is for.")]
    kind: Annotated[
        str, Field(OneOf(("live", "test")), "live, or test for the sandbox; live if left out.")
    ] = "live"
    expires_days: Annotated[
        int | None,
        Field(
            Whole(1, 3650),
            "After how many days it expires. Never later than the token that makes it.",
            is_limit=True,
        ),
    ] = None
    operations: Annotated[
        str | None,
        Field(
            _Operations(max_length=1000),
            "The operations it is for, with commas between them; account for this API.",
            is_limit=True,
        ),
    ] = None
    addresses: Annotated[
        str | None,
        Field(
            _Networks(max_length=2000),
            "The addresses or networks it may be used from, with commas between them.",
            is_limit=True,
        ),
    ] = None
    credits_per_day: Annotated[
        int | None,
        Field(Whole(0, AMOUNT_MAX), "How many credits it may spend in a day.", is_limit=True),
    ] = None
    calls_per_day: Annotated[
        int | None,
        Field(Whole(0, AMOUNT_MAX), "How many calls may succeed in a day.", is_limit=True),
    ] = None

    def limits(self) -> TokenLimits:
        return read_limits(
            (self.operations or "").split(","),
            (self.addresses or "").split(","),
            self.credits_per_day,
            self.calls_per_day,
            known=list(BY_NAME),
        )


class RotateTokenRequest(msgspec.Struct, frozen=True):
    token_id: Annotated[str, _TOKEN_ID]
    overlap_s: Annotated[
        int,
        Field(
            Whole(0, 30 * _DAY_S),
            "For how many seconds the old token still works; a day if left out.",
        ),
    ] = _DAY_S


class RevokeTokenRequest(msgspec.Struct, frozen=True):
    token_id: Annotated[str, _TOKEN_ID]


@endpoint("tokens", "The tokens of the account")
async def _list(parts: AccountDependencies, _: Nothing, call: AccountCall) -> Tokens:
    return Tokens(await list_own_tokens(parts.database, call.account_id, call.at_s))


@endpoint("tokens/make", "Make a token", Reason.ACCOUNT_LIMIT_REACHED, is_for_unlimited=True)
async def _make(
    parts: AccountDependencies, request: MakeTokenRequest, call: AccountCall
) -> IssuedToken:
    limits = request.limits()
    if request.kind == "test" and limits.is_capped:
        raise Refusal(
            Reason.PARAMETER_INVALID,
            field="kind",
            problem=Phrase("a test token spends nothing", "测试令牌不扣费"),
            expected=Phrase("live, or leave the caps out", "live，或不设上限"),
        )
    own, left_s = await _own(parts, call, call.token_id), _left_s(parts, call)
    lifetimes = [request.expires_days and request.expires_days * _DAY_S]
    if left_s is not None:
        # Otherwise a leaked token could be renewed forever.
        lifetimes.append(min(left_s, LIFETIME_MAX_S))
    try:
        return await issue_token(
            parts.database,
            parts.runtime,
            call.account_id,
            kind=request.kind,
            label=request.label,
            lifetime_s=min((each for each in lifetimes if each is not None), default=None),
            client_id=own.client_id,
            limits=limits,
            day_start_s=midnight_s(call.at_s, parts.zone),
            check_maker=partial(hold_tokens, [own.id]),
        )
    except LedgerError:
        # Meanwhile the caller's token was revoked, or its account closed.
        raise Refusal(Reason.CREDENTIAL_INVALID) from None


def _left_s(parts: AccountDependencies, call: AccountCall) -> int | None:
    """For how long the caller's token is still valid; None if it has no end. It may have expired
    since the call was admitted, while the body was held back."""
    if call.token_expires_at_s is None:
        return None
    left_s = call.token_expires_at_s - parts.runtime.at_s()
    if left_s <= 0:
        raise Refusal(Reason.CREDENTIAL_INVALID)
    return left_s


async def _own(parts: AccountDependencies, call: AccountCall, token_id: str) -> Token:
    found = await find_own_token(parts.database, call.account_id, token_id)
    if found is None:
        raise Refusal(Reason.ITEM_UNKNOWN, field="token_id")
    return found


@endpoint(
    "tokens/rotate",
    "Replace a token by a new one",
    Reason.ITEM_UNKNOWN,
    Reason.ACCOUNT_LIMIT_REACHED,
    is_for_unlimited=True,
)
async def _rotate(
    parts: AccountDependencies, request: RotateTokenRequest, call: AccountCall
) -> IssuedToken:
    _left_s(parts, call)
    old = await _own(parts, call, request.token_id)
    if old.state(call.at_s) != "valid":
        raise Refusal(Reason.ITEM_UNKNOWN, field="token_id")
    try:
        return await replace_token(
            parts.database,
            parts.runtime,
            old,
            request.overlap_s,
            day_start_s=midnight_s(call.at_s, parts.zone),
            not_after_s=call.token_expires_at_s,
            check_maker=partial(hold_tokens, [old.id, call.token_id]),
        )
    except LedgerError:
        # One of them was revoked meanwhile, or the old one rotated.
        if (await _own(parts, call, call.token_id)).revoked_at_s is not None:
            raise Refusal(Reason.CREDENTIAL_INVALID) from None
        raise Refusal(Reason.ITEM_UNKNOWN, field="token_id") from None


@endpoint(
    "tokens/revoke", "Revoke a token", Reason.ITEM_UNKNOWN, Reason.TOKEN_CANNOT_MAKE, changes=True
)
async def _revoke(
    parts: AccountDependencies, request: RevokeTokenRequest, call: AccountCall
) -> Token:
    if request.token_id != call.token_id:
        check_unlimited(call)
    found = await _own(parts, call, request.token_id)
    if found.revoked_at_s is not None:
        return found
    try:
        return await revoke_token(parts.database, parts.runtime, found.id)
    except LedgerError:
        # Another request was faster.
        return await _own(parts, call, found.id)


ENDPOINTS = (_list, _make, _rotate, _revoke)
