"""Charging in batches against a plain model: each balance is spent in the order of arrival.

The same check is run on a transaction that takes more than there is; it must turn red.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import bindparam

from tests.support.stores import Store
from tollway.ledger.charge_transaction import post_charges
from tollway.ledger.charges import Charge, ShortageError
from tollway.ledger.entries import TAKE, amount_left, list_balances, newest_entries
from tollway.store.database import Database, Row, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import balance

OPEN_BALANCE = Query(
    balance.insert().values({column.name: bindparam(column.name) for column in balance.c})
)
UNITS = ("credits", "calls:product_analysis")
BALANCES = tuple((account, unit) for account in ("a", "b", "c") for unit in UNITS)
_runs = count()

# (which balance, how much) of each call; several batches one after the other.
BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(BALANCES), st.integers(1, 12)), min_size=1, max_size=25),
    min_size=1,
    max_size=4,
)
# Some balances are small, some large, and some accounts have none of a unit at all.
OPENINGS = st.dictionaries(st.sampled_from(BALANCES), st.integers(0, 60))
Wrap = Callable[[Transaction], Transaction]


async def check(
    database: Database,
    openings: dict[tuple[str, str], int],
    batches: list[list[tuple[tuple[str, str], int]]],
    wrap: Wrap = lambda transaction: transaction,
) -> None:
    run = next(_runs)
    left = {(f"{run}{account}", unit): amount for (account, unit), amount in openings.items()}
    expected: defaultdict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)

    async def open_all(transaction: Transaction) -> None:
        for (account, unit), amount in left.items():
            await transaction.execute(
                OPEN_BALANCE,
                account_id=account,
                unit=unit,
                amount=amount,
                held=0,
                posted=0,
                entries=0,
            )

    await database.write(open_all)
    for batch_number, batch in enumerate(batches):
        charges, shortages = [], {}
        for position, ((account, unit), amount) in enumerate(batch):
            key, request_id = (f"{run}{account}", unit), f"{run}.{batch_number}.{position}"
            charges.append(Charge(*key, amount, "product_analysis", request_id, "tok_x", position))
            if left.get(key, 0) >= amount:
                left[key] -= amount
                expected[key].append((request_id, -amount, left[key]))
            else:
                shortages[position] = key
        refused = await database.write(lambda tx, charges=charges: post_charges(wrap(tx), charges))
        assert set(refused) == set(shortages), "refused others than the balances cover"
        for position, key in shortages.items():
            error = refused[position]
            assert isinstance(error, ShortageError)
            assert left.get(key, 0) <= error.left < batch[position][1]
    for (account, unit), amount in left.items():
        (stored,) = [b for b in await list_balances(database, account) if b.unit == unit]
        assert stored.amount == amount >= 0
        entries = list(reversed(await newest_entries(database, account, unit, 1000)))
        assert [entry.number for entry in entries] == list(range(1, stored.entries + 1))
        # One debit may pay several calls, but calls of one balance are entered as they arrived.
        wanted = expected[account, unit]
        assert [(e.request_id, e.amount, e.balance_after) for e in entries] == wanted
        assert all(entry.kind == "charge" and entry.balance_after >= 0 for entry in entries)


@settings(max_examples=30)
@given(openings=OPENINGS, batches=BATCHES)
def test_any_batches_come_out_as_if_charged_one_by_one(
    store: Store,
    openings: dict[tuple[str, str], int],
    batches: list[list[tuple[tuple[str, str], int]]],
) -> None:
    store.do(lambda database: check(database, openings, batches))


class Overdraws:
    """A transaction whose debit takes what is there when it should take nothing."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner
        self.execute = inner.execute
        self.execute_many = inner.execute_many
        self.insert_rows = inner.insert_rows
        self.is_shared = inner.is_shared
        self.fetch_all = inner.fetch_all
        self.savepoint = inner.savepoint

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        row = await self._inner.fetch_one(query, **values)
        if query is not TAKE or row is not None:
            return row
        left = await amount_left(self._inner, str(values["of_account"]), str(values["of_unit"]))
        return await self._inner.fetch_one(query, **{**values, "total": left})


class ForgetsAnEntry(Overdraws):
    """A transaction that loses the last of several entries."""

    def __init__(self, inner: Transaction) -> None:
        super().__init__(inner)
        self.fetch_one = inner.fetch_one  # type: ignore[method-assign]
        self.execute_many = lambda query, rows: inner.execute_many(query, list(rows)[:-1])
        self.insert_rows = lambda table, rows: inner.insert_rows(table, rows[:-1])


@pytest.mark.parametrize("sabotage", [Overdraws, ForgetsAnEntry])
def test_a_transaction_that_does_it_wrong_turns_the_check_red(store: Store, sabotage: Wrap) -> None:
    batch = [(BALANCES[0], 2)] * 3
    store.do(lambda database: check(database, {BALANCES[0]: 5}, [batch]))
    with pytest.raises(AssertionError):
        store.do(lambda database: check(database, {BALANCES[0]: 5}, [batch], sabotage))


class CountsDebits(Overdraws):
    """A transaction that does it right, and counts the debits."""

    def __init__(self, inner: Transaction) -> None:
        super().__init__(inner)
        self.debits = 0

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        self.debits += query is TAKE
        return await self._inner.fetch_one(query, **values)


def test_the_calls_of_each_balance_are_one_debit(store: Store) -> None:
    counting: list[CountsDebits] = []

    def wrap(transaction: Transaction) -> Any:
        counting.append(CountsDebits(transaction))
        return counting[-1]

    batch = [(BALANCES[nth % 2], 1) for nth in range(8)]
    openings = {BALANCES[0]: 4, BALANCES[1]: 4}
    store.do(lambda database: check(database, openings, [batch], wrap))
    assert [each.debits for each in counting] == [2]


def test_a_call_too_dear_does_not_stop_a_cheaper_one_behind_it(store: Store) -> None:
    batch = [(BALANCES[0], 4), (BALANCES[0], 9), (BALANCES[0], 1), (BALANCES[0], 1)]
    store.do(lambda database: check(database, {BALANCES[0]: 5}, [batch]))


def test_very_large_batches_over_many_accounts_come_out_right(store: Store) -> None:
    chance = random.Random(7)
    keys = [(f"n{number}", unit) for number in range(40) for unit in UNITS]
    openings = {key: chance.randrange(50) for key in keys}
    batch = [(chance.choice(keys), chance.randrange(1, 6)) for _ in range(2000)]
    store.do(lambda database: check(database, openings, [batch, batch]))
