"""One webhook over TLS, to a receiver in this process."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.support.certificates import self_signed
from tollway.webhooks import http_post

pytestmark = pytest.mark.sqlite


class TlsReceiver:
    """Answers what ends with {}; `arrived` is all that came."""

    def __init__(self, pem: Path) -> None:
        self.arrived = b""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection, suppress(OSError), self._secured(connection) as stream:
                    while piece := stream.recv(4096):
                        self.arrived += piece
                        if piece.endswith(b"{}"):
                            stream.sendall(b"HTTP/1.0 204\r\n\r\n")

    def _secured(self, connection: socket.socket) -> ssl.SSLSocket:
        return self._context.wrap_socket(connection, server_side=True)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def status(self, host: str, *addresses: str) -> int:
        url = httpx2.URL(f"https://{host}:{self.port}/hook?a=b")
        found = addresses or ("127.0.0.1",)
        return asyncio.run(http_post.post(url, found, {}, b"{}", 10.0))


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    return self_signed(tmp_path)


@pytest.fixture
def receiver(pem: Path) -> Iterator[TlsReceiver]:
    made = TlsReceiver(pem)
    yield made
    made.close()


def test_to_a_certificate_of_no_authority_nothing_is_sent(receiver: TlsReceiver) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        receiver.status("127.0.0.1")
    assert receiver.arrived == b""


def test_a_trusted_certificate_must_be_of_the_host(
    receiver: TlsReceiver, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_post, "_trust", lambda: ssl.create_default_context(cafile=pem))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        receiver.status("other.example")
    assert receiver.arrived == b""
    assert receiver.status("127.0.0.1") == 204
    assert receiver.arrived.startswith(b"POST /hook?a=b HTTP/1.1\r\nHost: 127.0.0.1:")


def test_one_address_that_never_answers_leaves_time_for_the_next(
    receiver: TlsReceiver, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_post, "_trust", lambda: ssl.create_default_context(cafile=pem))
    monkeypatch.setattr(http_post, "_CONNECT_MAX_S", 0.05)
    with socket.create_server(("127.0.0.9", receiver.port)):
        assert receiver.status("127.0.0.1", "127.0.0.9", "127.0.0.1") == 204
