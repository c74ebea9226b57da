"""Where webhooks may go: to the internet over TLS, and to the internal hosts that are listed.

The gateway connects to the very addresses that it checked, so DNS rebinding does not work. It looks
names up in separate threads, one at a time per account: a name server may answer late, or never.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tollway.contract.language import SentenceError
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import StoreBusyError

# Few gateways have webhooks: the HTTP client is loaded for the first one.
if TYPE_CHECKING:
    import httpx2

_URL_MAX = 500
_LOOKUPS_AT_ONCE = 16
_LOOKUP_MAX_S = 5.0
_TRIED_MAX = 4
# All IPv6 global unicast. Addresses outside it embed an IPv4 address (::a.b.c.d,
# ::ffff:0:a.b.c.d, 64:ff9b::/96), are site-local (fec0::/10), or are unassigned.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
# Parts of it, and of IPv4, that are tunnels or relays, or reserved for documentation.
_NOT_PUBLIC = [
    ipaddress.ip_network(each) for each in ("2001::/23", "2002::/16", "3fff::/20", "192.88.99.0/24")
]


class AddressError(SentenceError):
    """A webhook may not go there; the text says why, for the caller."""


class Addresses:
    """Decides which addresses are allowed."""

    def __init__(self, internal_hosts: Iterable[str]) -> None:
        self._internal = {host.strip().lower() for host in internal_hosts if host.strip()}
        self._lookups = BoundedSlots(_LOOKUPS_AT_ONCE, "too many names are looked up at once")
        self._threads = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, "lookup")

    def check(self, url: str) -> "httpx2.URL":
        """The address, if its form is allowed."""
        import httpx2  # noqa: PLC0415

        try:
            # Cut, because parsing all that a form can send takes as long as dozens of calls.
            parsed = httpx2.URL(url[:_URL_MAX])
        except (httpx2.InvalidURL, ValueError):
            raise AddressError("it is not an address") from None
        if not 0 < (parsed.port or 443) < 2**16:
            raise AddressError("it is not an address")
        if len(url) > _URL_MAX or not parsed.raw_host or parsed.userinfo or parsed.fragment:
            raise AddressError("it has no host, or a user, a fragment, or over 500 characters")
        schemes = ("https", "http") if self._is_listed(parsed) else ("https",)
        if parsed.scheme not in schemes:
            raise AddressError("it is not https")
        return parsed

    async def resolve(self, url: "httpx2.URL", account_id: str) -> list[str]:
        """The IP addresses to connect to, in this order, for a webhook of this account."""
        try:
            addresses = await self._find(host_of(url), account_id)
        except TimeoutError:
            raise AddressError("its host was not found in time") from None
        except (OSError, UnicodeError):
            raise AddressError("its host is not known") from None
        if not self._is_listed(url) and not all(map(_is_public, addresses)):
            raise AddressError("it leads to an internal address")
        return list(dict.fromkeys(addresses))[:_TRIED_MAX]

    async def leads_inside(self, url: str) -> bool:
        """Whether an address leads to an internal one that is not listed, as far as is known."""
        import httpx2  # noqa: PLC0415

        try:
            parsed = httpx2.URL(url)
            if not parsed.raw_host or self._is_listed(parsed):
                return False
            return not all(map(_is_public, await self._find(host_of(parsed), None)))
        except (httpx2.InvalidURL, OSError, ValueError):
            return False

    def _is_listed(self, url: "httpx2.URL") -> bool:
        return host_of(url) in self._internal

    async def _find(self, host: str, account_id: str | None) -> list[str]:
        lookup = asyncio.ensure_future(self._look_up(host, account_id))
        # A thread cannot be killed: it keeps its slot until the lookup returns.
        lookup.add_done_callback(lambda done: done.cancelled() or done.exception())
        async with asyncio.timeout(_LOOKUP_MAX_S):
            return await asyncio.shield(lookup)

    async def _look_up(self, host: str, account_id: str | None) -> list[str]:
        try:
            async with self._lookups.taken(_LOOKUP_MAX_S, account_id):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, _addresses_of, host)
        except StoreBusyError:
            raise TimeoutError from None


def host_of(url: "httpx2.URL") -> str:
    """The host that the connection uses. `url.host` differs for some international names: looking
    it up would check one host and send to another."""
    return url.raw_host.decode("ascii").lower()


def _addresses_of(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif address not in _GLOBAL_UNICAST:
            return False
    if address.is_multicast or any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global
