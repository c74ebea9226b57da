"""A server that neither answers nor goes away: calls wait for it less than for a slow one."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from time import monotonic

import pytest

from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import new_caller
from tests.support.pair import Pair
from tests.support.postgresql import Server, run_on

pytestmark = pytest.mark.postgresql

# Longer than any client of these tests waits.
SLOW_ANSWER_S = 300
DEADLINE_S = 60


class Served:
    """A gateway on a server of its own, and paid calls to it."""

    def __init__(self, folder: Path, direct: str, url: str, today: date) -> None:
        store = store_with_figures(folder / "tollway.db", today, direct)
        self._token = new_caller(store, calls=1000, rate_limit=1000).token
        store.url = url
        self.gateway = Gateway(store, call_timeout_s=SLOW_ANSWER_S)

    def call(self, question: dict[str, str]) -> Reply:
        return self.gateway.get(token=self._token, query=question)

    def until_paid(self, question: dict[str, str]) -> None:
        deadline_s = monotonic() + DEADLINE_S
        while (reply := self.call(question)).code != 0:
            assert reply.code == 202, reply.envelope
            assert monotonic() < deadline_s, self.gateway.log()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair(is_synchronous=True)
    yield made
    made.remove()


def test_202_while_the_only_server_is_silent_and_all_is_well_when_it_speaks_again(
    tmp_path: Path, today: date, server: Server, question: dict[str, str]
) -> None:
    served = Served(tmp_path, server.url, server.url, today)
    assert served.call(question).code == 0
    with server.held():
        for _ in range(3):
            assert served.call(question).code == 202
        assert served.gateway.client.get("/readyz").status_code == 503
    served.until_paid(question)
    assert served.gateway.stop() == 0


def test_calls_go_on_with_the_standby_although_the_primary_is_only_silent(
    tmp_path: Path, today: date, pair: Pair, question: dict[str, str]
) -> None:
    served = Served(tmp_path, pair.primary.url, pair.url, today)
    assert served.call(question).code == 0
    with pair.primary.held():
        run_on(pair.standby.url, "SELECT pg_promote(wait => true)")
        served.until_paid(question)
        assert [served.call(question).code for _ in range(5)] == [0] * 5
        assert served.gateway.stop() == 0
