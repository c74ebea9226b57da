"""What a call takes in memory is free again once it is answered."""

from pathlib import Path

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import new_caller
from tests.support.orders import OWNER, order, put_orders
from tests.support.owners import authorize, shop
from tests.support.stores import Store
from tollway.operations.orders.operation import ORDERS

CALLS = 120


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


# They are kept or freed by the worker, whatever they were read from.
@pytest.mark.sqlite
def test_the_answers_of_calls_with_a_body_do_not_stay_in_memory(tmp_path: Path) -> None:
    """Each answer has some 200 kB: if they stayed, they would take four times what is allowed for
    all that settles in a worker's first calls."""
    store = Store(tmp_path / "tollway.db")
    long = dict.fromkeys(("goods_name", "goods_spec", "remark"), "保温杯" * 66)
    put_orders(store, [order(f"sn-{n:06}", **long) for n in range(100)])
    caller = new_caller(store, operations=(ORDERS,), credits_=10 * CALLS, rate_limit=100_000)
    store.do(lambda database: authorize(database, caller.account_id, ORDERS, shop(OWNER)))
    gateway = Gateway(store)
    sizes = []

    def call_often() -> None:
        for _ in range(CALLS):
            reply = gateway.post_form(
                ORDERS.path, {"owner_id": OWNER}, token=caller.token, encoding="urlencoded"
            )
            sizes.append(int(reply.headers["content-length"]))

    call_often()
    (worker,) = gateway.workers()
    before = resident_kib(worker)
    call_often()
    grown = resident_kib(worker) - before
    assert gateway.stop() == 0
    assert min(sizes) > 200_000
    assert grown < CALLS * 200_000 / 1024 / 4, f"{CALLS} calls took {grown} KiB more"
