"""Calls that came at the same moment pass the stages together, and each has its own answer."""

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Any

import msgspec
import pytest

from tests.support.in_process import in_gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tollway.gateway.gateway import Gateway
from tollway.ledger.call_timings import CallTimings
from tollway.ledger.entries import list_balances
from tollway.ledger.tokens import revoke_token
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.product_analysis.demo import product_ids
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.pipeline.bodies import Message
from tollway.pipeline.call import Answer, Call
from tollway.pipeline.http import Request
from tollway.pipeline.perform import Perform
from tollway.pipeline.steps import Waiting, answer_of

pytestmark = pytest.mark.sqlite


@pytest.fixture(autouse=True)
def no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some calls of each second are timed, and pass alone."""
    monkeypatch.setattr(CallTimings, "is_due", lambda *_: False)


async def _no_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def analysis(token: str, day: date, *headers: tuple[bytes, bytes]) -> Request:
    scope = {
        "http_version": "1.1",
        "method": "GET",
        "raw_path": PRODUCT_ANALYSIS.path.encode(),
        "query_string": f"product_id={product_ids(1)[0]}&query_date={day.isoformat()}".encode(),
        "headers": [(b"host", b"test"), (b"authorization", f"Bearer {token}".encode()), *headers],
        "client": ("127.0.0.1", 9),
    }
    return scope, _no_more


def with_path(request: Request, path: str) -> Request:
    return {**request[0], "raw_path": path.encode()}, request[1]


def posted(request: Request) -> Request:
    return {**request[0], "method": "POST"}, request[1]


async def codes_of(gateway: Gateway, requests: Sequence[Request]) -> list[Any]:
    """The code of each answer, or the error by which a call ended. Those that wait go on together,
    as the dispatcher has them."""
    found = gateway.edge.begin(requests)
    while waiting := [each for each in found if isinstance(each, Waiting)]:
        await asyncio.gather(*(each.pending for each in waiting), return_exceptions=True)
        later = iter(gateway.edge.go_on(waiting))
        found = [next(later) if isinstance(each, Waiting) else each for each in found]
    rest = [answer_of(each, gateway.edge.go_on) for each in found]
    answers = await asyncio.gather(*rest, return_exceptions=True)
    return [
        msgspec.json.decode(each.body)["code"] if isinstance(each, Answer) else each
        for each in answers
    ]


def test_each_has_its_own_answer_in_the_order_of_the_requests(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, today: date
) -> None:
    payer, limited, spent = (
        new_caller(own_store),
        new_caller(own_store, rate_limit=2),
        new_caller(own_store, calls=1),
    )
    revoked = new_caller(own_store)
    own_store.do(lambda database: revoke_token(database, RUNTIME, revoked.token_id))
    good = analysis(payer.token, today)
    kept = analysis(payer.token, today, (b"idempotency-key", b"a-key-of-this-test"))
    sent = [
        (good, 0),
        (analysis(revoked.token, today), 401),
        (analysis(limited.token, today), 0),
        (kept, 0),
        (with_path(good, "/papi/tool/nothing"), 404),
        (analysis(limited.token, today), 0),
        (with_path(good, COUPON_CLAIMS.path), 404),
        (analysis(limited.token, today), 202),
        (analysis(spent.token, today), 0),
        (good, 0),
    ]

    # Refused before it counts, and then the token is known: its next call waits for nothing.
    tokens = (payer.token, revoked.token, limited.token, spent.token)
    first = [posted(with_path(analysis(token, today), COUPON_CLAIMS.path)) for token in tokens]

    async def work(gateway: Gateway) -> None:
        assert 0 not in await codes_of(gateway, first)
        found = await codes_of(gateway, [request for request, _ in sent])
        assert found == [code for _, code in sent]

    in_gateway(own_store, monkeypatch, work)


@pytest.mark.parametrize("mistake", [ValueError("a mistake"), asyncio.CancelledError()])
def test_a_mistake_in_the_answer_of_one_ends_no_other(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, today: date, mistake: BaseException
) -> None:
    payers = [new_caller(own_store) for _ in range(3)]

    async def work(gateway: Gateway) -> None:
        enveloper: Any = gateway._pipeline._enveloper
        whole = enveloper.success

        def success(call: Call) -> Answer:
            if call.caller.account_id == payers[1].account_id:
                raise mistake
            answer: Answer = whole(call)
            return answer

        monkeypatch.setattr(enveloper, "success", success)
        requests = [analysis(each.token, today) for each in payers]
        # The first calls of a token wait for its account, the next ones for their charge alone.
        for _ in range(2):
            first, second, third = await codes_of(gateway, requests)
            assert (first, type(second), third) == (0, type(mistake), 0)
        assert gateway.edge.in_hand == set()

    in_gateway(own_store, monkeypatch, work)
    for payer in payers:
        balances = own_store.do(
            lambda database, payer=payer: list_balances(database, payer.account_id)
        )
        assert [each.amount for each in balances] == [98]


def test_a_call_that_is_cancelled_in_a_stage_ends_no_other(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, today: date
) -> None:
    payers = [new_caller(own_store) for _ in range(3)]
    whole = Perform.__call__

    def perform(stage: Perform, call: Call) -> object:
        if call.caller.account_id == payers[1].account_id:
            raise asyncio.CancelledError
        return whole(stage, call)

    monkeypatch.setattr(Perform, "__call__", perform)

    async def work(gateway: Gateway) -> None:
        requests = [analysis(each.token, today) for each in payers]
        for _ in range(2):
            first, second, third = await codes_of(gateway, requests)
            assert (first, type(second), third) == (0, asyncio.CancelledError, 0)

    in_gateway(own_store, monkeypatch, work)
