"""Messages to the tools that are no good: what is said about them, and what goes on after them."""

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from tests.support.gateway import Gateway
from tests.support.late import late
from tests.support.ledger import new_caller
from tests.support.remote import eventually
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import StoreBusyError

agent_tools, mcp = late("tollway.gateway.mcp"), late("mcp")
types = late("mcp_types")
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603


def headers_of(gateway: Gateway) -> dict[str, str]:
    token = new_caller(gateway.store, kind="test").token
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }


def message(method: object = "ping", **others: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, **others}


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (b"{nope", PARSE_ERROR, "not valid JSON"),
        (b"[" * 900, PARSE_ERROR, "not valid JSON"),
        # Python reads these, and the protocol's server does not.
        (b"[" * 300 + b"]" * 300, PARSE_ERROR, "not valid JSON"),
        (message(params={"name": "\ud800"}), PARSE_ERROR, "not valid JSON"),
        (message(params={"name": float("nan")}), PARSE_ERROR, "not valid JSON"),
        (json.dumps(message()).encode("utf-16"), PARSE_ERROR, "not valid JSON"),
        ([message()], INVALID_REQUEST, "one message at a time"),
        (5, INVALID_REQUEST, "jsonrpc"),
        (message(jsonrpc="1.0"), INVALID_REQUEST, "jsonrpc"),
        (message(method=7), INVALID_REQUEST, "method"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, INVALID_REQUEST, "method"),
        (message(params=[1]), INVALID_REQUEST, "params"),
        # Taken for a notification, it would get no answer, and its sender would wait for one.
        (message(id=None), INVALID_REQUEST, "id"),
        (message(id=1.5), INVALID_REQUEST, "id"),
        (message(id=True), INVALID_REQUEST, "id"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"orders",'
            b'"arguments":{"owner_id":"1","owner_id":"2"}}}',
            INVALID_REQUEST,
            "owner_id",
        ),
    ],
)
def test_what_is_no_message_is_refused_with_a_sentence(
    agents: Gateway, sent: object, code: int, said: str
) -> None:
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    answer = agents.client.post("/mcp", content=body, headers=headers_of(agents))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], answer.json()["id"]) == (code, None)
    assert said in error["message"] and error["message"].endswith(".")
    assert "\n" not in error["message"] and "JSONRPC" not in error["message"]


@pytest.mark.sqlite
def test_a_name_with_a_blank_value_too_has_the_other_one(agents: Gateway) -> None:
    asked = message("tools/call", params={"name": "balance"})
    sent = json.dumps(asked).replace('"balance"', '"balance", "name": " "')
    answer = agents.client.post("/mcp", content=sent, headers=headers_of(agents)).json()
    # The tool was found; it takes no test tokens.
    assert "live tokens only" in answer["result"]["content"][0]["text"]


@pytest.mark.sqlite
def test_no_parameters_may_be_null(agents: Gateway) -> None:
    asked = message("tools/list", params=None)
    answer = agents.client.post("/mcp", json=asked, headers=headers_of(agents)).json()
    assert answer["result"]["tools"]


@pytest.mark.sqlite
def test_after_a_message_that_is_too_large_the_client_goes_on(agents: Gateway) -> None:
    headers = headers_of(agents)
    large = message("tools/call", params={"name": "balance", "arguments": {"a": "x" * 70_000}})
    answer = agents.client.post("/mcp", json=large, headers=headers)
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert "65,536 bytes" in answer.json()["error"]
    assert agents.client.post("/mcp", json=message(), headers=headers).json()["result"] == {}


@pytest.mark.sqlite
def test_an_unknown_tool_is_an_error_of_the_protocol(agents: Gateway) -> None:
    asked = message("tools/call", params={"name": "nothing", "arguments": {}})
    answer = agents.client.post("/mcp", json=asked, headers=headers_of(agents)).json()
    assert (answer["id"], answer["error"]["code"]) == (1, INVALID_PARAMS)
    assert "no tool" in answer["error"]["message"]


@pytest.mark.sqlite
def test_a_page_of_another_site_is_refused_as_the_protocol_demands(agents: Gateway) -> None:
    for origin, status in (
        (agents.base_url, 200),
        ("http://localhost:6274", 200),
        ("https://gateway.example", 403),
        ("null", 403),
        ("http://[", 403),
    ):
        sent = headers_of(agents) | {"Origin": origin}
        answer = agents.client.post("/mcp", json=message(), headers=sent)
        assert answer.status_code == status, (origin, answer.text)


@pytest.mark.sqlite
def test_a_page_of_tools_that_does_not_exist_is_an_error(agents: Gateway) -> None:
    asked = message("tools/list", params={"cursor": "2"})
    answer = agents.client.post("/mcp", json=asked, headers=headers_of(agents)).json()
    assert answer["error"]["code"] == INVALID_PARAMS and "one page" in answer["error"]["message"]


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refusal(Reason.CREDENTIAL_INVALID), "Credential invalid: send the header"),
        (StoreBusyError("no connection to 10.0.0.5"), "try again later"),
        (KeyError("tok_1"), "Contact support"),
    ],
)
def test_a_list_of_tools_that_fails_tells_nothing_of_the_inside(
    error: Exception, said: str
) -> None:
    """A token may be revoked, or the store fail, while the message arrives."""

    async def check_now(_: object) -> None:
        raise error

    pipeline: Any = SimpleNamespace(authenticate=SimpleNamespace(check_now=check_now))
    unused: Any = None

    async def work() -> None:
        tools = agent_tools.AgentTools((), pipeline, unused, unused, unused, 1)
        sent = Request({"type": "http", "headers": [], "client": ("127.0.0.1", 9)})
        await tools._list(cast(Any, SimpleNamespace(request=sent)), None)

    with pytest.raises(mcp.MCPError) as raised:
        asyncio.run(work())
    assert raised.value.code == INTERNAL_ERROR
    assert said in raised.value.message and "10.0.0.5" not in raised.value.message


@pytest.mark.sqlite
def test_a_message_that_is_wrong_writes_no_line_of_the_log(agents: Gateway) -> None:
    headers = headers_of(agents)
    wrong = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"x": 1}}
    assert agents.client.post("/mcp", json=wrong, headers=headers).status_code == 202
    # What comes later in the log.
    refused = agents.client.get("/nowhere").headers["x-request-id"]
    log = eventually(agents.log, lambda text: refused in text)
    assert "notifications/progress" not in log


@pytest.mark.sqlite
def test_messages_begin_one_after_the_other_and_accounts_take_turns() -> None:
    """Else those of one account would hold up calls, and the messages of other accounts."""
    begun: list[str] = []

    def authenticate(call: Any) -> None:
        call.caller = SimpleNamespace(account_id=call.client[0])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": json.dumps(message()).encode()}

    async def handle_request(scope: Any, *_: object) -> None:
        begun.append(scope["client"][0])

    async def work() -> float:
        unused: Any = None
        pipeline: Any = SimpleNamespace(authenticate=authenticate)
        tools = agent_tools.AgentTools((), pipeline, unused, unused, unused, 1)
        tools._manager = SimpleNamespace(handle_request=handle_request)
        scope = {"type": "http", "method": "POST", "headers": []}
        senders, began_s = [*["acc_a"] * 40, "acc_b"], time.monotonic()
        sent = [tools({**scope, "client": (each, 9)}, receive, unused) for each in senders]
        await asyncio.gather(*sent)
        return time.monotonic() - began_s

    took_s = asyncio.run(work())
    assert len(begun) == 41 and begun.index("acc_b") <= 2
    assert took_s > 0.9 * 40 * 0.004


@pytest.mark.sqlite
def test_beside_a_call_nothing_is_listed_or_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol's server would list all tools, to see what headers belong to the call, and the
    token is looked at by the call itself: each takes the loop a third as long again."""
    asked, sent = [], []

    def authenticate(call: Any) -> None:
        call.caller = SimpleNamespace(account_id="acc_1")

    async def listed(*_: object) -> None:
        asked.append("tools/list")

    async def identified(*_: object) -> None:
        asked.append("the token")

    async def performed(*_: object) -> Any:
        asked.append("tools/call")
        return types.CallToolResult(content=[]), ""

    async def receive() -> dict[str, object]:
        return {
            "type": "http.request",
            "body": json.dumps(message("tools/call", params=of)).encode(),
        }

    async def send(part: Any) -> None:
        sent.append(part)

    version = late("mcp_types.version").LATEST_MODERN_VERSION
    about = "io.modelcontextprotocol"
    meta = {f"{about}/protocolVersion": version, f"{about}/clientCapabilities": {}}
    of = {"name": "orders", "arguments": {"owner_id": "1"}, "_meta": meta}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "orders",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 9),
    }
    monkeypatch.setattr(agent_tools.AgentTools, "_list", listed)
    monkeypatch.setattr(agent_tools.AgentTools, "_identify", identified)
    monkeypatch.setattr(agent_tools.AgentTools, "_perform", performed)

    async def work() -> None:
        unused: Any = None
        pipeline: Any = SimpleNamespace(authenticate=authenticate)
        tools = agent_tools.AgentTools(OPERATIONS, pipeline, unused, unused, unused, 1)
        await tools.start()
        await tools(scope, receive, send)
        await tools.stop()

    asyncio.run(work())
    assert (sent[0]["status"], asked) == (200, ["tools/call"])
