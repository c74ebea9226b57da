"""A database, a carrier and clients that outlive one gateway after the other."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

from tests.killing.boundaries import Boundary, boundaries
from tests.killing.checking import breaches_at_any_time, breaches_when_settled
from tests.killing.clients import KEPT, KINDS, PLAIN, POOL, REMOTE, Clients
from tests.killing.restarts import Lives
from tests.support import forks
from tests.support.coupons import NOON_S, claim, load_claims
from tests.support.fake_carrier import ISSUE, FakeCarrier
from tests.support.figures import store_with_figures
from tests.support.ledger import new_caller
from tests.support.remote import connected_carrier, eventually
from tests.support.waybills import new_carrier, new_customer
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.product_analysis.demo import product_ids
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS

# The carrier's misbehaviour is over long before a message counts as lost.
LINK = {"deadline_ms": 500, "settle_after_s": 4}
PLENTY = 10_000_000
CLIENTS_OF_EACH_KIND = 3
# Of the pool: far more than these calls take.
NUMBERS = 5_000
# Between two calls of a client, while the gateway comes to a boundary. Those that take seconds to
# come are about the remote carrier: the others are only to be there.
PAUSE_S = 1.0
REMOTE_PAUSE_S = 0.2
LIVES_UNTIL_CHECK = 5
LONGEST_LIFE_S = 1.0
# By then every boundary must have been come to.
BOUNDARY_WITHIN_S = 120
_FAULTS = (
    "cut_before_commit",
    "cut_after_commit",
    "cut_in_answer",
    "stall_after_commit",
    "refuse",
    "delay",
)

# Waits for the moment at which something is killed.
Moment = Callable[[], Awaitable[None]]


class Campaign:
    """Lives of a gateway under load, and what is wrong after each."""

    def __init__(
        self,
        folder: Path,
        today: date,
        seed: int,
        sabotage: str | None,
        numbers: int,
        workers: int,
    ) -> None:
        self.seed = seed
        self._chance = random.Random(seed)
        self._store = store = store_with_figures(folder / "tollway.db", today)
        self._carrier = FakeCarrier(folder)
        load_claims(store, [claim(f"c{n}", NOON_S + n) for n in range(3)])
        reads = (PRODUCT_ANALYSIS, COUPON_CLAIMS)
        fast = {"calls": PLENTY, "credits_": PLENTY, "rate_limit": 1_000_000}
        self._callers = {
            PLAIN: new_caller(store, operations=reads, **fast),
            KEPT: new_caller(store, operations=reads, **fast),
            POOL: new_customer(store, credits_=PLENTY),
            REMOTE: new_customer(store, credits_=PLENTY),
        }
        self._wp_codes = {
            POOL: new_carrier(store, numbers),
            REMOTE: connected_carrier(store, self._carrier, **LINK),
        }
        question = {"product_id": product_ids(1)[0], "query_date": today.isoformat()}
        self._clients = Clients(self._callers, question, self._wp_codes, self._chance)
        self.notes = self._clients.notes
        self._lives = Lives(store, sabotage, workers)
        self._workers = workers

    def die_at(self, boundary: Boundary) -> list[str]:
        """A life that ends at a boundary; tells what is wrong at its beginning."""
        before = len(self._lives.deaths())
        self._misbehave()
        address = self._lives.begin(boundary)
        # What is wrong stays wrong: it is found a few lives later as well.
        found = [] if before % LIVES_UNTIL_CHECK else self._breaches()
        if found:
            return found
        asyncio.run(self._call_until_dead(address, PAUSE_S, REMOTE_PAUSE_S))
        self._lives.wait_for_end()
        assert self._lives.deaths()[before:] == [str(boundary)]
        return []

    def die_after(self, seconds: float, pause_s: float = 0) -> list[str]:
        """A life that is ended from outside. If several workers share it, one of them is killed
        before, while the others go on."""
        return self._be_killed(partial(asyncio.sleep, seconds), pause_s)

    def die_after_answers(self, count: int, pause_s: float) -> list[str]:
        """The same, however busy the machine is."""
        enough = len(self.notes.answers) + count
        return self._be_killed(partial(self._has_answered, enough), pause_s)

    async def _has_answered(self, count: int) -> None:
        while len(self.notes.answers) < count:  # noqa: ASYNC110 - answers come to many tasks
            await asyncio.sleep(0.02)

    def _be_killed(self, moment: Moment, pause_s: float) -> list[str]:
        self._misbehave()
        address = self._lives.begin()
        if found := self._breaches():
            return found

        def lose_a_worker() -> None:
            self._lives.kill_a_worker()
            # Perhaps no client was connected to it.
            self._clients.stop()

        async def at(moment: Moment, kill: Callable[[], None]) -> None:
            await moment()
            kill()

        async def run() -> None:
            calling = partial(self._call_until_dead, address, pause_s)
            if self._workers > 1:
                soon = partial(asyncio.sleep, self._chance.uniform(0, LONGEST_LIFE_S))
                await asyncio.gather(at(soon, lose_a_worker), calling())
            await asyncio.gather(at(moment, self._lives.kill), calling())

        asyncio.run(run())
        self._lives.wait_for_end()
        return []

    def settle(self) -> list[str]:
        """A life in peace: everything is asked for again, then nothing may be open or wrong."""
        self._carrier.misbehave("none")
        address = self._lives.begin()
        asyncio.run(self._clients.finish(address))
        eventually(self._open_holds, lambda count: count == 0)
        found = breaches_when_settled(
            self._store, self.notes, self._carrier.journal(), self._callers, self._wp_codes
        )
        self._lives.stop()
        self._lives.wait_for_end()
        return [*found, *self._audited()]

    def close(self) -> None:
        self._lives.close()
        self._carrier.stop()

    def _audited(self) -> list[str]:
        """What `tollway audit` says, if it does not find everything in order."""
        journal = str(self._carrier.journal_file)
        variables = {**os.environ, **self._store.settings}
        done = forks.run(
            *("tollway", "audit", "--journal", journal, "--carrier", self._wp_codes[REMOTE]),
            env=variables,
        )
        return [] if done.returncode == 0 else [done.stdout + done.stderr]

    def _breaches(self) -> list[str]:
        return breaches_at_any_time(self._store, self.notes, self._carrier.journal())

    async def _call_until_dead(
        self, address: str, pause_s: float, remote_pause_s: float | None = None
    ) -> None:
        pauses_s = dict.fromkeys(KINDS, pause_s)
        if remote_pause_s is not None:
            pauses_s[REMOTE] = remote_pause_s
        async with asyncio.timeout(BOUNDARY_WITHIN_S):
            await self._clients.call_until_cut_off(address, CLIENTS_OF_EACH_KIND, pauses_s)

    def _misbehave(self) -> None:
        """Between answers that are merely slow, every fault comes up in turn."""
        self._carrier.misbehave("none")
        for fault in self._chance.sample(_FAULTS, len(_FAULTS)):
            slow = self._chance.randrange(1, 3)
            self._carrier.misbehave("delay", message=ISSUE, delay_ms=20, times=slow)
            self._carrier.misbehave(fault, message=ISSUE, delay_ms=5, times=1)

    def _open_holds(self) -> int:
        ((count,),) = self._store.run("SELECT count(*) FROM hold WHERE state = 'held'")
        return count


@contextmanager
def open_campaign(
    folder: Path,
    today: date,
    seed: int,
    sabotage: str | None = None,
    numbers: int = NUMBERS,
    workers: int = 1,
) -> Iterator[Campaign]:
    campaign = Campaign(folder, today, seed, sabotage, numbers, workers)
    try:
        yield campaign
    finally:
        campaign.close()


def kill_at_every_boundary(campaign: Campaign, nth: int = 1) -> int:
    """Tells how many there were; each was really come to."""
    places = boundaries(nth)
    for boundary in places:
        _fail_on(campaign.die_at(boundary), f"seed {campaign.seed}, with death {boundary} next")
    _fail_on(campaign.settle(), f"seed {campaign.seed}, settled")
    return len(places)


def kill_at_moments(campaign: Campaign, moments_s: Iterable[float], pause_s: float = 0) -> None:
    for number, moment_s in enumerate(moments_s, 1):
        found = campaign.die_after(moment_s, pause_s)
        _fail_on(found, f"seed {campaign.seed}, before kill {number}")
    _fail_on(campaign.settle(), f"seed {campaign.seed}, settled")


def kill_after_answers(campaign: Campaign, counts: Iterable[int], pause_s: float) -> None:
    for number, count in enumerate(counts, 1):
        found = campaign.die_after_answers(count, pause_s)
        _fail_on(found, f"seed {campaign.seed}, before kill {number}")


def random_moments_s(kills: int, seed: int) -> list[float]:
    """After which time of a life under load to kill it."""
    chance = random.Random(seed)
    return [chance.uniform(0, LONGEST_LIFE_S) for _ in range(kills)]


def _fail_on(breaches: list[str], when: str) -> None:
    assert not breaches, "\n".join((when, *breaches))
