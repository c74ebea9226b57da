"""`tollway keys rotate`: beside a gateway that serves, killed half-way, and back to one key."""

import json
import os
import signal
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.forks import run
from tests.support.gateway import Gateway
from tests.support.orders import order, put_orders
from tests.support.stores import Store
from tollway.operations.catalogue import BY_NAME
from tollway.store.durable_files import locked_folder
from tollway.store.key_file import add_key
from tollway.store.sealing import load_sealer

ORDERS, WAYBILLS = BY_NAME["orders"], BY_NAME["waybills"]
# Several pieces of them.
MORE_ORDERS = 500


def sealed_with(store: Store) -> Counter[int]:
    """How many records are sealed with each key."""
    found: Counter[int] = Counter()
    for table in ("shop_order", "waybill", "idempotency_key"):
        found.update(bytes(row[0])[0] for row in store.run(f"SELECT sealed FROM {table}"))
    return found


def kill_half_way(store: Store) -> None:
    """Kills a rotation when it has sealed some records again, and not all."""
    environment = {**os.environ, **store.settings}
    killed = run("tests.cli.killed_half_way", "keys", "rotate", env=environment)
    assert killed.returncode == -signal.SIGKILL, killed


def keys_of(store: Store) -> dict[str, object]:
    content: dict[str, object] = json.loads(Path(f"{store.path}.keys").read_text("utf-8"))
    return content


def a_day_passes(store: Store) -> None:
    """And an hour: the files of exports can be read for a day."""
    store.run("UPDATE last_run SET at_s = at_s - 90000 WHERE name LIKE 'old keys found%'")


def test_a_rotation_beside_the_traffic_that_is_killed_half_way(
    ledger_store: Store, tollway: Command, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    put_orders(store, (order(f"sn-{n:06}") for n in range(MORE_ORDERS)))
    caller = all_operations_caller(store)
    gateway = Gateway(store)
    sent = good_request(WAYBILLS, today)
    first = ask(gateway, WAYBILLS, caller.token, sent).data
    key = {"Idempotency-Key": "kept"}
    page = ask(gateway, ORDERS, caller.token, good_request(ORDERS, today), key).data

    # A gateway that does not have the key could not read what is sealed with it.
    for _ in range(2):
        answer = tollway("keys", "rotate", "--json")
        assert (answer.json["current"], answer.json["added"]) == (1, 2)
        assert len(answer.json["restart"]) == 1
    assert set(sealed_with(store)) == {1}
    assert gateway.stop() == 0

    gateway = Gateway(store)
    kill_half_way(store)
    half = sealed_with(store)
    assert half[1] and half[2]
    assert ask(gateway, WAYBILLS, caller.token, sent).data["waybillCode"] == first["waybillCode"]
    answer = tollway("keys", "rotate", "--drop", "--json")
    assert answer.json["resealed"] >= half[1]
    # The gateway was started before, and still seals with the old key: that must stay.
    assert answer.json["restart"] and answer.json["dropped"] == []
    assert set(sealed_with(store)) == {2}
    other = ask(gateway, WAYBILLS, caller.token, good_request(WAYBILLS, today))
    assert other.data["code"] == 1 and set(sealed_with(store)) == {1, 2}
    assert gateway.stop() == 0

    gateway = Gateway(store)
    # The record was sealed with the old key a moment ago: what sealed it may still be there.
    a_day_passes(store)
    answer = tollway("keys", "rotate", "--drop", "--json")
    assert answer.json["dropped"] == [] and 89_900 < answer.json["wait_s"] <= 90_000
    a_day_passes(store)
    answer = tollway("keys", "rotate", "--drop", "--json")
    assert (answer.json["dropped"], answer.json["restart"]) == ([1], [])
    assert set(sealed_with(store)) == {2}
    assert list(keys_of(store)["keys"]) == ["2"]  # type: ignore[call-overload]
    assert Path(f"{store.path}.keys").stat().st_mode & 0o777 == 0o600
    assert gateway.stop() == 0

    # Without the old key all is read, and what was issued under it is recognised.
    gateway = Gateway(store)
    again = ask(gateway, WAYBILLS, caller.token, sent).data
    assert (again["printData"], again["withholding_money"]) == (first["printData"], 0)
    changed = ask(gateway, WAYBILLS, caller.token, sent | {"receiver_name": "李四"})
    assert changed.headers["x-tollway-reason"] == "WAYBILL_DIFFERS"
    repeated = ask(gateway, ORDERS, caller.token, good_request(ORDERS, today), key)
    assert repeated.data["content"][0]["order_sn"] == page["content"][0]["order_sn"]
    assert repeated.data["withholding_money"] == 0
    label = gateway.get(
        "/account/v1/waybills/label",
        token=caller.token,
        query={"object_id": first["objectId"], "format": "zpl"},
    )
    assert label.code == 0
    assert gateway.stop() == 0
    assert tollway("audit").status == 0


def test_without_a_gateway_one_run_does_all_but_drop(ledger_store: Store, tollway: Command) -> None:
    put_orders(ledger_store, [order()])
    path = Path(f"{ledger_store.path}.keys")
    path.chmod(0o640)
    for _ in range(2):
        answer = tollway("keys", "rotate", "--drop")
        assert answer.status == 0, answer.err
        assert "in 25 hours run this with --drop" in answer.out
    assert sorted(keys_of(ledger_store)["keys"]) == ["1", "2"]  # type: ignore[call-overload]
    assert path.stat().st_mode & 0o777 == 0o640
    a_day_passes(ledger_store)
    # An import that was started before the rotation still seals with the old key.
    both = path.read_bytes()
    path.write_bytes(both.replace(b'"current": 2', b'"current": 1'))
    put_orders(ledger_store, [order("sn-late")])
    path.write_bytes(both)
    answer = tollway("keys", "rotate", "--drop")
    assert "Key 2 is in use. Records encrypted with it now: 1." in answer.out
    assert "Dropped" not in answer.out
    a_day_passes(ledger_store)
    answer = tollway("keys", "rotate", "--drop")
    assert "Dropped: key 1." in answer.out
    keys = keys_of(ledger_store)
    assert (keys["current"], list(keys["keys"])) == (2, ["2"])  # type: ignore[call-overload]
    again = tollway("keys", "rotate")
    assert "Key 3 is in use" in again.out and "--drop" in again.out


def test_a_clock_that_was_years_ahead_delays_a_drop_by_no_more_than_the_usual_time(
    ledger_store: Store, tollway: Command
) -> None:
    put_orders(ledger_store, [order()])
    assert tollway("keys", "rotate").status == 0
    ledger_store.run(
        "UPDATE last_run SET at_s = at_s + 315360000 WHERE name LIKE 'old keys found%'"
    )
    assert "in 25 hours run this with --drop" in tollway("keys", "rotate", "--drop").out
    a_day_passes(ledger_store)
    assert "Dropped: key 1." in tollway("keys", "rotate", "--drop").out


def test_the_key_file_of_another_database_is_left_as_it_is(
    ledger_store: Store, tollway: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_orders(ledger_store, [order()])
    assert tollway("keys", "rotate").status == 0
    other = tmp_path / "other.keys"
    load_sealer(other)
    before = other.read_bytes()
    monkeypatch.setenv("TOLLWAY_KEY_FILE", str(other))
    refused = tollway("keys", "rotate")
    assert refused.status == 1 and "has another key 1" in refused.err
    assert other.read_bytes() == before


def test_before_the_first_keys_are_made_none_counts_as_lost(
    ledger_store: Store, tollway: Command
) -> None:
    refused = tollway("keys", "rotate")
    assert refused.status == 1
    assert "There is no key file" in refused.err and "`tollway serve`" in refused.err
    assert not Path(f"{ledger_store.path}.keys").exists()


def test_a_second_rotation_at_the_same_time_is_refused(
    ledger_store: Store, tollway: Command
) -> None:
    path = Path(f"{ledger_store.path}.keys")
    put_orders(ledger_store, [order()])
    before = path.read_bytes()
    with locked_folder(path.parent):
        refused = tollway("keys", "rotate")
    assert refused.status == 1 and "Another `keys rotate` is at work" in refused.err
    assert path.read_bytes() == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_key_file_that_root_changes_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "its.keys"
    load_sealer(path)
    os.chown(path, 12_345, 12_346)
    add_key(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (12_345, 12_346, 0o600)
