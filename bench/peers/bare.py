"""The gateway's own HTTP server, with the same options, that sends bytes from its memory.

Leaves out everything but HTTP: the body is not read, and no token, limit, data or charge is looked
at. So the ratio of a paid call to it is the price of all of that. It is an ASGI application as the
server runs any, with a task for each request, which the gateway does without.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from granian.server.mp import MPServer

from bench.peers.answers import Answer
from bench.servers import free_port, start
from tollway.cli.setting_sources import load_settings
from tollway.gateway.supervisor import server_options

_SERVER_OWN = ("server", "date")


class Bare(msgspec.Struct):
    """One answer, for the requests to its path."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def start_bare(folder: Path, answers: dict[str, Answer]) -> tuple[int, Any]:
    """Starts it with an answer for each path; returns its port and its process."""
    bare = {
        path: Bare(
            each.status,
            [header for header in each.headers if header[0] not in _SERVER_OWN],
            each.body,
        )
        for path, each in answers.items()
    }
    file, port = folder / "bare.answers", free_port()
    file.write_bytes(msgspec.msgpack.encode(bare))
    command = [sys.executable, "-m", "bench.peers.bare", str(port), str(file)]
    return port, start(command, port, Path.cwd(), folder / "bare.log")


def bare_request(request: bytes, path: str) -> bytes:
    """The same request, with the path that its answer has here."""
    method, target, rest = request.split(b" ", 2)
    query = target.partition(b"?")[2]
    return b" ".join((method, path.encode() + (b"?" + query if query else b""), rest))


async def _bare(answers: dict[str, tuple[Any, Any]], scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    head, body = answers[scope["path"]]
    await send(head)
    await send(body)


def _load(file: str) -> Any:
    found = msgspec.msgpack.decode(Path(file).read_bytes(), type=dict[str, Bare])
    answers = {}
    for path, each in found.items():
        headers = [(name.encode(), value.encode()) for name, value in each.headers]
        answers[path] = (
            {"type": "http.response.start", "status": each.status, "headers": headers},
            {"type": "http.response.body", "body": each.body},
        )
    return partial(_bare, answers)


if __name__ == "__main__":
    settings, _ = load_settings({"port": int(sys.argv[1])})
    server = MPServer("tollway", **server_options(settings))
    server.serve(target_loader=partial(_load, sys.argv[2]), wrap_loader=False)
