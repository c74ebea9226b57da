"""Answers kept for repetition, by themselves: for whom, for how long, and who may replace them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from tests.support.in_loop import InLoop
from tests.support.stores import Store
from tollway.ledger.charges import ActResult, Charge, IdempotencyKey
from tollway.ledger.idempotency import (
    KeptAnswer,
    find_kept,
    free_key,
    keep,
    kept_keys,
    oldest_kept_s,
    sweep_kept,
)
from tollway.store import small_commits
from tollway.store.database import Database

# Long ago: where the clock of a server counts too, all of this has expired by it.
AT_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SAME, OTHER = b"\1same", b"\1other"
DONE = ActResult(b"answer", is_paid=True)
HELD = ActResult(b"", is_paid=False, is_held=True)


@pytest.fixture
def own_store(tmp_path: Path) -> Store:
    """An empty database for one test alone: what is swept, and what is oldest, is so for all."""
    return Store(tmp_path / "kept.db")


def key_of(name: str, fingerprint: bytes = SAME) -> IdempotencyKey:
    return IdempotencyKey(
        name, fingerprint, fingerprint.__eq__, lambda data: b"sealed " + data, None
    )


class Keys(NamedTuple):
    """The keys of one account."""

    database: Database
    account_id: str

    async def keep(
        self,
        key: str,
        request_id: str = "r1",
        at_ms: int = AT_MS,
        result: ActResult = DONE,
        reserved_by: str | None = None,
    ) -> bool:
        charge = Charge(self.account_id, "credits", 1, "orders", request_id, "tok_x", at_ms)
        its_key = replace(key_of(key), reserved_by=reserved_by)
        return await self.database.write(
            lambda transaction: keep(transaction, charge, its_key, result)
        )

    async def free(self, key: str, request_id: str) -> None:
        await self.database.write(
            lambda transaction: free_key(transaction, self.account_id, key, request_id)
        )

    async def find(self, key: str, now_ms: int = AT_MS) -> KeptAnswer | None:
        return await find_kept(self.database, self.account_id, key, now_ms)

    async def last(self, prefix: str, now_ms: int = AT_MS, most: int = 100) -> list[str]:
        kept = await kept_keys(self.database, self.account_id, prefix, now_ms, most)
        return [key for key, _, _ in kept]


@pytest.fixture
def keys(store: Store, new_name: Callable[[], str]) -> InLoop[Keys]:
    """Of an account that has no keys yet."""
    return InLoop(lambda test: store.do(lambda database: test(Keys(database, new_name()))))


def answer_of(request_id: str) -> KeptAnswer:
    return KeptAnswer(request_id, SAME, b"sealed answer")


async def test_an_answer_is_found_by_its_account_and_key_alone(keys: Keys) -> None:
    other = Keys(keys.database, f"{keys.account_id} other")
    assert await keys.keep("a", "r1")
    assert await keys.keep("b", "r2")
    assert await other.keep("a", "r3")
    assert await keys.find("a") == answer_of("r1")
    assert await keys.find("b") == answer_of("r2")
    assert await other.find("a") == answer_of("r3")
    assert await other.find("b") is None


async def test_an_answer_is_found_for_a_day_and_then_replaced_by_another(keys: Keys) -> None:
    await keys.keep("k", "first")
    expires_ms = AT_MS + DAY_MS
    assert await keys.find("k", expires_ms - 1) == answer_of("first")
    assert not await keys.keep("k", "second", expires_ms - 1)
    assert await keys.find("k", expires_ms - 1) == answer_of("first")
    assert await keys.find("k", expires_ms) is None
    assert await keys.keep("k", "second", expires_ms)
    # All of it is the second's, also when it expires.
    assert await keys.find("k", expires_ms + DAY_MS - 1) == answer_of("second")
    assert await keys.find("k", expires_ms + DAY_MS) is None


async def test_an_answer_is_kept_as_that_of_the_request_that_paid(keys: Keys) -> None:
    repeated = ActResult(b"answer", is_paid=False, replay_of="earlier")
    await keys.keep("k", "later", result=repeated)
    assert await keys.find("k") == answer_of("earlier")


async def test_a_reserved_key_is_taken_for_all_but_the_same_request(keys: Keys) -> None:
    assert await keys.keep("k", "r1", result=HELD)
    reserved = await keys.find("k")
    assert reserved == KeptAnswer("r1", SAME, b"")
    assert reserved.is_reserved_for(key_of("k", SAME))
    assert not reserved.is_reserved_for(key_of("k", OTHER))
    # What has an answer is reserved for none.
    assert not answer_of("r1").is_reserved_for(key_of("k", SAME))
    assert not answer_of("r1").is_reserved_for(key_of("k", OTHER))


async def test_only_who_knows_which_request_reserved_a_key_replaces_it_by_an_answer(
    keys: Keys,
) -> None:
    await keys.keep("k", "r1", result=HELD)
    assert not await keys.keep("k", "r2", reserved_by=None)
    assert not await keys.keep("k", "r2", reserved_by="r2")
    assert await keys.find("k") == KeptAnswer("r1", SAME, b"")
    # A call that waited for the first stores the answer of that one.
    repeated = ActResult(b"answer", is_paid=False, replay_of="r1")
    assert await keys.keep("k", "r2", result=repeated, reserved_by="r1")
    assert await keys.find("k") == answer_of("r1")
    assert not await keys.keep("k", "r1", result=HELD, reserved_by="r1")
    assert await keys.find("k") == answer_of("r1")


async def test_a_reserved_key_is_freed_by_the_request_that_reserved_it(keys: Keys) -> None:
    other = Keys(keys.database, f"{keys.account_id} other")
    for each in (keys, other):
        await each.keep("k", "r1", result=HELD)
        await each.keep("another", "r1", result=HELD)
    await keys.free("k", "r2")
    assert await keys.find("k") is not None
    await keys.free("k", "r1")
    assert await keys.find("k") is None
    assert await keys.find("another") is not None
    assert await other.find("k") is not None


async def test_a_key_with_an_answer_is_not_freed(keys: Keys) -> None:
    await keys.keep("k", "r1")
    await keys.free("k", "r1")
    assert await keys.find("k") == answer_of("r1")


async def test_keys_are_listed_by_how_they_begin_the_last_first(keys: Keys) -> None:
    other = Keys(keys.database, f"{keys.account_id} other")
    for key in ("page:2", "page", "page:~", "pag", "page:1", "pagf", "paz"):
        await keys.keep(key, f"of {key}")
    await other.keep("page:3")
    assert await keys.last("page") == ["page:~", "page:2", "page:1", "page"]
    assert await keys.last("page", most=2) == ["page:~", "page:2"]
    assert await keys.last("page:1") == ["page:1"]
    assert await keys.last("none") == []
    (listed,) = await kept_keys(keys.database, keys.account_id, "page:1", AT_MS, 100)
    assert listed == ("page:1", "of page:1", AT_MS)


async def test_keys_are_listed_until_they_expire(keys: Keys) -> None:
    await keys.keep("k1", at_ms=AT_MS)
    await keys.keep("k2", at_ms=AT_MS + 1)
    assert await keys.last("k", AT_MS + DAY_MS - 1) == ["k2", "k1"]
    assert await keys.last("k", AT_MS + DAY_MS) == ["k2"]


async def test_the_age_of_the_oldest_answer_is_in_seconds_and_nothing_without_one(
    own_database: Database,
) -> None:
    keys = Keys(own_database, "account")
    assert await oldest_kept_s(own_database, AT_MS) == 0
    await keys.keep("older", at_ms=AT_MS)
    await keys.keep("newer", at_ms=AT_MS + 2500)
    assert await oldest_kept_s(own_database, AT_MS + 2500) == 2.5
    # Another node's clock may be ahead.
    assert [await oldest_kept_s(own_database, AT_MS - ago) for ago in (0, 7000)] == [0, 0]


async def test_what_has_expired_is_swept_and_nothing_else(own_database: Database) -> None:
    one, other = Keys(own_database, "one"), Keys(own_database, "other")
    await one.keep("k", at_ms=AT_MS - 1)
    await one.keep("reserved", at_ms=AT_MS, result=HELD)
    await other.keep("k", at_ms=AT_MS + 1)
    assert await sweep_kept(own_database, AT_MS + DAY_MS - 2) == 0
    assert await sweep_kept(own_database, AT_MS + DAY_MS) == 2
    assert await one.last("") == []
    assert await other.last("") == ["k"]


def test_one_sweep_drops_so_many_and_leaves_the_rest_to_the_next(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_commits, "PIECE", 1)
    monkeypatch.setattr(small_commits, "_PAUSE_MAX_S", 0)
    blob = "'\\x01'" if own_store.is_shared else "x'01'"
    rows = ", ".join(f"('a', 'k{nth}', 'r', {AT_MS}, {blob}, {blob})" for nth in range(203))
    own_store.run(
        "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
        f"VALUES {rows}"
    )
    swept = [own_store.do(lambda database: sweep_kept(database, AT_MS + DAY_MS)) for _ in range(2)]
    assert swept == [200, 3]


@pytest.mark.postgresql
async def test_a_sweep_leaves_out_what_another_transaction_has_locked(
    own_database: Database,
) -> None:
    keys = Keys(own_database, "account")
    await keys.keep("locked", result=HELD)
    await keys.keep("k")

    async def while_locked(transaction: Any) -> None:
        await free_key(transaction, "account", "locked", "r1")
        assert await sweep_kept(own_database, AT_MS + DAY_MS) == 1

    await own_database.write(while_locked)
    assert await keys.last("") == []
