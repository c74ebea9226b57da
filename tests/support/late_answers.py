"""A proxy to PostgreSQL, or to a carrier, that can keep one answer back, as a network does that
repeats itself, or lose it."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import urlsplit

_PIECE = 65_536
_PATIENCE_S = 60


class HeldAnswer:
    """The answer to the next statement or message that has all of these texts in it."""

    def __init__(self, texts: tuple[str | bytes, ...]) -> None:
        self._texts = [text.encode() if isinstance(text, str) else text for text in texts]
        self._is_asked = False
        self._instead: bytes | None = None
        self._has_come = Event()
        self.let_go = Event()

    def is_asked_by(self, piece: bytes) -> bool:
        """Whether this is the question; only one is."""
        if self._is_asked or not all(text in piece for text in self._texts):
            return False
        self._is_asked = True
        return True

    def keep_back(self) -> bytes | None:
        """What is sent in place of the answer; None if the answer goes on at last."""
        self._has_come.set()
        self.let_go.wait()
        return self._instead

    def lose(self, instead: bytes = b"") -> None:
        """It never arrives: its connection breaks, after what comes in place of it."""
        self._instead = instead
        self.let_go.set()

    def wait(self) -> None:
        """Returns when the server has answered."""
        assert self._has_come.wait(_PATIENCE_S), "nothing was asked"


class LateAnswers:
    """Passes everything on between a gateway that uses `url` and the server behind it."""

    def __init__(self, url: str) -> None:
        behind = urlsplit(url)
        assert behind.hostname and behind.port
        self._behind = (behind.hostname, behind.port)
        self._held: HeldAnswer | None = None
        self._door = socket.create_server(("127.0.0.1", 0))
        port = self._door.getsockname()[1]
        self.url = url.replace(f":{behind.port}/", f":{port}/")
        Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def held(self, *texts: str | bytes) -> Iterator[HeldAnswer]:
        """Keeps one answer back until the block ends."""
        held = self._held = HeldAnswer(texts)
        try:
            yield held
        finally:
            self._held = None
            held.let_go.set()

    def close(self) -> None:
        # This wakes the thread in accept(); closing the socket would not.
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                _Link(client, socket.create_connection(self._behind), self._held_now).start()

    def _held_now(self) -> HeldAnswer | None:
        return self._held


class _Link:
    """One connection."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        held_now: Callable[[], HeldAnswer | None],
    ) -> None:
        self._client, self._server = client, server
        self._held_now = held_now
        self._keeps_back: HeldAnswer | None = None

    def start(self) -> None:
        Thread(target=self._questions, daemon=True).start()
        Thread(target=self._answers, daemon=True).start()

    def _questions(self) -> None:
        with suppress(OSError), self._server:
            while piece := self._client.recv(_PIECE):
                held = self._held_now()
                if held is not None and held.is_asked_by(piece):
                    self._keeps_back = held
                self._server.sendall(piece)
            self._server.shutdown(socket.SHUT_RDWR)

    def _answers(self) -> None:
        with suppress(OSError), self._client:
            while piece := self._server.recv(_PIECE):
                if self._keeps_back is not None:
                    if (instead := self._keeps_back.keep_back()) is not None:
                        self._client.sendall(instead)
                        break
                    self._keeps_back = None
                self._client.sendall(piece)
            self._client.shutdown(socket.SHUT_RDWR)
