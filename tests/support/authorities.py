"""The certificates of all authorities, loaded once in a process and its forks.

An HTTP client that takes nothing from its environment loads them again, which takes a processor
50 ms: more than the calls of most tests. What it has then is the same.
"""

import ssl
from functools import cache
from typing import Any

import httpcore2
import httpx._transports.default


def load_authorities_once() -> None:
    """From now on in this process, and in its forks."""
    _for_gateways()
    _for_tests()


def _for_gateways() -> None:
    load = httpcore2.default_ssl_context
    of_machine = cache(lambda: load(_trust_env=False))

    def load_once(*, _trust_env: bool = True) -> ssl.SSLContext:
        return load() if _trust_env else of_machine()

    httpcore2.default_ssl_context = load_once


def _for_tests() -> None:
    transports: Any = httpx._transports.default
    create = transports.create_ssl_context
    usual = cache(lambda: create(trust_env=False))

    def create_once(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        if verify is True and cert is None and not trust_env:
            return usual()
        return create(verify=verify, cert=cert, trust_env=trust_env)

    transports.create_ssl_context = create_once
