"""Every reason that the coupon-claim query can answer with, through real HTTP and in both encodings
of a form; no failure moves a balance."""

import socket
from collections.abc import Iterator

import apsw
import pytest

from tests.support.coupons import COUPONS, NOON_S, WEEK_S, asked, claim, load_claims
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, credits_left, new_caller
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.ledger.permissions import set_closed
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS

NAME = COUPON_CLAIMS.name
both_encodings = pytest.mark.parametrize("encoding", ["multipart", "urlencoded"])


def coupon_caller(store: Store, **given: int | bool) -> Caller:
    return new_caller(store, operations=[COUPON_CLAIMS], **{"credits_": 50, **given})


@pytest.fixture
def unpaid(store: Store) -> Iterator[Caller]:
    """A caller whose credits must be the same after the test."""
    caller = coupon_caller(store)
    yield caller
    assert credits_left(store, caller) == 50


@pytest.fixture
def own_gateway(own_store: Store) -> Iterator[Gateway]:
    """A gateway for what would disturb other tests."""
    started = Gateway(own_store)
    yield started
    started.stop()


@pytest.fixture
def impatient(own_store: Store) -> Iterator[Gateway]:
    """A gateway for calls that shall time out."""
    started = Gateway(own_store, call_timeout_s=1, body_timeout_s=1)
    yield started
    started.stop()


def refused(reply: Reply, code: int, *words: str) -> None:
    assert (reply.code, reply.status, reply.data) == (code, 200, {})
    assert all(word in reply.msg for word in words), reply.msg


@both_encodings
@pytest.mark.parametrize("sid", ["\ufeffchannel", "channel\u200b", "chan\u200bnel", "a\nb"])
def test_100_a_sid_with_a_character_that_cannot_be_seen_buys_no_empty_list(
    gateway: Gateway, unpaid: Caller, encoding: str, sid: str
) -> None:
    reply = gateway.post_form(COUPONS, asked(sid=sid), token=unpaid.token, encoding=encoding)
    refused(reply, 100, "Parameter sid", "control character" if "\n" in sid else "cannot be seen")


@both_encodings
def test_0_success(gateway: Gateway, store: Store, encoding: str) -> None:
    caller = coupon_caller(store)
    fields = asked(sid="unknown", unknown="ignored")
    reply = gateway.post_form(COUPONS, fields, token=caller.token, encoding=encoding)
    assert (reply.code, reply.msg) == (0, "Success")
    assert credits_left(store, caller) == 49


@both_encodings
@pytest.mark.parametrize("left_out", ["startTime", "endTime", "page", "limit", "sid", "type"])
def test_100_parameter_missing(
    gateway: Gateway, unpaid: Caller, left_out: str, encoding: str
) -> None:
    fields = asked(**{left_out: None})
    reply = gateway.post_form(COUPONS, fields, token=unpaid.token, encoding=encoding)
    refused(reply, 100, f"{left_out} is missing")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("startTime", "yesterday", "not a time"),
        ("startTime", "1768449600.5", "not a time"),
        ("startTime", "NaN", "not a time"),
        ("startTime", "-1", "less than 0"),
        ("endTime", "1768449600000", "in milliseconds"),
        ("page", "0", "less than 1"),
        ("page", "99999999999", "more than"),
        ("page", "9" * 40, "more than"),
        ("limit", "0", "less than 1"),
        ("limit", "1001", "more than 1000"),
        ("sid", "x" * 65, "65 characters"),
        ("sid", "a\0b", "NUL"),
        ("type", "5", "not one of"),
        ("type", "４", "not a whole number"),
    ],
)
def test_100_parameter_invalid(
    gateway: Gateway, unpaid: Caller, field: str, value: str, problem: str
) -> None:
    for encoding in ("multipart", "urlencoded"):
        fields = asked(**{field: value})
        reply = gateway.post_form(COUPONS, fields, token=unpaid.token, encoding=encoding)
        refused(reply, 100, f"{field} is not valid", problem)


def test_100_parameter_repeated_with_another_value(gateway: Gateway, unpaid: Caller) -> None:
    kind = "application/x-www-form-urlencoded"
    refused(
        gateway.post_bytes(COUPONS, b"sid=1&sid=2", kind, unpaid.token),
        100,
        "sid",
        "more than once",
    )


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        ("application/json", b"{", "JSON"),
        ("text/plain", b"hello", "Content-Type"),
        ("multipart/form-data; boundary=x", b"--x\r\n", "multipart"),
        ("multipart/form-data", b"--x--\r\n", "multipart"),
        ("application/x-www-form-urlencoded", b"sid=%ff", "UTF-8"),
        ("application/x-www-form-urlencoded", b"sid=%f", "%"),
    ],
)
def test_100_body_unreadable(
    gateway: Gateway, unpaid: Caller, content_type: str, body: bytes, problem: str
) -> None:
    refused(gateway.post_bytes(COUPONS, body, content_type, unpaid.token), 100, "body", problem)


def test_100_body_too_large(gateway: Gateway, unpaid: Caller) -> None:
    kind = "application/x-www-form-urlencoded"
    body = b"sid=" + b"x" * 16_384
    refused(gateway.post_bytes(COUPONS, body, kind, unpaid.token), 100, "16384 bytes")


@both_encodings
@pytest.mark.parametrize("end_s", [NOON_S, NOON_S - 1])
def test_100_window_backwards(gateway: Gateway, unpaid: Caller, encoding: str, end_s: int) -> None:
    fields = asked(endTime=end_s)
    reply = gateway.post_form(COUPONS, fields, token=unpaid.token, encoding=encoding)
    refused(reply, 100, "endTime is too early for startTime")


@both_encodings
def test_100_window_too_long(gateway: Gateway, unpaid: Caller, encoding: str) -> None:
    fields = asked(endTime=NOON_S + WEEK_S + 1)
    chinese = {"Accept-Language": "zh-CN"}
    reply = gateway.post_form(COUPONS, fields, token=unpaid.token, encoding=encoding)
    refused(reply, 100, "startTime", "endTime", "604801 seconds", "at most 604800")
    reply = gateway.post_form(COUPONS, fields, token=unpaid.token, headers=chinese)
    refused(reply, 100, "startTime", "endTime", "最多查询 604800 秒")


def test_100_the_known_types_are_listed_in_the_callers_language(
    gateway: Gateway, unpaid: Caller
) -> None:
    reply = gateway.post_form(COUPONS, asked(type=5), token=unpaid.token)
    refused(reply, 100, "type", "one of 4 (food delivery), 6 (flash purchase).")
    chinese = {"Accept-Language": "zh-CN"}
    reply = gateway.post_form(COUPONS, asked(type=5), token=unpaid.token, headers=chinese)
    refused(reply, 100, "type", "以下之一：4（外卖）、6（闪购）。")


def test_202_throttled(gateway: Gateway, store: Store) -> None:
    caller, replies = at_once(
        lambda: coupon_caller(store, rate_limit=1),
        lambda caller: [gateway.post_form(COUPONS, asked(), token=caller.token) for _ in range(2)],
    )
    assert replies[0].code == 0
    refused(replies[1], 202, "More calls a second to this operation than 1")
    assert credits_left(store, caller) == 49


def test_204_permission_missing(gateway: Gateway, store: Store) -> None:
    caller = coupon_caller(store, granted=False)
    refused(gateway.post_form(COUPONS, asked(), token=caller.token), 204, "No permission")
    assert credits_left(store, caller) == 50


def test_204_credits_used_up(gateway: Gateway, store: Store) -> None:
    caller = coupon_caller(store, credits_=3, price=2)
    assert gateway.post_form(COUPONS, asked(), token=caller.token).data["withholding_money"] == 2
    reply = gateway.post_form(COUPONS, asked(), token=caller.token)
    refused(reply, 204, "Insufficient credits", "1 left", "costs 2")
    assert credits_left(store, caller) == 1


def test_401_credential_invalid(gateway: Gateway) -> None:
    refused(gateway.post_form(COUPONS, asked()), 401, "Credential invalid")


def test_404_method_wrong(gateway: Gateway, unpaid: Caller) -> None:
    refused(gateway.get(COUPONS, token=unpaid.token, query=asked()), 404, "POST")


def test_101_timed_out_while_another_writer_holds_the_database(
    impatient: Gateway, own_store: Store
) -> None:
    caller = coupon_caller(own_store)
    with own_store.held():
        refused(impatient.post_form(COUPONS, asked(), token=caller.token), 101, "timed out")
    assert credits_left(own_store, caller) == 50


def test_101_body_timed_out(impatient: Gateway, own_store: Store) -> None:
    caller = coupon_caller(own_store)
    answer = _half_a_request(impatient, caller)
    assert b'"code":101' in answer and b"body did not arrive in 1 seconds" in answer
    assert credits_left(own_store, caller) == 50


def test_203_operation_closed(own_gateway: Gateway, own_store: Store) -> None:
    caller = coupon_caller(own_store)
    own_store.do(lambda database: set_closed(database, NAME, is_closed=True))
    refused(own_gateway.post_form(COUPONS, asked(), token=caller.token), 203, "not supported")
    assert credits_left(own_store, caller) == 50


def test_200_an_unexpected_error_is_not_shown(own_gateway: Gateway, own_store: Store) -> None:
    caller = coupon_caller(own_store)
    own_store.run("DROP TABLE coupon_claim_hour")
    reply = own_gateway.post_form(COUPONS, asked(), token=caller.token)
    refused(reply, 200, "System error")
    assert "coupon_claim_hour" not in reply.msg
    assert credits_left(own_store, caller) == 50


def _half_a_request(gateway: Gateway, caller: Caller) -> bytes:
    head = (
        f"POST {COUPONS} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {caller.token}",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 99",
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*head, "", "sid="]).encode())
        return connection.recv(65_536)


@pytest.mark.sqlite
def test_202_when_the_claims_cannot_be_read_from_the_disk(own_store: Store) -> None:
    caller = coupon_caller(own_store)
    load_claims(own_store, [claim("c", NOON_S)])
    _spoil(own_store, "coupon_claim_hour")
    gateway = Gateway(own_store)
    reply = gateway.post_form(COUPONS, asked(), token=caller.token)
    refused(reply, 202, "try again later")
    assert credits_left(own_store, caller) == 50
    gateway.stop()


def _spoil(store: Store, table: str) -> None:
    """Overwrites the first page of a table."""
    connection = apsw.Connection(str(store.path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    where = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    page = connection.execute(where, (table,)).fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    with store.path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("day", ["9999-12-31", "1969-12-01"])
def test_0_the_ends_of_the_calendar_have_no_claims(
    gateway: Gateway, store: Store, day: str
) -> None:
    caller = coupon_caller(store)
    wanted = asked(startTime=day, endTime=f"{day} 23:59:59")
    reply = gateway.post_form(COUPONS, wanted, token=caller.token)
    assert (reply.code, reply.msg, reply.data.get("total")) == (0, "Success", 0)
