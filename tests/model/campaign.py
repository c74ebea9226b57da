"""The campaign: a gateway with a small world, and rounds of calls, pushes and changes.

Each round has a quiet part, in which one thing follows the other, so that every answer must be
exactly the model's; and one in which everything happens at once: each shop has its own source of
pushes, the claims have one, an operator changes things, and each account has a caller. What an
answer then shows must be what the model had at some moment between the request and the answer.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic

from tests.model.caller import Caller
from tests.model.calls import SHOPS
from tests.model.changing import Changer
from tests.model.client import Client
from tests.model.commands import RATE, Operator
from tests.model.comparing import MismatchError, check_export
from tests.model.expected.model import OPERATIONS
from tests.model.feeding import Feeder
from tests.model.world import World
from tests.support.gateway import Gateway

# A command's change is seen by the next call; by gateways on a shared database within a second.
_SEEN_AFTER_S = 1.0
# How often the operator changes something while everything happens at once.
_CHANGE_EVERY_S = 0.5
_CALLS_OF_A_CLOSED_ACCOUNT = 20
_ALL = (*OPERATIONS, "orders", "coupon_claims")
_MOSTLY_PAGES = (*OPERATIONS, *("orders",) * 5, *("coupon_claims",) * 2)
Work = Callable[[Client], None]


class Campaign:
    """A gateway, its model, and everything that happens to both."""

    def __init__(self, world: World, folder: Path, seed: int) -> None:
        self.store = world.copied_to(folder / "tollway.db")
        self.model = world.model(_SEEN_AFTER_S if self.store.is_shared else 0.0)
        self._operator = Operator(self.store)
        feeder = partial(Feeder, self.model, self._operator, world.secret, folder)
        self._shop_feeders = {each: feeder(f"{seed}-{each}") for each in SHOPS}
        self._claim_feeder = feeder(f"{seed}-claims")
        self._loader = feeder(f"{seed}-files")
        self._changer = Changer(self.model, self._operator, f"{seed}-changes")
        self._callers = [
            Caller(self.model, self._operator, account, f"{seed}-{number}", is_poor=number == 0)
            for number, account in enumerate(self.model.accounts)
        ]
        self._chance = Random(seed)
        self._gateway = self._started()

    @property
    def answers(self) -> int:
        """How many answers were compared. Acknowledgements and exports are not counted."""
        return sum(each.answers for each in self._callers)

    def figures(self) -> str:
        """What was done, for those who run it."""
        pushes = sum(each.pushes for each in (*self._shop_feeders.values(), self._claim_feeder))
        entries = sum(len(each.entries) for each in self.model.accounts)
        return f"{self.answers:,} answers, {pushes:,} pushes, {entries:,} entries of the ledger"

    def fill(self) -> None:
        """The first credits, and the first records of everything."""
        for caller in self._callers:
            caller.begin()
        self._loader.load_figures()
        self._loader.load_materials()
        with closing(self._client()) as client:
            for owner_id, feeder in self._shop_feeders.items():
                feeder.feed_orders(client, owner_id)
            self._claim_feeder.feed_claims(client)

    def be_quiet(self, steps: int) -> None:
        """One thing after the other."""
        with closing(self._client()) as client:
            for _ in range(steps):
                self._quiet_step(client)

    def _quiet_step(self, client: Client) -> None:
        dice = self._chance.random()
        if dice < 0.08:
            owner_id = self._chance.choice(SHOPS)
            self._shop_feeders[owner_id].feed_orders(client, owner_id)
        elif dice < 0.12:
            self._claim_feeder.feed_claims(client)
        elif dice < 0.135:
            self._change_something()
        else:
            self._chance.choice(self._callers).step(client, _ALL)

    def be_busy(self, answers: int) -> None:
        """Everything at once, until so many answers were compared."""
        enough, stop = self.answers + answers, threading.Event()
        failures: list[BaseException] = []

        def repeat(work: Work) -> None:
            try:
                with closing(self._client()) as client:
                    while not stop.is_set() and self.answers < enough:
                        work(client)
            except BaseException as failure:
                failures.append(failure)
            finally:
                stop.set()

        threads = [threading.Thread(target=repeat, args=[work]) for work in self._works(stop)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        for history in self.model.histories():
            history.forget(monotonic())

    def _works(self, stop: threading.Event) -> list[Work]:
        """What happens at once: each of these again and again, in a thread of its own."""

        def call(caller: Caller, client: Client) -> None:
            caller.step(client, _MOSTLY_PAGES)

        def push(owner_id: str, client: Client) -> None:
            self._shop_feeders[owner_id].feed_orders(client, owner_id)

        def change(_: Client) -> None:
            if not stop.wait(_CHANGE_EVERY_S):
                self._change_something()

        return [
            *(partial(call, caller) for caller in self._callers),
            *(partial(push, owner_id) for owner_id in SHOPS),
            self._claim_feeder.feed_claims,
            change,
        ]

    def _change_something(self) -> None:
        works = (self._loader.load_figures, self._loader.load_materials, self._changer.step)
        self._chance.choice(works)()

    def restart(self) -> None:
        assert self._gateway.stop() == 0
        self._gateway = self._started()

    def check(self) -> None:
        """The receipts that are still due, every account's ledger, and the audit."""
        with closing(self._client()) as client:
            for caller in self._callers:
                caller.look_up_all(client)
        for account in self.model.accounts:
            check_export(account, self._operator.export(account.name))
        # A server does so by itself, where it is allowed to; without it, it plans as for few rows.
        self.store.run("ANALYZE")
        self._operator.audit()

    def close_an_account(self) -> None:
        """For good: none of its tokens holds any more, and its ledger stays."""
        caller = self._callers[-1]
        with closing(self._client()) as client:
            caller.look_up_all(client)
            with ExitStack() as changes:
                for token in self.model.tokens.values():
                    if token.account is caller.account:
                        changes.enter_context(token.is_valid.changing_to(False))
                self._operator.close_account(caller.account.name)
            for _ in range(_CALLS_OF_A_CLOSED_ACCOUNT):
                caller.step(client, _ALL)

    def stop(self) -> None:
        assert self._gateway.stop() == 0

    def _started(self) -> Gateway:
        return Gateway(self.store, rate_limit=RATE, log_calls="none")

    def _client(self) -> Client:
        return Client(self._gateway.port)


@contextmanager
def open_campaign(world: World, folder: Path, seed: int) -> Iterator[Campaign]:
    """A campaign that names its seed with whatever goes wrong."""
    campaign = Campaign(world, folder, seed)
    try:
        campaign.fill()
        yield campaign
    except MismatchError as error:
        error.add_note(f"seed {seed}, after {campaign.answers:,} answers")
        raise
    finally:
        campaign.stop()
