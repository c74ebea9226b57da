"""A busy database is a failure of the gateway, not of outsiders: the answer does not say that too
many ask at once, and every request has its line in the log."""

import asyncio
import secrets
import time
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from tests.support.ledger import RUNTIME
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH, oauth_routes
from tollway.intake.loading import RecordKind
from tollway.intake.push import push_routes
from tollway.ledger.token_format import SECRET, mint
from tollway.store.database import StoreBusyError
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import CONTEXT, NO_IDS, RequestContext

pytestmark = pytest.mark.sqlite
SETTINGS = SimpleNamespace(oauth_token_minutes=60, call_timeout_s=5.0, body_timeout_s=5.0)


class BusyDatabase:
    """A database whose connections are all in use."""

    async def fetch_one(self, *_: object, **_values: object) -> None:
        raise StoreBusyError("no connection became free in time")


class Log:
    """Which requests were logged as those of outsiders."""

    def __init__(self) -> None:
        self.unauthenticated: list[bool] = []

    def write(self, *_: object, is_unauthenticated: bool, **_fields: object) -> None:
        self.unauthenticated.append(is_unauthenticated)


def _post(log: Log, path: str, **sent: Any) -> httpx.Response:
    kind = RecordKind("orders", "", cast(Any, lambda _: None), is_pushed=True)
    common = cast(Any, (Metrics(), log))
    oauth = oauth_routes(*cast(Any, (BusyDatabase(), SETTINGS)), *common)
    push = push_routes(*cast(Any, (BusyDatabase(), None, SETTINGS)), [kind], *common)
    routed = Starlette(routes=[*oauth, *push])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        context = RequestContext("req_1", NO_IDS, "192.0.2.1")
        await routed({**scope, CONTEXT: context}, receive, send)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(cast(Any, app))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.post(path, **sent)

    return asyncio.run(ask())


def test_503_a_token_request() -> None:
    log = Log()
    form = {
        "grant_type": GRANT_TYPE,
        "client_id": RUNTIME.new_id("cli_"),
        "client_secret": mint(SECRET, secrets.choice),
    }
    answer = _post(log, TOKEN_PATH, data=form)
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert answer.json()["error_description"] == "Try again in a moment."
    assert log.unauthenticated == [False]


def test_503_a_push() -> None:
    log = Log()
    signed = {"webhook-source": "erp", "webhook-id": "1", "webhook-signature": "v1,eA=="}
    headers = {**signed, "webhook-timestamp": str(int(time.time()))}
    answer = _post(log, "/push/orders", headers=headers, content=b"{}")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert log.unauthenticated == [False]
