"""Loops over orders with the Python SDK, while orders arrive, change and leave."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.orders import OWNER, START_MS, new_shopper, order, put_orders
from tests.support.stores import Store
from tollway_client import AsyncClient, Client, errors
from tollway_client.exporting import download

_MINUTE_MS = 60_000


@pytest.fixture
def shop(tmp_path: Any) -> Iterator[Gateway]:
    with Gateway(Store(tmp_path / "tollway.db")) as gateway:
        yield gateway


def _orders(numbers: range, **changes: Any) -> list[dict[str, Any]]:
    """Orders a minute apart, oldest first."""
    return [
        order(f"order-{n:06}", **{"confirm_time": START_MS + n * _MINUTE_MS, **changes})
        for n in numbers
    ]


def _numbers(gateway: Gateway, at: dict[int, Callable[[], object]], **filters: Any) -> list[str]:
    """The order numbers that a loop gives; `at` has what happens after so many of them."""
    caller = new_shopper(gateway.store)
    found = []
    with Client(caller.token, gateway.base_url) as client:
        for each in client.iter_orders(owner_id=OWNER, **filters):
            found.append(each.order_sn)
            if len(found) in at:
                at[len(found)]()
    return found


def test_thousands_of_orders_are_given_once_each_while_others_arrive_and_change(
    shop: Gateway,
) -> None:
    store = shop.store
    put_orders(store, _orders(range(3000)))
    batches = {
        # Newer ones arrive, late ones arrive among those already given, some change.
        150: lambda: put_orders(store, _orders(range(3000, 3130))),
        800: lambda: put_orders(
            store,
            [order(f"late-{n}", confirm_time=START_MS + 2_700 * _MINUTE_MS) for n in range(7)],
        ),
        1_500: lambda: put_orders(
            store, _orders(range(0, 1800, 15), order_status=2, updated_at=START_MS + 1)
        ),
        2_300: lambda: put_orders(store, _orders(range(3130, 3200))),
    }
    found = _numbers(shop, batches)
    assert len(found) == len(set(found))
    assert {f"order-{n:06}" for n in range(3000)} <= set(found)
    assert [each for each in found if each.startswith("order")] == sorted(
        (each for each in found if each.startswith("order")), reverse=True
    )


def test_an_order_that_moves_up_while_the_loop_runs_is_not_missed(shop: Gateway) -> None:
    put_orders(shop.store, _orders(range(350)))
    moved = _orders(range(1), updated_at=START_MS + 1, confirm_time=START_MS + 340 * _MINUTE_MS)
    found = _numbers(shop, {100: lambda: put_orders(shop.store, moved)})
    assert sorted(found) == [f"order-{n:06}" for n in range(350)]


def test_more_orders_of_one_millisecond_than_a_page_has_are_all_given(shop: Gateway) -> None:
    put_orders(shop.store, _orders(range(50)))
    put_orders(shop.store, _orders(range(50, 300), confirm_time=START_MS + 50 * _MINUTE_MS))
    put_orders(shop.store, _orders(range(300, 350)))
    found = _numbers(shop, {})
    assert sorted(found) == [f"order-{n:06}" for n in range(350)]
    start, end = START_MS + 10 * _MINUTE_MS, START_MS + 51 * _MINUTE_MS
    assert len(_numbers(shop, {}, start_time=start, end_time=end)) == 290


class _Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that ends in the middle: by an error, or as if it were whole."""

    def __init__(self, body: bytes, *, is_error: bool) -> None:
        self._body, self._is_error = body, is_error

    def __iter__(self) -> Iterator[bytes]:
        yield self._body
        if self._is_error:
            raise httpx.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _cut(response: httpx.Response, body: bytes, count: int) -> httpx.Response:
    headers = {"content-type": response.headers["content-type"]}
    stream = _Cut(body[: len(body) // 3], is_error=count == 1)
    return httpx.Response(response.status_code, headers=headers, stream=stream)


class _CuttingTransport(httpx.HTTPTransport):
    """Cuts the first two files."""

    files = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if not request.url.path.endswith("/file"):
            return response
        self.files += 1
        return response if self.files > 2 else _cut(response, response.read(), self.files)


class _ChangingTransport(_CuttingTransport):
    """Changes the order after which the file is asked for, the first two times."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.changed: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        after = request.url.params.get("after")
        if after is not None and len(self.changed) < 2:
            self.changed.append(after)
            number = int(after.removeprefix("order-"))
            change = {"order_status": 2, "updated_at": START_MS + 1}
            put_orders(self._store, _orders(range(number, number + 1), **change))
        response = httpx.HTTPTransport.handle_request(self, request)
        if request.url.path.endswith("/file"):
            self.files += 1
            return _cut(response, response.read(), 1) if self.files == 1 else response
        return response


class _AsyncCuttingTransport(httpx.AsyncHTTPTransport):
    files = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if not request.url.path.endswith("/file"):
            return response
        self.files += 1
        return response if self.files > 2 else _cut(response, await response.aread(), self.files)


def test_an_export_that_breaks_off_is_read_on_and_each_order_comes_once(
    shop: Gateway, tmp_path: Path
) -> None:
    put_orders(shop.store, _orders(range(2500)))
    caller = new_shopper(shop.store)
    window = {"start_time": START_MS, "end_time": START_MS + 2500 * _MINUTE_MS}
    expected = [f"order-{n:06}" for n in reversed(range(2500))]
    transport = _CuttingTransport()
    with Client(caller.token, shop.base_url, http=httpx.Client(transport=transport)) as client:
        made = client.orders_export(owner_id=OWNER, **window)
        of = {"owner_id": OWNER, "export_id": made.export_id}
        found = [each.order_sn for each in client.iter_orders_export(**of)]
        assert (found, transport.files) == (expected, 3)
        with pytest.raises(errors.ParameterError):
            next(client.iter_orders_export(owner_id=OWNER, export_id="none"))

        def of_a_program_that_ends(after: str | None) -> Iterator[Any]:
            yield from islice(client.iter_orders_export(**of, after=after), 1200)
            raise KeyboardInterrupt

        file = tmp_path / "orders.jsonl"
        with pytest.raises(KeyboardInterrupt):
            download(of_a_program_that_ends, file, "order_sn")
        (partial,) = tmp_path.glob("*.part")
        with partial.open("a") as torn:
            torn.write('{"order_sn": "ord')
        count = download(
            lambda after: client.iter_orders_export(**of, after=after), file, "order_sn"
        )
    saved = [json.loads(line)["order_sn"] for line in file.read_text("utf-8").splitlines()]
    assert (saved, count) == (expected, 2500) and not partial.exists()

    async def in_asyncio() -> list[str]:
        http = httpx.AsyncClient(transport=_AsyncCuttingTransport())
        async with AsyncClient(caller.token, shop.base_url, http=http) as client:
            return [each.order_sn async for each in client.iter_orders_export(**of)]

    assert asyncio.run(in_asyncio()) == expected


def test_what_was_saved_of_an_export_that_has_expired_stays(tmp_path: Path) -> None:
    def expired(_after: str | None) -> Iterator[Any]:
        yield from ()
        raise errors.refused({"code": 100, "msg": "export_id: it has expired", "data": {}}, {}, 200)

    partial = tmp_path / "orders.jsonl.part"
    partial.write_text('{"order_sn": "1"}\n')
    with pytest.raises(errors.ParameterError, match="expired"):
        download(expired, tmp_path / "orders.jsonl", "order_sn")
    assert partial.read_text() == '{"order_sn": "1"}\n'


def test_an_export_is_read_on_also_if_the_last_orders_changed_since(
    shop: Gateway, tmp_path: Path
) -> None:
    put_orders(shop.store, _orders(range(2500)))
    caller = new_shopper(shop.store)
    window = {"start_time": START_MS, "end_time": START_MS + 2500 * _MINUTE_MS}
    expected = [f"order-{n:06}" for n in reversed(range(2500))]
    transport = _ChangingTransport(shop.store)
    with Client(caller.token, shop.base_url, http=httpx.Client(transport=transport)) as client:
        made = client.orders_export(owner_id=OWNER, **window)
        of = {"owner_id": OWNER, "export_id": made.export_id}
        found = [each.order_sn for each in client.iter_orders_export(**of)]
        assert found == expected and len(set(transport.changed)) == 2

        file = tmp_path / "orders.jsonl"
        lines = [json.dumps({"order_sn": each}) + "\n" for each in expected]
        Path(f"{file}.part").write_text("".join(lines[: 1 + expected.index(transport.changed[0])]))
        count = download(
            lambda after: client.iter_orders_export(**of, after=after), file, "order_sn"
        )
    saved = [json.loads(line)["order_sn"] for line in file.read_text("utf-8").splitlines()]
    # A changed order comes with the cursor of the export, and no longer with its file.
    assert saved == [each for each in expected if each not in transport.changed]
    assert count == 2498
