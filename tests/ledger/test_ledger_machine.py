"""Some examples of the ledger's machine, and proof that it notices faults."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

import apsw
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from sqlalchemy import bindparam, select, text

from tests.ledger.ledger_campaign import run_campaign, run_control
from tests.ledger.ledger_machine import BooksMachine
from tollway.ledger import charge_transaction, holds
from tollway.ledger.charges import ActResult, Charge, IdempotencyKey
from tollway.ledger.holds import Hold
from tollway.store.database import Database, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import balance, hold

T = TypeVar("T")
# Far more than it takes: which examples are made also depends on the modules that were loaded.
ENOUGH = 300
# Its crashes are copies of the files, and so of the embedded engine alone.
pytestmark = pytest.mark.sqlite


def test_the_ledger_is_as_it_should_be_whatever_happens() -> None:
    run_campaign(examples=25)


class Tampered:
    """A database that does something else when it writes."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.fetch_one = inner.fetch_one
        self.fetch_all = inner.fetch_all
        self.fetch_long = inner.fetch_long
        self.is_shared = inner.is_shared
        self.change_mark, self.record_mark = inner.change_mark, inner.record_mark


class _GivenUpError(Exception):
    """Raised in a transaction so that it is rolled back."""


class ForgetsSometimes(Tampered):
    """Every ninth commit of a life is acknowledged, and not done."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner)
        self.numbers = count(1)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        if next(self.numbers) % 9:
            return await self.inner.write(work)
        results: list[T] = []

        async def given_up(transaction: Transaction) -> None:
            results.append(await work(transaction))
            raise _GivenUpError

        try:
            await self.inner.write(given_up)
        except _GivenUpError:
            return results[0]
        raise AssertionError("it was to be given up")


def test_a_commit_that_is_skipped_turns_it_red() -> None:
    with pytest.raises(AssertionError):
        run_control(ENOUGH, ForgetsSometimes)


class Unchecked(Tampered):
    """The database's own check of the balance is off."""

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def unchecked(transaction: Transaction) -> T:
            await transaction.fetch_all(Query(text("PRAGMA ignore_check_constraints = ON")))
            return await work(transaction)

        return await self.inner.write(unchecked)


class Poor(BooksMachine):
    """Few calls are paid for, so that several at once often want more than there is."""

    @initialize(amount=st.just(6))
    def begin(self, amount: int) -> None:
        self.top_up(account=0, unit="credits", amount=amount)


def test_a_debit_without_its_condition_turns_it_red(monkeypatch: pytest.MonkeyPatch) -> None:
    unconditional = (
        balance.update()
        .where(
            balance.c.account_id == bindparam("of_account"), balance.c.unit == bindparam("of_unit")
        )
        .values(
            amount=balance.c.amount - bindparam("total"),
            entries=balance.c.entries + bindparam("count"),
            posted=balance.c.posted + bindparam("total"),
        )
        .returning(balance.c.amount, balance.c.entries)
    )
    monkeypatch.setattr(charge_transaction, "TAKE", Query(unconditional))
    with pytest.raises(AssertionError):
        run_control(ENOUGH, Unchecked, Poor)


def test_an_answer_that_is_not_kept_turns_it_red(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep_nothing(*_: object) -> bool:
        return True

    monkeypatch.setattr(charge_transaction, "keep", keep_nothing)
    with pytest.raises(AssertionError):
        run_control(ENOUGH)


def test_a_key_that_is_not_reserved_turns_it_red(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = charge_transaction.keep

    async def keep_answers_only(
        transaction: Transaction,
        charge: Charge,
        idempotency_key: IdempotencyKey,
        result: ActResult,
    ) -> bool:
        if not result.is_success:
            return True
        return await keep(transaction, charge, idempotency_key, result)

    monkeypatch.setattr(charge_transaction, "keep", keep_answers_only)
    with pytest.raises(AssertionError):
        run_control(ENOUGH)


def test_a_key_that_is_not_freed_turns_it_red(monkeypatch: pytest.MonkeyPatch) -> None:
    async def free_nothing(*_: object) -> None:
        return

    monkeypatch.setattr(holds, "free_key", free_nothing)
    with pytest.raises(AssertionError):
        run_control(ENOUGH)


def test_a_capture_that_does_not_end_the_hold_turns_it_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = Query(
        select(*(hold.c[name] for name in Hold.__struct_fields__)).where(
            hold.c.account_id == bindparam("of_account"), hold.c.id == bindparam("of_hold")
        )
    )
    end = holds._end

    async def end_released_only(
        transaction: Transaction, account_id: str, hold_id: str, ended_as: str, at_ms: int
    ) -> Hold:
        row = await transaction.fetch_one(find, of_account=account_id, of_hold=hold_id)
        if row is None or ended_as == "released":
            return await end(transaction, account_id, hold_id, ended_as, at_ms)
        return Hold(*row)

    monkeypatch.setattr(holds, "_end", end_released_only)
    # What is captured twice may also be more than is held: then the database itself refuses.
    with pytest.raises((AssertionError, apsw.ConstraintError)):
        run_control(ENOUGH)
