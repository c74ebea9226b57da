"""`python -m tests.support.broken ARGUMENTS`: `tollway` without its guards, for controls.

A test that shows how an attack is stopped must fail where nothing stops it. This gateway gives any
account the receipts of all, takes any signature and any record of a push, fills pages with names as
they are, and takes any form."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jinja2

from tests.support.forks import Fork
from tests.support.gateway import Gateway
from tollway.__main__ import main
from tollway.intake import push
from tollway.intake.sources import SourceScope
from tollway.ledger.receipts import find_receipt
from tollway.pipeline import receipts
from tollway.web import template_environment
from tollway.web.sign_in import Sessions


class BrokenGateway(Gateway):
    """A gateway like any other, but for what is broken in it."""

    def _start(self, *command: str, **where: Any) -> Any:
        return Fork(__name__, *command[1:], **where)


def break_all() -> None:
    async def any_receipt(database: Any, _account_id: str, *others: Any) -> Any:
        return await find_receipt(database, None, *others)

    async def any_form(*_: object) -> bool:
        return True

    class Unescaped(jinja2.Environment):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **{**options, "autoescape": False})

    receipts.find_receipt = any_receipt  # type: ignore[assignment]
    push.signing_key = lambda _claimed, keys, _body: keys[0]  # type: ignore[assignment]
    SourceScope.check = lambda *_: None  # type: ignore[method-assign,assignment]
    Sessions.is_own_form = any_form  # type: ignore[method-assign,assignment]
    template_environment.Environment = Unescaped  # type: ignore[misc]


class NaiveServer(NamedTuple):
    """The port of a server that ignores bodies: it takes every head for a request."""

    port: int


@contextmanager
def naive_server() -> Iterator[NaiveServer]:
    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            heads = connection.recv(65_536).count(b"HTTP/1.1\r\n")
            body = b'{"code":0,"msg":"Success","msec":0,"time":0,"data":{}}'
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            connection.sendall((head + body) * heads)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve)
        server.start()
        yield NaiveServer(listening.getsockname()[1])
        server.join()


if __name__ == "__main__":
    break_all()
    main(sys.argv[1:])
