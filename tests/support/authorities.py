"""The certificates of all authorities, loaded once in a process and its forks.

An HTTP client that takes nothing from its environment loads them anew, which takes a processor
50 ms: more than the calls of most tests. What it has then is the same.
"""

import ssl
from functools import cache
from typing import Any

import httpx._transports.default
import httpx2._transports.default


def load_authorities_once() -> None:
    """From now on in this process, and in its forks."""
    for transports in (httpx._transports.default, httpx2._transports.default):
        _load_once(transports)


def _load_once(transports: Any) -> None:
    create = transports.create_ssl_context
    usual = cache(lambda: create(trust_env=False))

    def create_ssl_context(
        verify: Any = True, cert: Any = None, trust_env: bool = True
    ) -> ssl.SSLContext:
        if verify is True and cert is None and not trust_env:
            return usual()
        made: ssl.SSLContext = create(verify=verify, cert=cert, trust_env=trust_env)
        return made

    transports.create_ssl_context = create_ssl_context
