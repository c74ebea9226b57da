"""Pushed orders over HTTP: signed, stored once, acknowledged only when they are durable."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from tests.support.any_records import clear
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import START_MS, miscounted, order, sealer_of
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.stores import Store
from tollway.intake.rejects import keep_rejects, list_rejected, replay, sealed_reject
from tollway.intake.sources import (
    SourceScope,
    add_source,
    list_sources,
    rotate_secret,
    set_source_scope,
)
from tollway.operations.catalogue import RECORD_KINDS
from tollway.store.key_file import SealError


class Side(NamedTuple):
    """A gateway, its database, and the secret of a source."""

    store: Store
    gateway: Gateway
    secret: str


def with_source(store: Store) -> str:
    made = store.do(
        lambda database: add_source(database, sealer_of(store), SOURCE, EVERYONE, RUNTIME)
    )
    return made.secret


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Side]:
    store = Store(tmp_path_factory.mktemp("pushes") / "tollway.db")
    made = Side(store, Gateway(store, push_max_bytes=100_000), with_source(store))
    yield made
    assert made.gateway.stop() == 0


@pytest.fixture
def own(side: Side) -> Store:
    """Without records."""
    clear(side.store, "orders")
    clear(side.store, "coupon-claims")
    return side.store


@pytest.fixture
def secret(side: Side) -> str:
    return side.secret


@pytest.fixture
def gateway(side: Side) -> Gateway:
    return side.gateway


def as_json(*records: dict[str, Any]) -> bytes:
    return msgspec.json.encode(records if len(records) != 1 else records[0])


def _counts(answer: httpx.Response) -> tuple[int, int, int]:
    said = answer.json()
    return said["stored"], said["unchanged"], said["rejected"]


def stored(store: Store) -> list[tuple[str, int]]:
    return store.run("SELECT order_sn, status FROM shop_order ORDER BY 1")


@pytest.mark.parametrize("shape", ["object", "array", "lines"])
def test_a_push_is_stored_once_however_often_it_comes(
    gateway: Gateway, own: Store, secret: str, shape: str
) -> None:
    records = [order(f"sn-{n}") for n in range(1 if shape == "object" else 3)]
    body = b"\n".join(map(as_json, records)) if shape == "lines" else as_json(*records)
    first = push(gateway, secret, body)
    assert first.status_code == 200
    assert first.json() == {"stored": len(records), "unchanged": 0, "rejected": 0}
    again = push(gateway, secret, body, message_id="msg_2")
    assert again.json() == {"stored": 0, "unchanged": len(records), "rejected": 0}
    assert stored(own) == [(each["order_sn"], 1) for each in records]
    assert own.do(miscounted) == {}


def test_later_versions_replace_earlier_ones_whatever_order_they_arrive_in(
    gateway: Gateway, own: Store, secret: str
) -> None:
    push(gateway, secret, as_json(order(order_status=2, updated_at=START_MS + 5)))
    old = push(gateway, secret, as_json(order(order_status=1)))
    assert old.json() == {"stored": 0, "unchanged": 1, "rejected": 0}
    push(gateway, secret, as_json(order(order_status=3, updated_at=START_MS + 9)))
    assert [status for _, status in stored(own)] == [3]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("kind", ["orders", "coupon-claims"])
def test_405_says_what_to_send_as_other_answers_do(
    gateway: Gateway, method: str, kind: str
) -> None:
    answer = gateway.client.request(method, f"/push/{kind}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json() == {"error": "Send a POST."}
    assert gateway.client.head(f"/push/{kind}").status_code == 405


def test_401_is_the_same_for_every_push_that_cannot_be_trusted(
    gateway: Gateway, own: Store, secret: str
) -> None:
    body = as_json(order())
    elsewhere = "whsec_" + "A" * 43 + "="
    refused = [
        push(gateway, elsewhere, body),
        push(gateway, secret, body, source="unknown"),
        push(gateway, secret, body, source=""),
        push(gateway, secret, body, source="", query="?source=%00"),
        push(gateway, secret, body, source="", query="?source=%EF%BB%BF"),
        push(gateway, secret, body, source="m" * 65),
        push(gateway, secret, body, late_s=301),
        push(gateway, secret, body, late_s=-302),
        push(gateway, secret, body, message_id=""),
        push(gateway, secret, body, signature=""),
        push(gateway, secret, body, signature="v1,"),
        push(gateway, secret, body, signature="v1a," + "A" * 44),
        gateway.client.post("/push/orders", content=body),
    ]
    assert {response.status_code for response in refused} == {401}
    assert len({response.text for response in refused}) == 1
    # All that can be wrong, because none of it is named.
    message = refused[0].json()["error"]
    for part in ("webhook-source", "secret", "webhook-id", "webhook-timestamp", "body"):
        assert part in message
    assert stored(own) == []
    assert push(gateway, secret, body, late_s=295).status_code == 200


def test_after_a_rotation_both_secrets_are_good_and_after_two_the_first_is_not(
    own_store: Store,
) -> None:
    own, secret, gateway = own_store, with_source(own_store), Gateway(own_store)

    def rotate() -> str:
        return own.do(
            lambda database: rotate_secret(database, sealer_of(own), SOURCE, RUNTIME)
        ).secret

    second = rotate()
    for number, each in enumerate((secret, second)):
        assert push(gateway, each, as_json(order(f"sn-{number}"))).status_code == 200
    third = rotate()
    assert push(gateway, secret, as_json(order("sn-9"))).status_code == 401
    for number, each in enumerate((second, third)):
        assert push(gateway, each, as_json(order(f"sn-{number}"))).status_code == 200
    assert [each.rotated_at_s is None for each in own.do(list_sources)] == [False]
    assert secret.removeprefix("whsec_").encode() not in own.content()
    assert gateway.stop() == 0


def test_a_bad_record_does_not_stop_the_good_ones_and_is_kept_with_its_reason(
    gateway: Gateway, own: Store, secret: str
) -> None:
    bad = order("sn-bad", order_status=7, receiver_name="司徒敏静")
    lines = [as_json(order("sn-1")), b"not json", as_json(bad), as_json(order("sn-2")), b"[1]"]
    for _ in range(2):
        response = push(gateway, secret, b"\n".join(lines))
        assert response.status_code == 200
        assert response.json()["rejected"] == 3
    assert [order_sn for order_sn, _ in stored(own)] == ["sn-1", "sn-2"]
    rejected = own.do(list_rejected)
    assert len(rejected) == 3
    assert {each.source for each in rejected} == {SOURCE}
    assert sum("order_status" in each.reason for each in rejected) == 1
    assert "司徒敏静".encode() not in own.content()


def test_a_reason_does_not_show_a_phone_in_a_field_of_numbers(
    gateway: Gateway, own: Store, secret: str
) -> None:
    """Reasons are kept as they are, beside the sealed record."""
    phones = ("13987650001", 13987650001, 8613987650001, "057188880002", "88880002")
    fields = ("order_status", "remark_tag", "last_ship_time")
    bad = [{**order("sn-bad"), field: phone} for field in fields for phone in phones]
    answer = push(gateway, secret, as_json(bad))
    assert answer.json()["rejected"] == len(bad)
    for phone in map(str, phones):
        assert not any(phone in each.reason for each in own.do(list_rejected))
        assert phone not in answer.text and phone.encode() not in own.content()


def test_a_record_that_is_wrong_for_two_kinds_is_kept_for_both(
    gateway: Gateway, own: Store, secret: str
) -> None:
    """A sender that mixed the addresses up, and has a wrong record too."""
    for _ in range(2):
        for kind in ("coupon-claims", "orders"):
            answer = push(gateway, secret, b'[{"order_sn": "sn-1"}]', kind=kind)
            assert answer.json()["rejected"] == 1
    assert sorted(each.kind for each in own.do(list_rejected)) == ["coupon-claims", "orders"]


ODD = {
    "half of a surrogate pair": b'"\\ud800"',
    "a byte that is not UTF-8": b'"\xff"',
    "a control character": b'"\x01"',
    "NaN": b"NaN",
    "a number of 5,000 digits": b"9" * 5000,
    "an object in an object": b'{"a": {"b": [1, 2]}}',
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("shape", ["array", "lines"])
def test_an_odd_record_costs_no_other_of_its_array(
    gateway: Gateway, own: Store, secret: str, shape: str, odd: str
) -> None:
    bad = as_json(order("sn-bad", goods_spec="ODD")).replace(b'"ODD"', ODD[odd])
    records = [as_json(order("sn-1")), bad, as_json(order("sn-2"))]
    body = b"\n".join(records) if shape == "lines" else b"[" + b", ".join(records) + b"]"
    answer = push(gateway, secret, b"\xef\xbb\xbf" + body)
    assert answer.status_code == 200
    assert _counts(answer) == (2, 0, 1)
    assert answer.json()["problems"][0]["record"] == 2
    assert [order_sn for order_sn, _ in stored(own)] == ["sn-1", "sn-2"]
    (kept,) = own.do(list_rejected)
    is_json = odd != "a control character"
    assert kept.reason.startswith("goods_spec: it " if is_json else "the record is not a JSON obj")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"goods_spec": "\ud800"}, "goods_spec: it contains half of a surrogate pair, or bytes th"),
        ({"\ud800": 1}, "the record: a field's name is not valid text; send names in UTF-8."),
    ],
)
def test_one_object_over_several_lines_is_one_record(
    gateway: Gateway, own: Store, secret: str, record: dict[str, Any], reason: str
) -> None:
    body = json.dumps({**order("sn-bad"), **record}, indent=2).encode()
    assert _counts(push(gateway, secret, body)) == (0, 0, 1)
    (kept,) = own.do(list_rejected)
    assert kept.reason.startswith(reason)


@pytest.mark.usefixtures("secret")
def test_a_rejected_record_is_stored_when_it_is_replayed_and_good_by_then(own: Store) -> None:
    sealer = sealer_of(own)

    def reject(record: dict[str, Any]) -> dict[str, object]:
        return sealed_reject(sealer, b"key", SOURCE, "orders", as_json(record), "not known yet", 5)

    rejects = [reject(order("sn-1")), reject(order("sn-2", order_status=9))]
    own.do(lambda database: database.write(lambda tx: keep_rejects(tx, rejects)))
    result = own.do(lambda database: replay(database, sealer, RECORD_KINDS, None))
    assert (result.stored, result.unchanged, result.rejected) == (1, 0, 1)
    assert [each.id for each in own.do(list_rejected)] == [rejects[1]["id"]]
    assert [order_sn for order_sn, _ in stored(own)] == ["sn-1"]
    assert own.do(miscounted) == {}


@pytest.mark.usefixtures("secret")
def test_a_rejected_record_that_was_altered_stops_no_other(own: Store) -> None:
    sealer = sealer_of(own)
    records = [as_json(order(f"sn-{n}")) for n in (1, 2, 3)]
    rejects = [sealed_reject(sealer, b"key", SOURCE, "orders", each, "", 5) for each in records]
    own.do(lambda database: database.write(lambda tx: keep_rejects(tx, rejects)))
    altered = sorted(str(each["id"]) for each in rejects)[0]
    own.run(f"UPDATE rejected_record SET sealed = substr(sealed, 2) WHERE id = '{altered}'")
    result = own.do(lambda database: replay(database, sealer, RECORD_KINDS, None))
    assert (result.stored, result.unchanged, result.rejected) == (2, 0, 1)
    assert [each.id for each in own.do(list_rejected)] == [altered]
    with pytest.raises(SealError):
        own.do(lambda database: replay(database, sealer, RECORD_KINDS, altered))


@pytest.mark.parametrize("body", [b"", b"   ", b"[1, 2", b"not json", b"\xff\xfe", b"7", b"[]"])
def test_400_malformed(gateway: Gateway, own: Store, secret: str, body: bytes) -> None:
    assert push(gateway, secret, body).status_code == 400
    assert own.do(list_rejected) == []


def test_400_over_a_thousand_wrong_records(gateway: Gateway, own: Store, secret: str) -> None:
    def pushed(wrong: int) -> httpx.Response:
        return push(gateway, secret, as_json(order(), *({"number": n} for n in range(wrong))))

    refused = pushed(1001)
    assert refused.status_code == 400
    assert "Over 1000 records" in refused.json()["error"]
    assert "owner_id" in refused.json()["error"]
    assert (stored(own), own.do(list_rejected)) == ([], [])
    assert _counts(pushed(1000)) == (1, 0, 1000)
    assert len(own.do(list_rejected)) == 1000


def test_413_too_large(gateway: Gateway, secret: str) -> None:
    assert push(gateway, secret, b" " * 100_001).status_code == 413


CLAIM = {
    "coupon_code": "c-1",
    "sid": "channel",
    "type": 4,
    "claim_time": 1_768_449_600,
    "coupon_name": "外卖通用红包",
    "money": "5",
    "min_use_money": "20",
    "begin_time": 1_768_449_600,
    "end_time": 1_768_535_999,
    "app_key": "9f3c2d7b61e84a05",
}


def test_coupon_claims_are_pushed_the_same_way(gateway: Gateway, own: Store, secret: str) -> None:
    body = as_json(CLAIM, {**CLAIM, "coupon_code": "c-2", "type": 5})
    for stored in (1, 0):
        answer = push(gateway, secret, body, kind="coupon-claims")
        assert _counts(answer) == (stored, 1 - stored, 1)
    assert own.run("SELECT coupon_code FROM coupon_claim") == [("c-1",)]
    assert own.run("SELECT sum(claims) FROM coupon_claim_hour") == [(1,)]
    (kept,) = own.do(list_rejected)
    assert (kept.kind, "type" in kept.reason) == ("coupon-claims", True)
    again = own.do(lambda database: replay(database, sealer_of(own), RECORD_KINDS, None))
    assert (again.stored, again.rejected) == (0, 1)


def test_a_push_of_claims_that_comes_once_more_later_undoes_no_newer_one(
    gateway: Gateway, own: Store, secret: str
) -> None:
    old, new = as_json(CLAIM), as_json({**CLAIM, "coupon_name": "新红包"})
    # The same message, as signed then, after another one.
    for body, late_s, stored in ((old, 60, 1), (new, 30, 1), (old, 60, 0), (new, 30, 0)):
        answer = push(gateway, secret, body, kind="coupon-claims", late_s=late_s)
        assert answer.json() == {"stored": stored, "unchanged": 1 - stored, "rejected": 0}
    assert own.run("SELECT coupon_name FROM coupon_claim") == [("新红包",)]


def test_a_rejected_claim_counts_as_of_when_it_came(
    gateway: Gateway, own: Store, secret: str
) -> None:
    speaks_for = SourceScope(channel=("another",))
    source = own.do(
        lambda database: add_source(database, sealer_of(own), "narrow", speaks_for, RUNTIME)
    )
    old, new = as_json({**CLAIM, "coupon_name": "旧红包"}), as_json(CLAIM)
    answer = push(gateway, source.secret, old, source="narrow", kind="coupon-claims", late_s=60)
    assert _counts(answer) == (0, 0, 1)
    assert push(gateway, secret, new, kind="coupon-claims", late_s=30).json()["stored"] == 1
    own.do(
        lambda database: set_source_scope(
            database, "narrow", SourceScope(channel=(CLAIM["sid"],)), RUNTIME
        )
    )
    again = own.do(lambda database: replay(database, sealer_of(own), RECORD_KINDS, None))
    assert (again.stored, again.unchanged, again.rejected) == (0, 1, 0)
    assert own.run("SELECT coupon_name FROM coupon_claim") == [(CLAIM["coupon_name"],)]
