"""Calls that are given up while they wait for their moment: others get it."""

import asyncio
import json

import httpx
import pytest

from tests.sdk.conftest import Run
from tollway_client import AsyncClient, Client
from tollway_client._pacing import Pacer

_ANSWER = json.dumps({"code": 200, "msg": "", "msec": 1, "time": 1, "data": {}}).encode()

pytestmark = pytest.mark.sqlite


def _answered(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=_ANSWER)


def test_a_moment_that_is_given_back_is_the_next_one() -> None:
    now_s = 0.0
    pacer = Pacer(lambda: now_s)
    moments = [pacer.reserve("a") for _ in range(30)]
    for _, at_s in (moments[25], moments[15]):
        pacer.give_back("a", at_s)
    waits = [pacer.reserve("a")[0] for _ in range(3)]
    assert waits == pytest.approx([1.05, 2.1, 3.15])
    # What is past is no moment any more: others may be taken close to it.
    pacer.give_back("a", moments[16][1])
    now_s = 2.0
    assert pacer.reserve("a")[0] == pytest.approx(1.15)


def test_tasks_that_are_cancelled_leave_their_moments() -> None:
    async def work() -> float:
        http = httpx.AsyncClient(transport=httpx.MockTransport(_answered))
        async with AsyncClient("tw_live_x", "http://x", retries=0, http=http) as client:
            tasks = [asyncio.create_task(client.orders(owner_id="1")) for _ in range(200)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return client._core._pacer.reserve("orders")[0]

    assert asyncio.run(work()) <= 1.05


def test_a_call_that_is_interrupted_leaves_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tollway_client._drivers.time.sleep", interrupted)
    http = httpx.Client(transport=httpx.MockTransport(_answered))
    with Client("tw_live_x", "http://x", retries=0, http=http) as client:
        reserved = [client._core._pacer.reserve("orders") for _ in range(10)]
        assert len(reserved) == 10
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt):
                client.orders(owner_id="1")
            with pytest.raises(KeyboardInterrupt):
                next(client.iter_orders(owner_id="1"))
        assert client._core._pacer.reserve("orders")[0] <= 1.05


def test_javascript_calls_that_are_aborted_leave_their_moments(run: Run) -> None:
    script = """
    const fetch = async () => new Response('{"code":200,"msg":"","msec":1,"time":1,"data":{}}');
    const client = new tollway.Client({ token: "t", baseUrl: "http://x", retries: 0, fetch });
    const stop = new AbortController();
    const calls = Array.from({ length: 200 }, () =>
      client.orders({ owner_id: "1" }, { signal: stop.signal }));
    await calls[0].catch(() => 0);
    stop.abort();
    const ended = await Promise.allSettled(calls);
    const began = performance.now();
    await client.orders({ owner_id: "1" }).catch(() => 0);
    print([ended.length, performance.now() - began < 5000]);
    """
    assert run(script) == [[200, True]]
