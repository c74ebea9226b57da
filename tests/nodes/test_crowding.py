"""A gateway says at its start when all that serve may open more connections than the server
allows."""

import json

import pytest

from tests.support.gateway import Gateway
from tests.support.postgresql import run_on
from tests.support.stores import Store

pytestmark = pytest.mark.postgresql


def _warnings(gateway: Gateway) -> list[str]:
    logged = [json.loads(line) for line in gateway.log().splitlines()]
    return [line["message"] for line in logged if line["level"] == "warning"]


def _settings(url: str) -> tuple[int, int]:
    """How many connections there may be, and how many of them are for superusers alone."""
    names = "('max_connections', 'superuser_reserved_connections', 'reserved_connections')"
    rows = run_on(url, f"SELECT setting::integer FROM pg_settings WHERE name IN {names}")
    in_all, *reserved = sorted((int(str(setting)) for (setting,) in rows), reverse=True)
    return in_all, sum(reserved)


def test_the_one_that_is_too_many_is_told(own_store: Store) -> None:
    in_all, reserved = _settings(own_store.url)
    allowed = in_all - reserved
    # Two processes have just enough: a pool, and one that listens.
    connections = allowed // 2 - 1
    first = Gateway(own_store, workers=2, database_connections=connections)
    second = Gateway(own_store, database_connections=connections)
    assert _warnings(first) == []
    needed = 3 * (connections + 1)
    assert _warnings(second) == [
        f"PostgreSQL allows {allowed} connections, and the 3 processes that serve it may open "
        f"{needed}: set its max_connections to {needed + reserved + 20} or more, or set "
        "database_connections lower on every node."
    ]
    assert [first.stop(), second.stop()] == [0, 0]
