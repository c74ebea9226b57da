"""The proxy that counts round trips leaves nothing behind, whenever it is closed."""

import asyncio
import gc
import socket
import threading
import warnings
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.wire import Wire

pytestmark = pytest.mark.sqlite
_URL = "postgresql://someone@127.0.0.1:{}/nothing"


def closed_in_the_turn_of(
    monkeypatch: pytest.MonkeyPatch, is_meant: Callable[[asyncio.StreamWriter, int], bool]
) -> list[str]:
    """Has a proxy end in the very turn of its loop in which it closes a connection; gives what was
    then left open."""
    close = asyncio.StreamWriter.close
    is_closing = threading.Event()

    def close_and_stop(self: asyncio.StreamWriter) -> None:
        close(self)
        if is_meant(self, port) and not is_closing.is_set():
            asyncio.get_running_loop().stop()
            is_closing.set()

    # What earlier tests left behind is not of this one.
    gc.collect()
    monkeypatch.setattr(asyncio.StreamWriter, "close", close_and_stop)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        wire = Wire(_URL.format(port))
        with socket.create_connection(("127.0.0.1", wire.port)):
            server.accept()[0].close()
            assert is_closing.wait(10)
        wire._thread.join(10)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del wire
        gc.collect()
    return [str(each.message) for each in seen if each.category is ResourceWarning]


def leads_to(writer: asyncio.StreamWriter, port: int) -> bool:
    return bool(writer.get_extra_info("peername")[1] == port)


def test_a_connection_that_is_closed_in_its_last_turn_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert closed_in_the_turn_of(monkeypatch, leads_to) == []


def test_so_is_the_one_to_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    left = closed_in_the_turn_of(monkeypatch, lambda writer, port: not leads_to(writer, port))
    assert left == []


def test_a_connection_that_comes_in_the_last_turn_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server of asyncio that is closed forgets those that it has just accepted."""
    accept = BaseSelectorEventLoop._accept_connection  # type: ignore[attr-defined]
    has_come = threading.Event()

    def accept_and_stop(loop: BaseSelectorEventLoop, *given: Any) -> None:
        accept(loop, *given)
        loop.stop()
        has_come.set()

    gc.collect()
    monkeypatch.setattr(BaseSelectorEventLoop, "_accept_connection", accept_and_stop)
    wire = Wire(_URL.format(1))
    with socket.create_connection(("127.0.0.1", wire.port)):
        assert has_come.wait(10)
        wire._thread.join(10)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del wire
        gc.collect()
    assert [str(each.message) for each in seen if each.category is ResourceWarning] == []
