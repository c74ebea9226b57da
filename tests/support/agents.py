"""The official client of the tools, as an agent has it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.support.late import late

mcp, over_http = late("mcp"), late("mcp.client.streamable_http")


@asynccontextmanager
async def connected_agent(address: str, token: str, **headers: str) -> AsyncIterator[Any]:
    sent = {"Authorization": f"Bearer {token}"}
    sent |= {f"X-Tollway-{name.title()}": value for name, value in headers.items()}
    async with httpx2.AsyncClient(headers=sent, timeout=60) as http:
        transport = over_http.streamable_http_client(f"{address}/mcp", http_client=http)
        async with mcp.Client(transport) as client:
            yield client
