"""A source speaks for its shops and channels: nothing else is taken from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order, sealer_of
from tests.support.pushes import push
from tests.support.stores import Store
from tollway.intake.rejects import correct_reject, list_rejected, replay
from tollway.intake.sources import SourceScope, add_source, set_source_scope
from tollway.operations.catalogue import RECORD_KINDS

MINE, THEIRS = "7001", "7002"
CLAIM = {
    "coupon_code": "c-1",
    "sid": "lunch",
    "type": 4,
    "claim_time": 1_768_406_400,
    "coupon_name": "lunch",
    "money": "5",
    "min_use_money": "20",
    "begin_time": 1_768_406_400,
    "end_time": 1_768_506_400,
    "app_key": "app",
}


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


@pytest.fixture
def served(own: Store) -> Iterator[Gateway]:
    with Gateway(own) as started:
        yield started


def secret_of(store: Store, name: str, speaks_for: SourceScope) -> str:
    return store.do(
        lambda database: add_source(database, sealer_of(store), name, speaks_for, RUNTIME)
    ).secret


def counts(served: Gateway, secret: str, source: str, *records: Any, kind: str = "orders") -> Any:
    body = msgspec.json.encode(records)
    return push(served, secret, body, source=source, kind=kind).json()


def test_a_source_can_neither_overwrite_nor_add_orders_of_another_shop(
    own: Store, served: Gateway
) -> None:
    mine = secret_of(own, "mine", SourceScope(shop=(MINE,)))
    theirs = secret_of(own, "theirs", SourceScope(shop=(THEIRS,)))
    first = order("sn-1", owner_id=THEIRS)
    assert counts(served, theirs, "theirs", first)["stored"] == 1
    forged = {**first, "updated_at": first["updated_at"] + 1000, "order_status": 3}
    good = order("sn-1", owner_id=MINE)
    found = counts(served, mine, "mine", forged, good, order("sn-2", owner_id=THEIRS))
    assert (found["stored"], found["rejected"]) == (1, 2)
    orders = own.run("SELECT owner_id, order_sn, status FROM shop_order ORDER BY 1")
    assert orders == [(MINE, "sn-1", 1), (THEIRS, "sn-1", 1)]
    rejected = own.do(list_rejected)
    assert {each.reason for each in rejected} == {
        "owner_id: this source does not speak for the shop; send records of its own shops."
    }


def test_a_source_of_a_shop_speaks_for_no_channel(own: Store, served: Gateway) -> None:
    secret = secret_of(own, "mine", SourceScope(shop=("*",)))
    assert counts(served, secret, "mine", CLAIM, kind="coupon-claims")["rejected"] == 1
    other = secret_of(own, "lunch", SourceScope(channel=("lunch",)))
    assert counts(served, other, "lunch", CLAIM, kind="coupon-claims")["stored"] == 1
    of_another = {**CLAIM, "sid": "dinner", "coupon_code": "c-2"}
    assert counts(served, other, "lunch", of_another, kind="coupon-claims")["rejected"] == 1


def lunch_and_dinner(own: Store, served: Gateway) -> str:
    """Stores a claim of lunch; the secret of a source that speaks for dinner alone."""
    lunch = secret_of(own, "lunch", SourceScope(channel=("lunch",)))
    assert counts(served, lunch, "lunch", CLAIM, kind="coupon-claims")["stored"] == 1
    return secret_of(own, "dinner", SourceScope(channel=("dinner",)))


def claims(own: Store) -> list[tuple[Any, ...]]:
    return own.run("SELECT sid, coupon_code FROM coupon_claim ORDER BY 2")


def test_a_source_cannot_move_a_claim_out_of_another_channel(own: Store, served: Gateway) -> None:
    dinner = lunch_and_dinner(own, served)
    taken = {**CLAIM, "sid": "dinner"}
    others = [{**taken, "coupon_code": f"c-{number}"} for number in (2, 3)]
    later = {**taken, "coupon_name": "dinner"}
    wrong = {**taken, "coupon_code": ""}
    pushed = (others[0], taken, others[1], wrong, later)
    for is_again in (False, True):
        found = counts(served, dinner, "dinner", *pushed, kind="coupon-claims")
        assert (found["stored"], found["unchanged"]) == ((0, 2) if is_again else (2, 0))
        assert (found["rejected"], [each["record"] for each in found["problems"]]) == (3, [2, 4, 5])
    assert found["problems"][0]["reason"] == (
        "coupon_code: it belongs to a channel that this source does not speak for; "
        "send records of its own channels."
    )
    assert claims(own) == [("lunch", "c-1"), ("dinner", "c-2"), ("dinner", "c-3")]
    assert len(own.do(list_rejected)) == 3


def test_a_replay_asks_again_whose_the_stored_claim_is(own: Store, served: Gateway) -> None:
    dinner = lunch_and_dinner(own, served)
    moved = {**CLAIM, "sid": "dinner"}
    assert counts(served, dinner, "dinner", moved, kind="coupon-claims")["rejected"] == 1
    again = own.do(lambda database: replay(database, sealer_of(own), RECORD_KINDS, None))
    assert (again.stored, again.rejected) == (0, 1)
    (kept,) = own.do(list_rejected)
    record = msgspec.json.encode(moved).decode()
    said = own.do(
        lambda database: correct_reject(
            database, sealer_of(own), RECORD_KINDS, kept.id, record, RUNTIME
        )
    )
    assert said == kept.reason
    assert claims(own) == [("lunch", "c-1")]
    both = SourceScope(channel=("lunch", "dinner"))
    own.do(lambda database: set_source_scope(database, "dinner", both, RUNTIME))
    again = own.do(lambda database: replay(database, sealer_of(own), RECORD_KINDS, None))
    assert (again.stored, again.rejected) == (1, 0)
    assert claims(own) == [("dinner", "c-1")]


def test_a_source_moves_a_claim_between_its_own_channels(own: Store, served: Gateway) -> None:
    secret = secret_of(own, "both", SourceScope(channel=("lunch", "dinner")))
    assert counts(served, secret, "both", CLAIM, kind="coupon-claims")["stored"] == 1
    moved = {**CLAIM, "sid": "dinner"}
    assert counts(served, secret, "both", moved, kind="coupon-claims")["stored"] == 1
    assert claims(own) == [("dinner", "c-1")]


def test_a_replay_asks_again_whom_the_source_speaks_for(own: Store, served: Gateway) -> None:
    secret = secret_of(own, "mine", SourceScope(shop=(MINE,)))
    assert counts(served, secret, "mine", order("sn-1", owner_id=THEIRS))["rejected"] == 1
    again = own.do(lambda database: replay(database, sealer_of(own), RECORD_KINDS, None))
    assert (again.stored, again.rejected) == (0, 1)
    both = SourceScope(shop=(MINE, THEIRS))
    own.do(lambda database: set_source_scope(database, "mine", both, RUNTIME))
    again = own.do(lambda database: replay(database, sealer_of(own), RECORD_KINDS, None))
    assert (again.stored, again.rejected) == (1, 0)


def test_spaces_around_an_id_are_no_part_of_it_as_in_a_request(own: Store, served: Gateway) -> None:
    mine = secret_of(own, "mine", SourceScope(shop=(f" {MINE}",), channel=("lunch",)))
    spaced = order(" sn-1\t", owner_id=f" {MINE}\u3000")
    assert counts(served, mine, "mine", spaced)["stored"] == 1
    assert counts(served, mine, "mine", order("sn-1", owner_id=MINE))["unchanged"] == 1
    longest = "9" * 64
    assert counts(served, mine, "mine", order(f" {longest} ", owner_id=MINE))["stored"] == 1
    blank = counts(served, mine, "mine", order("  ", owner_id=MINE), order("sn-2", owner_id=MINE))
    assert (blank["stored"], blank["rejected"]) == (1, 1)
    claim = {**CLAIM, "coupon_code": " c-1 ", "sid": "lunch "}
    assert counts(served, mine, "mine", claim, kind="coupon-claims")["stored"] == 1
    assert counts(served, mine, "mine", CLAIM, kind="coupon-claims")["unchanged"] == 1
    assert own.run("SELECT order_sn FROM shop_order ORDER BY 1") == [
        (longest,),
        ("sn-1",),
        ("sn-2",),
    ]
    assert own.run("SELECT sid, coupon_code FROM coupon_claim") == [("lunch", "c-1")]
