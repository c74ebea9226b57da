"""`tollway shop erase-receivers`: what is gone, what stays, and an erasure that is killed."""

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import permutations
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.fake_carrier import LOOK_UP, FakeCarrier
from tests.support.forks import run
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import START_MS, order, put_orders, sealer_of
from tests.support.postgresql import left_open
from tests.support.remote import (
    PATIENT,
    age_pending,
    connected_carrier,
    eventually,
    left_pending,
)
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer, request
from tollway.carriers.waybills import StoredWaybill, find_by_number, print_waybills
from tollway.consent.erasures import Erasure, ErasureUnderWayError, ask_erasure
from tollway.demo.owners import SHOP
from tollway.gateway.receiver_erasure import erase
from tollway.intake.rejects import UPLOAD, keep_rejects, sealed_reject
from tollway.operations.catalogue import BY_NAME
from tollway.operations.orders.storage import last_change_of
from tollway.store.database import Database

ORDERS, WAYBILLS, CLAIMS = (BY_NAME[name] for name in ("orders", "waybills", "coupon_claims"))
ERASE = ("shop", "erase-receivers", SHOP.id, "--yes", "--json")
# Several pieces of them.
MORE_ORDERS = 500
PERSONAL = ("receiver_name", "receiver_phone", "receiver_address", "address")
PLACE = ("province", "city", "town", "remark")
OTHER = "880012999"
HOUSES = ("Adams", "Brown", "Clark", "Davis", "Evans", "Grant", "Hayes", "James", "Kelly", "Lewis")
_HOW_FAR = (
    f"SELECT finished_at_s, orders, waybills FROM receiver_erasure WHERE owner_id = '{SHOP.id}'"
)
_WAITS_FOR_A_LOCK = """
SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"""
_OTHER_WAYBILLS = f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
INSERT INTO waybill (account_id, object_id, owner_id, order_sn, wp_code, state, price, asked_at_s,
    sealed)
SELECT account_id, 'a' || i, '{OTHER}', 'o' || i, wp_code, 'refused', 0, asked_at_s,
    sealed FROM waybill, n"""


def reject(store: Store, *records: str, at_s: int = 1, kind: str = "orders") -> None:
    made = [
        sealed_reject(sealer_of(store), b"k", UPLOAD, kind, each.encode(), "wrong", at_s)
        for each in records
    ]
    store.do(lambda database: database.write(lambda tx: keep_rejects(tx, made)))


def reject_some(store: Store) -> None:
    """Two of the shop, three of others, and one that was altered since."""
    reject(store, "altered")
    store.run("UPDATE rejected_record SET sealed = substr(sealed, 2)")
    reject(store, f'{{"owner_id": "{SHOP.id}"}}', f'{{"owner_id": "{OTHER}"}}', f"?{SHOP.id}")
    reject(store, f"?1{SHOP.id}", f"?{SHOP.id}1")


def left_in(store: Store, table: str, owner_id: str = SHOP.id) -> int:
    """How many rows of a shop still have something sealed."""
    ((count,),) = store.run(
        f"SELECT count(*) FROM {table} WHERE owner_id = '{owner_id}' AND length(sealed) > 0"
    )
    return int(count)


def without_receivers(page: dict[str, Any]) -> dict[str, Any]:
    blank = dict.fromkeys((*PERSONAL, *PLACE), "")
    content = [{**each, **blank, "withholding_money": 0} for each in page["content"]]
    return {**page, "content": content, "withholding_money": 0}


def until_erased(store: Store) -> tuple[Any, ...]:
    return eventually(
        lambda: tuple(store.run(_HOW_FAR)[0]),
        lambda row: row[0] is not None,
    )


def test_receivers_are_gone_everywhere_and_the_rest_stays(
    ledger_store: Store, tollway: Command, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    mine = order("sn-mine", owner_id=SHOP.id, remark="请放门口 13812341234", remark_tag=1)
    put_orders(store, [mine, order("sn-other", owner_id=OTHER)])
    reject_some(store)
    caller = all_operations_caller(store)
    gateway = Gateway(store)

    def read(**more: str) -> dict[str, Any]:
        sent = {**good_request(ORDERS, today), **more}
        answer = ask(gateway, ORDERS, caller.token, sent)
        assert answer.code == 0
        return answer.data

    key, sent = {"Idempotency-Key": "kept"}, good_request(WAYBILLS, today)
    before, tagged = read(), read(remarkTag="1")
    assert before["content"][0]["receiver_name"] and tagged["totalElements"]
    assert read(remark="门口")["totalElements"] == 1
    issued = ask(gateway, WAYBILLS, caller.token, sent).data
    # More than one step looks at.
    store.run(_OTHER_WAYBILLS)
    ask(gateway, ORDERS, caller.token, good_request(ORDERS, today), key)
    ask(gateway, CLAIMS, caller.token, good_request(CLAIMS, today), {"Idempotency-Key": "claims"})

    erased = tollway(*ERASE).json
    assert erased["finished_at_s"] and erased["orders"] == before["totalElements"]
    assert (erased["waybills"], erased["answers"], erased["rejected"]) == (1, 1, 2)
    assert (left_in(store, "shop_order"), left_in(store, "waybill")) == (0, 0)
    assert left_in(store, "shop_order", OTHER) == 1

    after = read()
    assert without_receivers(before) == without_receivers(after)
    assert after["content"][0] == {**without_receivers(after)["content"][0], "withholding_money": 1}
    assert read(remarkTag="1")["totalElements"] == tagged["totalElements"]
    assert read(remark="门口")["totalElements"] == 0

    again = ask(gateway, WAYBILLS, caller.token, sent)
    assert again.headers["x-tollway-reason"] == "RECEIVER_ERASED"
    assert issued["waybillCode"] in again.msg
    wanted = {"object_id": issued["objectId"], "format": "pdf"}
    label = gateway.get("/account/v1/waybills/label", query=wanted, token=caller.token)
    assert label.headers["x-tollway-reason"] == "RECEIVER_ERASED"
    kept = ask(gateway, ORDERS, caller.token, good_request(ORDERS, today), key)
    assert kept.headers["x-tollway-reason"] == "ANSWER_ERASED"
    assert "erased: it has no label" in tollway("waybill", "show", issued["waybillCode"]).err

    # A copy that was erased does not come back, a newer version does.
    assert put_orders(store, [mine]) == 0
    assert left_in(store, "shop_order") == 0
    assert put_orders(store, [{**mine, "updated_at": START_MS + 1}]) == 1
    assert left_in(store, "shop_order") == 1

    assert tollway("audit").status == 0
    remade = tollway("records", "remake", "--json")
    assert remade.status == 0 and left_in(store, "shop_order") == 1
    acts = tollway("trail", "show", "--json").json
    done = next(each for each in acts if each["act"] == "shop erase-receivers done")
    assert done["subject"] == f"shop {SHOP.id}" and str(erased["orders"]) in str(done["after"])
    assert any(each["act"] == "shop erase-receivers" for each in acts)
    assert gateway.stop() == 0


@pytest.mark.parametrize("kind", ["orders", "coupon-claims", "product-figures"])
def test_a_rejected_order_is_erased_whatever_it_was_sent_as_and_however_it_names_its_shop(
    ledger_store: Store, tollway: Command, kind: str
) -> None:
    all_operations_caller(ledger_store)
    mine, other = ({**order(), "owner_id": each} for each in (SHOP.id, OTHER))
    misnamed = {"shop": f" {SHOP.id} ", "收货人": "司徒敏静"}
    wrong = (mine, {**mine, "owner_id": int(SHOP.id)}, misnamed, {"orders": [other, mine]})
    reject(ledger_store, *map(json.dumps, wrong), f"{SHOP.id},司徒敏静,", kind=kind)
    of_others = ({**other, "order_sn": SHOP.id}, {"orders": [other]}, {"sid": "lunch"})
    reject(ledger_store, *map(json.dumps, of_others), f"{OTHER},司徒敏静,", kind=kind)
    assert tollway(*ERASE).json["rejected"] == 5
    assert ledger_store.run("SELECT count(*) FROM rejected_record") == [(4,)]


def test_an_answer_that_is_kept_after_the_erasure_but_was_read_before_is_not_given_again(
    ledger_store: Store, tollway: Command, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    caller = all_operations_caller(store)
    gateway = Gateway(store)
    key, sent = {"Idempotency-Key": "slow"}, good_request(ORDERS, today)
    assert ask(gateway, ORDERS, caller.token, sent, key).data["content"][0]["receiver_name"]
    store.run(
        "INSERT INTO idempotency_key SELECT account_id, 'copy', 'none', at_ms, fingerprint, sealed "
        "FROM idempotency_key WHERE key = 'slow'"
    )
    assert tollway(*ERASE).json["answers"] == 1
    # As if the call had waited for its commit until now.
    store.run(
        "UPDATE idempotency_key SET sealed = (SELECT copy.sealed FROM idempotency_key AS copy "
        "WHERE copy.key = 'copy'), at_ms = at_ms + 60000 WHERE key = 'slow'"
    )

    def assert_erased() -> None:
        again = ask(gateway, ORDERS, caller.token, sent, key)
        assert (again.headers["x-tollway-reason"], again.data) == ("ANSWER_ERASED", {})

    assert_erased()
    # Nor while the next erasure has not come to the orders.
    asked = store.do(lambda database: ask_erasure(database, RUNTIME, SHOP.id, last_change_of))
    assert asked.read_before_ms is not None
    assert_erased()
    assert tollway(*ERASE).json["finished_at_s"]
    # What is read later has no receivers, and is given again.
    store.run("UPDATE receiver_erasure SET read_before_ms = read_before_ms - 3600000")
    later = [ask(gateway, ORDERS, caller.token, sent, {"Idempotency-Key": "late"}) for _ in "ab"]
    assert [each.code for each in later] == [0, 0] and later[1].headers["x-replay-of"]
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_a_repetition_that_is_under_way_with_the_first_call_does_not_show_receivers_later(
    ledger_store: Store, tollway: Command, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    caller, sent = all_operations_caller(store), good_request(ORDERS, today)
    key = {"Idempotency-Key": "slow"}
    gateway = Gateway(store, call_timeout_s=120)
    lock = f"SELECT FROM balance WHERE account_id = '{caller.account_id}' FOR UPDATE"

    with ThreadPoolExecutor(2) as threads:
        with left_open(store.url, lock):
            first = threads.submit(ask, gateway, ORDERS, caller.token, sent, key)
            eventually(lambda: store.run(_WAITS_FOR_A_LOCK), bool)
            second = threads.submit(ask, gateway, ORDERS, caller.token, sent, key)
            assert tollway(*ERASE).json["finished_at_s"]
            # The calls are charged, and the answer is kept, later than that.
            store.run(f"UPDATE receiver_erasure SET read_before_ms = {int(time.time() * 1000)}")
        assert first.result().data["content"][0]["receiver_name"]
        assert second.result().headers.get("x-tollway-reason") == "ANSWER_ERASED"
    again = ask(gateway, ORDERS, caller.token, sent, key)
    assert again.headers.get("x-tollway-reason") == "ANSWER_ERASED"
    assert gateway.stop() == 0


def test_an_erasure_that_is_killed_half_way_is_ended_by_the_next_gateway(
    ledger_store: Store, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    put_orders(store, (order(f"sn-{n:06}", owner_id=SHOP.id) for n in range(MORE_ORDERS)))
    caller, sent = all_operations_caller(store), good_request(ORDERS, today)
    key = {"Idempotency-Key": "while it goes on"}
    gateway = Gateway(store)
    assert ask(gateway, ORDERS, caller.token, sent, key).data["content"][0]["receiver_name"]
    assert gateway.stop() == 0
    all_orders = left_in(store, "shop_order")
    killed = run("tests.cli.killed_half_way", *ERASE, env={**os.environ, **store.settings})
    assert killed.returncode == -signal.SIGKILL, killed
    assert 0 < left_in(store, "shop_order") < all_orders
    # As if that page had been read while it went on.
    store.run("UPDATE receiver_erasure SET asked_at_s = asked_at_s - 60")
    put_orders(store, [order("sn-later", owner_id=SHOP.id)])

    gateway = Gateway(store)
    assert until_erased(store)[1] == all_orders
    assert left_in(store, "shop_order") == 1
    assert store.run("SELECT 1 FROM shop_order WHERE order_sn = 'sn-later' AND length(sealed) > 0")
    kept = ask(gateway, ORDERS, caller.token, sent, key)
    assert kept.headers["x-tollway-reason"] == "ANSWER_ERASED"
    assert gateway.stop() == 0


def test_a_waybill_that_waits_for_its_carrier_keeps_its_receiver_until_then(
    ledger_store: Store, tollway: Command, carrier: FakeCarrier
) -> None:
    store = ledger_store
    customer, body = left_pending(store, carrier, "cut_after_commit")
    # It is dated a second ahead, and clocks differ.
    store.run(f"UPDATE waybill SET asked_at_s = {int(time.time()) + 2}")
    erased = tollway(*ERASE).json
    assert (erased["finished_at_s"], erased["waiting"], erased["waybills"]) == (None, 1, 0)
    assert left_in(store, "waybill") == 1
    assert "wait for their carrier: 1" in tollway(*ERASE[:-1]).out
    with pytest.raises(ErasureUnderWayError):
        store.do(lambda database: ask_erasure(database, RUNTIME, SHOP.id, last_change_of))

    age_pending(store)
    store.run("UPDATE receiver_erasure SET asked_at_s = asked_at_s - 60")
    carrier.misbehave("refuse", message=LOOK_UP)
    asked = carrier.received(LOOK_UP)
    gateway = Gateway(store, reconcile_interval_s=3600)
    eventually(lambda: carrier.received(LOOK_UP), lambda received: received > asked)
    carrier.misbehave("none")
    key = {"Idempotency-Key": "after it was asked for"}
    assert issue(gateway, customer.token, body, **key).code == 0
    assert tollway(*ERASE).status == 0
    assert left_in(store, "waybill") == 0
    again = issue(gateway, customer.token, body, **key)
    assert again.headers["x-tollway-reason"] == "ANSWER_ERASED"
    assert gateway.stop() == 0


def test_an_erased_receiver_stays_in_no_free_part_of_the_file(
    ledger_store: Store, tollway: Command, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    all_operations_caller(store)
    remarks = [f"call {first}{second} first. " * 8 for first, second in permutations(HOUSES, 2)]
    sent = [order(f"sn-{n}", owner_id=SHOP.id, remark=each) for n, each in enumerate(remarks)]
    put_orders(store, sent)
    of_shop = f"SELECT sealed FROM shop_order WHERE owner_id = '{SHOP.id}'"
    sealed = [bytes(row[0]) for row in store.run(of_shop)]
    before = store.content()
    assert all(each.strip().encode() in before for each in remarks), "the test sees them"
    assert tollway(*ERASE).json["orders"] == len(sealed)
    after = store.content()
    assert [each for each in remarks if each[:20].encode() in after] == []
    assert [each for each in sealed if each[-32:] in after] == []


def test_a_cancelled_waybill_is_erased_even_if_its_carrier_never_confirmed_another_receiver(
    ledger_store: Store, tollway: Command, carrier: FakeCarrier
) -> None:
    store = ledger_store
    customer, body = new_customer(store), request(connected_carrier(store, carrier, **PATIENT))
    gateway = Gateway(store)
    issued = issue(gateway, customer.token, body).data
    carrier.misbehave("cut_before_commit", message="TMS_WAYBILL_UPDATE")
    sent = {"Authorization": f"Bearer {customer.token}"}
    receiver = {name: body[name] for name in body if name.startswith("receiver_")}
    other = {"object_id": issued["objectId"], **receiver, "receiver_name": "李四光"}
    changed = gateway.client.post("/account/v1/waybills/receiver", json=other, headers=sent)
    assert changed.headers["x-tollway-reason"] == "WAYBILL_CHANGING"
    assert gateway.stop() == 0
    # Until that is known, the change may have to be sent again.
    assert tollway(*ERASE).json["waiting"] == left_in(store, "waybill") == 1

    assert tollway("waybill", "cancel", issued["waybillCode"]).status == 0
    erased = tollway(*ERASE).json
    assert erased["finished_at_s"] and erased["waybills"] == 1
    assert left_in(store, "waybill") == 0


def test_two_that_erase_at_once_and_a_shop_whose_turn_comes_after_one_that_fails(
    ledger_store: Store, today: date
) -> None:
    store = ledger_store
    small_world(store, today)
    caller = all_operations_caller(store)
    gateway = Gateway(store)
    issued = ask(gateway, WAYBILLS, caller.token, good_request(WAYBILLS, today)).data

    async def twice(database: Database) -> list[Erasure]:
        asked = await ask_erasure(database, RUNTIME, SHOP.id, last_change_of)
        both = (
            erase(database, sealer_of(store), RUNTIME, asked, read_lag_s=3600) for _ in range(2)
        )
        return await asyncio.gather(*both)

    assert gateway.stop() == 0
    ended = store.do(twice)
    assert not any(each.waiting for each in ended)
    # A replica may be read, and be an hour behind.
    ahead_s = min((each.read_before_ms or 0) / 1000 for each in ended) - time.time()
    assert (ahead_s > 3000) == store.is_shared
    assert left_in(store, "waybill") == 0

    async def printed(database: Database) -> StoredWaybill:
        """As of a call that had read the waybill before it was erased."""
        found = await find_by_number(database, issued["waybillCode"])
        (late,) = await print_waybills(database, [found._replace(sealed=b"then")], RUNTIME)
        return late

    late = store.do(printed)
    assert (late.sealed, late.waybill.printed_at_s) == (b"", None)

    # One that cannot be erased, of a shop that asked before: SQLite stores a text where bytes are
    # expected, and PostgreSQL has no later time.
    store.run(f"UPDATE waybill SET owner_id = '{OTHER}', sealed = 'text'")
    store.run(
        f"UPDATE receiver_erasure SET owner_id = '{OTHER}', finished_at_s = NULL, "
        f"asked_at_s = {2**63 - 1}"
    )
    store.do(lambda database: ask_erasure(database, RUNTIME, SHOP.id, last_change_of))
    gateway = Gateway(store)
    until_erased(store)
    with pytest.raises(AssertionError, match=f"receivers of shop {OTHER} failed"):
        gateway.stop()


def test_it_asks_first_and_names_a_shop_that_is_not_known(
    ledger_store: Store, tollway: Command
) -> None:
    unknown = tollway(*ERASE)
    assert (unknown.status, "There is no shop" in unknown.err) == (1, True)
    all_operations_caller(ledger_store)
    unsure = tollway("shop", "erase-receivers", SHOP.id)
    assert (unsure.status, "--yes" in unsure.err) == (2, True)
    assert not ledger_store.run("SELECT * FROM receiver_erasure")
