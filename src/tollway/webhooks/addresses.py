"""Where webhooks may go: to the internet over TLS, and to the internal hosts that are listed.

The address that was checked is the one that is connected to, so that a name cannot be made to
resolve to another one in between.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tollway.contract.language import SentenceError

# Few gateways have webhooks: the HTTP client is loaded for the first one.
if TYPE_CHECKING:
    import httpx

_URL_MAX = 500
# Addresses that stand for others: an IPv4 one could hide in them.
_TRANSLATED = [ipaddress.ip_network(each) for each in ("64:ff9b::/96", "2002::/16", "2001::/32")]


class AddressError(SentenceError):
    """A webhook may not go there; the text says why, for the caller."""


class Addresses:
    """Decides which addresses are allowed."""

    def __init__(self, internal_hosts: Iterable[str]) -> None:
        self._internal = {host.strip().lower() for host in internal_hosts if host.strip()}

    def check(self, url: str) -> "httpx.URL":
        """The address, if its form is allowed."""
        import httpx  # noqa: PLC0415

        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            raise AddressError("it is not an address") from None
        if len(url) > _URL_MAX or not parsed.host or parsed.userinfo or parsed.fragment:
            raise AddressError("it has no host, or a user, a fragment, or over 500 characters")
        schemes = ("https", "http") if self._is_listed(parsed) else ("https",)
        if parsed.scheme not in schemes:
            raise AddressError("it is not https")
        return parsed

    async def resolve(self, url: "httpx.URL") -> str:
        """The IP address to connect to."""
        try:
            addresses = await _found(url.host)
        except OSError:
            raise AddressError("its host is not known") from None
        if not self._is_listed(url) and not all(map(_is_public, addresses)):
            raise AddressError("it leads to an internal address")
        return addresses[0]

    async def leads_inside(self, url: str) -> bool:
        """Whether an address leads to an internal one that is not listed, as far as is known."""
        import httpx  # noqa: PLC0415

        try:
            parsed = httpx.URL(url)
            if not parsed.host or self._is_listed(parsed):
                return False
            return not all(map(_is_public, await _found(parsed.host)))
        except (httpx.InvalidURL, OSError, ValueError):
            return False

    def _is_listed(self, url: "httpx.URL") -> bool:
        return url.host.lower() in self._internal


async def _found(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif any(address in network for network in _TRANSLATED):
            return False
    return address.is_global and not address.is_multicast
