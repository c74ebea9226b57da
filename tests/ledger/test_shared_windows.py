"""The windows that the workers of one file share, by themselves."""

import pytest
from msgspec.structs import replace

from tests.support.stores import Store
from tollway.ledger import shared_windows
from tollway.ledger.charges import Charge, OverLimitError
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.shared_windows import SharedWindows, new_ring
from tollway.store.database import Database
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

SECOND_NS = 1_000_000_000


def charges(count: int, account: str = "acc", limit: int | None = 10) -> list[Charge]:
    one = Charge(account, "calls", 1, "orders", "request", "token", 0, limit=limit)
    return [one] * count


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


def test_a_call_that_is_hardly_over_the_limit_waits_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments_ns = iter([0, SECOND_NS // 2, SECOND_NS - 1000, SECOND_NS, *[2 * SECOND_NS - 1] * 2])
    monkeypatch.setattr(shared_windows, "monotonic_ns", lambda: next(moments_ns))
    (charge,) = charges(1, limit=1)

    async def work(database: Database) -> None:
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

    store.do(work)


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


def test_accounts_are_known_by_their_names_however_many_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_windows, "_KEYS_MAX", 2)
    windows = SharedWindows(new_ring())
    for account in ("a", "b", "c", "d"):
        assert admit(windows, charges(10, account), 0) == 10
    for account in ("a", "b", "c", "d"):
        assert admit(windows, charges(1, account), 1) == 0
    assert len(windows._keys) <= 2
