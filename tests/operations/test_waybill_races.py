"""What must hold when many want waybills at once, and after a restart."""

import asyncio
from typing import Any

import httpx

from tests.support.gateway import Gateway
from tests.support.ledger import Caller, credits_left
from tests.support.stores import Store
from tests.support.waybills import (
    PRICE,
    issue,
    new_carrier,
    new_customer,
    request,
    without_charge,
)
from tollway.operations.waybills.operation import WAYBILLS

CONNECTIONS = 64


def _fire(gateway: Gateway, caller: Caller, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The payloads of requests that are sent at once, over as many connections as there may be."""

    async def run() -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {caller.token}"}
        limits = httpx.Limits(max_connections=CONNECTIONS)
        # The client takes long to look through requests that wait for one of its connections.
        is_free = asyncio.Semaphore(CONNECTIONS)
        async with httpx.AsyncClient(
            base_url=gateway.base_url, headers=headers, limits=limits, timeout=60
        ) as client:

            async def post(body: dict[str, Any]) -> httpx.Response:
                async with is_free:
                    return await client.post(WAYBILLS.path, json=body)

            replies = await asyncio.gather(*map(post, bodies))
        assert {reply.json()["code"] for reply in replies} == {0}
        return [reply.json()["data"] for reply in replies]

    return asyncio.run(run())


def test_64_equal_requests_at_once_are_one_waybill_one_charge_and_one_answer(
    gateway: Gateway, store: Store
) -> None:
    customer, wp_code = new_customer(store), new_carrier(store, 100)
    answers = _fire(gateway, customer, [request(wp_code, order_sn="the-only-order")] * 64)
    assert sorted(answer["withholding_money"] for answer in answers) == [0] * 63 + [PRICE]
    assert answers[0]["code"] == 1
    assert all(without_charge(answer) == without_charge(answers[0]) for answer in answers)
    assert credits_left(store, customer) == 10_000 - PRICE


def test_120_requests_on_40_numbers_get_40_different_ones(gateway: Gateway, store: Store) -> None:
    customer, wp_code = new_customer(store), new_carrier(store, 40)
    answers = _fire(gateway, customer, [request(wp_code) for _ in range(120)])
    issued = [answer for answer in answers if answer["code"] == 1]
    refused = [answer for answer in answers if answer["code"] == 0]
    assert (len(issued), len(refused)) == (40, 80)
    assert len({answer["waybillCode"] for answer in issued}) == 40
    assert len({answer["objectId"] for answer in issued}) == 40
    assert {answer["withholding_money"] for answer in refused} == {0}
    assert credits_left(store, customer) == 10_000 - 40 * PRICE


def test_after_a_restart_the_same_request_is_the_same_waybill(own_store: Store) -> None:
    customer, wp_code = new_customer(own_store), new_carrier(own_store, 3)
    body = request(wp_code)
    answers = []
    for _ in range(2):
        gateway = Gateway(own_store)
        answers.append(issue(gateway, customer.token, body).data)
        assert gateway.stop() == 0
    assert answers[1] == {**answers[0], "withholding_money": 0}
    assert credits_left(own_store, customer) == 10_000 - PRICE
