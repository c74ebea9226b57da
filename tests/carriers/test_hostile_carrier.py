"""A carrier, or an impostor, that answers what no carrier should."""

import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.carriers.conftest import ask, link_to, new_order
from tests.support.certificates import self_signed
from tests.support.fake_carrier import ISSUE, SECRET, FakeCarrier
from tollway.carriers.connectors.breaker import Breaker, State
from tollway.carriers.connectors.connector import (
    Connector,
    Issued,
    LinkRefusedError,
    NotSentError,
    OutcomeUnknownError,
    Updated,
    UpdatingConnector,
)
from tollway.carriers.labels.print_data import Place, RoutingInfo
from tollway.demo.fakes.carrier.signed_form import written_answer


class Impostor:
    """Listens, and gives every connection the same bytes, whatever it was sent."""

    def __init__(self, reply: bytes | None, tls: ssl.SSLContext | None = None) -> None:
        self._reply = reply
        self._tls = tls
        self.received = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "Impostor":
        if self._reply is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Wakes the thread, which a close alone would leave waiting.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._reply is not None:
            self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError), self._wrapped(connection) as stream:
                    self.received = _request(stream)
                    stream.sendall(self._reply or b"")

    @contextmanager
    def _wrapped(self, connection: socket.socket) -> Iterator[socket.socket]:
        if self._tls is None:
            yield connection
        else:
            with self._tls.wrap_socket(connection, server_side=True) as stream:
                yield stream


def _request(stream: socket.socket) -> bytes:
    """All of a request: to close before it is read would cut the answer off as well."""
    received = b""
    while chunk := stream.recv(65536):
        received += chunk
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        if length is not None and len(body) >= int(length[1]):
            break
    return received


def _http(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (_http("500 Oops", b""), "HTTP 500"),
        (_http("200 OK", b"x" * 100_000), "too long"),
        (_http("200 OK", b"\xff\xfe"), "not a signed form"),
        (_http("200 OK", b"data_digest=x"), "not a signed form"),
        (_http("200 OK", b"logistics_interface=%7B%7D&data_digest=%E9"), "wrong digest"),
        (_http("200 OK", written_answer({"success": 1}, SECRET)), "cannot be read"),
        (
            _http("200 OK", written_answer({"success": True, "objectId": "wb_other"}, SECRET)),
            "about another order",
        ),
        (b"nonsense\r\n\r\n", "No answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "No answer"),
        # More than is read, before an answer and within one.
        (b"HTTP/1.1 100 \r\n\r\n" * 20_000 + _http("200 OK", b""), "No answer"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40_000,
            "ReadError",
        ),
    ],
)
def test_what_is_no_answer_leaves_the_outcome_unknown(reply: bytes, sentence: str) -> None:
    with Impostor(reply) as impostor, pytest.raises(OutcomeUnknownError, match=sentence):
        # Time enough to read a long answer on a busy machine.
        link = link_to(f"http://127.0.0.1:{impostor.port}", deadline_ms=60_000)
        ask(link, lambda to: to.issue(new_order()))


def test_routing_that_fits_on_no_label_is_left_out_and_the_number_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would stay with the waybill for good, and each label would take seconds to draw."""
    order, number = new_order(), "YT0000000000001"
    routing = {
        "sortation": {"name": "广东转运中心", "code": "\x1b[2J"},
        "consolidation": {"name": "集" * 41, "code": "7" * 24},
        "origin": {"name": "杭" * 40, "code": "7" * 25},
        "routeCode": "7" * 60_000,
    }
    content = {"success": True, "objectId": order.ref.task_id, "waybillCode": number}
    reply = _http("200 OK", written_answer({**content, "routingInfo": routing}, SECRET))
    kept = RoutingInfo(Place("广东转运中心"), Place("", "7" * 24), Place("杭" * 40))

    async def update(to: Connector) -> object:
        assert isinstance(to, UpdatingConnector)
        return await to.update(order, number)

    with Impostor(reply) as impostor:
        link = link_to(f"http://127.0.0.1:{impostor.port}")
        assert ask(link, lambda to: to.issue(order)) == Issued(number, kept)
        assert ask(link, lambda to: to.look_up(order.ref)) == Issued(number, kept)
        assert ask(link, update) == Updated(kept)
    assert [each.levelname for each in caplog.records].count("WARNING") == 3


def test_nothing_of_an_answer_is_sent_with_the_next_message() -> None:
    reply = _http("200 OK", b"", "Set-Cookie: a=b", "Connection: close")

    async def twice(to: Connector) -> None:
        for _ in range(2):
            with suppress(OutcomeUnknownError):
                await to.issue(new_order())

    with Impostor(reply) as impostor:
        ask(link_to(f"http://127.0.0.1:{impostor.port}"), twice)
        assert b"POST" in impostor.received
        assert b"cookie" not in impostor.received.lower()


def test_a_redirect_is_not_followed(fake: FakeCarrier) -> None:
    before = fake.received(ISSUE)
    reply = _http("307 Elsewhere", b"", f"Location: {fake.url}/")
    with Impostor(reply) as impostor, pytest.raises(OutcomeUnknownError, match="HTTP 307"):
        ask(link_to(f"http://127.0.0.1:{impostor.port}"), lambda to: to.issue(new_order()))
    assert fake.received(ISSUE) == before


@pytest.mark.parametrize(
    ("code", "error", "state"),
    [
        # It refuses the link itself, so every message would be turned away.
        ("S02", LinkRefusedError, State.OPEN),
        # It was answered: the next message may be of another kind.
        ("S10", NotSentError, State.CLOSED),
        ("S06", OutcomeUnknownError, State.OPEN),
        ("S99", OutcomeUnknownError, State.OPEN),
    ],
)
def test_the_gateway_before_the_carrier_may_or_may_not_have_passed_a_message_on(
    code: str, error: type[Exception], state: State
) -> None:
    order = new_order()
    content = {"success": False, "objectId": order.ref.task_id, "errorCode": code}
    reply = _http("200 OK", written_answer(content, SECRET))
    breaker = Breaker("YTO", lambda: 0.0, failures_max=1)
    with Impostor(reply) as impostor, pytest.raises(error, match="carrier's gateway"):
        link = link_to(f"http://127.0.0.1:{impostor.port}")
        ask(link, lambda to: to.issue(order), breaker=breaker)
    assert breaker.state is state


@pytest.mark.parametrize(
    ("scheme", "deadline_ms", "error"),
    # Half of the deadline must be enough to connect.
    [("https", 300, NotSentError), ("http", 2000, OutcomeUnknownError)],
)
def test_a_deadline_says_whether_anything_was_sent_yet(
    scheme: str, deadline_ms: int, error: type[Exception]
) -> None:
    """Neither is answered; but over TLS the message waits for a handshake that never comes."""
    with Impostor(None) as silent, pytest.raises(error, match="Timeout"):
        link = link_to(f"{scheme}://127.0.0.1:{silent.port}", deadline_ms=deadline_ms)
        ask(link, lambda to: to.issue(new_order()))


def test_a_self_signed_certificate_gets_no_message(tmp_path: Path) -> None:
    order = new_order()
    content = {"success": True, "objectId": order.ref.task_id, "waybillCode": "YT0000000000001"}
    reply = _http("200 OK", written_answer(content, SECRET))
    with Impostor(reply, _self_signed(tmp_path)) as impostor:
        with pytest.raises(NotSentError, match="ConnectError"):
            ask(link_to(f"https://127.0.0.1:{impostor.port}"), lambda to: to.issue(order))
        assert impostor.received == b""


def test_control_the_same_answer_without_tls_is_taken() -> None:
    order = new_order()
    content = {"success": True, "objectId": order.ref.task_id, "waybillCode": "YT0000000000001"}
    with Impostor(_http("200 OK", written_answer(content, SECRET))) as impostor:
        issued = ask(link_to(f"http://127.0.0.1:{impostor.port}"), lambda to: to.issue(order))
        assert issued == Issued("YT0000000000001")
        assert ISSUE.encode() in impostor.received


def _self_signed(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder))
    return context
