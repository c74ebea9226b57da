"""A carrier whose protocol is no longer installed: nothing is sent or held, and it shows."""

import os
from pathlib import Path

from tests.support import forks
from tests.support.gateway import Gateway
from tests.support.orders import sealer_of
from tests.support.ports import free_port
from tests.support.remote import ledger_of
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer, request
from tollway.carriers.carrier_links import CarrierLink, connect
from tollway.carriers.carriers import add_carrier
from tollway.store.database import Database


def test_101_nothing_is_sent_or_held_until_it_is_installed_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    url = f"http://127.0.0.1:{free_port()}"
    link = CarrierLink("GONE", url, "shop-42", "express", 2000, 60, 0, "pigeon-post")

    async def work(database: Database) -> None:
        await add_carrier(database, "GONE", "信鸽快递", r"SW\d{10}")
        await connect(database, sealer_of(store), link, "secret")

    store.do(work)
    customer, gateway = new_customer(store), Gateway(store)
    reply = issue(gateway, customer.token, request("GONE"))
    assert gateway.stop() == 0
    assert reply.code == 101 and "cannot be reached" in reply.msg
    assert ledger_of(store, customer).kinds == ["top_up"]
    assert "carrier GONE cannot be asked: The carrier protocol pigeon-post is not" in gateway.log()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOLLWAY_")}
    listed = forks.run("tollway", "carrier", "list", env={**kept, **store.settings}, cwd=tmp_path)
    assert "(pigeon-post, not installed)" in " ".join(listed.stdout.split())
