"""What is done with charges whose callers are known under another version of the directory than the
current one: none is posted, and the others are."""

import pytest

from tests.ledger.function_server import Rows, Server, charge, key, types_of
from tests.ledger.test_act_columns import Alone, joint
from tollway.ledger.charge_postgresql import post_acts, post_unless_locked, post_waiting_for_locks
from tollway.ledger.charges import ActResult, BusyError, OutdatedCallerError, ShortageError
from tollway.store.database import StoreLockedError, StoreUnavailableError

pytestmark = pytest.mark.postgresql


def current(directory: int) -> Rows:
    return [(0, "outdated", directory, None, None, None)]


def test_the_server_compares_the_versions_of_all() -> None:
    server = Server()
    charges = [charge(f"r{nth}", directory=directory) for nth, directory in enumerate((7, 7, 8))]
    server.post(post_waiting_for_locks, [*charges, charge("counted only")])
    assert sorted(server.directories) == [7, 8]


def test_the_others_are_posted_and_each_result_is_that_of_its_own() -> None:
    server = Server(current(8), [(2, "short", 4, None, None, None)])
    charges = [charge(f"r{nth}", directory=each) for nth, each in enumerate((7, 8, 7, 8, None))]
    results = server.post(post_waiting_for_locks, charges)
    assert types_of(results) == {
        0: OutdatedCallerError,
        2: OutdatedCallerError,
        3: ShortageError,
    }
    assert server.requests == [["r0", "r1", "r2", "r3", "r4"], ["r1", "r3", "r4"]]


def test_if_it_changes_again_meanwhile_the_others_are_outdated_too() -> None:
    server = Server(current(8), current(9))
    charges = [charge("r0", directory=7), charge("r1", directory=8), charge("r2")]
    results = server.post(post_waiting_for_locks, charges)
    assert types_of(results) == {0: OutdatedCallerError, 1: OutdatedCallerError}
    assert server.requests == [["r0", "r1", "r2"], ["r1", "r2"], ["r2"]]


def test_after_a_failover_a_version_may_be_lower() -> None:
    server = Server(current(6))
    results = server.post(post_waiting_for_locks, [charge("r0", directory=7)])
    assert types_of(results) == {0: OutdatedCallerError}


def test_if_the_others_cannot_be_posted_the_batch_fails() -> None:
    server = Server(current(8), StoreUnavailableError("cut off"))
    charges = [charge("r0", directory=7), charge("r1", directory=8)]
    with pytest.raises(StoreUnavailableError):
        server.post(post_waiting_for_locks, charges)


def test_behind_the_lock_of_a_key_too() -> None:
    server = Server(StoreLockedError("locked"), current(8), [(1, "busy", None, None, None, None)])
    charges = [
        charge("r0", directory=7),
        charge("r1", directory=8),
        charge("r2", directory=7, idempotency_key=key("k1")),
    ]
    results = server.post(post_unless_locked, charges)
    assert types_of(results) == {0: OutdatedCallerError, 1: BusyError, 2: OutdatedCallerError}
    assert server.requests == [["r0", "r1", "r2"], ["r0", "r1"], ["r1"]]


def test_an_act_is_not_done_either() -> None:
    server, act = Server(), Alone()
    server.directory = 8
    charges = [
        charge("r0", act=act, directory=7),
        charge("r1", act=act, directory=8),
        charge("r2", act=joint(), directory=7),
        charge("r3", 3, act=joint(), directory=8),
        charge("r4", act=act),
    ]
    results = server.post(post_acts, charges)
    assert types_of(results) == {
        0: OutdatedCallerError,
        1: ActResult,
        2: OutdatedCallerError,
        3: ActResult,
        4: ActResult,
    }
    assert act.requests == ["r1", "r4"]
    assert server.requests == [["r3"]]
