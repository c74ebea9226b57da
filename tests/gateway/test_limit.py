"""At most ten tokens a minute and client, over all nodes; then 429, and nothing is written."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clients import OwnClient, ask, new_client, obtain
from tests.support.gateway import Gateway
from tests.support.stores import Store
from tollway.gateway.oauth import TokenRefusal
from tollway.ledger import clients as client_tokens
from tollway.ledger.clients import TOKENS_MAX, WINDOW_S, TooManyTokensError, obtain_token, recognise
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import IssuedToken
from tollway.store.database import Database

BEGIN_S = 1_769_832_000


def obtained(store: Store, client: OwnClient) -> int:
    ((count,),) = store.run(f"SELECT count(*) FROM token WHERE client_id = '{client.id}'")
    return int(count)


def test_of_many_at_once_on_all_nodes_exactly_ten_are_given(
    own_store: Store, nodes: list[Gateway]
) -> None:
    client, other = new_client(own_store), new_client(own_store)
    with ThreadPoolExecutor(20) as pool:
        replies = [*pool.map(lambda nth: ask(nodes[nth % len(nodes)], client.form), range(60))]
    assert Counter(reply.status_code for reply in replies) == {200: TOKENS_MAX, 429: 50}
    assert obtained(own_store, client) == TOKENS_MAX
    fault = TokenRefusal.TOO_MANY_TOKENS.value
    for reply in replies:
        if reply.status_code == 429:
            expected = {"error": fault.error, "error_description": fault.sentence}
            assert reply.json() == expected
            assert 1 <= int(reply.headers["retry-after"]) <= WINDOW_S
            assert reply.headers["cache-control"] == "no-store"
    # Another client is another matter.
    obtain(nodes[0], other)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("limited") / "limited.db")


async def _obtain_at(database: Database, client: OwnClient, at_s: int) -> IssuedToken | None:
    found = await recognise(database, client.id, client.secret)
    assert found is not None
    return await obtain_token(database, Runtime(now_s=lambda: at_s), found, 3600)


@given(st.lists(st.sampled_from([0, 0, 0, 1, WINDOW_S - 1, WINDOW_S]), max_size=40))
@settings(max_examples=15)
def test_the_definition_holds(limited: Store, waits: list[int]) -> None:
    """Never more than ten in any minute, and no refusal while there were fewer."""
    client = new_client(limited)

    async def work(database: Database) -> None:
        now_s, given_at_s = BEGIN_S, list[int]()
        for wait_s in waits:
            now_s += wait_s
            lately = [at_s for at_s in given_at_s if now_s - at_s < WINDOW_S]
            try:
                await _obtain_at(database, client, now_s)
            except TooManyTokensError as error:
                assert len(lately) == TOKENS_MAX, "refused although fewer were given"
                assert error.retry_after_s == min(lately) + WINDOW_S - now_s
            else:
                assert len(lately) < TOKENS_MAX, "given over the limit"
                given_at_s.append(now_s)

    limited.do(work)


def test_a_clock_that_went_wrong_locks_no_client_out(limited: Store) -> None:
    client = new_client(limited)

    async def work(database: Database) -> None:
        for _ in range(TOKENS_MAX):
            await _obtain_at(database, client, BEGIN_S + 10**6)
        await _obtain_at(database, client, BEGIN_S)

    limited.do(work)


async def _eleventh_and_twelfth_together(
    database: Database, client: OwnClient, patch: pytest.MonkeyPatch
) -> None:
    """Two that have both seen nine tokens before either adds one."""
    for _ in range(TOKENS_MAX - 1):
        await _obtain_at(database, client, BEGIN_S)
    both, put = asyncio.Barrier(2), client_tokens.put_token

    async def put_together(*arguments: object, **named: object) -> IssuedToken:
        async with asyncio.timeout(10):
            await both.wait()
        return await put(*arguments, **named)  # type: ignore[arg-type]

    patch.setattr(client_tokens, "put_token", put_together)
    await asyncio.gather(*(_obtain_at(database, client, BEGIN_S) for _ in range(2)))


@pytest.mark.postgresql
def test_control_without_turns_there_would_be_eleven(
    limited: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_lock(*_: object) -> None:
        pass

    client = new_client(limited)
    monkeypatch.setattr(client_tokens, "one_at_a_time", no_lock)
    limited.do(lambda database: _eleventh_and_twelfth_together(database, client, monkeypatch))
    assert obtained(limited, client) == TOKENS_MAX + 1


def test_control_without_the_limit_the_check_would_see_it(
    limited: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_limit(*_: object) -> None:
        pass

    monkeypatch.setattr(client_tokens, "_check_limit", no_limit)
    with pytest.raises(AssertionError, match="given over the limit"):
        test_the_definition_holds.hypothesis.inner_test(limited, [0] * 11)  # type: ignore[attr-defined]
