"""A push that is killed before its answer, and one of many shops at once."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.intake.test_push import as_json, stored, with_source
from tests.support.gateway import Gateway
from tests.support.orders import START_MS, miscounted, order
from tests.support.postgresql import locked
from tests.support.pushes import SOURCE, push
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.webhooks.signature import key_of, sign

# Of a transaction that holds its locks and waits for the table of counts.
_TURNS_TAKEN = """
SELECT count(*) FROM pg_locks AS taken JOIN pg_locks AS waiting USING (pid)
JOIN pg_database ON pg_database.oid = waiting.database AND datname = current_database()
WHERE taken.locktype = 'advisory' AND waiting.relation = 'order_count'::regclass
AND NOT waiting.granted"""


@pytest.mark.postgresql
def test_orders_of_many_shops_take_few_locks(own_store: Store) -> None:
    """All transactions share one table of locks, and fail when it is full."""
    own, secret = own_store, with_source(own_store)
    # The push waits for longer than this test may be held up.
    gateway = Gateway(own, call_timeout_s=60)
    body = as_json(*(order(f"sn-{n}", owner_id=f"88{n:07}") for n in range(200)))
    with ThreadPoolExecutor(1) as beside:
        with locked(own.url, "order_count"):
            answer = beside.submit(push, gateway, secret, body)
            ((turns,),) = eventually(lambda: own.run(_TURNS_TAKEN), lambda found: found != [(0,)])
        assert answer.result().json() == {"stored": 200, "unchanged": 0, "rejected": 0}
    assert turns <= 64
    assert gateway.stop() == 0


def test_a_push_killed_before_its_acknowledgement_can_be_pushed_again(own_store: Store) -> None:
    own, secret = own_store, with_source(own_store)
    records = [order(f"sn-{n:05}", confirm_time=START_MS + n * 1000) for n in range(5000)]
    body = as_json(*records)
    killed = 0
    for trial in range(3):
        gateway = Gateway(own)
        asyncio.run(_push_and_kill(gateway, secret, body, after_s=0.05 + 0.12 * trial))
        killed += gateway.stop() != 0
        assert own.do(miscounted) == {}
    assert killed == 3
    gateway = Gateway(own)
    counts = push(gateway, secret, body).json()
    assert counts["stored"] + counts["unchanged"] == 5000
    assert [order_sn for order_sn, _ in stored(own)] == [each["order_sn"] for each in records]
    assert own.do(miscounted) == {}
    gateway.stop()


async def _push_and_kill(gateway: Gateway, secret: str, body: bytes, after_s: float) -> None:
    """Sends a push and ends every process of the gateway before it can answer."""
    timestamp = str(int(time.time()))
    signature = sign(key_of(secret), "msg_k", timestamp, body)
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = (
        f"POST /push/orders HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        f"webhook-source: {SOURCE}\r\nwebhook-id: msg_k\r\nwebhook-timestamp: {timestamp}\r\n"
        f"webhook-signature: {signature}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    await asyncio.sleep(after_s)
    gateway.kill()
    writer.close()
