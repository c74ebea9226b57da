"""What is changed anywhere is seen on every node within a second, also while one hears nothing."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import date
from time import monotonic

import pytest

from tests.support import forks
from tests.support.clients import new_client, obtain, revoke
from tests.support.consent import allow, ask, new_asker, new_person
from tests.support.engines import Engine
from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway
from tests.support.ledger import CALLS, RUNTIME, new_caller
from tests.support.postgresql import run_on
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.grants import revoke_grant
from tollway.ledger.entries import top_up
from tollway.ledger.tokens import revoke_token
from tollway.store.cache_versions import directory_changed
from tollway.store.postgresql import change_listener
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

WITHIN_S = 1.0
TRIES = 5
DEADLINE_S = 20
_LISTENING = (
    "FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'tollway' AND query LIKE '%tollway_listens'"
)
LISTENERS = f"SELECT count(*) {_LISTENING}"
CUT = f"SELECT pg_terminate_backend(pid) {_LISTENING}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine) -> Store:
    """What the two nodes serve; each test has callers of its own."""
    return store_with_figures(tmp_path_factory.mktemp("served") / "tollway.db", today)


@pytest.fixture(params=["both hear", "both were cut off"])
def cut_off(request: pytest.FixtureRequest, served: Store) -> Callable[[], None]:
    """What is done to the nodes right before the change."""

    def cut() -> None:
        # Each node has one that listens, as soon as it was called, and again after it was cut off.
        eventually(lambda: served.run(LISTENERS), lambda found: found == [(2,)])
        if request.param == "both were cut off":
            assert len(served.run(CUT)) == 2

    return cut


@pytest.fixture(scope="module")
def nodes(served: Store) -> Iterator[list[Gateway]]:
    started = [Gateway(served) for _ in range(2)]
    yield started
    assert [node.stop() for node in started] == [0, 0]


def assert_soon(change_and_measure: Callable[[], float]) -> None:
    """A process may be held up for a moment, but not every time."""
    seconds: list[float] = []
    while not seconds or seconds[-1] >= WITHIN_S:
        assert len(seconds) < TRIES, seconds
        seconds.append(change_and_measure())


def seconds_until(look: Callable[[Gateway], int], nodes: list[Gateway], code: int) -> float:
    """How long it took at most until a node answered with this code."""
    longest_s = 0.0
    for node in nodes:
        began_s = monotonic()
        while look(node) != code:
            assert monotonic() - began_s < DEADLINE_S
        longest_s = max(longest_s, monotonic() - began_s)
    return longest_s


def test_a_revoked_token(
    served: Store, nodes: list[Gateway], question: dict[str, str], cut_off: Callable[[], None]
) -> None:
    def revoked() -> float:
        caller = new_caller(served, rate_limit=1_000_000, calls=100_000)

        def code(node: Gateway) -> int:
            return node.get(token=caller.token, query=question).code

        assert [code(node) for node in nodes] == [0, 0]
        cut_off()
        served.do(lambda database: revoke_token(database, RUNTIME, caller.token_id))
        return seconds_until(code, nodes, 401)

    assert_soon(revoked)


def test_a_revoked_client(
    served: Store, nodes: list[Gateway], question: dict[str, str], cut_off: Callable[[], None]
) -> None:
    def revoked() -> float:
        client = new_client(served, rate_limit=1_000_000, calls=100_000)
        token = obtain(nodes[0], client)

        def code(node: Gateway) -> int:
            return node.get(token=token, query=question).code

        assert [code(node) for node in nodes] == [0, 0]
        cut_off()
        revoke(served, client)
        return seconds_until(code, nodes, 401)

    assert_soon(revoked)


def test_a_revoked_consent(
    served: Store, nodes: list[Gateway], cut_off: Callable[[], None]
) -> None:
    def revoked() -> float:
        asker = new_asker(served, credits_=100_000, rate_limit=1_000_000)
        person = new_person(served)
        given = allow(served, asker, person)

        def code(node: Gateway) -> int:
            return ask(node, asker, person.id).code

        assert [code(node) for node in nodes] == [0, 0]
        cut_off()
        served.do(lambda database: revoke_grant(database, RUNTIME, given.id))
        return seconds_until(code, nodes, 302)

    assert_soon(revoked)


def test_a_top_up(
    served: Store, nodes: list[Gateway], question: dict[str, str], cut_off: Callable[[], None]
) -> None:
    def topped_up() -> float:
        caller = new_caller(served, calls=2, rate_limit=1_000_000)

        def code(node: Gateway) -> int:
            return node.get(token=caller.token, query=question).code

        assert [code(node) for node in nodes] == [0, 0]
        assert [code(node) for node in nodes] == [204, 204]
        cut_off()
        served.do(lambda database: top_up(database, RUNTIME, caller.account_id, CALLS, 100))
        return seconds_until(code, nodes, 0)

    assert_soon(topped_up)


def test_what_the_command_line_does(
    served: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    def revoked() -> float:
        caller = new_caller(served, rate_limit=1_000_000, calls=100_000)

        def code(node: Gateway) -> int:
            return node.get(token=caller.token, query=question).code

        assert [code(node) for node in nodes] == [0, 0]
        command = ("token", "revoke", caller.token_id, "--database", served.url)
        forks.run("tollway", *command).check_returncode()
        return seconds_until(code, nodes, 401)

    assert_soon(revoked)


async def test_a_listener_that_did_not_notice_its_loss_would_be_seen(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the loss of the connection is neither reported nor looked for."""
    monkeypatch.setattr(change_listener.ChangeListener, "_on_loss", lambda *_: None)
    monkeypatch.setattr(change_listener, "_LOST_AFTER_S", 60.0)
    monkeypatch.setattr(change_listener, "_AGAIN_AFTER_S", 60.0)
    database = PostgresqlDatabase(own_store.url, 2, Metrics())
    database.change_mark()
    while await asyncio.to_thread(run_on, own_store.url, CUT) != [(True,)]:
        pass
    heard = database.change_mark()
    other = PostgresqlDatabase(own_store.url, 2, Metrics())
    await other.write(directory_changed)
    await other.close()
    await asyncio.sleep(WITHIN_S)
    assert database.change_mark() == heard
    await database.close()
