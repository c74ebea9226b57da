"""A balance that comes into being while a call finds none is left as it is."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from tests.support.functions import change_function
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.charge_postgresql import post_waiting_for_locks
from tollway.ledger.charges import Charge, ShortageError
from tollway.ledger.entries import list_balances, top_up
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database

pytestmark = pytest.mark.postgresql
RUNTIME = Runtime()
WAITS = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
# Between looking for the balances and writing them.
STOP = ("-- After the locks,", "PERFORM pg_advisory_xact_lock(42); -- After the locks,")
# What is not ours would be written as if it were nothing.
CARELESS = (
    "entry_counts bigint[] := array_fill(NULL::bigint,",
    "entry_counts bigint[] := array_fill(0::bigint,",
)


async def meet(database: Database, url: str) -> int:
    """Tops an account up in the middle of its first call; what it has then."""
    account = await open_account(database, RUNTIME, "new")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SELECT pg_advisory_lock(42)")
        charge = Charge(account.id, "credits", 1, "orders", "r1", "tok_x", 0, limit=10)
        settling = asyncio.create_task(post_waiting_for_locks(database, [charge]))
        while not await connection.fetch(WAITS):
            pass
        await top_up(database, RUNTIME, account.id, "credits", 100)
        await connection.execute("SELECT pg_advisory_unlock(42)")
        assert isinstance((await settling)[0], ShortageError)
    finally:
        await connection.close()
    (balance,) = await list_balances(database, account.id)
    return balance.amount


@pytest.mark.parametrize(("faults", "left"), [([], 100), ([CARELESS], 0)])
def test_a_first_top_up_in_the_middle_of_a_call_is_not_lost_and_the_control(
    tmp_path: Path, faults: list[tuple[str, str]], left: int
) -> None:
    store = Store(tmp_path / "new.db")
    change_function(store, "tollway_charge", STOP, *faults)
    assert store.do(lambda database: meet(database, store.url)) == left
