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
    warned = [line["message"] for line in logged if line["level"] == "warning"]
    # The server of the tests runs without fsync.
    return [message for message in warned if "PostgreSQL runs with" not in message]


def _allowed(url: str) -> int:
    names = "('superuser_reserved_connections', 'reserved_connections')"
    ((allowed,),) = run_on(
        url,
        "SELECT current_setting('max_connections')::integer - sum(setting::integer)::integer "
        f"FROM pg_settings WHERE name IN {names}",
    )
    assert isinstance(allowed, int)
    return allowed


@pytest.mark.parametrize("limited", ["server", "database"])
def test_the_one_that_is_too_many_is_reported(own_store: Store, limited: str) -> None:
    allowed = _allowed(own_store.url)
    if limited == "database":
        allowed = 50
        name = own_store.url.rpartition("/")[2]
        own_store.run(f"ALTER DATABASE {name} CONNECTION LIMIT {allowed}")
    # Two processes have just enough: a pool, and one that listens.
    connections = allowed // 2 - 1
    first = Gateway(own_store, workers=2, database_connections=connections)
    second = Gateway(own_store, database_connections=connections)
    assert _warnings(first) == []
    needed = 3 * (connections + 1)
    assert _warnings(second) == [
        f"PostgreSQL allows {allowed} connections here, and the 3 processes that serve may open "
        f"{needed}: let it allow {needed + 20} (max_connections, and CONNECTION LIMIT of the role "
        "and the database), or set database_connections lower on every node."
    ]
    assert [first.stop(), second.stop()] == [0, 0]
