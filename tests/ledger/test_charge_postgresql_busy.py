"""Settling without what others have locked: the rest comes out as if it had been alone.

Random batches meet random locks. What was busy is settled once the locks are gone; in the end the
rows are those of an engine that was given the same charges in the same order.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.ledger.test_charge_postgresql import (
    ACCOUNTS,
    OPENINGS,
    ROWS,
    SPECS,
    UNITS,
    USES,
    ChargeSpec,
    charge_of,
    comparable,
)
from tests.ledger.test_charge_transaction import OPEN_BALANCE
from tests.support import engines
from tests.support.functions import change_function, hold_clock
from tests.support.stores import Store
from tollway.ledger.charge_postgresql import post_unless_locked, post_waiting_for_locks
from tollway.ledger.charge_transaction import AlreadyAnswered, ChargeResults, post_charges
from tollway.ledger.charges import BusyError, Charge
from tollway.store.database import Database, StoreError, Transaction

pytestmark = pytest.mark.postgresql
OPERATIONS = ("orders", "waybills")
LIMIT = 10**6
_runs = count()
Openings = dict[tuple[str, str], int]


class Locks(NamedTuple):
    """What another transaction has: balances, windows, and windows that it is just making."""

    balances: frozenset[tuple[str, str]]
    windows: frozenset[tuple[str, str]]
    made: frozenset[tuple[str, str]]


_WINDOWS = st.frozensets(
    st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(OPERATIONS)), max_size=2
)
LOCKS = st.builds(
    Locks,
    st.frozensets(st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(UNITS)), max_size=3),
    _WINDOWS,
    st.just(frozenset()) | _WINDOWS,
)
NO_LOCKS = Locks(frozenset(), frozenset(), frozenset())
STEPS = st.lists(
    st.tuples(LOCKS | st.just(NO_LOCKS), st.lists(SPECS, min_size=1, max_size=20)),
    min_size=1,
    max_size=3,
)
Steps = list[tuple[Locks, list[ChargeSpec]]]


class Pair(NamedTuple):
    alone: Store
    shared: Store


def make_pair(folder: Path) -> Pair:
    shared = Store(folder / "shared.db")
    # In a second that never ends, nothing that was admitted is forgotten.
    hold_clock(shared)
    engines.use("sqlite")
    alone = Store(folder / "alone.db")
    engines.use("postgresql")
    return Pair(alone, shared)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("busy"))


def charges_of(name: str, nth: int, batch: Sequence[ChargeSpec]) -> list[Charge]:
    return [
        replace(
            charge_of(spec, f"{name}{spec.account}", f"{name}.{nth}.{position:03}"),
            operation=OPERATIONS[position % 2],
            limit=LIMIT,
        )
        for position, spec in enumerate(batch)
    ]


async def open_all(database: Database, name: str, openings: Openings) -> None:
    async def work(transaction: Transaction) -> None:
        for (account, unit), amount in openings.items():
            values = {"account_id": f"{name}{account}", "unit": unit, "amount": amount}
            await transaction.execute(OPEN_BALANCE, **values, held=0, posted=0, entries=0)

    await database.write(work)


class Holder:
    """Another transaction, and what it has."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]", name: str) -> None:
        self._connection = connection
        self._name = name
        self._balances: set[tuple[str, str]] = set()
        self._windows: set[tuple[str, str]] = set()
        self._there: set[tuple[str, str]] = set()
        self._makes = False

    async def take(self, locks: Locks) -> None:
        fetch = self._connection.fetch
        rows = await fetch("SELECT account_id, operation FROM admission")
        self._there = {tuple(row) for row in rows}
        for account, unit in locks.balances:
            rows = await fetch(
                "SELECT account_id, unit FROM balance WHERE account_id = $1 AND unit = $2 "
                "FOR UPDATE",
                f"{self._name}{account}",
                unit,
            )
            self._balances |= {tuple(row) for row in rows}
        for account, operation in locks.windows | locks.made:
            key = (f"{self._name}{account}", operation)
            if key in self._there:
                text = "SELECT FROM admission WHERE account_id = $1 AND operation = $2 FOR UPDATE"
                self._windows.add(key)
                await fetch(text, *key)
            elif (account, operation) in locks.made:
                self._windows.add(key)
                self._makes = True
                await fetch("INSERT INTO admission VALUES ($1, $2, '{}', '{}')", *key)

    def must_be_busy(self, charge: Charge) -> bool:
        window = (charge.account_id, charge.operation)
        balance = (charge.account_id, charge.unit)
        return window in self._windows or (charge.amount > 0 and balance in self._balances)

    def may_be_busy(self, charge: Charge) -> bool:
        """If one new window cannot be made, no other new one is made either."""
        is_new = (charge.account_id, charge.operation) not in self._there
        return self.must_be_busy(charge) or (self._makes and is_new)


async def settle_behind(
    database: Database, url: str, name: str, locks: Locks, charges: list[Charge]
) -> tuple[dict[int, object], list[int]]:
    """The results of the charges, and which of them were left to the end."""
    connection = await asyncpg.connect(url)
    holder = Holder(connection, name)
    try:
        async with connection.transaction():
            await holder.take(locks)
            results = await post_unless_locked(database, charges)
    finally:
        await connection.close()
    busy = [place for place, result in results.items() if isinstance(result, BusyError)]
    for place, charge in enumerate(charges):
        if place in busy:
            assert holder.may_be_busy(charge), "busy although it is not locked"
        elif holder.must_be_busy(charge):
            assert isinstance(results.get(place), AlreadyAnswered), "settled behind a lock's back"
    done: ChargeResults = {place: result for place, result in results.items() if place not in busy}
    later = await post_waiting_for_locks(database, [charges[place] for place in sorted(busy)])
    return comparable(done | {sorted(busy)[nth]: each for nth, each in later.items()}), sorted(busy)


async def settle_alone(
    database: Database, charges: list[Charge], busy: list[int]
) -> dict[int, object]:
    """The same in a transaction each: first what was not busy, then what was."""
    outcomes: dict[int, object] = {}
    for positions in ([place for place in range(len(charges)) if place not in busy], busy):
        run = [charges[place] for place in positions]
        results = await database.write(lambda tx, run=run: post_charges(tx, run))
        outcomes |= comparable({positions[nth]: result for nth, result in results.items()})
    return outcomes


def check(pair: Pair, openings: Openings, steps: Steps) -> int:
    """How many charges were busy."""
    name = f"{next(_runs):05}"
    batches = [charges_of(name, nth, batch) for nth, (_, batch) in enumerate(steps)]

    async def shared_work(database: Database) -> list[tuple[dict[int, object], list[int]]]:
        await open_all(database, name, openings)
        return [
            await settle_behind(database, pair.shared.url, name, locks, charges)
            for (locks, _), charges in zip(steps, batches, strict=True)
        ]

    outcomes = pair.shared.do(shared_work)

    async def alone_work(database: Database) -> list[dict[int, object]]:
        await open_all(database, name, openings)
        return [
            await settle_alone(database, charges, busy)
            for charges, (_, busy) in zip(batches, outcomes, strict=True)
        ]

    assert pair.alone.do(alone_work) == [each for each, _ in outcomes]
    where = f"WHERE account_id LIKE '{name}%'"
    for text in (*(rows.format(where) for rows in ROWS), USES.format(name)):
        assert pair.alone.run(text) == pair.shared.run(text)
    admitted = Counter(
        (charge.account_id, charge.operation)
        for charges, (each, _) in zip(batches, outcomes, strict=True)
        for place, charge in enumerate(charges)
        if place not in each
    )
    counts = pair.shared.run(
        "SELECT account_id, operation, (SELECT sum(one) FROM unnest(counts) AS one) "
        f"FROM admission {where}"
    )
    assert {(account, operation): n for account, operation, n in counts if n} == admitted
    return sum(len(busy) for _, busy in outcomes)


@settings(max_examples=20)
@given(openings=OPENINGS, steps=STEPS)
def test_whatever_is_locked_the_rest_is_settled_and_the_end_is_the_same(
    pair: Pair, openings: Openings, steps: Steps
) -> None:
    check(pair, openings, steps)


RICH: Openings = {(account, unit): 100 for account in ACCOUNTS for unit in UNITS}
MIXED = [ChargeSpec(account, unit, 2, None, "shop 1") for account in ACCOUNTS for unit in UNITS] * 3


def test_of_a_batch_only_what_is_locked_is_busy(pair: Pair) -> None:
    locks = Locks(frozenset({("b", "credits")}), frozenset({("Ω", "orders")}), frozenset())
    # The first batch makes the windows. One account has 6 charges of each balance, 3 of either
    # operation; what lies in both comes once.
    steps = [(NO_LOCKS, MIXED), (locks, MIXED)]
    busy = [
        (spec.account == "b" and spec.unit == "credits") or (spec.account == "Ω" and nth % 2 == 0)
        for nth, spec in enumerate(MIXED)
    ]
    assert check(pair, RICH, steps) == sum(busy) > 0


def test_a_row_that_does_not_exist_is_not_locked(pair: Pair) -> None:
    assert check(pair, {}, [(NO_LOCKS, MIXED), (NO_LOCKS, MIXED)]) == 0


def test_nothing_is_busy_where_nothing_is_locked(pair: Pair) -> None:
    assert check(pair, RICH, [(NO_LOCKS, MIXED)] * 2) == 0


def test_while_a_whole_table_is_locked_all_are_busy(store: Store) -> None:
    name = f"table {next(_runs)}"

    async def work(database: Database) -> ChargeResults:
        charges = charges_of(name, 0, [ChargeSpec("a", "credits", 0, None, None)] * 2)
        connection = await asyncpg.connect(store.url)
        try:
            async with connection.transaction():
                await connection.execute("LOCK TABLE admission IN ACCESS EXCLUSIVE MODE")
                return await post_unless_locked(database, charges)
        finally:
            await connection.close()

    results = store.do(work)
    assert {place: type(result) for place, result in results.items()} == {
        0: BusyError,
        1: BusyError,
    }


@pytest.mark.parametrize(
    "fault",
    [
        # What is locked is settled all the same, or written as it was not read.
        ("outcomes[found.nth] := 'busy'", "outcomes[found.nth] := NULL"),
        ("entry_counts[b] IS NULL AND EXISTS", "entry_counts[b] IS NULL AND NOT EXISTS"),
        ("w > 0 AND added[w] IS NULL", "false"),
        # What is not there is taken for locked.
        ("AND EXISTS (", "AND true OR EXISTS ("),
    ],
)
def test_a_function_that_does_it_wrong_is_caught(tmp_path: Path, fault: tuple[str, str]) -> None:
    wrong = make_pair(tmp_path)
    locks = Locks(frozenset({("b", "credits")}), frozenset({("Ω", "orders")}), frozenset())
    openings = {key: amount for key, amount in RICH.items() if key != ("a", "credits")}
    steps = [(NO_LOCKS, MIXED), (locks, MIXED)]
    check(wrong, openings, steps)
    change_function(wrong.shared, "tollway_charge", fault)
    with pytest.raises((AssertionError, StoreError, asyncpg.IntegrityConstraintViolationError)):
        check(wrong, openings, steps)
