"""What an operator, or the account itself, changes about one account; and calls right after it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Protocol

import httpx

from tests.rights.calls import BALANCE, Kind, can_make, needs_of
from tests.rights.rights import RATE, SUCCESS, Account, DayCap, Right, Token
from tests.support.ledger import RUNTIME
from tollway.consent.grants import GrantRequest, give_grant, revoke_grant
from tollway.contract.operation import Operation
from tollway.demo.owners import SHOP, USER
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH
from tollway.ledger import LedgerError
from tollway.ledger.accounts import close_account, resume_account, suspend_account
from tollway.ledger.clients import add_client, revoke_client
from tollway.ledger.entries import amount_left, top_up
from tollway.ledger.permissions import Permission, add_permission, revoke_permission, set_closed
from tollway.ledger.token_limits import TokenLimits
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.database import Database

PLENTY = 1_000_000
_CAP = 12
# A low rate of calls in a second: a call of each node would be too many.
SLOW = 1
_MADE = ("plain", "capped", "for one operation", "test")
SCOPES = {"promotion": USER, "waybills": SHOP, "orders": SHOP}
Work = Callable[[], Awaitable[object]]


class Calling(Protocol):
    """What a changer uses of the campaign."""

    doors: Sequence[httpx.AsyncClient]
    opened: dict[str, Right]
    closing: asyncio.Lock
    kinds: Sequence[Kind]

    async def call(
        self, door: httpx.AsyncClient, kind: Kind, account: Account, token: Token
    ) -> object: ...


class Changer:
    """Takes away what an account may do, sees that every node refuses it, and gives it back."""

    def __init__(self, calling: Calling, database: Database, account: Account, seed: str) -> None:
        self._calling = calling
        self._database = database
        self._account = account
        self._kinds = calling.kinds
        self._chance = Random(seed)

    async def step(self) -> None:
        changes = (
            *(self._token, self._token, self._client, self._suspension, self._permission),
            *(self._consent, self._consent, self._funds, self._price, self._rate, self._closing),
        )
        # Every node knows what was changed before; otherwise it may refuse from memory.
        await self._see([each for each in self._kinds if each.name == BALANCE])
        await self._chance.choice(changes)()

    async def close(self) -> None:
        """The end of the account, for good."""
        account = self._account
        with account.base.valid.changing_to(False), account.test.valid.changing_to(False):
            await close_account(self._database, RUNTIME, account.id)
        for token in (account.base, account.test):
            await self._see(self._kinds, token)

    async def _suspension(self) -> None:
        account_id = self._account.id
        await self._interrupt(
            self._account.active,
            lambda: suspend_account(self._database, RUNTIME, account_id),
            lambda: resume_account(self._database, RUNTIME, account_id),
        )

    async def _permission(self) -> None:
        operation = self._operation()
        await self._interrupt(
            self._account.permitted[operation.name],
            lambda: revoke_permission(self._database, self._account.id, operation.name),
            lambda: self._permit(operation),
        )

    async def _closing(self) -> None:
        """Concerns all accounts, so one of them does it at a time."""
        operation = self._operation()
        async with self._calling.closing:
            await self._interrupt(
                self._calling.opened[operation.name],
                lambda: set_closed(self._database, operation.name, is_closed=True),
                lambda: set_closed(self._database, operation.name, is_closed=False),
            )

    async def _consent(self) -> None:
        scope = self._chance.choice(list(SCOPES))
        given_id = self._account.consent_ids[scope]
        await self._interrupt(
            self._account.consents[scope],
            lambda: revoke_grant(self._database, RUNTIME, given_id),
            lambda: give(self._database, self._account, scope),
        )

    async def _funds(self) -> None:
        """All that is left is taken back; more is sold later."""
        unit = self._chance.choice(list(self._account.funds))
        await self._interrupt(
            self._account.funds[unit],
            lambda: self._take_back(unit),
            lambda: sell(self._database, self._account, unit, PLENTY),
        )

    async def _take_back(self, unit: str) -> None:
        while left := await amount_left(self._database, self._account.id, unit):
            # Calls may have spent some of it meanwhile.
            with suppress(LedgerError):
                await sell(self._database, self._account, unit, -left)

    async def _price(self) -> None:
        operation = self._operation(but=PRODUCT_ANALYSIS)
        price = self._account.prices[operation.name]
        with price.changing_to(self._chance.randint(1, 5)):
            await self._permit(operation)
        await self._see(
            [each for each in self._kinds if each.operation is operation and each.is_paid]
        )

    async def _rate(self) -> None:
        operation = self._operation()
        rate = self._account.rates[operation.name]
        kinds = [each for each in self._kinds if each.operation is operation and each.is_paid]
        await self._see(kinds)
        for limit in (SLOW, RATE):
            with rate.changing_to(limit):
                await self._permit(operation)
            for _ in range(2):
                await self._see(kinds)

    async def _permit(self, operation: Operation) -> None:
        name = operation.name
        given = Permission(name, self._account.prices[name].now, self._account.rates[name].now)
        await add_permission(self._database, self._account.id, given)

    async def _token(self) -> None:
        """One is made and used, and then ends."""
        account, how = self._account, self._chance.choice(_MADE)
        token = await self._new_token(how)
        account.tokens.append(token)
        await self._see(self._kinds, token)
        if self._chance.random() < 0.4:
            await self._end(token, lambda: revoke_token(self._database, RUNTIME, token.id))
        elif self._chance.random() < 0.5:
            await self._end(token, lambda: self._post("revoke", {"token_id": token.id}))
        else:
            await self._rotate(token)
        account.tokens.remove(token)

    async def _end(self, token: Token, work: Work) -> None:
        with token.valid.changing_to(False):
            await work()
        await self._see(self._kinds, token)

    async def _rotate(self, token: Token) -> None:
        """The new one has what is left of the old one's cap."""
        made: dict[str, Any] = {}
        asked = {"token_id": token.id, "overlap_s": 0}

        async def rotate() -> None:
            made.update(await self._post("rotate", asked))

        await self._end(token, rotate)
        new = Token(made["text"], made["token"]["id"], token.is_test, token.operation, token.cap)
        self._account.tokens.append(new)
        await self._see(self._kinds, new)
        await self._end(new, lambda: revoke_token(self._database, RUNTIME, new.id))
        self._account.tokens.remove(new)

    async def _new_token(self, how: str) -> Token:
        """By the operator, or by the account itself."""
        limits: dict[str, Any] = {}
        operation, cap = None, None
        if how == "capped":
            cap = DayCap(_CAP)
            limits["credits_per_day"] = _CAP
        if how == "for one operation":
            operation = limits["operations"] = self._operation().name
        kind = "test" if how == "test" else "live"
        if self._chance.random() < 0.5:
            made = await self._post("make", {"label": how, "kind": kind, **limits})
            return Token(made["text"], made["token"]["id"], how == "test", operation, cap)
        if operation is not None:
            limits["operations"] = [operation]
        issued = await issue_token(
            self._database, RUNTIME, self._account.id, kind=kind, limits=TokenLimits(**limits)
        )
        return Token(issued.text, issued.token.id, how == "test", operation, cap)

    async def _client(self) -> None:
        """A client obtains a token, and ends with it."""
        added = await add_client(self._database, RUNTIME, self._account.id)
        form = {
            "grant_type": GRANT_TYPE,
            "client_id": added.client_id,
            "client_secret": added.client_secret,
        }
        answer = await self._door().post(TOKEN_PATH, data=form)
        token = Token(answer.json()["access_token"], "")
        self._account.tokens.append(token)
        await self._see(self._kinds, token)
        await self._end(token, lambda: revoke_client(self._database, RUNTIME, added.client_id))
        self._account.tokens.remove(token)
        answers = [await door.post(TOKEN_PATH, data=form) for door in self._calling.doors]
        assert {each.status_code for each in answers} == {401}

    async def _post(self, act: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What the account does by itself, with a token that does not end."""
        headers = {"Authorization": f"Bearer {self._account.base.text}"}
        answer = await self._door().post(f"/account/v1/tokens/{act}", json=asked, headers=headers)
        data: dict[str, Any] = answer.json()["data"]
        assert answer.headers.get("x-tollway-reason", SUCCESS) == SUCCESS, answer.text
        return data

    async def _interrupt(self, right: Right, end: Work, give_back: Work) -> None:
        kinds = [each for each in self._kinds if self._needs(each, right)]
        await self._see(kinds)
        with right.changing_to(False):
            await end()
        for _ in range(self._chance.randint(1, 3)):
            await self._see(kinds)
        with right.changing_to(True):
            await give_back()
        await self._see(kinds)

    def _needs(self, kind: Kind, right: Right) -> bool:
        found = needs_of(kind, self._account, self._account.base, self._calling.opened)
        return right in found.rights

    async def _see(self, kinds: Sequence[Kind], token: Token | None = None) -> None:
        """Calls through every door at once."""

        async def through(door: httpx.AsyncClient) -> None:
            own = [(kind, self._token_for(kind, token)) for kind in kinds]
            possible = [(kind, each) for kind, each in own if each is not None]
            if possible:
                kind, chosen = self._chance.choice(possible)
                await self._calling.call(door, kind, self._account, chosen)

        await asyncio.gather(*map(through, self._calling.doors))

    def _token_for(self, kind: Kind, token: Token | None) -> Token | None:
        if token is not None:
            return token if can_make(token, kind) else None
        return self._account.test if kind.is_test else self._account.base

    def _operation(self, but: Operation | None = None) -> Operation:
        return self._chance.choice([each for each in OPERATIONS if each is not but])

    def _door(self) -> httpx.AsyncClient:
        return self._chance.choice(self._calling.doors)


async def sell(database: Database, account: Account, unit: str, amount: int) -> None:
    """More of a unit, or less."""
    await top_up(database, RUNTIME, account.id, unit, amount)
    account.added[unit] += amount


async def give(database: Database, account: Account, scope: str) -> None:
    """A consent."""
    owner = SCOPES[scope]
    asked = GrantRequest(account.id, owner.kind, owner.id, scope)
    given = await give_grant(database, RUNTIME, asked, lifetime_s=None, granted_by="operator")
    account.consent_ids[scope] = given.id
