"""Calls that a page makes for its reader's account: through the same pipeline, with the same price,
limits and receipt as any other call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import TokenLimits
from tollway.ledger.tokens import PAGES, issue_token
from tollway.store.database import Database

_TOKEN_LIFETIME_S = 12 * 3600
_TOKEN_MARGIN_S = 60
_TOKENS_MAX = 1000

# The client address of these calls: page tokens are not limited to addresses.
_CLIENT = ("127.0.0.1", 0)

Make = Callable[
    [Operation, Mapping[str, Any], Sequence[tuple[bytes, bytes]], tuple[str, int]],
    Awaitable[tuple[dict[str, Any], dict[bytes, bytes]]],
]


# The account, whether live or test, and the operation.
_TokenKey = tuple[str, str, str]


class PageAnswer(NamedTuple):
    """The answer to a call. `paid_by` is the request whose receipt says what it cost."""

    code: int
    msg: str
    data: Any
    paid_by: str
    is_repetition: bool = False


class PageCalls:
    """Makes calls with a short-lived token that it issues to the account for the operation."""

    def __init__(self, database: Database, make: Make) -> None:
        self._database = database
        self._make = make
        self._tokens: dict[_TokenKey, tuple[str, float]] = {}
        # A lock disappears with the last task that uses it.
        self._locks: WeakValueDictionary[_TokenKey, asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self,
        runtime: Runtime,
        account_id: str,
        operation: Operation,
        values: Mapping[str, Any],
        *,
        kind: str,
        language: str,
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> PageAnswer:
        """One call, with a live or a test token; `key` is its idempotency key."""
        sent = {"accept-language": language, "idempotency-key": key, **(headers or {})}
        named = [(name.encode(), text.encode("ascii")) for name, text in sent.items() if text]
        whose = (account_id, kind, operation.name)
        call = partial(self._call, runtime, whose, operation, values, named)
        answer = await call()
        if answer.code == Reason.CREDENTIAL_INVALID.value.code:
            # An operator may have revoked the token.
            self._tokens.pop(whose, None)
            answer = await call()
        return answer

    async def _call(
        self,
        runtime: Runtime,
        whose: _TokenKey,
        operation: Operation,
        values: Mapping[str, Any],
        named: Sequence[tuple[bytes, bytes]],
    ) -> PageAnswer:
        token = await self._token(runtime, whose, operation)
        headers = [(b"authorization", b"Bearer " + token.encode()), *named]
        envelope, sent = await self._make(operation, values, headers, _CLIENT)
        earlier = sent.get(b"x-replay-of")
        paid_by = (earlier or sent.get(b"x-request-id", b"")).decode()
        code, msg, data = (envelope[name] for name in ("code", "msg", "data"))
        return PageAnswer(code, msg, data, paid_by, is_repetition=earlier is not None)

    async def _token(self, runtime: Runtime, whose: _TokenKey, operation: Operation) -> str:
        # If several calls need the token at once, the first one issues it.
        async with self._locks.setdefault(whose, asyncio.Lock()):
            text, ends_at_s = self._tokens.get(whose, ("", 0.0))
            if ends_at_s - _TOKEN_MARGIN_S > runtime.now_s():
                return text
            account_id, kind, _ = whose
            issued = await issue_token(
                self._database,
                runtime,
                account_id,
                kind=kind,
                label=PAGES,
                lifetime_s=_TOKEN_LIFETIME_S,
                client_id=PAGES,
                limits=TokenLimits(operations=[operation.charged_as]),
            )
            if len(self._tokens) >= _TOKENS_MAX:
                del self._tokens[next(iter(self._tokens))]
            self._tokens[whose] = (issued.text, float(issued.token.expires_at_s or 0))
            return issued.text
