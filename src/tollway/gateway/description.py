"""The path of the OpenAPI document, and how it is sent."""

import os
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tollway.gateway.pages import DESCRIPTION_PATH

# The same for all clients until the gateway is upgraded.
_DESCRIPTION_HEADERS = {"Cache-Control": "max-age=300"}
_PATHSEND = "http.response.pathsend"


class DescriptionResponse(Response):
    """The OpenAPI document, the largest answer that an anonymous client can ask for.

    It is a file in memory, which the server sends piece by piece as the client reads. As bytes,
    each client that does not read would hold a whole copy.
    """

    media_type = JSONResponse.media_type

    def __init__(self, content: bytes | memoryview) -> None:
        super().__init__(content, headers=_DESCRIPTION_HEADERS)
        self._file = os.memfd_create("openapi")
        os.write(self._file, content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _PATHSEND not in scope.get("extensions", {}) or scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        await send(
            {"type": "http.response.start", "status": 200, "headers": list(self.raw_headers)}
        )
        await send({"type": _PATHSEND, "path": f"/proc/self/fd/{self._file}"})


def description_route(description: dict[str, Any]) -> Route:
    # Rendered once per process.
    described = DescriptionResponse(JSONResponse(description).body)

    async def show_description(_: Request) -> Response:
        return described

    return Route(DESCRIPTION_PATH, show_description)
