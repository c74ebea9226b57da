"""The operations as tools over standard input and output, by `tollway mcp`."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_mcp import MORE_CALLS
from tests.support.agents import mcp
from tests.support.all_operations import all_operations_caller
from tests.support.forks import programs, run
from tests.support.gateway import Gateway
from tests.support.late import late
from tests.support.late_answers import LateAnswers
from tests.support.ledger import credits_left
from tests.support.ports import free_port
from tollway.demo.owners import SHOP
from tollway.operations.catalogue import BY_NAME

over_stdio = late("mcp.client.stdio")


@pytest.mark.sqlite
def test_the_same_over_stdio(agents: Gateway) -> None:
    caller = all_operations_caller(agents.store)

    async def work() -> Any:
        parameters = over_stdio.StdioServerParameters(
            command=str(Path(sys.executable).with_name("tollway")),
            args=["mcp", agents.base_url, "--budget", "1"],
            env={"TOKEN": caller.token},
        )
        async with mcp.Client(over_stdio.stdio_client(parameters, sys.stderr)) as client:
            assert client.instructions and "code 302" in client.instructions
            tools = (await client.list_tools()).tools
            return tools, [
                await client.call_tool("orders", {"owner_id": SHOP.id, "page": n}) for n in range(2)
            ]

    tools, (good, spent) = asyncio.run(work())
    assert {each.name for each in tools} == {*BY_NAME, *MORE_CALLS}
    assert not good.is_error
    assert "does not cover this call" in spent.content[0].text


@pytest.mark.sqlite
def test_over_stdio_what_came_before_the_end_is_answered(agents: Gateway) -> None:
    """A call may be charged: its answer must not be lost with the end of the input."""
    caller = all_operations_caller(agents.store)
    client = {"capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    orders = {"name": "orders", "arguments": {"owner_id": SHOP.id}}
    asked = [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", **client}},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": orders},
        {"id": 2, "method": "tools/call", "params": orders},
        {"id": 3, "method": "tools/call", "params": {"name": "nothing"}},
        # Gets no answer, and nothing waits for one.
        {"id": 4, "method": "tools/call", "params": {"name": "balance"}},
        {"method": "notifications/cancelled", "params": {"requestId": 4}},
    ]
    done = subprocess.run(
        [programs() / "tollway", "mcp", agents.base_url],
        input="".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in asked),
        env={**os.environ, "TOKEN": caller.token},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert [answers[n]["result"]["structuredContent"]["code"] for n in (1, 2)] == [0, 0]
    assert answers[3]["error"]["code"] == -32602
    assert credits_left(agents.store, caller) == 1000 - 2


# What comes instead of an answer that is lost.
INSTEAD = {
    "none": b"",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "504": b'HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 17\r\n\r\n{"error": "late"}',
    "damaged": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nlate",
}


@pytest.mark.sqlite
def test_over_stdio_a_lost_answer_ends_no_session(agents: Gateway) -> None:
    caller = all_operations_caller(agents.store)
    between = LateAnswers(f"{agents.base_url}/")

    async def lost_and_good(client: Any, instead: bytes) -> tuple[Any, Any]:
        with between.held("tools/call") as held:
            asked = asyncio.create_task(client.call_tool("orders", {"owner_id": SHOP.id}))
            await asyncio.to_thread(held.wait)
            held.lose(instead)
            lost = await asked
        return lost, await client.call_tool("orders", {"owner_id": SHOP.id})

    async def work() -> dict[str, tuple[Any, Any]]:
        # Who copies the address of the tools, or a token with a line end, is understood.
        parameters = over_stdio.StdioServerParameters(
            command=str(programs() / "tollway"),
            args=["mcp", f"{between.url}mcp"],
            env={"TOKEN": f"{caller.token}\n"},
        )
        async with mcp.Client(over_stdio.stdio_client(parameters, sys.stderr)) as client:
            return {name: await lost_and_good(client, each) for name, each in INSTEAD.items()}

    try:
        answers = asyncio.run(work())
    finally:
        between.close()
    for name, (lost, good) in answers.items():
        assert lost.is_error and "may have been done and charged" in lost.content[0].text, name
        assert not good.is_error, name
    assert credits_left(agents.store, caller) == 1000 - 2 * len(INSTEAD)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("{gateway}", "Credential invalid"),
        ("{gateway}/papi/tool", "No operation has this path"),
        ("http://127.0.0.1:{unused}", "No answer from the gateway"),
    ],
)
def test_over_stdio_one_sentence_says_why_there_are_no_tools(
    agents: Gateway, address: str, reason: str
) -> None:
    url = address.format(gateway=agents.base_url, unused=free_port())
    done = run("tollway", "mcp", url, env={**os.environ, "TOKEN": "tw_test_0"})
    assert done.returncode == 1 and reason in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.sqlite
@pytest.mark.parametrize("token", ["tw_live_é", "tw_live_secret\nX", "tw_live_secret tw"])
def test_over_stdio_what_can_be_no_token_is_said_and_not_shown(token: str) -> None:
    done = run("tollway", "mcp", "http://127.0.0.1:1", env={**os.environ, "TOKEN": token})
    assert done.returncode == 1
    assert "TOKEN" in done.stderr and "tw_live" not in done.stderr and "codec" not in done.stderr
