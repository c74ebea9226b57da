"""What the function that charges is called with, and what is made of what it returns."""

import threading

import pytest

from tests.ledger.function_server import Rows, Server, charge, key, types_of
from tollway.ledger import charge_postgresql
from tollway.ledger.charge_postgresql import post_unless_locked, post_waiting_for_locks
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import (
    BusyError,
    Charge,
    GrantKey,
    IdempotencyKey,
    OverLimitError,
    ShortageError,
)
from tollway.ledger.idempotency import KeptAnswer
from tollway.store.database import StoreLockedError, StoreUnavailableError

pytestmark = pytest.mark.postgresql


def test_each_parameter_gets_what_its_name_says() -> None:
    server = Server()
    charges = [
        charge("r1", 5, "b", limit=9, token_id="tok_1"),
        # Free, although its account has a balance that others take from; counted in no window.
        charge("r2", 0, "b", grant=GrantKey("shop", "s1", "con_1"), records=3),
        charge("r3", 2, "a", unit="calls:waybills", operation="waybills", limit=8),
        charge("r4", 0, "a", limit=7, replay_of="r0", grant=GrantKey("brand", "s2", "con_2")),
        charge("r5", 1, "b", idempotency_key=key("k1", b"one")),
        charge("r6", 4, "a", limit=7, idempotency_key=key("k2", b"two"), records=0),
    ]
    assert server.post(post_waiting_for_locks, charges) == {}
    assert server.calls == [
        {
            # Each once, in the order in which all lock them.
            "balance_accounts": ["a", "a", "b"],
            "balance_units": ["calls:waybills", "credits", "credits"],
            "window_accounts": ["a", "a", "b"],
            "window_operations": ["orders", "waybills", "orders"],
            "accounts": ["b", "b", "a", "a", "b", "a"],
            "units": ["credits", "credits", "calls:waybills", "credits", "credits", "credits"],
            "amounts": [5, 0, 2, 0, 1, 4],
            "operations": ["orders", "orders", "waybills", "orders", "orders", "orders"],
            "request_ids": ["r1", "r2", "r3", "r4", "r5", "r6"],
            "token_ids": ["tok_1", "tok", "tok", "tok", "tok", "tok"],
            "of_balance": [3, 0, 1, 0, 3, 2],
            "of_window": [3, 0, 2, 1, 0, 1],
            "limits": [9, None, 8, 7, None, 7],
            "owner_kinds": [None, "shop", None, "brand", None, None],
            "owner_ids": [None, "s1", None, "s2", None, None],
            "consent_ids": [None, "con_1", None, "con_2", None, None],
            "replays_of": [None, None, None, "r0", None, None],
            "records": [None, 3, None, None, None, 0],
            "keys": [None, None, None, None, "k1", "k2"],
            "fingerprints": [None, None, None, None, b"print of k1", b"print of k2"],
            "answers": [None, None, None, None, b"sealed one", b"sealed two"],
            "kept_ms": 24 * 60 * 60 * 1000,
            "waits": True,
        }
    ]


def test_what_no_charge_has_is_no_column() -> None:
    server = Server()
    server.post(post_waiting_for_locks, [charge("r1", 1), charge("r2")])
    assert {name for name, column in server.calls[0].items() if column is None} == {
        *("owner_kinds", "owner_ids", "consent_ids", "replays_of", "records"),
        *("keys", "fingerprints", "answers"),
    }


def test_what_every_charge_has_is_a_column() -> None:
    server = Server()
    grant = GrantKey("shop", "s1", "con_1")
    server.post(post_waiting_for_locks, [charge("r1", grant=grant, idempotency_key=key("k1"))])
    (given,) = server.calls
    assert (given["owner_ids"], given["keys"]) == (["s1"], ["k1"])


def test_only_one_of_them_waits_for_locks() -> None:
    server = Server()
    server.post(post_unless_locked, [charge("r1")])
    server.post(post_waiting_for_locks, [charge("r2")])
    assert server.requests == [["r1"], ["r2"]]
    assert [given["waits"] for given in server.calls] == [False, True]


def test_charges_without_a_key_come_first_and_each_result_is_that_of_its_own() -> None:
    server = Server([(1, "short", 4, None, None, None), (4, "short", 2, None, None, None)])
    charges = [
        charge("r1", 9, idempotency_key=key("k1")),
        charge("r2", 9),
        charge("r3", 9, idempotency_key=key("k2")),
        charge("r4", 9),
    ]
    results = server.post(post_waiting_for_locks, charges)
    assert server.requests == [["r2", "r4", "r1", "r3"]]
    assert types_of(results) == {1: ShortageError, 2: ShortageError}
    assert [results[position].left for position in (1, 2)] == [4, 2]  # type: ignore[union-attr]


def test_a_batch_is_split_where_a_key_of_an_account_occurs_again() -> None:
    server = Server()
    keyed = [("a", "k1"), ("b", "k1"), ("a", "k2"), ("a", "k1"), ("a", "k2"), ("a", "k1")]
    charges = [
        charge(f"r{nth}", account=account, idempotency_key=key(name))
        for nth, (account, name) in enumerate(keyed)
    ]
    # Those without a key are never twins.
    charges += [charge("r6", account="a"), charge("r7", account="a")]
    server.post(post_waiting_for_locks, charges)
    assert server.requests == [["r6", "r7", "r0", "r1", "r2"], ["r3", "r4"], ["r5"]]


def twins(count: int) -> list[Charge]:
    return [charge(f"r{nth}", idempotency_key=key("k1")) for nth in range(count)]


def test_if_the_first_piece_fails_the_batch_fails() -> None:
    server = Server(StoreUnavailableError("cut off"))
    with pytest.raises(StoreUnavailableError, match="cut off"):
        server.post(post_waiting_for_locks, twins(2))
    assert server.requests == [["r0"]]


def test_if_a_later_piece_fails_what_was_before_has_its_results_and_the_rest_is_not_tried() -> None:
    error = StoreUnavailableError("cut off")
    server = Server([(1, "short", 0, None, None, None)], [], error)
    results = server.post(post_waiting_for_locks, twins(5))
    assert server.requests == [["r0"], ["r1"], ["r2"]]
    assert isinstance(results.pop(0), ShortageError)
    assert results == {2: error, 3: error, 4: error}


def test_behind_the_lock_of_a_key_those_without_a_key_are_tried_again() -> None:
    server = Server(StoreLockedError("a key"), [(2, "short", 3, None, None, None)])
    charges = [
        charge("r1", idempotency_key=key("k1")),
        charge("r2", 5),
        charge("r3", 5),
        charge("r4", idempotency_key=key("k2")),
    ]
    results = server.post(post_unless_locked, charges)
    assert server.requests == [["r2", "r3", "r1", "r4"], ["r2", "r3"]]
    assert types_of(results) == {0: BusyError, 2: ShortageError, 3: BusyError}


@pytest.mark.parametrize("keys", [[None, None], ["k1", "k2"]])
def test_if_there_are_no_others_behind_a_lock_all_are_busy_at_once(
    keys: list[str | None],
) -> None:
    """Without keys it is the lock of a whole table, which another look would find again."""
    server = Server(*[StoreLockedError("locked")] * 2)
    charges = [
        charge(f"r{nth}", idempotency_key=name and key(name)) for nth, name in enumerate(keys)
    ]
    results = server.post(post_unless_locked, charges)
    assert types_of(results) == {0: BusyError, 1: BusyError}
    assert server.requests == [["r0", "r1"]]


def test_if_those_without_a_key_are_locked_too_all_are_busy() -> None:
    server = Server(*[StoreLockedError("locked")] * 3)
    charges = [charge("r1"), charge("r2", idempotency_key=key("k1"))]
    assert types_of(server.post(post_unless_locked, charges)) == {0: BusyError, 1: BusyError}
    assert server.requests == [["r1", "r2"], ["r1"]]


def test_each_outcome_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charge_postgresql, "monotonic_ns", lambda: 5_000_000_000)
    rows: Rows = [
        (1, "busy", None, None, None, None),
        (2, "kept", None, "r0", b"print", b"sealed"),
        (3, "throttled", 250_000, None, None, None),
        (4, "short", 6, None, None, None),
    ]
    results = Server(rows).post(post_waiting_for_locks, [charge(f"r{nth}") for nth in range(5)])
    busy, kept, throttled, short = results.values()
    assert list(results) == [0, 1, 2, 3]
    assert isinstance(busy, BusyError)
    assert isinstance(kept, AlreadyAnswered)
    assert kept.kept == KeptAnswer("r0", b"print", b"sealed")
    assert isinstance(throttled, OverLimitError)
    # A quarter of a second, from the moment at which the database was asked.
    assert (throttled.wait_s, throttled.until_ns) == (0.25, 5_250_000_000)
    assert isinstance(short, ShortageError) and short.left == 6


@pytest.mark.parametrize(("last", "is_in_thread"), [(b"", False), (b"x", True)])
def test_only_answers_of_more_than_16_kib_are_packed_in_a_thread(
    last: bytes, is_in_thread: bool
) -> None:
    packed_in: set[threading.Thread] = set()

    def seal(data: bytes) -> bytes:
        packed_in.add(threading.current_thread())
        return data

    half = bytes(8 * 1024)
    keys = [
        IdempotencyKey(str(nth), b"", b"".__eq__, seal, data)
        for nth, data in enumerate([half, half, last])
    ]
    server = Server()
    charges = [charge("r1"), *(charge(each.key, idempotency_key=each) for each in keys)]
    server.post(post_waiting_for_locks, charges)
    assert server.calls[0]["answers"] == [None, half, half, last]
    assert (packed_in != {threading.current_thread()}) is is_in_thread
