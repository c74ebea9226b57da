"""What waits for a carrier, from the command line: settled, still waiting, overdue, cancelled."""

import time

import pytest

from tests.cli.conftest import Command
from tests.support.fake_carrier import CANCEL, ISSUE, LOOK_UP, SECRET, FakeCarrier
from tests.support.remote import age_pending, ledger_of, left_pending
from tests.support.stores import Store
from tests.support.waybills import PRICE
from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import CarrierLink, connect
from tollway.store.open import open_sealer


def test_what_the_carrier_knows_is_issued_and_charged(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier
) -> None:
    customer, body = left_pending(ledger_store, carrier, "cut_after_commit")
    assert str(PRICE) in tollway("hold", "list").out
    (held,) = tollway("hold", "list", "--json").json
    assert (held["amount"], held["state"]) == (PRICE, "held")
    (finding,) = tollway("reconcile", "--json").json
    assert finding["outcome"] == "issued"
    assert finding["waybill"]["order_sn"] == body["order_sn"]
    assert [finding["number"]] == carrier.issued()
    assert ledger_of(ledger_store, customer).posted == PRICE
    assert tollway("hold", "list").out.strip() == "Nothing is held."
    assert "No waybill waits" in tollway("reconcile").out
    (act,) = tollway("trail", "show", "--json", "--of", "waybills").json
    assert [each["number"] for each in act["after"]] == carrier.issued()


def test_what_the_carrier_does_not_know_is_given_up_after_its_time(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier
) -> None:
    customer, _ = left_pending(ledger_store, carrier, "cut_before_commit")
    age_pending(ledger_store)
    findings = tollway("reconcile", "--json").json
    assert [each["outcome"] for each in findings] == ["given up"]
    assert ledger_of(ledger_store, customer).posted == 0
    assert ledger_of(ledger_store, customer).held == 0


def test_too_early_is_no_answer_yet(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier
) -> None:
    customer, _ = left_pending(ledger_store, carrier, "cut_before_commit", settle_after_s=3600)
    answer = tollway("reconcile")
    assert answer.status == 0
    assert "too early to tell" in answer.out and "Still waiting: 1" in answer.out
    assert ledger_of(ledger_store, customer).held == PRICE


def test_what_was_asked_for_before_its_link_got_a_shorter_time_keeps_the_longer_one(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier
) -> None:
    customer, body = left_pending(ledger_store, carrier, "cut_before_commit", settle_after_s=3600)
    sealer = open_sealer(ledger_store.url, ledger_store.key_file)
    shorter = CarrierLink(body["wp_code"], carrier.url, "TOLLWAY", "CODE", 1000, 2, 0)
    ledger_store.do(lambda database: connect(database, sealer, shorter, SECRET))
    (finding,) = tollway("reconcile", "--json").json
    assert finding["outcome"] == "too early to tell"
    decided = tollway("reconcile", "--decide", body["order_sn"], "--not-issued")
    assert decided.status == 1 and "may still arrive" in decided.err
    assert ledger_of(ledger_store, customer).held == PRICE


def test_overdue_sets_the_exit_status_and_nothing_is_guessed(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier
) -> None:
    customer, _ = left_pending(ledger_store, carrier, "cut_after_commit")
    carrier.misbehave("refuse", message=LOOK_UP)
    (finding,) = tollway("reconcile", "--json").json
    assert (finding["outcome"], finding["is_overdue"]) == ("no answer", False)
    age_pending(ledger_store)
    answer = tollway("reconcile")
    assert answer.status == 1
    assert "overdue" in answer.out and "no answer" in answer.out
    assert "overdue" in tollway("hold", "list").out
    assert ledger_of(ledger_store, customer).held == PRICE
    wp_code = tollway("carrier", "list", "--json").json[0]["wp_code"]
    refused = tollway("carrier", "disconnect", wp_code)
    assert refused.status == 1 and "tollway reconcile" in refused.err


def test_a_waybill_is_cancelled_at_its_carrier_first(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier
) -> None:
    left_pending(ledger_store, carrier, "cut_after_commit")
    (finding,) = tollway("reconcile", "--json").json
    number = finding["number"]
    carrier.misbehave("refuse", message=CANCEL, reason="已揽收，不能取消", times=1)
    refused = tollway("waybill", "cancel", number)
    assert refused.status == 1 and "已揽收" in refused.err
    carrier.misbehave("garbage", message=CANCEL, times=1)
    unknown = tollway("waybill", "cancel", number)
    assert unknown.status == 1 and "is not cancelled" in unknown.err
    assert tollway("waybill", "cancel", number).status == 0
    events = [line["event"] for line in carrier.journal() if line["event"] != "refused"]
    assert events == ["issued", "cancelled"]
    assert carrier.received(ISSUE) == 1


# In doubt, and no message can arrive any more: it was long ago, or the clock was far ahead then.
@pytest.mark.parametrize("until_s", [0, 2**33])
def test_a_carrier_with_a_doubtful_receiver_stays_until_the_operator_decides(
    tollway: Command, ledger_store: Store, carrier: FakeCarrier, until_s: int
) -> None:
    _, body = left_pending(ledger_store, carrier, "cut_after_commit")
    (finding,) = tollway("reconcile", "--json").json
    wp_code, order = body["wp_code"], body["order_sn"]
    decide = ("reconcile", "--decide", order, "--receiver-kept")
    assert "No waybill of order" in tollway(*decide).err
    # As after a change of its receiver without an answer, whose message may still arrive.
    in_an_hour_s = int(time.time()) + 3600
    ledger_store.run(f"UPDATE waybill SET changing_until_s = {in_an_hour_s}")
    early = tollway(*decide)
    assert early.status == 1 and "may still arrive" in early.err
    ledger_store.run(f"UPDATE waybill SET changing_until_s = {until_s}")
    refused = tollway("carrier", "disconnect", wp_code)
    assert refused.status == 1 and "--receiver-kept" in refused.err
    other = CarrierLink(wp_code, "https://other.example", "TOLLWAY", "CODE", 1000, 60, 0)
    sealer = open_sealer(ledger_store.url, ledger_store.key_file)
    with pytest.raises(CarrierError, match="--receiver-kept"):
        ledger_store.do(lambda db: connect(db, sealer, other, "secret"))
    assert tollway(*decide, "--not-issued").status == 2
    decided = tollway(*decide)
    assert decided.status == 0 and finding["number"] in decided.out
    (kept,) = ledger_store.run("SELECT changing_until_s FROM waybill")
    assert kept[0] is None
    assert "waybill decide" in tollway("trail", "show").out
    assert tollway("carrier", "disconnect", wp_code).status == 0
