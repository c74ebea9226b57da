"""`tollway keys rotate`: beside a gateway that serves, killed half-way, and back to one key."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from time import monotonic

from tests.cli.conftest import Command
from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.orders import order, put_orders
from tests.support.stores import Store
from tollway.operations.catalogue import BY_NAME

ORDERS, WAYBILLS = BY_NAME["orders"], BY_NAME["waybills"]
MORE_ORDERS = 4000


def sealed_with(store: Store) -> Counter[int]:
    """How many records are sealed with each key."""
    found: Counter[int] = Counter()
    for table in ("shop_order", "waybill", "idempotency_key"):
        found.update(bytes(row[0])[0] for row in store.run(f"SELECT sealed FROM {table}"))
    return found


def kill_half_way(store: Store) -> None:
    """Kills a rotation when it has sealed some records again, and not all."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tollway", "keys", "rotate"],
        env={**os.environ, **store.settings},
        cwd=store.path.parent,
        stdout=subprocess.DEVNULL,
    )
    until_s = monotonic() + 60
    while not sealed_with(store)[2] and monotonic() < until_s:
        assert process.poll() is None, "it was not killed half-way"
    process.send_signal(signal.SIGKILL)
    process.wait()


def keys_of(store: Store) -> dict[str, object]:
    content: dict[str, object] = json.loads(Path(f"{store.path}.keys").read_text("utf-8"))
    return content


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


def test_without_a_gateway_one_run_does_it_all(ledger_store: Store, tollway: Command) -> None:
    put_orders(ledger_store, [order()])
    answer = tollway("keys", "rotate", "--drop")
    assert answer.status == 0, answer.err
    assert "Key 2 is in use. Records sealed with it now: 1." in answer.out
    assert "Dropped: key 1." in answer.out
    keys = keys_of(ledger_store)
    assert (keys["current"], list(keys["keys"])) == (2, ["2"])  # type: ignore[call-overload]
    again = tollway("keys", "rotate")
    assert "Key 3 is in use" in again.out and "--drop" in again.out
