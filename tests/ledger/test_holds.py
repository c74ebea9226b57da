"""Holds: set aside once, ended once, and in order for the audit."""

from collections.abc import Awaitable, Callable

import pytest

from tests.ledger.ledger_reading import breaches
from tests.support.stores import Store
from tollway.audit.check import Breach
from tollway.ledger import LedgerError
from tollway.ledger.accounts import open_account
from tollway.ledger.charges import Charge, ShortageError
from tollway.ledger.entries import Balance, list_balances, newest_entries, top_up
from tollway.ledger.holds import capture, release, reserve
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database

RUNTIME = Runtime()
End = Callable[..., Awaitable[object]]


class Holder:
    """One account with 10 credits, and what it does with holds."""

    def __init__(self, store: Store, name: str, credit: int = 10) -> None:
        self._store = store

        async def work(database: Database) -> str:
            account = await open_account(database, RUNTIME, name)
            if credit:
                await top_up(database, RUNTIME, account.id, "credits", credit)
            return account.id

        self.account_id = store.do(work)

    def hold(self, hold_id: str, amount: int) -> None:
        request_id = f"{self.account_id}.{hold_id}"
        charge = Charge(self.account_id, "credits", amount, "waybills", request_id, "tok_x", 0)
        self._store.do(lambda db: db.write(lambda tx: reserve(tx, charge, hold_id, 1000)))

    def end(self, how: End, hold_id: str) -> None:
        self._store.do(lambda db: db.write(lambda tx: how(tx, self.account_id, hold_id, 1)))

    def balances(self) -> list[Balance]:
        return self._store.do(lambda db: list_balances(db, self.account_id))

    def entries(self) -> list[tuple[str, int, int]]:
        newest = self._store.do(lambda db: newest_entries(db, self.account_id, "credits", 100))
        return [(each.kind, each.amount, each.balance_after) for each in reversed(newest)]

    def breaches(self) -> list[Breach]:
        found = self._store.do(breaches)
        return [each for each in found if each.account_id == self.account_id]


def test_captured_and_released_holds_are_no_breach(
    store: Store, new_name: Callable[[], str]
) -> None:
    holder = Holder(store, new_name())
    holder.hold("1", 4)
    holder.hold("2", 3)
    assert holder.balances() == [Balance("credits", amount=3, held=7, posted=0, entries=3)]
    holder.end(capture, "1")
    holder.end(release, "2")
    assert holder.balances() == [Balance("credits", amount=6, held=0, posted=4, entries=6)]
    assert holder.entries()[-3:] == [("release", 4, 7), ("charge", -4, 3), ("release", 3, 6)]
    assert holder.breaches() == []


@pytest.mark.parametrize("how", [capture, release])
@pytest.mark.parametrize("again", [capture, release])
def test_a_hold_is_ended_once(
    store: Store, new_name: Callable[[], str], how: End, again: End
) -> None:
    holder = Holder(store, new_name())
    holder.hold("1", 4)
    holder.end(how, "1")
    before = holder.balances(), holder.entries()
    with pytest.raises(LedgerError, match="Hold 1 is not open"):
        holder.end(again, "1")
    assert (holder.balances(), holder.entries()) == before


def test_an_id_is_held_once(store: Store, new_name: Callable[[], str]) -> None:
    holder = Holder(store, new_name())
    holder.hold("1", 4)
    for _ in ("open", "released"):
        before = holder.balances()
        with pytest.raises(LedgerError, match="There was a hold 1 before"):
            holder.hold("1", 4)
        assert holder.balances() == before
        if before[0].held:
            holder.end(release, "1")


def test_more_than_is_there_is_not_held(store: Store, new_name: Callable[[], str]) -> None:
    holder = Holder(store, new_name())
    with pytest.raises(ShortageError):
        holder.hold("1", 11)
    holder.hold("1", 10)


@pytest.mark.parametrize("how", [capture, release])
def test_a_free_hold_needs_no_balance_and_is_not_entered(
    store: Store, new_name: Callable[[], str], how: End
) -> None:
    holder = Holder(store, new_name(), credit=0)
    holder.hold("1", 0)
    holder.end(how, "1")
    assert (holder.balances(), holder.entries(), holder.breaches()) == ([], [], [])
