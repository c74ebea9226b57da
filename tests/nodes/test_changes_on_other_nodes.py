"""What is changed anywhere is seen on every node within a second, also while one hears nothing."""

import asyncio
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from tests.support import forks
from tests.support.books import CALLS, WORLD, new_caller
from tests.support.consent import allow, ask, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.postgresql import run_on
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.grants import revoke_grant
from tollway.ledger.entries import top_up
from tollway.ledger.tokens import revoke_token
from tollway.store.postgresql import changes
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.versions import directory_changed
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

WITHIN_S = 1.0
DEADLINE_S = 10
_LISTENING = (
    "FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'tollway' AND query LIKE '%tollway_listens'"
)
LISTENERS = f"SELECT count(*) {_LISTENING}"
CUT = f"SELECT pg_terminate_backend(pid) {_LISTENING}"


@pytest.fixture(params=["both hear", "both were cut off"])
def cut_off(request: pytest.FixtureRequest, own_store: Store) -> Callable[[], None]:
    """What is done to the nodes right before the change."""

    def cut() -> None:
        if request.param == "both were cut off":
            # Each node has one that listens, as soon as it was called.
            eventually(lambda: own_store.run(LISTENERS), lambda found: found == [(2,)])
            assert len(own_store.run(CUT)) == 2

    return cut


@pytest.fixture
def nodes(own_store: Store) -> Iterator[list[Gateway]]:
    started = [Gateway(own_store) for _ in range(2)]
    yield started
    assert [node.stop() for node in started] == [0, 0]


def seconds_until(is_seen: Callable[[], bool]) -> float:
    began_s = monotonic()
    while not is_seen():
        assert monotonic() - began_s < DEADLINE_S
    return monotonic() - began_s


def test_a_revoked_token(
    own_store: Store, nodes: list[Gateway], question: dict[str, str], cut_off: Callable[[], None]
) -> None:
    caller = new_caller(own_store, rate_limit=1_000_000, calls=100_000)
    for node in nodes:
        assert node.get(token=caller.token, query=question).code == 0
    cut_off()
    own_store.do(lambda database: revoke_token(database, WORLD, caller.token_id))
    for node in nodes:

        def is_refused(node: Gateway = node) -> bool:
            return node.get(token=caller.token, query=question).code == 401

        assert seconds_until(is_refused) < WITHIN_S


def test_a_revoked_consent(
    own_store: Store, nodes: list[Gateway], cut_off: Callable[[], None]
) -> None:
    asker = new_asker(own_store, credits=100_000, rate_limit=1_000_000)
    person = new_person(own_store)
    given = allow(own_store, asker, person)

    def code(node: Gateway) -> int:
        return ask(node, asker, person.id).code

    assert [code(node) for node in nodes] == [0, 0]
    cut_off()
    own_store.do(lambda database: revoke_grant(database, WORLD, given.id))
    for node in nodes:
        assert seconds_until(lambda node=node: code(node) == 302) < WITHIN_S  # type: ignore[misc]


def test_a_top_up(
    own_store: Store, nodes: list[Gateway], question: dict[str, str], cut_off: Callable[[], None]
) -> None:
    caller = new_caller(own_store, calls=2, rate_limit=1_000_000)
    for node in nodes:
        assert node.get(token=caller.token, query=question).code == 0
    assert {node.get(token=caller.token, query=question).code for node in nodes} == {204}
    cut_off()
    own_store.do(lambda database: top_up(database, WORLD, caller.account_id, CALLS, 100))
    for node in nodes:

        def is_paid(node: Gateway = node) -> bool:
            return node.get(token=caller.token, query=question).code == 0

        assert seconds_until(is_paid) < WITHIN_S


def test_what_the_command_line_does(
    own_store: Store, nodes: list[Gateway], question: dict[str, str]
) -> None:
    caller = new_caller(own_store, rate_limit=1_000_000, calls=100_000)
    assert {node.get(token=caller.token, query=question).code for node in nodes} == {0}
    command = ("token", "revoke", caller.token_id, "--database", own_store.url)
    forks.run("tollway", *command).check_returncode()
    began_s = monotonic()
    assert {node.get(token=caller.token, query=question).code for node in nodes} == {401}
    assert monotonic() - began_s < WITHIN_S


def test_a_listener_that_did_not_notice_its_loss_would_be_seen(
    own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: nobody says that the connection is gone, and it is not looked for."""
    monkeypatch.setattr(changes.ChangeListener, "_on_loss", lambda *_: None)
    monkeypatch.setattr(changes, "_DEAF_AFTER_S", 60.0)
    monkeypatch.setattr(changes, "_AGAIN_AFTER_S", 5.0)

    async def work() -> None:
        database = PostgresqlDatabase(own_store.url, 2, Metrics())
        database.change_mark()
        while await asyncio.to_thread(run_on, own_store.url, CUT) != [(True,)]:
            pass
        heard = database.change_mark()
        await database.write(directory_changed)
        await asyncio.sleep(WITHIN_S)
        assert database.change_mark() == heard
        await database.close()

    asyncio.run(work())
