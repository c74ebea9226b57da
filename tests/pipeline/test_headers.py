"""What stands around the payload: request id, rate limit, language, times."""

import re
import time
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS

NAME = PRODUCT_ANALYSIS.name
Question = dict[str, str]


def test_every_answer_has_a_request_id_of_its_own(
    gateway: Gateway, caller: Caller, question: Question
) -> None:
    replies = [
        *(gateway.get(token=caller.token, query=question) for _ in range(5)),
        *(gateway.get(query=question) for _ in range(5)),
        *(gateway.get("/nowhere") for _ in range(5)),
    ]
    ids = [reply.headers["x-request-id"] for reply in replies]
    assert len(set(ids)) == len(replies)
    assert all(re.fullmatch(r"[0-9a-f]{26}", each) for each in ids)
    assert ids == sorted(ids), "ids grow with time, so that their index grows at one end"


def test_request_ids_tell_nothing_of_the_calls_of_others(gateway: Gateway) -> None:
    ids = [gateway.get("/nowhere").headers["x-request-id"] for _ in range(6)]
    # Past the time.
    ends = [int(each[13:], 16) for each in ids]
    steps = [later - earlier for earlier, later in pairwise(ends)]
    assert min(abs(step) for step in steps) > 2**20


def test_a_caller_cannot_choose_the_request_id(
    gateway: Gateway, caller: Caller, question: Question
) -> None:
    headers = {"X-Request-Id": "mine"}
    reply = gateway.get(token=caller.token, query=question, headers=headers)
    assert reply.headers["x-request-id"] != "mine"


def test_a_refusal_names_its_reason_and_a_success_none(
    gateway: Gateway, store: Store, caller: Caller, question: Question
) -> None:
    spent = new_caller(store, calls=0)
    reasons = {
        "CREDENTIAL_INVALID": gateway.get(query=question),
        "PARAMETER_MISSING": gateway.get(token=caller.token),
        "CALLS_USED_UP": gateway.get(token=spent.token, query=question),
        "PATH_UNKNOWN": gateway.get("/nowhere"),
    }
    assert {name: reply.headers["x-tollway-reason"] for name, reply in reasons.items()} == {
        name: name for name in reasons
    }
    assert "x-tollway-reason" not in gateway.get(token=caller.token, query=question).headers


@pytest.mark.parametrize(
    ("query", "code"), [("", 100), ("product_id=1&query_date=2026-01-01", 100)]
)
def test_a_failed_call_tells_where_the_account_stands(
    gateway: Gateway, store: Store, query: str, code: int
) -> None:
    _, replies = at_once(
        lambda: new_caller(store),
        lambda caller: [gateway.get(token=caller.token, query=query) for _ in range(3)],
    )
    assert {reply.code for reply in replies} == {code}
    assert [reply.headers["ratelimit"] for reply in replies] == [
        f'"{NAME}";r={left};t=1' for left in (9, 8, 7)
    ]
    assert {reply.headers["ratelimit-policy"] for reply in replies} == {f'"{NAME}";q=10;w=1'}


def test_204_tells_the_standing_without_counting(
    gateway: Gateway, store: Store, question: Question
) -> None:
    for caller in (new_caller(store, granted=False), new_caller(store, calls=0, rate_limit=7)):
        replies = [gateway.get(token=caller.token, query=question) for _ in range(3)]
        assert {reply.code for reply in replies} == {204}
        (policy,) = {reply.headers["ratelimit-policy"] for reply in replies}
        (left,) = {reply.headers["ratelimit"] for reply in replies}
        assert (policy, left) in [
            (f'"{NAME}";q=10;w=1', f'"{NAME}";r=10;t=1'),
            (f'"{NAME}";q=7;w=1', f'"{NAME}";r=7;t=1'),
        ]


def test_what_was_not_authenticated_tells_of_no_limit(
    gateway: Gateway, caller: Caller, question: Question
) -> None:
    for reply in (
        gateway.get(query=question),
        gateway.get(token="tw_live_x", query=question),
        gateway.get("/nowhere", token=caller.token),
        gateway.get(ANALYSIS, token=caller.token, method="POST"),
    ):
        assert reply.code in (401, 404)
        assert not [name for name in reply.headers if name.startswith("ratelimit")]
        assert "retry-after" not in reply.headers


@pytest.mark.parametrize("language", ["zh", "zh-CN,zh;q=0.9,en;q=0.1"])
def test_messages_are_chinese_for_whom_prefers_it(
    gateway: Gateway, caller: Caller, question: Question, language: str
) -> None:
    headers = {"Accept-Language": language}
    assert gateway.get(token=caller.token, query=question, headers=headers).msg == "成功"
    assert "凭证无效" in gateway.get(query=question, headers=headers).msg
    assert "路径" in gateway.get("/nowhere", headers=headers).msg
    missing = gateway.get(token=caller.token, headers=headers).msg
    assert missing == "缺少参数 product_id：请传入 1 到 64 个字符的字符串。"


@pytest.mark.parametrize("language", ["", "en", "de", "en,zh;q=0.9"])
def test_messages_are_english_for_all_others(
    gateway: Gateway, caller: Caller, question: Question, language: str
) -> None:
    headers = {"Accept-Language": language}
    assert gateway.get(token=caller.token, query=question, headers=headers).msg == "Success"


def test_times_are_whole_numbers(gateway: Gateway, caller: Caller, question: Question) -> None:
    before_s = int(time.time())
    for reply in (gateway.get(token=caller.token, query=question), gateway.get(query=question)):
        msec, at_s = reply.envelope["msec"], reply.envelope["time"]
        assert type(msec) is int and 0 <= msec < 30_000
        assert type(at_s) is int and before_s <= at_s <= time.time()


def test_100_two_different_idempotency_keys(
    gateway: Gateway, store: Store, question: Question
) -> None:
    caller = new_caller(store)
    sent = [("Authorization", f"Bearer {caller.token}"), ("Idempotency-Key", "one")]
    for key, code in (("two", 100), ("one", 0)):
        headers = httpx.Headers([*sent, ("Idempotency-Key", key)])
        reply = gateway.client.get(ANALYSIS, params=question, headers=headers).json()
        assert reply["code"] == code, reply["msg"]


@pytest.mark.sqlite
def test_behind_tls_browsers_are_asked_to_stay_there(tmp_path: Path) -> None:
    gateway = Gateway(Store(tmp_path / "tollway.db"), public_url="https://gateway.example")
    for path in ("/nowhere", "/healthz", "/owner", f"/owner?{'a=1&' * 1000}"):
        response = gateway.client.get(path)
        assert response.headers["strict-transport-security"] == "max-age=31536000"
    assert gateway.stop() == 0


def test_without_tls_they_are_not(gateway: Gateway) -> None:
    for path in ("/nowhere", "/healthz"):
        assert "strict-transport-security" not in gateway.client.get(path).headers
