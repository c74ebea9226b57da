"""How requests become calls: which are refused before that, and which fail alone."""

from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import pytest

from tollway.pipeline.bodies import ByteBudget, Scope
from tollway.pipeline.call import Answer
from tollway.pipeline.http import Edge, headers_by_name, improper_request
from tollway.settings import Settings
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite


def scope_of(
    *headers: tuple[bytes, bytes], method: str = "GET", http_version: str = "1.1"
) -> Scope:
    return {
        "http_version": http_version,
        "method": method,
        "raw_path": b"/",
        "query_string": b"",
        "headers": list(headers),
        "client": ("127.0.0.1", 9),
    }


async def _unread() -> dict[str, Any]:
    raise AssertionError("nothing reads it")


def test_the_edge_refuses_every_request_that_is_improper_and_no_other() -> None:
    class Refusing:
        def run(self, calls: Sequence[object]) -> list[Answer]:
            return [Answer(200, [], b"run") for _ in calls]

        def refuse(self, _call: object, _refusal: object) -> Answer:
            return Answer(400, [], b"refused")

    edge = Edge(Refusing(), Settings(), Metrics(), ByteBudget())  # type: ignore[arg-type]
    host, other, more = (b"host", b"a"), (b"host", b"b"), (b"accept", b"*")
    # As the server adds it if there is none.
    empty = (b"host", b"")
    found = [(), (empty,), (host,), (host, host), (host, other), (host, empty), (host, more, more)]
    found += [(more, more)]
    scopes = [
        scope_of(*headers, method=method, http_version=version)
        for headers, method, version in product(found, ("GET", "CONNECT"), ("1.0", "1.1", "2"))
    ]
    improper = 0
    answers = edge.begin([(scope, _unread) for scope in scopes])
    for scope, answer in zip(scopes, answers, strict=True):
        is_improper = improper_request(scope, headers_by_name(scope["headers"])) is not None
        assert isinstance(answer, Answer) and (answer.body == b"refused") is is_improper, scope
        improper += is_improper
    assert improper == 36


async def test_a_request_that_cannot_be_read_fails_alone() -> None:
    class Running:
        def run(self, calls: Sequence[object]) -> list[Answer]:
            return [Answer(200, [], b"run") for _ in calls]

    edge = Edge(Running(), Settings(), Metrics(), ByteBudget())  # type: ignore[arg-type]
    scopes = [scope_of((b"host", b"test")), {}, scope_of((b"host", b"test"))]
    first, failed, last = edge.begin([(scope, _unread) for scope in scopes])
    assert isinstance(first, Answer) and isinstance(last, Answer)
    with pytest.raises(KeyError):
        await cast(Any, failed)
