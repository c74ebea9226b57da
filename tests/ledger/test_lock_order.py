"""Writers that want the same rows in opposite orders never wait for each other in a circle."""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest

from tests.ledger.test_charge_transaction import OPEN_BALANCE
from tests.support.postgresql import run_on
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.charge_postgresql import post_acts, post_unless_locked, post_waiting_for_locks
from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import ActResult, BusyError, Charge, IdempotencyKey
from tollway.ledger.entries import TAKE, top_up
from tollway.ledger.holds import capture, lock_balance_of, release, reserve
from tollway.ledger.idempotency import sweep_kept
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import DayCap, TokenLimits, lock_days
from tollway.ledger.tokens import issue_token
from tollway.store.database import Database, Row, Transaction

pytestmark = pytest.mark.postgresql
WRITERS, ROUNDS = 8, 25
ACCOUNTS = [f"acc {number}" for number in range(6)]
OPERATIONS = {"orders": "credits", "waybills": "credits", "product_analysis": "calls:pa"}
# The balances that are not what is left of the million, or whose entries are not without gaps.
WRONG = """
SELECT account_id, unit FROM balance JOIN entry USING (account_id, unit)
WHERE account_id LIKE 'acc %'
GROUP BY account_id, unit, balance.amount, balance.posted, balance.held, balance.entries
HAVING balance.amount <> 1000000 - balance.posted OR balance.held <> 0
    OR sum(entry.amount) <> -balance.posted
    OR count(*) <> balance.entries OR max(entry.number) <> balance.entries"""


def deadlocks(store: Store) -> int:
    """As the server counts them, once all have left."""
    ((found,),) = run_on(
        store.url,
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    )
    assert isinstance(found, int)
    return found


async def open_all(transaction: Transaction) -> None:
    for account in ACCOUNTS:
        for unit in ("credits", "calls:pa"):
            values = {"account_id": account, "unit": unit, "amount": 10**6}
            await transaction.execute(OPEN_BALANCE, **values, held=0, posted=0, entries=0)


async def act(transaction: Transaction, charge: Charge) -> ActResult:
    """Holds something and captures it, as a remote carrier's waybill does, or leaves it held."""
    await reserve(transaction, charge, f"hold {charge.request_id}", 0)
    if charge.request_id.endswith("0"):
        return ActResult(b"", is_paid=False, is_held=True)
    await lock_balance_of(transaction, charge.account_id, f"hold {charge.request_id}")
    await capture(transaction, charge.account_id, f"hold {charge.request_id}", charge.at_ms)
    return ActResult(b"", is_paid=False, captured=charge.amount)


async def let_go(database: Database, charges: Sequence[Charge], remarks: ChargeResults) -> None:
    """Releases what was left held, and so frees its keys, as reconciliation does: one by one."""

    async def work(transaction: Transaction, charge: Charge) -> None:
        hold_id = f"hold {charge.request_id}"
        await lock_balance_of(transaction, charge.account_id, hold_id)
        await release(transaction, charge.account_id, hold_id, charge.at_ms)

    for place, charge in enumerate(charges):
        remark = remarks.get(place)
        if isinstance(remark, ActResult) and remark.is_held:
            await database.write(partial(work, charge=charge))


def batch(chance: random.Random, name: str, *, has_acts: bool) -> list[Charge]:
    charges = []
    for number in range(12):
        operation = chance.choice(list(OPERATIONS))
        idempotency_key = None
        if chance.random() < 0.4:
            key = f"key {chance.randrange(40)}"
            data = None if has_acts else b"data"
            idempotency_key = IdempotencyKey(
                key, b"print", b"print".__eq__, lambda data: data, data
            )
        charges.append(
            Charge(
                chance.choice(ACCOUNTS),
                OPERATIONS[operation],
                chance.choice([0, 1]) if has_acts else 1,
                operation,
                f"{name}.{number}",
                "tok_x",
                # Some answers are so old that sweeping and settling meet at them.
                chance.choice([1, Runtime().at_ms()]),
                act if has_acts else None,
                idempotency_key=idempotency_key,
                limit=10**6,
            )
        )
    return charges


async def write_on(database: Database, writer: int) -> None:
    chance = random.Random(writer)
    for number in range(ROUNDS):
        name = f"w{writer}.{number}"
        if writer % 4 == 0:
            charges = batch(chance, name, has_acts=True)
            remarks = await database.write(lambda tx, charges=charges: post_acts(tx, charges))
            await let_go(database, charges, remarks)
        else:
            charges = batch(chance, name, has_acts=False)
            remarks = await post_unless_locked(database, charges)
            busy = [place for place, each in remarks.items() if isinstance(each, BusyError)]
            await post_waiting_for_locks(database, [charges[place] for place in sorted(busy)])
        if number % 5 == 0:
            await sweep_kept(database, Runtime().at_ms())


def test_eight_writers_in_any_order_never_deadlock(store: Store) -> None:
    async def work(database: Database) -> None:
        await database.write(open_all)
        await asyncio.gather(*(write_on(database, writer) for writer in range(WRITERS)))

    before = deadlocks(store)
    store.do(work)
    assert deadlocks(store) == before
    assert run_on(store.url, WRONG) == []


def test_a_deadlock_would_be_counted(store: Store) -> None:
    met = asyncio.Barrier(2)

    async def take(connection: "asyncpg.Connection[asyncpg.Record]", order: Sequence[str]) -> None:
        text = TAKE.postgresql
        async with connection.transaction():
            for nth, account in enumerate(order):
                values = {"of_account": account, "of_unit": "x", "total": 0, "count": 0}
                await connection.fetch(text.text, *text.arguments(values))
                if nth == 0:
                    await met.wait()

    async def work(database: Database) -> None:
        for account in ("one", "two"):
            values = {"account_id": account, "unit": "x", "amount": 0}
            await database.write(
                lambda tx, values=values: tx.execute(
                    OPEN_BALANCE, **values, held=0, posted=0, entries=0
                )
            )
        connections = [await asyncpg.connect(store.url) for _ in range(2)]
        orders = (("one", "two"), ("two", "one"))
        outcomes = await asyncio.gather(
            *(take(*each) for each in zip(connections, orders, strict=True)),
            return_exceptions=True,
        )
        assert any(isinstance(each, asyncpg.DeadlockDetectedError) for each in outcomes)
        for connection in connections:
            await connection.close()

    before = deadlocks(store)
    store.do(work)
    assert deadlocks(store) == before + 1


def test_the_counts_of_all_tokens_of_a_batch_are_locked_before_its_first_act(
    store: Store, new_name: Callable[[], str]
) -> None:
    """Two batches that take their balances from different units may have the same tokens."""
    seen: list[int] = []

    async def work(database: Database) -> None:
        account = await open_account(database, Runtime(), new_name())
        await top_up(database, Runtime(), account.id, "credits", 9)
        limits = TokenLimits(credits_per_day=9)
        issued = [
            await issue_token(database, Runtime(), account.id, limits=limits) for _ in range(2)
        ]
        ids = [each.token.id for each in issued]
        free = (
            f"SELECT token_id FROM token_day WHERE token_id IN ('{ids[0]}', '{ids[1]}') "
            "FOR UPDATE SKIP LOCKED"
        )

        async def look_at_free() -> None:
            seen.append(len(await asyncio.to_thread(run_on, store.url, free)))

        async def look(_: Transaction, __: Charge) -> ActResult:
            await look_at_free()
            return ActResult(b"", is_paid=True)

        charges = [
            Charge(
                *(account.id, "credits", 1, "waybills", f"{token_id}.call", token_id, 0, look),
                cap=DayCap(9, None, 0),
            )
            for token_id in ids
        ]
        await database.write(lambda tx: post_acts(tx, charges))
        await look_at_free()

    store.do(work)
    # During each act, and after the commit.
    assert seen == [0, 0, 2]


def test_the_counts_of_tokens_are_locked_in_one_order() -> None:
    locked: list[object] = []

    async def fetch_one(_query: object, **values: object) -> Row | None:
        if "of_counter" in values:
            locked.append(values["of_counter"])
            return None
        # Each is counted with another, in the opposite order.
        return ({"tok_1": "tok_z", "tok_2": "tok_y", "tok_3": "tok_x"}[str(values["of_token"])],)

    transaction = cast(Any, SimpleNamespace(fetch_one=fetch_one))
    asyncio.run(lock_days(transaction, ["tok_2", "tok_1", "tok_3", "tok_1"]))
    assert locked == ["tok_x", "tok_y", "tok_z"]
