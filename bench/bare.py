"""The peer: an ASGI application that does nothing but send the same bytes as a paid call.

Its server is set up exactly as the gateway's, so the ratio of the two rates is the price of the
whole pipeline: token, limit, figures, durable charge, envelope, log line and metrics.
"""

import sys
from functools import partial
from pathlib import Path

from tollway.cli.setting_sources import load_settings
from tollway.gateway.server import http_server


async def _bare(head, body, scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def _load(body_path):
    body = Path(body_path).read_bytes()
    head = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", b"1a1dcf8820944c697660393570f"),
        (b"ratelimit-policy", b'"product_analysis";q=10;w=1'),
        (b"ratelimit", b'"product_analysis";r=9;t=1'),
    ]
    return partial(_bare, head, body)


if __name__ == "__main__":
    settings, _ = load_settings({"port": int(sys.argv[1])})
    http_server(settings).serve(target_loader=partial(_load, sys.argv[2]), wrap_loader=False)
