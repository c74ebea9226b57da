"""A receiver of webhooks, in this process, and a gateway that sends them at once."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.gateway import Gateway


class Received(NamedTuple):
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Takes webhooks on a free port; `answer` gives the status of each, `headers` are sent too."""

    def __init__(self, answer: Callable[[Received], int] = lambda _: 204) -> None:
        self.received: list[Received] = []
        self.answer = answer
        self.headers: dict[str, str] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(length)
                if len(body) < length:
                    # The sender was killed while it sent.
                    return
                found = Received(headers, body)
                receiver.received.append(found)
                self.send_response(receiver.answer(found))
                for name, value in {"content-length": "0", **receiver.headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class WatchfulGateway(Gateway):
    """One that reports what happens at once, also low balances and what expires."""

    def _start(self, _: str, *arguments: str, **where: Any) -> Any:
        return super()._start("tests.support.watchful", *arguments, **where)
