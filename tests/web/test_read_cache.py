"""What pages show of a long read: what was read a moment ago, and they do not wait for the next."""

import asyncio
from collections.abc import Awaitable

import pytest

from tollway.web import read_cache
from tollway.web.read_cache import ReadCache


class Reads:
    """Reads that end when a test says so, each with its number as the result."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[list[int]]] = []

    def __call__(self) -> Awaitable[list[int]]:
        self.begun.append(asyncio.get_running_loop().create_future())
        return self.begun[-1]

    def end_last(self) -> None:
        self.begun[-1].set_result([len(self.begun)])


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(read_cache, "monotonic", made)
    monkeypatch.setattr(read_cache, "_AFTER_S", 0.0)
    return made


async def turns() -> None:
    """Lets tasks that have been made run as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def first_result(known: ReadCache, reads: Reads) -> list[int]:
    waiting = asyncio.create_task(known.get("rows", reads))
    await turns()
    reads.end_last()
    return await waiting


async def test_a_page_shows_what_is_known_while_it_is_read_again(clock: Clock) -> None:
    known, reads = ReadCache(), Reads()
    assert await first_result(known, reads) == [1]
    clock.now_s = 14
    assert await known.get("rows", reads) == [1]
    assert len(reads.begun) == 1
    clock.now_s = 16
    for _ in range(3):
        assert await known.get("rows", reads) == [1]
        await turns()
    assert len(reads.begun) == 2
    reads.end_last()
    await turns()
    assert await known.get("rows", reads) == [2]


async def test_a_page_waits_for_what_is_known_no_more(clock: Clock) -> None:
    known, reads = ReadCache(), Reads()
    await first_result(known, reads)
    clock.now_s = 600
    assert await first_result(known, reads) == [2]


async def test_pages_that_wait_share_one_read(clock: Clock) -> None:
    known, reads = ReadCache(), Reads()
    waiting = [asyncio.create_task(known.get("rows", reads)) for _ in range(3)]
    await turns()
    waiting[0].cancel()
    await turns()
    reads.end_last()
    assert await asyncio.gather(*waiting[1:]) == [[1], [1]]
    assert len(reads.begun) == 1


async def test_a_read_that_failed_is_tried_again_by_the_next_page(clock: Clock) -> None:
    known, reads = ReadCache(), Reads()
    await first_result(known, reads)
    clock.now_s = 16
    assert await known.get("rows", reads) == [1]
    await turns()
    reads.begun[-1].set_exception(OSError("gone"))
    await turns()
    assert await known.get("rows", reads) == [1]
    await turns()
    assert len(reads.begun) == 3
    clock.now_s = 600
    waiting = asyncio.create_task(known.get("rows", reads))
    await turns()
    reads.begun[-1].set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await waiting


async def test_an_empty_result_is_read_again_at_once(clock: Clock) -> None:
    known = ReadCache()
    results = [[], [1]]

    async def read() -> list[int]:
        return results.pop(0)

    assert await known.get("rows", read) == []
    assert await known.get("rows", read) == [1]
