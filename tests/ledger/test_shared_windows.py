"""The windows that the workers of one file share, by themselves."""

import os
from collections.abc import Callable
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.stores import Store
from tollway.ledger import shared_windows
from tollway.ledger.accounts import open_account
from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import ActResult, Charge, OverLimitError, ShortageError
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.entries import newest_entries, top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.shared_windows import SharedWindows, new_ring, post_counted
from tollway.store.database import Database, Transaction
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

RUNTIME = Runtime()
SECOND_NS = 1_000_000_000


def charges(count: int, account: str = "acc", limit: int | None = 10) -> list[Charge]:
    return [charge_of(account, "orders", limit)] * count


def charge_of(account: str, operation: str, limit: int | None) -> Charge:
    return Charge(account, "calls", 1, operation, "request", "token", 0, limit=limit)


def admit(windows: SharedWindows, batch: list[Charge], now_ns: int) -> int:
    """How many of a batch are within the limit; they are counted."""
    refused = windows.refuse(batch, now_ns)
    admitted = [charge for nth, charge in enumerate(batch) if nth not in refused]
    windows.add(admitted, now_ns)
    return len(admitted)


def test_workers_count_together_and_a_second_is_a_second() -> None:
    ring = new_ring()
    one, other = SharedWindows(ring), SharedWindows(ring)
    assert admit(one, charges(6), 0) == 6
    assert admit(other, charges(6), SECOND_NS // 2) == 4
    assert admit(one, charges(1), SECOND_NS - 1) == 0
    refused = one.refuse(charges(1), SECOND_NS - 1)[0]
    assert (refused.wait_s, refused.until_ns) == (1e-9, SECOND_NS)
    # The first six are a second old; the four of the other worker are not.
    assert admit(one, charges(20), SECOND_NS) == 6
    assert admit(other, charges(20), SECOND_NS + SECOND_NS // 2) == 4
    # Another account, and what is not counted.
    assert admit(other, charges(20, "another"), SECOND_NS + SECOND_NS // 2) == 10
    assert admit(other, charges(20, limit=None), SECOND_NS + SECOND_NS // 2) == 20


def test_calls_without_a_limit_take_no_place_of_others() -> None:
    windows = SharedWindows(new_ring())
    unlimited, limited = charges(20, limit=None), charges(11)
    assert windows.refuse(unlimited + limited, 0).keys() == {30}
    windows.add(unlimited, 0)
    assert admit(windows, limited, 0) == 10


def test_each_operation_of_an_account_has_a_window_of_its_own() -> None:
    windows = SharedWindows(new_ring())
    pairs = [("a", "bc"), ("ab", "c"), ("a", "c"), ("ab", "bc")]
    batch = [charge_of(account, operation, 1) for account, operation in pairs]
    assert admit(windows, batch + batch, 0) == 4
    assert admit(windows, batch, 1) == 0


def test_a_refused_call_may_come_back_when_the_oldest_of_its_second_is_over() -> None:
    windows = SharedWindows(new_ring())
    # All were admitted in this very batch.
    refused = windows.refuse(charges(11), 7)[10]
    assert (refused.wait_s, refused.until_ns) == (1, 7 + SECOND_NS)
    admit(windows, charges(4), 7)
    admit(windows, charges(6), 9)
    refused = windows.refuse(charges(1), 7 + SECOND_NS // 4)[0]
    assert (refused.wait_s, refused.until_ns) == (0.75, 7 + SECOND_NS)


def test_what_a_process_admits_counts_in_those_that_were_forked_and_the_other_way_round() -> None:
    ring = new_ring()
    here = SharedWindows(ring)
    assert admit(here, charges(3), 0) == 3
    if (pid := os.fork()) == 0:
        # Whatever happens, the fork runs no other test.
        try:
            os._exit(admit(here, charges(5), 1))
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 5
    assert admit(here, charges(5), 2) == 2


async def test_a_call_that_is_hardly_over_the_limit_waits_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments_ns = iter([0, SECOND_NS // 2, SECOND_NS - 1000, SECOND_NS, *[2 * SECOND_NS - 1] * 2])
    monkeypatch.setattr(shared_windows, "monotonic_ns", lambda: next(moments_ns))
    (charge,) = charges(1, limit=1)
    windows = SharedWindows(new_ring())
    batcher = ChargeBatcher(database, Metrics(), 60, lambda *_: None, windows)
    free = replace(charge, amount=0)
    await batcher.settle(free)
    with pytest.raises(OverLimitError) as refused:
        await batcher.settle(free)
    assert (refused.value.wait_s, refused.value.until_ns) == (0.5, SECOND_NS)
    # It is tried again a second after the first, and has its place.
    await batcher.settle(free)
    # When this one is tried again, it is still too early.
    with pytest.raises(OverLimitError):
        await batcher.settle(free)
    assert next(moments_ns, None) is None


@pytest.mark.parametrize("has_workers", [True, False], ids=["several", "one"])
def test_charges_name_their_limit_where_workers_count_together(
    store: Store, has_workers: bool
) -> None:
    async def counts(database: Database) -> bool:
        windows = SharedWindows(new_ring()) if has_workers else None
        return ChargeBatcher(database, Metrics(), 60, lambda *_: None, windows).counts_calls

    assert store.do(counts) is has_workers


def test_a_worker_that_comes_later_knows_the_last_second() -> None:
    ring = new_ring()
    assert admit(SharedWindows(ring), charges(10), 5) == 10
    assert admit(SharedWindows(ring), charges(10), 6) == 0
    assert admit(SharedWindows(ring), charges(10), 5 + SECOND_NS) == 10


def test_the_ring_begins_again_and_nothing_is_kept_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_windows, "_RECORDS", 16)
    ring = new_ring()
    one, other = SharedWindows(ring), SharedWindows(ring)
    for step in range(100):
        now_ns = step * SECOND_NS // 8
        assert admit(one, charges(1, f"account {step}", limit=1), now_ns) == 1
        assert admit(other, charges(1, f"account {step}", limit=1), now_ns) == 0
    assert len(one._windows) <= 9 and len(one._recent) <= 9


@pytest.mark.parametrize(("added", "known"), [(3, 3), (4, 4), (5, 4), (11, 4)])
def test_a_worker_that_is_behind_by_the_whole_ring_counts_what_is_in_it_once(
    monkeypatch: pytest.MonkeyPatch, added: int, known: int
) -> None:
    monkeypatch.setattr(shared_windows, "_RECORDS", 4)
    ring = new_ring()
    one, late = SharedWindows(ring), SharedWindows(ring)
    assert admit(late, charges(1, "another"), 0) == 1
    for moment in range(added):
        one.add(charges(1, limit=20), moment)
    assert admit(late, charges(20, limit=20), added) == 20 - known


def test_the_ring_has_place_for_a_busy_second_and_takes_little_memory() -> None:
    with new_ring() as ring:
        assert 100_000 * 32 < len(ring) < 10_000_000


@settings(max_examples=30)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from("ab"),
            st.integers(1, 4),
            # At most eight steps in a second, so that the ring has place for them.
            st.sampled_from([SECOND_NS // 8, SECOND_NS // 4, SECOND_NS]),
        ),
        max_size=40,
    )
)
def test_workers_that_admit_in_turns_never_admit_more_than_one_alone_would(
    steps: list[tuple[int, str, int, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shared_windows, "_RECORDS", 8)
        ring = new_ring()
        workers = [SharedWindows(ring) for _ in range(3)]
        admitted: list[tuple[int, str]] = []
        now_ns = 0
        for worker, account, asked, passed_ns in steps:
            now_ns += passed_ns
            last = [
                each for each in admitted if each[1] == account and now_ns - each[0] < SECOND_NS
            ]
            found = admit(workers[worker], charges(asked, account, limit=5), now_ns)
            assert found == min(asked, 5 - len(last))
            admitted += [(now_ns, account)] * found


def test_accounts_are_known_by_their_names_however_many_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_windows, "_KEYS_MAX", 2)
    windows = SharedWindows(new_ring())
    for account in ("a", "b", "c", "d"):
        assert admit(windows, charges(10, account), 0) == 10
        assert len(windows._keys) <= 2
    for account in ("a", "b", "c", "d"):
        assert admit(windows, charges(1, account), 1) == 0
        assert len(windows._keys) <= 2


def test_the_name_of_a_window_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def hash_(content: bytes, *, digest_size: int) -> blake2b:
        hashed.append(content)
        return blake2b(content, digest_size=digest_size)

    monkeypatch.setattr(shared_windows, "blake2b", hash_)
    windows = SharedWindows(new_ring())
    for moment in range(3):
        for account in ("a", "b"):
            assert admit(windows, charges(1, account), moment) == 1
    assert len(hashed) == 2


async def test_what_is_refused_or_fails_takes_no_place_and_what_is_posted_has_its_moment(
    database: Database, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_windows, "monotonic_ns", lambda: 5)
    monkeypatch.setattr(shared_windows, "time", lambda: 1_700_000_000.5)
    windows = SharedWindows(new_ring())
    paid = ActResult(b"answer", is_paid=True)

    async def act(_: Transaction, __: Charge) -> ActResult:
        return paid

    account = (await open_account(database, RUNTIME, new_name())).id
    await top_up(database, RUNTIME, account, "credits", 100)

    def owing(request: str, amount: int = 1) -> Charge:
        call = (account, "credits", amount, "orders", request, "token", 0)
        return Charge(*call, limit=3)

    async def post(*batch: Charge) -> ChargeResults:
        return await database.write(lambda tx: post_counted(windows, tx, batch))

    dear, unlimited = owing("dear", 101), replace(owing("act"), limit=None, act=act)
    first = await post(dear, owing("1"), owing("2"), owing("over"), unlimited)
    assert list(map(type, first.values())) == [ShortageError, ActResult, OverLimitError]
    assert list(first) == [0, 4, 3]
    # The one that was too dear was not admitted.
    second = await post(owing("3"), owing("over again"))
    assert list(second) == [1] and isinstance(second[1], OverLimitError)
    entries = await newest_entries(database, account, "credits", 10)
    posted = [(each.request_id, each.at_ms) for each in reversed(entries) if each.request_id]
    assert posted == [(name, 1_700_000_000_500) for name in ("1", "2", "act", "3")]
