"""What must hold when many call at once."""

import asyncio
import json
import re
import time
from collections import Counter
from urllib.parse import urlencode

from tests.support.books import calls_left, new_caller
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.stores import Store


async def _fire(
    gateway: Gateway, token: str, query: dict[str, str], clients: int, calls_each: int
) -> Counter[int]:
    """Codes of `clients` connections that call one after the other, all at the same time."""
    request = (
        f"GET {ANALYSIS}?{urlencode(query)} HTTP/1.1\r\n"
        f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()
    codes: Counter[int] = Counter()
    all_connected = asyncio.Barrier(clients)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        await all_connected.wait()
        for _ in range(calls_each):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None
            codes[json.loads(await reader.readexactly(int(length[1])))["code"]] += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return codes


def test_64_clients_on_500_calls_get_exactly_500_successes(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=500, rate_limit=100_000)
    codes = asyncio.run(_fire(gateway, caller.token, question, clients=64, calls_each=10))
    assert codes == {0: 500, 204: 140}
    assert calls_left(store, caller) == 0


def test_30_at_once_get_exactly_10(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=100)
    began_s = time.monotonic()
    codes = asyncio.run(_fire(gateway, caller.token, question, clients=30, calls_each=1))
    assert time.monotonic() - began_s < 1, "not at once: this machine is too busy for the test"
    assert codes == {0: 10, 202: 20}
    assert calls_left(store, caller) == 90


def test_paced_at_9_9_a_second_none_is_refused(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=100)
    began_s = time.monotonic()
    for number in range(40):
        due_s = began_s + number / 9.9
        while (wait_s := due_s - time.monotonic()) > 0:
            time.sleep(wait_s)
        assert gateway.get(token=caller.token, query=question).code == 0
    assert calls_left(store, caller) == 60
