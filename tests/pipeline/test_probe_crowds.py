"""However often metrics and the OpenAPI document are requested, calls are hardly delayed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette

from tollway.gateway.description import description_route
from tollway.gateway.probes import Readiness, probes
from tollway.store.database import Database

# What is tested here is made without a database.
pytestmark = pytest.mark.sqlite
CROWD = 50


def ask(
    path: str, metrics: Callable[[], Awaitable[bytes]], description: dict[str, Any]
) -> list[bytes]:
    """The answers to many requests at the same time, and to one afterwards."""
    database = cast(Database, None)  # What is asked for here is not in it.
    readiness = Readiness(database, is_draining=lambda: False, is_crowded=lambda: False)
    apps = probes(metrics, readiness)
    described = Starlette(routes=[description_route(description)])
    description.clear()

    async def work() -> list[bytes]:
        transport = httpx.ASGITransport(apps.get(path, described))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            answers = await asyncio.gather(*(client.get(path) for _ in range(CROWD)))
            answers.append(await client.get(path))
        assert {each.status_code for each in answers} == {200}
        return [each.content for each in answers]

    return asyncio.run(work())


def test_metrics_are_made_once_for_all_who_ask_at_the_same_time() -> None:
    made = 0

    async def metrics() -> bytes:
        nonlocal made
        made += 1
        return str(made).encode()

    answers = ask("/metrics", metrics, {})
    assert answers == [b"1"] * CROWD + [b"2"], "and again for a later request"


def test_the_description_is_made_once() -> None:
    async def metrics() -> bytes:
        return b""

    answers = ask("/openapi.json", metrics, {"openapi": "3.1.0"})
    assert set(answers) == {b'{"openapi":"3.1.0"}'}
