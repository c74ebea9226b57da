"""A database whose files are moved, deleted or replaced while it is served: nothing is acknowledged
that would be in no file of that name afterwards."""

import shutil
from pathlib import Path

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import calls_left, new_caller
from tests.support.load import assert_ledger_adds_up
from tests.support.remote import eventually
from tests.support.stores import Store

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_202_while_a_file_is_away_and_all_is_well_when_it_is_back(
    own_store: Store, question: dict[str, str], ending: str
) -> None:
    caller = new_caller(own_store, calls=10)
    gateway = Gateway(own_store)
    file = Path(f"{own_store.path}{ending}")
    before = gateway.get(token=caller.token, query=question)
    away = file.rename(f"{file}.away")
    assert gateway.get(token=caller.token, query=question).code == 202
    unready = gateway.client.get("/readyz")
    assert (unready.status_code, unready.json()["reason"]) == (503, "database_unavailable")
    assert not file.exists()
    away.rename(file)
    after = gateway.get(token=caller.token, query=question)
    assert (before.code, after.code) == (0, 0)
    assert gateway.stop() == 0
    assert_ledger_adds_up(own_store, [reply.headers["x-request-id"] for reply in (before, after)])
    assert calls_left(own_store, caller) == 8
    eventually(gateway.log, lambda text: f"{file.name} was moved" in text)


def test_a_database_that_takes_the_place_of_another_is_not_written_to(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store, calls=10)
    other = own_store.path.with_name("other.db")
    shutil.copy(own_store.path, other)
    gateway = Gateway(own_store)
    assert gateway.get(token=caller.token, query=question).code == 0
    content = other.read_bytes()
    other.replace(own_store.path)
    # Several: after an error the next work is done on another connection.
    codes = [gateway.get(token=caller.token, query=question).code for _ in range(3)]
    assert codes == [202, 202, 202]
    assert gateway.stop() == 0
    assert own_store.path.read_bytes() == content
