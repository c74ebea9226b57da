"""A call whose caller is changed while it waits to be charged is charged a second time: both waits
together are no longer than one may be."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from tests.pipeline.test_together import analysis, codes_of
from tests.support.in_process import in_gateway
from tests.support.ledger import calls_left, new_caller
from tests.support.stores import Store
from tollway.gateway.gateway import Gateway
from tollway.ledger.charge_queue import ChargeQueue, PendingCharge
from tollway.ledger.charges import Charge

pytestmark = pytest.mark.postgresql
CHANGE = "UPDATE version SET directory = directory + 1"


@pytest.mark.parametrize("is_repeated", [False, True])
def test_it_goes_on_waiting_from_when_it_began_to(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, today: date, is_repeated: bool
) -> None:
    caller = new_caller(own_store, calls=10)
    asked = analysis(caller.token, today, (b"idempotency-key", b"the same"))
    waits: list[PendingCharge] = []
    settle = ChargeQueue.settle

    def change_and_settle(queue: ChargeQueue, charge: Charge) -> PendingCharge:
        if not waits:
            with ThreadPoolExecutor(1) as threads:
                threads.submit(own_store.run, CHANGE).result()
        waits.append(settle(queue, charge))
        return waits[-1]

    async def work(gateway: Gateway) -> None:
        if is_repeated:
            assert await codes_of(gateway, [asked]) == [0]
        monkeypatch.setattr(ChargeQueue, "settle", change_and_settle)
        assert await codes_of(gateway, [asked]) == [0]

    in_gateway(own_store, monkeypatch, work)
    first, again = waits
    assert again.since_s == first.since_s
    assert calls_left(own_store, caller) == 9
