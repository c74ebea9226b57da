"""A proxy in front of a gateway that cannot reach it for a while, as nginx answers then."""

import threading
from collections.abc import Iterator, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple

import httpx

_HTML = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<hr><center>nginx</center>\r\n"
# Of one hop, or made again by the server here.
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server", "host"}


class Away(NamedTuple):
    """An answer of the proxy itself. The gateway may get the request all the same."""

    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    has_arrived: bool = False


class FailingProxy:
    """Gives these answers first, then those of the gateway; notes the keys that were sent."""

    def __init__(self, address: str, *answers: Away) -> None:
        self.keys: list[str | None] = []
        self._gateway = httpx.Client(base_url=address, timeout=60)
        left: Iterator[Away] = iter(answers)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                proxy.keys.append(self.headers["idempotency-key"])
                away = next(left, None)
                if away is None or away.has_arrived:
                    got = proxy._forward(self.command, self.path, self.headers, body)
                if away is None:
                    self._answer(got.status_code, dict(got.headers), got.content)
                else:
                    self._answer(away.status, {"content-type": "text/html", **away.headers}, _HTML)

            def do_POST(self) -> None:
                self.do_GET()

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name not in _HOP:
                        self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _forward(self, method: str, path: str, headers: Message, body: bytes) -> httpx.Response:
        kept = {name: value for name, value in headers.items() if name.lower() not in _HOP}
        return self._gateway.request(method, path, headers=kept, content=body)

    def __enter__(self) -> "FailingProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._gateway.close()
