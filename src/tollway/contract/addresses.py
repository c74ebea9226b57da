"""The address that a request comes from, also behind reverse proxies; and whether a host is this
machine.

Any client can send `X-Forwarded-For`, so only what trusted proxies wrote into it counts: it is read
from the end, and the first address that is not a trusted proxy's is the client's. If that entry is
not an address, the client's address is unknown.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

UNKNOWN = "unknown"
# Longer than any real chain of proxies; what a client put before that is not read.
_HOPS_MAX = 10
_IPV6_PREFIX = 64
# A socket of IPv6 that takes IPv4 too shows an address of that as one of these.
_MAPPED = IPv6Network("::ffff:0:0/96")
_MAPPED_START = "::ffff:"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class NotNetworkError(ValueError):
    """A text is neither an address nor a network; `network` is the network that was probably meant,
    if the text has a prefix length."""

    def __init__(self, text: str, network: Network | None) -> None:
        problem = "is neither" if network is None else f"should be {network}"
        super().__init__(f"{text} {problem}")
        self.text, self.network = text, network


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks like 10.0.0.0/8; NotNetworkError if one is neither."""
    return tuple(_network(text.strip()) for text in texts if text.strip())


def _network(text: str) -> Network:
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        raise NotNetworkError(text, None) from None
    if "/" in text and ip_address(text.partition("/")[0]) != found.network_address:
        raise NotNetworkError(text, found)
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        start = int(found.network_address) - int(_MAPPED.network_address)
        return IPv4Network((start, found.prefixlen - _MAPPED.prefixlen))
    return found


def is_within(address: str, allowed: Iterable[Network]) -> bool:
    """Whether an address is in one of these networks; an unknown address is in none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in allowed)


def client_address(peer: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]) -> str:
    """Where a request comes from, as far as the peer and the trusted proxies say."""
    address = _plain(peer)
    if not proxies or not forwarded_for or not is_within(address, proxies):
        return address
    for hop in reversed(forwarded_for.rsplit(b",", _HOPS_MAX)[-_HOPS_MAX:]):
        try:
            address = _plain(str(ip_address(hop.strip().decode("ascii"))))
        except ValueError:
            # The proxy's own address would make this look like a client on the internal network.
            return UNKNOWN
        if not is_within(address, proxies):
            break
    return address


def _plain(address: str) -> str:
    """An address of IPv4 as people write it."""
    if address.startswith(_MAPPED_START):
        return str(IPv6Address(address).ipv4_mapped or address)
    return address


def counted_address(address: str) -> str:
    """What a client counts under: a client with one IPv6 address usually has its whole /64."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((int(parsed), _IPV6_PREFIX), strict=False))
