"""The operations as tools: an official client lists them, calls each, and spends a budget."""

import asyncio
import json
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import httpx2
import pytest
from starlette.requests import Request

from tests.pipeline.test_held_rows import wait_for_a_lock
from tests.support.agents import connected_agent
from tests.support.all_operations import all_operations_caller, good_request
from tests.support.fake_carrier import ISSUE, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.late import late
from tests.support.ledger import calls_left, credits_left, new_caller
from tests.support.postgresql import left_open
from tests.support.remote import HASTY, connected_carrier
from tests.support.waybills import PRICE, new_customer, request
from tollway.contract.reasons import Reason, Refusal
from tollway.demo.owners import SHOP
from tollway.ledger.creation_limits import Counted
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.token_limits import read_limits
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.operations.orders.export import ORDERS_FILE
from tollway.store.database import StoreBusyError

agent_tools, types = late("tollway.gateway.mcp"), late("mcp_types")
MORE_CALLS = {"orders_by_number", "balance"} | {
    f"waybill_{each}" for each in ("state", "label", "receiver", "cancel")
}


def test_the_tools_are_listed_with_their_prices_and_called_and_the_ledger_has_these_calls(
    agents: Gateway, today: date
) -> None:
    caller = all_operations_caller(agents.store)
    calls, credits_ = calls_left(agents.store, caller), credits_left(agents.store, caller)

    async def work() -> Any:
        async with connected_agent(agents.base_url, caller.token) as client:
            tools = (await client.list_tools()).tools
            return tools, {
                each.name: await client.call_tool(each.name, good_request(each, today))
                for each in OPERATIONS
            }

    tools, results = asyncio.run(work())
    assert {tool.name for tool in tools} == {*BY_NAME, *MORE_CALLS}
    costs = {tool.name: tool.description for tool in tools}
    assert "Costs 10 credits if it succeeds." in costs["waybills"]
    assert "Costs 1 call of your allowance" in costs["product_analysis"]
    for name, result in results.items():
        assert not result.is_error, (name, result.content)
        assert result.structured_content["code"] == 0
        assert json.loads(result.content[0].text) == result.structured_content
    spent = sum(
        each.structured_content["data"].get("withholding_money", 0) for each in results.values()
    )
    assert credits_left(agents.store, caller) == credits_ - spent == credits_ - 13
    assert calls_left(agents.store, caller) == calls - 1
    charged = agents.store.run(
        f"SELECT request_id FROM entry WHERE account_id = '{caller.account_id}'"
        " AND kind IN ('charge', 'capture')"
    )
    asked = [each.structured_content["request_id"] for each in results.values()]
    assert sorted(request_id for (request_id,) in charged) == sorted(asked)
    # Each call has its line if it fails, and none besides.
    assert '"event":"mcp.' not in agents.log()


def test_what_goes_with_an_issued_waybill_is_free_and_in_no_budget(
    agents: Gateway, today: date
) -> None:
    caller = all_operations_caller(agents.store)
    before = credits_left(agents.store, caller)
    request = good_request(BY_NAME["waybills"], today)
    receiver = {name: value for name, value in request.items() if name.startswith("receiver_")}

    async def work() -> Any:
        async with connected_agent(
            agents.base_url, caller.token, budget="10", session="w"
        ) as client:
            tools = {each.name: each.description for each in (await client.list_tools()).tools}
            issued = (await client.call_tool("waybills", request)).structured_content["data"]
            of = {"object_id": issued["objectId"]}
            asked = {
                "waybill_receiver": {**of, **receiver, "receiver_name": "李四光"},
                "waybill_state": of,
                "waybill_label": {**of, "format": "png"},
                "waybill_cancel": of,
                "balance": {},
            }
            results = {name: await client.call_tool(name, sent) for name, sent in asked.items()}
            numbers = {"owner_id": SHOP.id, "order_sn": ["none"]}
            return tools, results, await client.call_tool("orders_by_number", numbers)

    tools, results, over = asyncio.run(work())
    for name, result in results.items():
        assert "Costs nothing" in tools[name]
        assert not result.is_error, (name, result.content)
    assert results["waybill_state"].structured_content["data"]["state"] == "issued"
    text, picture = results["waybill_label"].content
    assert (picture.type, picture.mime_type) == ("image", "image/png")
    assert b64decode(picture.data).startswith(b"\x89PNG") and "image/png" in text.text
    assert results["waybill_cancel"].structured_content["data"]["state"] == "cancelled"
    assert "Costs 1 credit if" in tools["orders_by_number"] and over.is_error
    assert credits_left(agents.store, caller) == before - 10


def test_a_session_spends_no_more_than_its_budget(agents: Gateway) -> None:
    caller = all_operations_caller(agents.store)
    before = credits_left(agents.store, caller)

    async def work(session: str, times: int, token: str = caller.token) -> list[Any]:
        async with connected_agent(agents.base_url, token, budget="3", session=session) as client:
            asked = [
                client.call_tool("orders", {"owner_id": SHOP.id, "page": n}) for n in range(times)
            ]
            return list(await asyncio.gather(*asked))

    results = asyncio.run(work("first", 5))
    refused = [each for each in results if each.is_error]
    assert len(refused) == 2
    # A cheaper call may be possible: what is left is not said to be nothing.
    said = "This session's budget is 3, calls and credits together. What is left of it does not "
    assert all(each.content[0].text.startswith(said) for each in refused)
    assert credits_left(agents.store, caller) == before - 3
    # Another session has a budget of its own, and a failed call takes nothing of it.
    assert not any(each.is_error for each in asyncio.run(work("second", 3)))
    assert credits_left(agents.store, caller) == before - 6
    # So has another account, whatever name it gives.
    other = all_operations_caller(agents.store)
    assert not any(each.is_error for each in asyncio.run(work("first", 3, other.token)))


def test_a_budget_may_be_a_number_of_twelve_digits(agents: Gateway) -> None:
    caller = all_operations_caller(agents.store)

    async def work() -> Any:
        async with connected_agent(agents.base_url, caller.token, budget="9" * 12) as client:
            return await client.call_tool("orders", {"owner_id": SHOP.id})

    assert asyncio.run(work()).structured_content["code"] == 0


def test_an_account_begins_so_many_sessions_a_day(agents: Gateway) -> None:
    caller = all_operations_caller(agents.store)
    before = credits_left(agents.store, caller)

    async def ask(session: str) -> Any:
        async with connected_agent(
            agents.base_url, caller.token, budget="9", session=session
        ) as client:
            return await client.call_tool("orders", {"owner_id": SHOP.id})

    assert not asyncio.run(ask("first")).is_error
    agents.store.run(
        f"UPDATE account_day SET number = {Counted.AGENT_SESSIONS.value.most}"
        f" WHERE account_id = '{caller.account_id}' AND counted = 'agent_sessions'"
    )
    refused = asyncio.run(ask("second"))
    assert refused.is_error and "daily limit" in refused.content[0].text
    assert not asyncio.run(ask("first")).is_error, "one that was begun goes on"
    assert credits_left(agents.store, caller) == before - 2
    ((sessions,),) = agents.store.run(
        f"SELECT count(*) FROM agent_session WHERE account_id = '{caller.account_id}'"
    )
    assert int(sessions) == 1


def test_a_failed_call_takes_nothing_of_the_budget(agents: Gateway) -> None:
    caller = all_operations_caller(agents.store)

    async def work() -> list[Any]:
        async with connected_agent(
            agents.base_url, caller.token, budget="1", session="s"
        ) as client:
            return [
                await client.call_tool("orders", {"owner_id": owner})
                for owner in ("1", SHOP.id, SHOP.id)
            ]

    unknown, good, spent = asyncio.run(work())
    assert unknown.is_error and unknown.structured_content["code"] == 103
    assert not good.is_error
    assert spent.is_error and spent.structured_content is None


def test_what_a_silent_carrier_may_still_take_stays_in_the_budget(
    agents: Gateway, tmp_path: Path
) -> None:
    customer = new_customer(agents.store, credits_=100)
    carrier = FakeCarrier(tmp_path)
    wp_code = connected_carrier(agents.store, carrier, **HASTY)
    carrier.misbehave("cut_before_commit", message=ISSUE, times=1)

    asked = request(wp_code)

    async def work() -> list[Any]:
        budget = str(2 * PRICE)
        async with connected_agent(
            agents.base_url, customer.token, budget=budget, session="s"
        ) as client:
            return [
                await client.call_tool("waybills", each)
                # Asked for again, it is the same waybill, and takes nothing more.
                for each in (asked, asked, request(wp_code), request(wp_code))
            ]

    held, still_held, issued, refused = asyncio.run(work())
    assert carrier.stop() == 0
    for each in (held, still_held):
        assert each.is_error and "are held" in each.structured_content["msg"]
    assert not issued.is_error
    assert refused.is_error and "does not cover this call" in refused.content[0].text
    assert credits_left(agents.store, customer) == 100 - 2 * PRICE


@pytest.mark.postgresql
@pytest.mark.parametrize("name", ["orders", "product_analysis"])
def test_a_price_that_is_raised_during_a_call_counts_as_it_was_charged(
    agents: Gateway, today: date, name: str
) -> None:
    store, operation = agents.store, BY_NAME[name]
    caller = all_operations_caller(store)
    arguments = good_request(operation, today)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
    headers = {
        "Authorization": f"Bearer {caller.token}",
        "Accept": "application/json, text/event-stream",
        "X-Tollway-Budget": "7",
        "X-Tollway-Session": "s",
    }

    def is_answered() -> bool:
        reply = agents.client.post("/mcp", json=message, headers=headers)
        return not reply.json()["result"]["isError"]

    session = f"SELECT FROM agent_session WHERE account_id = '{caller.account_id}' FOR UPDATE"
    raised = Permission(name, 5, None)
    assert is_answered()
    with ThreadPoolExecutor(1) as threads:
        with left_open(store.url, session):
            during = threads.submit(is_answered)
            wait_for_a_lock(store)
            store.do(lambda database: add_permission(database, caller.account_id, raised))
            # A free call reads what has changed: from now on the gateway knows the price.
            assert agents.get("/account/v1/balance", token=caller.token).code == 0
        assert during.result()
    spent = f"SELECT spent FROM agent_session WHERE account_id = '{caller.account_id}'"
    assert store.run(spent) == [(1 + 5,)]
    assert not is_answered()


def test_what_is_not_allowed_is_a_clear_text(agents: Gateway) -> None:
    caller = new_caller(agents.store, operations=(BY_NAME["orders"],), credits_=1)

    async def work() -> Any:
        async with connected_agent(agents.base_url, caller.token) as client:
            tools = {each.name: each.description for each in (await client.list_tools()).tools}
            asked = await client.call_tool("orders", {"owner_id": SHOP.id})
        async with connected_agent(agents.base_url, caller.token, budget="many") as client:
            return tools, asked, await client.call_tool("orders", {"owner_id": SHOP.id})

    tools, asked, budget = asyncio.run(work())
    assert "may not call this" in tools["waybills"]
    assert asked.structured_content["data"]["authorize_url"].startswith(agents.base_url)
    assert "must be a whole number" in budget.content[0].text


def test_without_a_token_nothing_is_read(agents: Gateway) -> None:
    for token, status in (("none", 401), ("tw_live_x", 401)):
        reply = httpx2.post(
            f"{agents.base_url}/mcp", headers={"Authorization": f"Bearer {token}"}, content="{"
        )
        assert (reply.status_code, reply.headers["www-authenticate"]) == (status, "Bearer")
    assert httpx2.get(f"{agents.base_url}/mcp").status_code == 405


def test_no_cache_keeps_an_answer(agents: Gateway) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for token in (new_caller(agents.store).token, "wrong"):
        sent = {**headers, "Authorization": f"Bearer {token}"}
        answer = agents.client.post("/mcp", json=listing, headers=sent)
        assert answer.headers.get_list("cache-control") == ["no-store"]


def test_a_message_that_is_costly_to_parse_is_refused_before_it_is(agents: Gateway) -> None:
    sent = {
        "Authorization": f"Bearer {new_caller(agents.store, kind='test').token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    for part in ("[]", "{}", "1", '{"a":[]}'):
        parts = ",".join([part] * 1000)
        body = f'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"a":[{parts}]}}}}'
        answer = agents.client.post("/mcp", content=body, headers=sent)
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert "parts" in answer.json()["error"]
    listing = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": {"_meta": {"a": [1] * 500}},
    }
    assert "result" in agents.client.post("/mcp", json=listing, headers=sent).json()


def test_a_token_of_some_addresses_is_used_from_them_through_two_proxies(agents: Gateway) -> None:
    limits = read_limits((), ("203.0.113.0/24",), None, None, known=())
    caller = new_caller(agents.store, limits=limits)
    sent = [("Authorization", f"Bearer {caller.token}")]
    # Each proxy adds a line with the address that called it.
    through = [("X-Forwarded-For", each) for each in ("203.0.113.7", "10.0.0.1")]
    url = f"{agents.base_url}/mcp"
    refused = httpx2.post(url, headers=sent, content="{")
    assert refused.status_code == 403
    # It is read, and found to be no message.
    assert httpx2.post(url, headers=[*sent, *through], content="{").status_code != 403


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (Refusal(Reason.TOKEN_NOT_FROM_HERE, address="203.0.113.7"), 403, None),
        (StoreBusyError("too many unknown tokens at once"), 503, b"1"),
    ],
)
def test_an_agent_is_asked_to_retry_if_that_helps(
    error: Exception, status: int, retry_after: bytes | None
) -> None:
    def authenticate(_: object) -> None:
        raise error

    pipeline: Any = SimpleNamespace(authenticate=authenticate)
    unused: Any = None
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def work() -> None:
        tools = agent_tools.AgentTools((), pipeline, unused, unused, unused, body_timeout_s=1)
        scope = {"type": "http", "method": "POST", "headers": [], "client": ("127.0.0.1", 9)}
        await tools(scope, unused, send)

    asyncio.run(work())
    assert sent[0]["status"] == status
    assert dict(sent[0]["headers"]).get(b"retry-after") == retry_after


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("name", "seen"),
    [("reserve", "nothing was charged: try again later"), ("correct", "the answer")],
)
def test_a_store_that_fails_beside_a_call_leaves_the_answer_and_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, seen: str
) -> None:
    async def check_now(call: Any) -> None:
        call.caller = SimpleNamespace(account_id="acc_1", token_id="tok_1", is_test=False)

    permit = SimpleNamespace(price_of=lambda *_: 10)
    authenticate = SimpleNamespace(check_now=check_now)
    pipeline: Any = SimpleNamespace(authenticate=authenticate, permit=permit)
    unused: Any = None

    async def fail(*_: object) -> None:
        raise StoreBusyError("no connection to 10.0.0.5")

    async def succeed(*_: object) -> bool:
        return True

    async def perform(*_: object) -> Any:
        return types.CallToolResult(
            content=[types.TextContent(type="text", text="the answer")], is_error=True
        ), "CREDITS_USED_UP"

    for each in ("reserve", "correct"):
        changed = fail if each == name else succeed
        monkeypatch.setattr(f"tollway.gateway.mcp.{each}", changed)
    monkeypatch.setattr(agent_tools.AgentTools, "_perform", perform)

    async def work() -> Any:
        tools = agent_tools.AgentTools(OPERATIONS, pipeline, unused, unused, ZoneInfo("UTC"), 1)
        headers = [(b"x-tollway-budget", b"100")]
        sent = Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 9)})
        params = types.CallToolRequestParams(name="waybills", arguments={})
        return await tools._answer_call(cast(Any, SimpleNamespace(request=sent)), params)

    text = asyncio.run(work()).content[0].text
    assert seen in text and "10.0.0.5" not in text


@pytest.mark.sqlite
def test_a_message_that_does_not_arrive_whole_in_time_is_refused() -> None:
    def authenticate(call: Any) -> None:
        call.caller = SimpleNamespace(account_id="acc_1")

    pipeline: Any = SimpleNamespace(authenticate=authenticate)
    unused: Any = None
    pieces = [{"type": "http.request", "body": b"{", "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        return pieces.pop() if pieces else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async def work() -> None:
        tools = agent_tools.AgentTools((), pipeline, unused, unused, unused, body_timeout_s=0.01)
        scope = {"type": "http", "method": "POST", "headers": [], "client": ("127.0.0.1", 9)}
        async with asyncio.timeout(5):
            await tools(scope, receive, send)

    asyncio.run(work())
    assert sent[0]["status"] == 408
    assert dict(sent[0]["headers"])[b"connection"] == b"close"


@pytest.mark.sqlite
def test_an_installed_operation_that_sends_a_file_is_no_tool() -> None:
    unused: Any = None
    tools = agent_tools.AgentTools((*OPERATIONS, ORDERS_FILE), unused, unused, unused, unused, 1)
    assert {*tools._operations} == {*BY_NAME, *MORE_CALLS}


def test_it_is_off_unless_it_is_switched_on(gateway: Gateway) -> None:
    assert httpx2.post(f"{gateway.base_url}/mcp").json()["code"] == 404
