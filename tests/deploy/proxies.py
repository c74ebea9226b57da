"""The load balancers of the docs, run as their pages say but without TLS."""

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.support.ports import free_port

TIMEOUT_S = 30
# One process: the workers of a root's would have another user, who cannot write to the folder.
_NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    {text}
}}
"""
# The page that each configuration is on; `nginx_alone` is in front of one gateway.
_PAGES = {
    "nginx": "docs/scale.md",
    "haproxy": "docs/scale.md",
    "nginx_alone": "docs/operate/serving.md",
}
PROXIES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            shutil.which(name.partition("_")[0]) is None, reason=f"{name} is not installed"
        ),
    )
    for name in _PAGES
]


@contextmanager
def proxy(
    name: str, ports: Sequence[int], folder: Path, office: str = "203.0.113.0/24"
) -> Iterator[str]:
    """The address of a proxy that is set up as its page says, in front of two nodes or one."""
    program = name.partition("_")[0]
    (block,) = [each for each in blocks_of(ROOT / _PAGES[name]) if each.language == program]
    text = block.text.replace("203.0.113.0/24", office)
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{ports[0]}")
    for node, port in zip(("11", "12"), ports, strict=True):
        text = text.replace(f"10.0.0.{node}:8080", f"127.0.0.1:{port}")
    assert "10.0.0." not in text
    port = free_port()
    check, serve = {"nginx": _nginx, "haproxy": _haproxy}[program](text, port, folder)
    subprocess.run(check, check=True)
    server = subprocess.Popen(serve)
    try:
        address = f"http://127.0.0.1:{port}"
        deadline_s = time.monotonic() + TIMEOUT_S
        while not _answers(address):
            assert time.monotonic() < deadline_s, f"{name} did not start"
            time.sleep(0.05)
        yield address
    finally:
        server.terminate()
        server.wait(TIMEOUT_S)


def _nginx(text: str, port: int, folder: Path) -> tuple[list[str], list[str]]:
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    text = re.sub(r"ssl_certificate\S*\s[^;]*;", "", text)
    path = folder / "nginx.conf"
    path.write_text(_NGINX.format(folder=folder, text=text), encoding="utf-8")
    serve = ["nginx", "-e", "stderr", "-c", str(path)]
    return [*serve, "-t", "-q"], serve


def _haproxy(text: str, port: int, folder: Path) -> tuple[list[str], list[str]]:
    text, found = re.subn(r"bind :443 ssl crt \S+", f"bind 127.0.0.1:{port}", text)
    assert found == 1
    path = folder / "haproxy.cfg"
    path.write_text(text, encoding="utf-8")
    # Rules that the mode does not know are only warned of: -dW makes a warning an error.
    serve = ["haproxy", "-db", "-dW", "-f", str(path)]
    return [*serve, "-c", "-q"], serve


def _answers(address: str) -> bool:
    try:
        # Of a path that no node is asked for.
        httpx.get(f"{address}/nothing", timeout=TIMEOUT_S)
    except httpx.TransportError:
        return False
    return True


class FakeNode:
    """A node that is as ready as it says, and breaks the connection of every call it was sent."""

    def __init__(self, ready_status: int) -> None:
        self.calls: list[str] = []
        self.forwarded_for: list[str] = []
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/readyz":
                    self.send_response(ready_status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    node.calls.append(self.path)
                    node.forwarded_for += self.headers.get_all("X-Forwarded-For", [])
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.port = self._server.server_port

    def __enter__(self) -> "FakeNode":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
