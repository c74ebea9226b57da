"""Which queue a charge goes to, what posts its batch, and how large that is."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ledger.queue_bench import JOINT, act, charge
from tests.support.fake_time import FakeTimeLoop, in_fake_time
from tollway.ledger import charge_queue, charging
from tollway.ledger.charge_queue import Begin, CpuContention
from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import BusyError, Charge, ShortageError
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.shared_windows import SharedWindows, new_ring
from tollway.ledger.token_limits import DayCap
from tollway.store.database import StoreBusyError
from tollway.telemetry.metrics import Metrics

CAPPED = replace(charge("capped"), cap=DayCap(5, None, 0))


class Posted:
    """A database, and the functions that post to it: which got how many charges, and on what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.batches: list[tuple[str, int]] = []
        self.result: Exception | None = None
        self.commit = asyncio.Event()
        self.commit.set()
        self.windows: list[SharedWindows] = []
        self.stuck: list[set[str]] = []
        for name, target in (
            ("post_charges", "transaction"),
            ("post_unless_locked", self),
            ("post_busy", self),
        ):
            monkeypatch.setattr(charging, name, self._posting(name, target))
        counted = self._posting("post_counted", "transaction")

        async def post_counted(windows: SharedWindows, *given: Any) -> ChargeResults:
            self.windows.append(windows)
            return await counted(*given)

        monkeypatch.setattr(charging, "post_counted", post_counted)
        acts = self._posting("post_unless_stuck", self)

        async def post_unless_stuck(given: Any, begin: Begin, stuck: set[str]) -> ChargeResults:
            self.stuck.append(stuck)
            return await acts(given, begin())

        monkeypatch.setattr(charging, "post_unless_stuck", post_unless_stuck)

    async def write(self, work: Callable[[object], Awaitable[ChargeResults]]) -> ChargeResults:
        return await work("transaction")

    def _posting(
        self, name: str, target: object
    ) -> Callable[[object, Sequence[Charge]], Awaitable[ChargeResults]]:
        async def post(given: object, charges: Sequence[Charge]) -> ChargeResults:
            assert given is target
            self.batches.append((name, len(charges)))
            await self.commit.wait()
            is_refused = self.result is not None and name != "post_busy"
            return {nth: self.result for nth in range(len(charges)) if is_refused}  # type: ignore[misc]

        return post


class OnBatcher:
    """Runs a test on a batcher over such a database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.shortages: list[tuple[str, str, int]] = []

    def __call__(
        self,
        test: Callable[[ChargeBatcher, Posted], Awaitable[None]],
        *,
        is_shared: bool,
        windows: SharedWindows | None = None,
        wait_s: float = 0,
    ) -> None:
        loop = FakeTimeLoop()
        self._monkeypatch.setattr(charge_queue, "monotonic", loop.time)

        async def work() -> None:
            posted = Posted(self._monkeypatch, is_shared=is_shared)
            batcher = ChargeBatcher(
                posted,  # type: ignore[arg-type]
                Metrics(),
                10,
                lambda *shortage: self.shortages.append(shortage),
                windows,
                wait_s,
            )
            await test(batcher, posted)

        in_fake_time(loop, work())


@pytest.fixture
def on_batcher(monkeypatch: pytest.MonkeyPatch) -> OnBatcher:
    return OnBatcher(monkeypatch)


async def settle_all(batcher: ChargeBatcher, charges: Iterable[Charge]) -> None:
    await asyncio.gather(*(batcher.settle(each) for each in charges))


def test_on_a_shared_database_acts_and_capped_charges_have_a_queue_of_their_own(
    on_batcher: OnBatcher,
) -> None:
    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        acts = [charge("act", act), charge("joint", JOINT), CAPPED, replace(CAPPED, act=act)]
        for each in acts:
            await batcher.settle(each)
        assert posted.batches == [("post_unless_stuck", 1)] * 4
        await batcher.settle(charge("plain"))
        assert posted.batches[4:] == [("post_unless_locked", 1)]
        assert batcher.counts_calls

    on_batcher(test, is_shared=True)


def test_on_a_shared_database_busy_charges_wait_in_a_third_queue(on_batcher: OnBatcher) -> None:
    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        posted.result = BusyError()
        await settle_all(batcher, map(charge, map(str, range(513))))
        # Those of the first batch are posted while the second one is.
        assert sorted(posted.batches) == [
            *(("post_busy", size) for size in (1, 512)),
            *(("post_unless_locked", size) for size in (1, 512)),
        ]

    on_batcher(test, is_shared=True)


def test_on_a_shared_database_acts_of_accounts_whose_acts_wait_there_follow_them(
    on_batcher: OnBatcher,
) -> None:
    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        plain, other = (replace(charge(name), account_id=name) for name in ("plain", "other"))
        posted.result, posted.commit = BusyError(), asyncio.Event()
        waiting = [batcher.settle(each) for each in (plain, charge("act", act))]
        await asyncio.sleep(0)
        posted.commit.set()
        # Both wait for locks, of which the next act learns one.
        posted.commit = asyncio.Event()
        await asyncio.sleep(0.1)
        posted.result = None
        waiting.append(batcher.settle(replace(other, act=act)))
        await asyncio.sleep(0)
        posted.commit.set()
        await asyncio.gather(*waiting)
        assert [set(), {"acc"}] == posted.stuck

    on_batcher(test, is_shared=True)


@pytest.mark.parametrize(
    ("charges", "sizes"),
    [
        ([charge("joint", JOINT)] * 129, [128, 1]),
        ([charge("act", act)] * 17, [16, 1]),
        ([CAPPED] * 17, [16, 1]),
    ],
    ids=["joint", "alone", "capped"],
)
def test_on_a_shared_database_a_batch_has_few_acts_and_fewer_that_are_done_alone(
    on_batcher: OnBatcher, charges: list[Charge], sizes: list[int]
) -> None:
    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        await settle_all(batcher, charges)
        assert posted.batches == [("post_unless_stuck", size) for size in sizes]

    on_batcher(test, is_shared=True)


def test_in_a_file_all_charges_share_one_queue(on_batcher: OnBatcher) -> None:
    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        charges = [charge("plain"), CAPPED, charge("act", act)] * 171
        await settle_all(batcher, charges)
        assert posted.batches == [("post_charges", 512), ("post_charges", 1)]
        assert not batcher.counts_calls

    on_batcher(test, is_shared=False)


def test_workers_of_a_file_post_with_the_windows_that_they_share(on_batcher: OnBatcher) -> None:
    windows = SharedWindows(new_ring())

    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        await settle_all(batcher, [charge("plain"), charge("act", act)])
        assert posted.batches == [("post_counted", 2)]
        assert posted.windows == [windows]
        assert batcher.counts_calls

    on_batcher(test, is_shared=False, windows=windows)


@pytest.mark.parametrize(
    ("each", "waits"), [(charge("plain"), True), (charge("joint", JOINT), False)]
)
def test_only_plain_charges_wait_for_more(
    on_batcher: OnBatcher, monkeypatch: pytest.MonkeyPatch, each: Charge, waits: bool
) -> None:
    monkeypatch.setattr(CpuContention, "is_short", lambda _: True)

    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        posted.commit.clear()
        calls = [batcher.settle(each) for _ in range(2)]
        await asyncio.sleep(0)
        calls.append(batcher.settle(each))
        await asyncio.sleep(1)
        posted.commit.set()
        await calls[2]
        assert asyncio.get_running_loop().time() == (1.5 if waits else 1)

    on_batcher(test, is_shared=True, wait_s=0.5)


def test_a_charge_behind_a_slow_one_waits_for_the_timeout_and_a_shortage_is_reported(
    on_batcher: OnBatcher,
) -> None:
    async def test(batcher: ChargeBatcher, posted: Posted) -> None:
        posted.result = ShortageError(3)
        posted.commit.clear()
        first = batcher.settle(charge("first"))
        await asyncio.sleep(0)
        with pytest.raises(StoreBusyError):
            await batcher.settle(charge("behind"))
        assert asyncio.get_running_loop().time() == 10.25
        posted.commit.set()
        with pytest.raises(ShortageError):
            await first
        assert on_batcher.shortages == [("acc", "credits", 3)]

    on_batcher(test, is_shared=False)
