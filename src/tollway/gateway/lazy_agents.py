"""The path for agents, whose tools are loaded when the first of them asks."""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tollway.pipeline.bodies import Receive, Scope, Send
from tollway.settings import SettingsError
from tollway.store.concurrency import SingleFlight

if TYPE_CHECKING:
    from tollway.gateway.mcp import AgentTools


class LazyAgents:
    """Makes the tools on a thread, because loading them takes as long as a gateway's start."""

    def __init__(self, make: Callable[[], "AgentTools"]) -> None:
        # Looked for at the start: an operator must not learn it from an agent.
        if find_spec("mcp") is None:
            raise SettingsError("mcp = on needs the package mcp: install tollway[mcp].")
        self._make = make
        self._tools: AgentTools | None = None
        self._starting = SingleFlight(self._start)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tools = self._tools or await self._starting()
        await tools(scope, receive, send)

    async def _start(self) -> "AgentTools":
        tools = await asyncio.to_thread(self._make)
        await tools.start()
        self._tools = tools
        return tools

    async def stop(self) -> None:
        if self._tools is not None:
            await self._tools.stop()
