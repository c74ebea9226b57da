"""`tollway second-factor`: an operator takes a lost one away, and the trail says so."""

import time

from tests.cli.conftest import Command
from tests.cli.test_trail import acts_of
from tests.support.second_factors import new_factor
from tests.support.stores import Store
from tollway.identity.second_factor import STEP_S, Holder, find_factor
from tollway.store.database import Database


def test_a_lost_second_factor_is_reset(tollway: Command, ledger_store: Store) -> None:
    async def set_up(database: Database) -> None:
        for kind in ("operator", "shop"):
            await new_factor(database, Holder(kind, "1", "ada"), int(time.time()) // STEP_S)

    ledger_store.do(set_up)
    listed = tollway("second-factor", "list", "--json").json
    assert [(each["kind"], each["login"]) for each in listed] == [
        ("operator", "ada"),
        ("owner", "ada"),
    ]
    shown = tollway("second-factor", "list").out
    assert "owner" in shown and "shop" not in shown
    assert tollway("second-factor", "reset", "owner", "Ada").status == 0
    again = tollway("second-factor", "reset", "owner", "ada")
    assert again.status == 1 and "tollway second-factor list" in again.err
    assert ledger_store.do(lambda database: find_factor(database, "shop", "1")) is None
    assert ledger_store.do(lambda database: find_factor(database, "operator", "1")) is not None
    (act,) = acts_of(tollway)
    assert (act["act"], act["subject"]) == ("second-factor reset", "shop ada")
