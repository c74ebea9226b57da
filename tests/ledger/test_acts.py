"""An operation's act and its charge are there together, or neither is."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from sqlalchemy import bindparam, func, select

from tests.support.any_rows import ADD
from tests.support.stores import Store
from tollway.ledger.accounts import find_account, open_account
from tollway.ledger.charge_transaction import ChargeResults, post_charges
from tollway.ledger.charges import Act, ActResult, Charge, IdempotencyKey, ShortageError
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.entries import amount_left, newest_entries, top_up
from tollway.ledger.idempotency import keep
from tollway.ledger.runtime import Runtime
from tollway.operations.product_analysis.schema import product
from tollway.store.database import Database, StoreUnavailableError, Transaction
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")
RUNTIME = Runtime()
KEY = IdempotencyKey("k", b"\1f", lambda _: False, lambda data: data, None)
DONE = Query(
    select(func.count()).select_from(product).where(product.c.product_id == bindparam("wanted"))
)


def act(name: str, *, is_paid: bool = True, error: Exception | None = None) -> Act:
    async def work(transaction: Transaction, _: Charge) -> ActResult:
        await transaction.execute(ADD, product_id=name)
        if error is not None:
            raise error
        return ActResult(b"{}", is_paid)

    return work


class Outcome:
    """What is in the database after one batch."""

    def __init__(self, store: Store, name: str, credit: int, acts: list[Act | None]) -> None:
        async def work(database: Database) -> None:
            account = (await open_account(database, RUNTIME, name)).id
            await top_up(database, RUNTIME, account, "credits", credit)
            charges = [
                Charge(account, "credits", 10, "waybills", f"{name}.{position}", "tok_x", 0, each)
                for position, each in enumerate(acts)
            ]
            self.results = await database.write(lambda tx: post_charges(tx, charges))
            self.left = await amount_left(database, account, "credits")
            entries = await newest_entries(database, account, "credits", 100)
            self.charged = [e.request_id for e in reversed(entries) if e.kind == "charge"]
            self.numbers = [e.number for e in reversed(entries)]

        self.results: ChargeResults = {}
        store.do(work)

    def is_sound(self) -> bool:
        return self.numbers == list(range(1, len(self.numbers) + 1))


def is_done(store: Store, name: str) -> bool:
    async def work(database: Database) -> bool:
        row = await database.fetch_one(DONE, wanted=name)
        assert row is not None
        return bool(row[0])

    return store.do(work)


def test_an_act_is_done_and_paid(store: Store, new_name: Callable[[], str]) -> None:
    name = new_name()
    outcome = Outcome(store, name, 25, [act(name)])
    assert outcome.results == {0: ActResult(b"{}", True)}
    assert (outcome.left, outcome.charged) == (15, [f"{name}.0"])
    assert is_done(store, name) and outcome.is_sound()


def test_an_act_that_is_not_to_be_paid_is_done_for_nothing(
    store: Store, new_name: Callable[[], str]
) -> None:
    name = new_name()
    outcome = Outcome(store, name, 25, [act(name, is_paid=False)])
    assert (outcome.left, outcome.charged) == (25, [])
    assert is_done(store, name)


def test_an_act_that_cannot_be_paid_is_undone(store: Store, new_name: Callable[[], str]) -> None:
    first, second = new_name(), new_name()
    outcome = Outcome(store, first, 19, [act(first), act(second)])
    refused = outcome.results[1]
    assert isinstance(refused, ShortageError) and refused.left == 9
    assert (outcome.left, outcome.charged) == (9, [f"{first}.0"])
    assert is_done(store, first) and not is_done(store, second)


def test_an_act_that_fails_is_undone_alone(store: Store, new_name: Callable[[], str]) -> None:
    first, failing, last = new_name(), new_name(), new_name()
    error = ValueError("the carrier said no")
    acts = [None, act(first), act(failing, error=error), None, act(last)]
    outcome = Outcome(store, first, 100, acts)
    assert outcome.results[2] is error
    assert set(outcome.results) == {1, 2, 4}
    assert outcome.left == 60
    assert sorted(outcome.charged) == [f"{first}.{position}" for position in (0, 1, 3, 4)]
    assert is_done(store, first) and is_done(store, last) and not is_done(store, failing)
    assert outcome.is_sound()


def test_a_store_that_fails_in_an_act_undoes_the_whole_batch(
    store: Store, new_name: Callable[[], str]
) -> None:
    first, second = new_name(), new_name()
    failing = act(second, error=StoreUnavailableError("disk full"))
    with pytest.raises(StoreUnavailableError):
        Outcome(store, first, 100, [None, act(first), failing])
    assert not is_done(store, first) and not is_done(store, second)

    async def left(database: Database) -> int:
        account = await find_account(database, first)
        return await amount_left(database, account.id, "credits")

    assert store.do(left) == 100


async def test_an_act_whose_key_another_kept_meanwhile_is_undone_and_tried_again(
    database: Database, new_name: Callable[[], str]
) -> None:
    name, times = new_name(), count(1)

    async def kept_meanwhile(transaction: Transaction, charge: Charge) -> ActResult:
        result = ActResult(b"{}", is_paid=True)
        # What is kept here is of another transaction, which is rolled back in the end.
        if next(times) == 1:
            await keep(transaction, replace(charge, request_id="other"), KEY, result)
        await transaction.execute(ADD, product_id=name)
        return result

    account = (await open_account(database, RUNTIME, name)).id
    await top_up(database, RUNTIME, account, "credits", 20)
    charge = Charge(account, "credits", 10, "waybills", name, "tok_x", 0, kept_meanwhile)
    charge = replace(charge, idempotency_key=KEY)
    results = await database.write(lambda transaction: post_charges(transaction, [charge]))
    assert results == {0: ActResult(b"{}", is_paid=True)}
    assert next(times) == 3
    assert await database.fetch_one(DONE, wanted=name) == (1,)
    entries = await newest_entries(database, account, "credits", 100)
    assert [entry.balance_after for entry in entries] == [10, 20]


class _DeadlockError(Exception):
    """Rolls a transaction back."""


class TriedTwice:
    """A database whose transactions are rolled back once, and tried again."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.is_shared = inner.is_shared

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def rolled_back(transaction: Transaction) -> None:
            await work(transaction)
            raise _DeadlockError

        with suppress(_DeadlockError):
            await self._inner.write(rolled_back)
        return await self._inner.write(work)


async def test_a_batch_that_is_tried_again_is_posted_once(
    database: Database, new_name: Callable[[], str]
) -> None:
    name = new_name()
    account = (await open_account(database, RUNTIME, name)).id
    await top_up(database, RUNTIME, account, "credits", 20)
    twice: Any = TriedTwice(database)
    batcher = ChargeBatcher(twice, Metrics(), 10, lambda *_: None)
    charge = Charge(account, "credits", 10, "waybills", name, "tok_x", 0, act(name))
    assert await batcher.settle(charge) == ActResult(b"{}", is_paid=True)
    assert await database.fetch_one(DONE, wanted=name) == (1,)
    assert await amount_left(database, account, "credits") == 10
