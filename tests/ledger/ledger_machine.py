"""The ledger's machine: it does anything in any order, and compares with the model after each step.

Accounts and tokens are those of a template that is copied for every example. A step never catches
what it did not expect, so every surprise is a finding.
"""

import asyncio
import shutil
from collections.abc import Awaitable
from itertools import count
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.ledger.ledger_calls import SHORT, UNHEARD, Asked, Crash, Outcome, Wanted
from tests.ledger.ledger_draws import (
    PRICES,
    START_MS,
    TICK_MS,
    CallDrawn,
    accounts,
    calls,
    crashes,
    units,
)
from tests.ledger.ledger_gateway import BooksGateway, CrashedError, Tamper
from tests.ledger.ledger_model import DAY_MS, LedgerModel
from tests.ledger.ledger_reading import breaches, compare
from tests.ledger.ledger_template import Template, Token
from tollway.ledger import LedgerError
from tollway.ledger.charges import Charge
from tollway.ledger.entries import top_up
from tollway.ledger.holds import capture, release, reserve
from tollway.ledger.idempotency import sweep_kept
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.operations.catalogue import BY_NAME

T = TypeVar("T")


class BooksMachine(RuleBasedStateMachine):
    """Top up, call, fail, hold, capture, release, revoke, crash, retry."""

    def __init__(self, runner: asyncio.Runner, template: Template, tamper: Tamper) -> None:
        super().__init__()
        self._runner = runner
        self.now_ms = START_MS
        self.runtime = Runtime(now_s=lambda: self.now_ms / 1000)
        self.account_ids = template.account_ids
        self.tokens = [[token] for token in template.tokens]
        self._numbers = count(1)
        self.unheard: list[Wanted] = []
        self.heard: list[tuple[Wanted, Outcome]] = []
        self.model = LedgerModel()
        for account_id in self.account_ids:
            self.model.prices |= {(account_id, name): price for name, price in PRICES.items()}
        path = template.path.with_name("example.db")
        shutil.copyfile(template.path, path)
        self.real = self.run(self._opened(path, tamper))

    async def _opened(self, path: Path, tamper: Tamper) -> BooksGateway:
        return BooksGateway(path, tamper)

    def run(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self._runner.run(run())

    def is_done(self, work: Awaitable[object]) -> bool:
        """Whether the ledger allows it."""
        try:
            self.run(work)
        except LedgerError:
            return False
        return True

    def wanted(self, drawn: CallDrawn) -> Wanted:
        account, token, (name, what), number, key = drawn
        tokens = self.tokens[account]
        text, token_id = tokens[token % len(tokens)]
        operation = BY_NAME[name]
        return Wanted(
            f"r{next(self._numbers)}",
            self.account_ids[account],
            text,
            token_id,
            name,
            operation.balance_unit,
            operation.may_be_free,
            self.now_ms,
            Asked(what, number),
            key,
        )

    def once_more(self, call: Wanted) -> Wanted:
        return call._replace(request_id=f"r{next(self._numbers)}", at_ms=self.now_ms)

    def ask(self, wanted: list[Wanted], crash: Crash | None = None) -> None:
        expected = self.model.answer(wanted, crash)
        if crash is not None:
            self.real.database.plan(crash)
        outcomes = self.run(self.real.answer(wanted))
        if crash is not None:
            # What is remembered of a balance may be more than it holds. Then the shortage is found
            # in the commit that crashed, and its caller hears nothing either.
            expected = [
                UNHEARD if (heard, was) == (UNHEARD, SHORT) else was
                for heard, was in zip(outcomes, expected, strict=True)
            ]
        assert outcomes == expected
        for call, outcome in zip(wanted, outcomes, strict=True):
            if outcome is UNHEARD:
                self.unheard.append(call)
            else:
                self.heard.append((call, outcome))
        if crash is not None:
            self.run(self.real.crash())

    @initialize(amount=st.integers(5, 120))
    def begin(self, amount: int) -> None:
        """Some accounts have credits, or little could happen."""
        for account, unit in ((0, "credits"), (1, "credits"), (0, "calls:product_analysis")):
            self.top_up(account=account, unit=unit, amount=amount)

    @rule(account=accounts, unit=units, amount=st.integers(-15, 40).filter(bool))
    def top_up(self, account: int, unit: str, amount: int) -> None:
        account_id = self.account_ids[account]
        expected = self.model.top_up(account_id, unit, amount, self.now_ms)
        work = top_up(self.real.database, self.runtime, account_id, unit, amount)
        assert self.is_done(work) == expected

    @rule(account=accounts, unit=units, amount=st.integers(1, 40), is_committed=st.booleans())
    def crash_in_top_up(self, account: int, unit: str, amount: int, is_committed: bool) -> None:
        account_id = self.account_ids[account]
        self.real.database.plan(Crash(1, is_committed))
        try:
            self.run(top_up(self.real.database, self.runtime, account_id, unit, amount))
        except CrashedError:
            self.run(self.real.crash())
        if is_committed:
            assert self.model.top_up(account_id, unit, amount, self.now_ms)

    @rule(drawn=calls)
    def call(self, drawn: CallDrawn) -> None:
        self.ask([self.wanted(drawn)])

    @rule(drawn=st.lists(calls, min_size=2, max_size=6))
    def calls_at_once(self, drawn: list[CallDrawn]) -> None:
        self.ask([self.wanted(each) for each in drawn])

    @precondition(lambda self: self.heard)
    @rule(which=st.integers(0, 50), copies=st.integers(1, 3))
    def repeat(self, which: int, copies: int) -> None:
        """The same request with the same key, once or several times at once."""
        call, _ = self.heard[-1 - which % len(self.heard)]
        keyed = call._replace(key=call.key or "k1")
        self.ask([self.once_more(keyed) for _ in range(copies)])

    @rule(drawn=st.lists(calls, min_size=1, max_size=4), crash=crashes)
    def crash_in_calls(self, drawn: list[CallDrawn], crash: Crash) -> None:
        """Or at rest, if the calls need no second commit."""
        self.ask([self.wanted(each) for each in drawn], crash)

    @precondition(lambda self: self.unheard)
    @rule(is_at_once=st.booleans())
    def retry(self, is_at_once: bool) -> None:
        """Callers repeat what they heard nothing of; without a key they would not dare to."""
        again = [self.once_more(call) for call in self.unheard if call.key is not None]
        self.unheard = []
        for batch in [again] if is_at_once else [[call] for call in again]:
            self.ask(batch)

    @rule(
        account=accounts, hold=st.integers(0, 20), state=st.sampled_from(("captured", "released"))
    )
    def end_hold(self, account: int, hold: int, state: str) -> None:
        """By any part that learns the outcome; also of a hold that has ended, or never was."""
        account_id = self.account_ids[account]
        ids = [*(hold_id for owner, hold_id in self.model.holds if owner == account_id), "none"]
        hold_id = ids[hold % len(ids)]
        expected = self.model.end_hold(account_id, hold_id, state, self.now_ms)
        end = capture if state == "captured" else release
        work = self.real.database.write(lambda tx: end(tx, account_id, hold_id, self.now_ms))
        assert self.is_done(work) == expected

    @precondition(lambda self: self.model.holds)
    @rule(hold=st.integers(0, 20))
    def hold_twice(self, hold: int) -> None:
        account_id, hold_id = list(self.model.holds)[hold % len(self.model.holds)]
        charge = Charge(account_id, "credits", 1, "waybills", "r0", "tok_x", self.now_ms)
        work = self.real.database.write(lambda tx: reserve(tx, charge, hold_id, self.now_ms))
        assert not self.is_done(work)

    @rule(account=accounts, token=st.integers(0, 3))
    def revoke(self, account: int, token: int) -> None:
        tokens = self.tokens[account]
        token_id = tokens[token % len(tokens)].id
        expected = token_id not in self.model.revoked
        self.model.revoked.add(token_id)
        assert self.is_done(revoke_token(self.real.database, self.runtime, token_id)) == expected

    @rule(account=accounts)
    def issue(self, account: int) -> None:
        account_id = self.account_ids[account]
        issued = self.run(issue_token(self.real.database, self.runtime, account_id))
        self.tokens[account].append(Token(issued.text, issued.token.id))

    @rule(account=accounts, name=st.sampled_from(tuple(PRICES)), price=st.integers(0, 6))
    def reprice(self, account: int, name: str, price: int) -> None:
        account_id = self.account_ids[account]
        self.model.prices[account_id, name] = price
        self.run(add_permission(self.real.database, account_id, Permission(name, price, None)))

    @rule(passed_ms=st.sampled_from((TICK_MS, DAY_MS // 2, DAY_MS - TICK_MS, DAY_MS)))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def sweep(self) -> None:
        self.model.sweep(self.now_ms)
        self.run(sweep_kept(self.real.database, self.now_ms))

    @invariant()
    def is_as_it_should_be(self) -> None:
        self.run(compare(self.real.database, self.model, self.heard))

    def teardown(self) -> None:
        try:
            assert self.run(breaches(self.real.database)) == []
        finally:
            self.run(self.real.close())
