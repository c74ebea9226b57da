"""`tollway mcp`: the tools of a gateway's /mcp for agents that start a program and talk to it over
its standard input and output."""

import asyncio
import os
import secrets
from typing import Annotated, Any

import typer

from tollway import __version__
from tollway.cli.command import CommandError, Session, command
from tollway.cli.output import Output
from tollway.cli.parameters import argument, option

commands = typer.Typer()
_TOKEN = "TOKEN"  # noqa: S105 - the name of a variable


@command(commands, "mcp", has_database=False)
def mcp(
    _session: Session,
    gateway: Annotated[
        str, argument("URL", "Where the gateway is, such as https://gateway.example.")
    ],
    budget: Annotated[
        int | None, option("What this session may spend: calls and credits together.", min=0)
    ] = None,
) -> Output | None:
    """Give an agent the operations of a gateway as tools, over stdio.

    The token is taken from the environment variable TOKEN.
    """
    token = os.environ.get(_TOKEN, "")
    if not token:
        raise CommandError(f"Set the environment variable {_TOKEN} to a token of your account.")
    headers = {"Authorization": f"Bearer {token}"}
    if budget is not None:
        headers |= {"X-Tollway-Budget": str(budget), "X-Tollway-Session": secrets.token_hex(12)}
    try:
        import mcp_types  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise CommandError("This needs the package mcp: install tollway[mcp].") from None
    url = f"{gateway.rstrip('/')}/mcp"
    try:
        asyncio.run(_forward(url, headers))
    except Exception as error:
        raise CommandError(
            f"No tools could be had from {url}. Check the address and the token, and that the "
            "gateway has set mcp to on."
        ) from error
    return None


async def _forward(url: str, headers: dict[str, str]) -> None:
    """Answers what comes over stdio with what the gateway answers."""
    import httpx2  # noqa: PLC0415 - loaded for this command alone
    from mcp.client import Client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415
    from mcp.server.lowlevel import Server  # noqa: PLC0415
    from mcp.server.stdio import stdio_server  # noqa: PLC0415

    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as remote,
        stdio_server() as (incoming, outgoing),
    ):

        async def tools(_context: Any, _params: Any) -> Any:
            return await remote.list_tools()

        async def call(_context: Any, params: Any) -> Any:
            return await remote.call_tool(params.name, params.arguments)

        server: Server[Any] = Server(
            "tollway",
            version=__version__,
            instructions=remote.instructions,
            on_list_tools=tools,
            on_call_tool=call,
        )
        await server.run(incoming, outgoing, server.create_initialization_options())
