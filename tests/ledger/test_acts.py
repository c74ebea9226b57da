"""An operation's act and its charge are there together, or neither is."""

from collections.abc import Callable

import pytest
from sqlalchemy import bindparam, func, select

from tests.support.stores import Store
from tollway.ledger.accounts import find_account, open_account
from tollway.ledger.charge_transaction import ChargeResults, post_charges
from tollway.ledger.charges import Act, ActResult, Charge, ShortageError
from tollway.ledger.entries import amount_left, newest_entries, top_up
from tollway.ledger.runtime import Runtime
from tollway.operations.product_analysis.schema import product
from tollway.store.database import Database, StoreUnavailableError, Transaction
from tollway.store.query import Query

WORLD = Runtime()
# Any table will do to see whether an act is there.
DO = Query(
    product.insert().values(
        product_id=bindparam("product_id"), title="t", picture_url="", shop_name="s"
    )
)
DONE = Query(
    select(func.count()).select_from(product).where(product.c.product_id == bindparam("wanted"))
)


def act(name: str, *, is_paid: bool = True, error: Exception | None = None) -> Act:
    async def work(transaction: Transaction, _: Charge) -> ActResult:
        await transaction.execute(DO, product_id=name)
        if error is not None:
            raise error
        return ActResult(b"{}", is_paid)

    return work


class Outcome:
    """What is in the database after one batch."""

    def __init__(self, books: Store, name: str, credit: int, acts: list[Act | None]) -> None:
        async def work(database: Database) -> None:
            account = (await open_account(database, WORLD, name)).id
            await top_up(database, WORLD, account, "credits", credit)
            charges = [
                Charge(account, "credits", 10, "waybills", f"{name}.{position}", "tok_x", 0, each)
                for position, each in enumerate(acts)
            ]
            self.remarks = await database.write(lambda tx: post_charges(tx, charges))
            self.left = await amount_left(database, account, "credits")
            entries = await newest_entries(database, account, "credits", 100)
            self.charged = [e.request_id for e in reversed(entries) if e.kind == "charge"]
            self.numbers = [e.number for e in reversed(entries)]

        self.remarks: ChargeResults = {}
        books.do(work)

    def is_sound(self) -> bool:
        return self.numbers == list(range(1, len(self.numbers) + 1))


def is_done(books: Store, name: str) -> bool:
    async def work(database: Database) -> bool:
        row = await database.fetch_one(DONE, wanted=name)
        assert row is not None
        return bool(row[0])

    return books.do(work)


def test_an_act_is_done_and_paid(books: Store, new_name: Callable[[], str]) -> None:
    name = new_name()
    outcome = Outcome(books, name, 25, [act(name)])
    assert outcome.remarks == {0: ActResult(b"{}", True)}
    assert (outcome.left, outcome.charged) == (15, [f"{name}.0"])
    assert is_done(books, name) and outcome.is_sound()


def test_an_act_that_is_not_to_be_paid_is_done_for_nothing(
    books: Store, new_name: Callable[[], str]
) -> None:
    name = new_name()
    outcome = Outcome(books, name, 25, [act(name, is_paid=False)])
    assert (outcome.left, outcome.charged) == (25, [])
    assert is_done(books, name)


def test_an_act_that_cannot_be_paid_is_undone(books: Store, new_name: Callable[[], str]) -> None:
    first, second = new_name(), new_name()
    outcome = Outcome(books, first, 19, [act(first), act(second)])
    refused = outcome.remarks[1]
    assert isinstance(refused, ShortageError) and refused.left == 9
    assert (outcome.left, outcome.charged) == (9, [f"{first}.0"])
    assert is_done(books, first) and not is_done(books, second)


def test_an_act_that_fails_is_undone_alone(books: Store, new_name: Callable[[], str]) -> None:
    first, failing, last = new_name(), new_name(), new_name()
    error = ValueError("the carrier said no")
    acts = [None, act(first), act(failing, error=error), None, act(last)]
    outcome = Outcome(books, first, 100, acts)
    assert outcome.remarks[2] is error
    assert set(outcome.remarks) == {1, 2, 4}
    assert outcome.left == 60
    assert sorted(outcome.charged) == [f"{first}.{position}" for position in (0, 1, 3, 4)]
    assert is_done(books, first) and is_done(books, last) and not is_done(books, failing)
    assert outcome.is_sound()


def test_a_store_that_fails_in_an_act_undoes_the_whole_batch(
    books: Store, new_name: Callable[[], str]
) -> None:
    first, second = new_name(), new_name()
    failing = act(second, error=StoreUnavailableError("disk full"))
    with pytest.raises(StoreUnavailableError):
        Outcome(books, first, 100, [None, act(first), failing])
    assert not is_done(books, first) and not is_done(books, second)

    async def left(database: Database) -> int:
        account = await find_account(database, first)
        return await amount_left(database, account.id, "credits")

    assert books.do(left) == 100
