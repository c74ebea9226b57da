"""Callers of several nodes, while what their accounts may do is taken away and given back.

Each account is changed, and called through every door right before and right after that: first one
account after the other, then all at once, while another task of each calls all the time. Every
answer is judged by when the call was sent and answered. At the end the ledger must have what the
answers said, and nothing else.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import date
from math import inf
from random import Random

import httpx

from tests.model.expected.history import History, Span
from tests.rights.calls import KINDS, Caller, Kind, can_make, needs_of
from tests.rights.changes import PLENTY, SCOPES, SLOW, Changer, give, sell
from tests.rights.rights import RATE, SUCCESS, Account, Right, Token, most_in_a_second
from tests.support.all_operations import small_world
from tests.support.gateway import Gateway
from tests.support.ledger import CALLS, CREDITS, RUNTIME, new_caller
from tests.support.stores import Store
from tests.support.waybills import load_numbers
from tollway.audit.report import audit
from tollway.consent.owners import put_owner
from tollway.demo.owners import SHOP, USER
from tollway.ledger.entries import list_balances
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.waybills.demo import WP_CODE
from tollway.store.database import Database, Transaction
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

# Of the nodes: no limit but those of accounts, and on a busy machine no call is given up.
SETTINGS = {"rate_limit": RATE, "call_timeout_s": 60}
NOTIFIED = "ALTER TABLE version ENABLE TRIGGER version_changed"
UNNOTIFIED = "ALTER TABLE version DISABLE TRIGGER version_changed"
# Of a node that is never notified: a refusal may be from memory however long.
NEVER_S = inf
_TIMEOUT_S = 60
# A connection that is idle is not used again at the moment the gateway ends it.
_LIMITS = httpx.Limits(keepalive_expiry=2)
_FAULTS_MAX = 5
_FUNDS = {CREDITS: "CREDITS_USED_UP", CALLS: "CALLS_USED_UP"}


def world_of_rights(store: Store, today: date, numbers: int) -> Store:
    """The same store with what calls read, and numbers for waybills."""
    small_world(store, today)
    load_numbers(store, WP_CODE, (f"YT{6_000_000_000_000 + n}" for n in range(numbers)))

    async def work(database: Database) -> None:
        async def add(transaction: Transaction) -> None:
            for owner in (SHOP, USER):
                await put_owner(transaction, owner, "")

        await database.write(add)

    store.do(work)
    return store


class Campaign:
    """Accounts on some nodes, each called through doors: connections that reach all processes."""

    def __init__(
        self,
        store: Store,
        nodes: Sequence[Gateway],
        today: date,
        seed: int,
        *,
        known_after_s: float,
        doors_each: int = 1,
        kinds: Sequence[Kind] = KINDS,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._doors_each = doors_each
        self._seed = seed
        self._known_after_s = known_after_s
        self._caller = Caller(today)
        self.kinds = kinds
        self._is_over = False
        self.opened = {each.name: Right("OPERATION_CLOSED") for each in OPERATIONS}
        self.closing = asyncio.Lock()
        self.doors: list[httpx.AsyncClient] = []
        self.faults: list[str] = []
        self.reasons: Counter[str] = Counter()
        # How many answers were to calls that had to be refused.
        self.after_an_end = 0
        # How long the reason was over, of each refusal that was from memory.
        self.out_of_date_s: list[float] = []
        self._accounts: list[Account] = []
        # The calls that succeeded, while the account had a low rate for the operation.
        self._slow: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)

    def run(self, accounts: int, steps: int) -> None:
        """Makes so many changes to each account. Faults are noted, up to a few."""
        self._accounts = [self._new_account() for _ in range(accounts)]
        asyncio.run(self._run(steps))
        if not self.faults:
            self._check_ledger()

    def figures(self) -> str:
        return (
            f"seed {self._seed}: {self.reasons.total():,} answers, {self.reasons[SUCCESS]:,} "
            f"successes; {self.after_an_end:,} calls came after an end; "
            f"{len(self.out_of_date_s):,} refusals from memory, the longest "
            f"{max(self.out_of_date_s, default=0):.2f} s late; {self.faults or 'no faults'}"
        )

    async def _run(self, steps: int) -> None:
        database = open_database(self._store.url, Metrics())
        try:
            async with AsyncExitStack() as opened:
                for node in [each for each in self._nodes for _ in range(self._doors_each)]:
                    door = httpx.AsyncClient(
                        base_url=node.base_url, timeout=_TIMEOUT_S, limits=_LIMITS
                    )
                    self.doors.append(await opened.enter_async_context(door))
                for account in self._accounts:
                    await self._fill(database, account)
                await self._change_and_call(database, steps)
        finally:
            await database.close()

    async def _change_and_call(self, database: Database, steps: int) -> None:
        changers = [
            Changer(self, database, account, f"{self._seed} changes {number}")
            for number, account in enumerate(self._accounts)
        ]

        # One after the other, so that no call of another account has a node look before the first
        # that must be refused.
        for _ in range(steps // 2):
            for changer in changers:
                await self._step(changer)

        async def change(changer: Changer) -> None:
            for _ in range(steps // 2):
                await self._step(changer)

        async with asyncio.TaskGroup() as calling:
            for number, account in enumerate(self._accounts):
                chance = Random(f"{self._seed} calls {number}")
                calling.create_task(self._call_on(account, chance))
            try:
                await asyncio.gather(*map(change, changers))
                await changers[0].close()
            finally:
                self._is_over = True

    async def _step(self, changer: Changer) -> None:
        if len(self.faults) < _FAULTS_MAX:
            await changer.step()

    async def _call_on(self, account: Account, chance: Random) -> None:
        while not self._is_over:
            kind = chance.choice(self.kinds)
            tokens = [account.base, account.test, *account.tokens]
            token = chance.choice([each for each in tokens if can_make(each, kind)])
            await self.call(chance.choice(self.doors), kind, account, token)

    async def call(
        self, door: httpx.AsyncClient, kind: Kind, account: Account, token: Token
    ) -> None:
        """A call whose answer is judged."""
        needs = needs_of(kind, account, token, self.opened)
        span, outcomes = await self._caller.call(door, kind, account, token)
        for outcome in outcomes:
            self.reasons[outcome.reason] += 1
            self.after_an_end += needs.must_be_refused(span)
            if (late_s := needs.out_of_date_s(outcome.reason, span)) is not None:
                self.out_of_date_s.append(late_s)
            fault = needs.fault_of(outcome, span, self._known_after_s)
            if fault is not None:
                took_ms = (span.answered_s - span.sent_s) * 1000
                self.faults.append(f"{kind.name}, {took_ms:.0f} ms at {door.base_url}: {fault}")
            if outcome.reason != SUCCESS:
                account.refused.add(outcome.request_id)
            elif outcome.paid:
                assert kind.operation is not None
                unit = kind.operation.balance_unit
                account.paid[outcome.request_id] = (unit, outcome.paid)
                if token.cap is not None and unit == CREDITS:
                    token.cap.spent += outcome.paid
                    assert token.cap.spent <= token.cap.credits_max
                if kind.name == kind.operation.name and needs.is_slow(span):
                    self._slow[account.id, kind.name].append(span)

    def _new_account(self) -> Account:
        made = new_caller(self._store, operations=OPERATIONS, calls=0, rate_limit=RATE)
        issued = self._store.do(
            lambda database: issue_token(database, RUNTIME, made.account_id, kind="test")
        )
        account = Account(
            made.account_id,
            Token(made.token, made.token_id),
            Token(issued.text, issued.token.id, is_test=True),
        )
        for operation in OPERATIONS:
            account.permitted[operation.name] = Right("PERMISSION_MISSING")
            account.prices[operation.name] = History(operation.default_price)
            account.rates[operation.name] = History(RATE)
        account.consents = {scope: Right("NOT_AUTHORIZED") for scope in SCOPES}
        account.funds = {unit: Right(reason) for unit, reason in _FUNDS.items()}
        return account

    async def _fill(self, database: Database, account: Account) -> None:
        for scope in SCOPES:
            await give(database, account, scope)
        for unit in account.funds:
            await sell(database, account, unit, PLENTY)
        await self._caller.prepare(self.doors[0], account)

    def _check_ledger(self) -> None:
        """What was charged is what the answers said, and nothing was read for a refused call."""
        for account in self._accounts:
            rows = self._store.run(
                "SELECT request_id, unit, sum(-amount) FROM entry "
                f"WHERE account_id = '{account.id}' AND kind = 'charge' GROUP BY request_id, unit"
            )
            charged = {request_id: (unit, int(amount)) for request_id, unit, amount in rows}
            assert charged == account.paid
            reads = self._store.run(
                "SELECT request_id FROM consent_use JOIN consent ON consent.id = consent_id "
                f"WHERE account_id = '{account.id}'"
            )
            assert not account.refused & {request_id for (request_id,) in reads}
            self._check_balances(account)
        assert all(most_in_a_second(each) <= SLOW for each in self._slow.values())
        report = self._store.do(lambda database: audit(database, Runtime().at_ms()))
        assert report.breaches == []

    def _check_balances(self, account: Account) -> None:
        balances = self._store.do(lambda database: list_balances(database, account.id))
        left = {each.unit: each.amount for each in balances}
        paid: Counter[str] = Counter()
        for unit, amount in account.paid.values():
            paid[unit] += amount
        assert left == {unit: added - paid[unit] for unit, added in account.added.items()}
        assert not any(each.held for each in balances)
