"""`tollway mcp`: the tools of a gateway's /mcp for agents that start a program and talk to it over
its standard input and output."""

import asyncio
import os
import secrets
from typing import Annotated

import typer

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
    token = os.environ.get(_TOKEN, "").strip()
    if not token:
        raise CommandError(f"Set the environment variable {_TOKEN} to a token of your account.")
    # The text is not shown: it may be a token with something before or after it.
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise CommandError(
            f"What the environment variable {_TOKEN} is set to is no token: it has characters that "
            "none has, such as a space or a line end. Copy the token again."
        )
    headers = {"Authorization": f"Bearer {token}"}
    if budget is not None:
        headers |= {"X-Tollway-Budget": str(budget), "X-Tollway-Session": secrets.token_hex(12)}
    try:
        from tollway.cli.mcp_forwarding import NoToolsError, forward
    except ModuleNotFoundError:
        raise CommandError(
            "This needs the package mcp: run `make agents`, or install the wheel with [mcp]."
        ) from None
    url = f"{gateway.rstrip('/').removesuffix('/mcp')}/mcp"
    try:
        asyncio.run(forward(url, headers))
    except NoToolsError as error:
        raise CommandError(
            f"No tools could be had from {url}: {error} Check the address and the token, and that "
            "the gateway has set mcp to on."
        ) from error
    return None
