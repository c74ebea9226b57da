"""From an id and a secret to a token.

A secret has 190 random bits and a checksum, as a token has, and is guarded as one is: what is
mistyped is refused without asking the database, what is wrong costs one read by key. Nobody is
locked out for wrong secrets, or whoever knows an id could lock its client out.
"""

import asyncio

from tollway.contract.oauth import TokenAnswer, Unobtained
from tollway.ledger.client_tokens import TooManyTokensError, obtain_token
from tollway.ledger.clients import recognise
from tollway.ledger.identity import World
from tollway.oauth.asking import Credentials, UnobtainedError
from tollway.store.database import Database, StoreError
from tollway.store.places import Places

# Each takes a commit: a client that asks a hundred times at once must not take every connection.
_AT_ONCE = 2
# Anybody can make up secrets that have to be looked up, of which calls must feel nothing.
_RECOGNISED_AT_ONCE = 2
_RECOGNISED_WAIT_S = 3.0


class Issuing:
    """Gives tokens to clients."""

    def __init__(self, database: Database, world: World, lifetime_s: int, timeout_s: float) -> None:
        self._database = database
        self._world = world
        self._lifetime_s = lifetime_s
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._strangers = Places(_RECOGNISED_AT_ONCE, "too many ask for a token at once")

    async def token_for(self, credentials: Credentials) -> TokenAnswer:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._issue(credentials)
        except TooManyTokensError as error:
            raise UnobtainedError(Unobtained.TOO_MANY_TOKENS, error.retry_after_s) from None
        except (StoreError, TimeoutError):
            raise UnobtainedError(Unobtained.STORE_AWAY) from None

    async def _issue(self, credentials: Credentials) -> TokenAnswer:
        async with self._strangers.taken(_RECOGNISED_WAIT_S):
            client = await recognise(self._database, *credentials)
        if client is None:
            raise UnobtainedError(Unobtained.CLIENT_INVALID)
        async with self._turns:
            issued = await obtain_token(self._database, self._world, client, self._lifetime_s)
        if issued is None:
            raise UnobtainedError(Unobtained.CLIENT_INVALID)
        return TokenAnswer(issued.text, "Bearer", self._lifetime_s)
