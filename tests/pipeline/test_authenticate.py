"""What is kept of tokens: how many, and that an ended one is not looked up again. Which look-ups
wait for each other."""

import asyncio
import secrets
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.caller_cache import Caller
from tollway.ledger.token_format import mint, token_hash
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.pipeline import authenticate
from tollway.pipeline.authenticate import Authenticate, Recheck
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import Call

pytestmark = pytest.mark.sqlite


class SlowCallerCache:
    """A cache that every call has to refresh; it knows of some tokens that they have ended, and
    every other one is valid."""

    directory = 7

    def __init__(self, *ended: str) -> None:
        self._ended = {token_hash(each) for each in ended}
        self.looked_up: list[bytes] = []

    def refresh_at_once(self) -> bool:
        return False

    async def refresh(self) -> None:
        pass

    def is_ended(self, hashed: bytes) -> bool:
        return hashed in self._ended

    def known_caller(self, _: bytes) -> None:
        return None

    def end(self, token: str) -> None:
        self._ended.add(token_hash(token))

    async def caller(self, hashed: bytes) -> Caller | None:
        self.looked_up.append(hashed)
        await asyncio.sleep(0)
        return Caller("tok_x", "acc_x", False, None, {})


def stage_of(callers: SlowCallerCache) -> Authenticate:
    versions, side = SimpleNamespace(is_fresh=lambda: False, reading=1), SimpleNamespace()
    return Authenticate(*cast(Any, (callers, versions, side, side, ())))


def new_token() -> str:
    return mint("live", secrets.choice)


async def enter(stage: Authenticate, token: str, address: str = "192.0.2.1") -> Call:
    headers = {b"authorization": b"Bearer " + token.encode()}
    call = Call("", "POST", COUPON_CLAIMS.path, b"", headers, NO_BODY, 0.0, (address, 9))
    waiting = stage(call)
    assert waiting is not None
    await waiting
    return call


def test_a_token_that_is_known_to_have_ended_is_refused_without_a_query() -> None:
    ended, valid = new_token(), new_token()
    callers = SlowCallerCache(ended)
    stage = stage_of(callers)

    async def work() -> None:
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                await enter(stage, ended)
            assert refused.value.reason is Reason.CREDENTIAL_INVALID
        assert callers.looked_up == []
        assert (await enter(stage, valid)).account_id == "acc_x"

    asyncio.run(work())
    assert callers.looked_up == [token_hash(valid)]


def test_the_headers_that_are_kept_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticate, "_KNOWN_MAX", 3)
    stage = stage_of(SlowCallerCache())
    kept: list[int] = []

    async def work() -> None:
        for _ in range(7):
            await enter(stage, new_token())
            kept.append(len(stage._hashes))

    asyncio.run(work())
    assert kept == [1, 2, 3, 1, 2, 3, 1]


def test_a_new_caller_waits_for_no_crowd_of_tokens_from_another_address() -> None:
    callers, token = SlowCallerCache(), new_token()
    stage = stage_of(callers)

    async def work() -> None:
        crowd = (enter(stage, new_token(), f"2001:db8::{number:x}") for number in range(100))
        await asyncio.gather(*crowd, enter(stage, token))

    asyncio.run(work())
    assert callers.looked_up.index(token_hash(token)) < 5


async def test_a_token_that_ends_while_it_is_looked_up_is_looked_at_again_behind_the_body() -> None:
    callers, token = SlowCallerCache(), new_token()
    versions, side = SimpleNamespace(is_fresh=lambda: True, reading=1), SimpleNamespace()
    stage = Authenticate(*cast(Any, (callers, versions, side, side, ())))
    database = cast(Any, SimpleNamespace(is_shared=False))
    recheck = Recheck(stage, cast(Any, versions), database, lambda _: None)
    looking_up = asyncio.ensure_future(enter(stage, token))
    while not callers.looked_up:  # noqa: ASYNC110 - it can only be polled
        await asyncio.sleep(0)
    # It is revoked, and another call has read the versions since.
    callers.end(token)
    versions.reading = 2
    call = await looking_up
    call.body = cast(Any, b"it has come")
    refused = recheck(call)
    assert isinstance(refused, Refusal) and refused.reason is Reason.CREDENTIAL_INVALID


class GatheringDirectory(SlowCallerCache):
    """A callers whose first refresh ends at once; the others end when all of them have begun."""

    def __init__(self, others: int) -> None:
        super().__init__()
        self._others = others
        self._refreshed = 0
        self._all_begun = asyncio.Event()

    async def refresh(self) -> None:
        self._refreshed += 1
        if self._refreshed == 1:
            return
        if self._refreshed == 1 + self._others:
            self._all_begun.set()
        await self._all_begun.wait()


async def test_calls_that_queue_with_a_new_token_hold_no_slot_once_it_is_known() -> None:
    stage, token = stage_of(GatheringDirectory(others=99)), new_token()
    # Those that held the only slot of their address could never all be at it.
    await asyncio.gather(*(enter(stage, token) for _ in range(100)))


class EmptyDirectory(SlowCallerCache):
    """A cache of callers that has no token, and counts how many are looked up at once."""

    def __init__(self) -> None:
        super().__init__()
        self._now = self.most = 0

    async def caller(self, hashed: bytes) -> Caller | None:
        self._now += 1
        self.most = max(self.most, self._now)
        self.looked_up.append(hashed)
        await asyncio.sleep(0)
        self._now -= 1
        return None


def test_calls_with_an_invented_token_are_looked_up_two_at_a_time() -> None:
    callers, token = EmptyDirectory(), new_token()
    stage = stage_of(callers)

    async def work() -> None:
        calls = (enter(stage, token) for _ in range(100))
        for refused in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(refused, Refusal) and refused.reason is Reason.CREDENTIAL_INVALID

    asyncio.run(work())
    assert (len(callers.looked_up), callers.most) == (100, 2)
