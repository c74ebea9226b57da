"""The metrics leave the event loop to calls, however often they are asked for."""

import pytest

from tollway.gateway import probes
from tollway.gateway.probes import SharedMetrics

pytestmark = pytest.mark.sqlite
TOOK_S = 0.01


class Clock:
    now_s = 100.0

    async def sleep(self, delay_s: float) -> None:
        self.now_s += max(0, delay_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(probes, "monotonic", lambda: made.now_s)
    monkeypatch.setattr(probes.asyncio, "sleep", made.sleep)
    return made


def _metrics(clock: Clock) -> SharedMetrics:
    async def render() -> bytes:
        clock.now_s += TOOK_S
        return b"%f" % clock.now_s

    return SharedMetrics(render)


async def test_a_flood_has_a_tenth_of_the_loop_at_most(clock: Clock) -> None:
    metrics, began_s = _metrics(clock), clock.now_s
    for _ in range(20):
        await metrics.shared()
    assert (clock.now_s - began_s + 9 * TOOK_S) / 9.9 >= 20 * TOOK_S


async def test_the_first_request_in_a_while_gets_them_at_once_and_new(clock: Clock) -> None:
    metrics = _metrics(clock)
    before = await metrics.shared()
    clock.now_s += 1
    asked_s = clock.now_s
    assert await metrics.shared() != before
    assert clock.now_s == pytest.approx(asked_s + TOOK_S)
