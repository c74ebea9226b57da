"""Parsing the URL of a PostgreSQL database; a URL that can be read in two ways is refused.

No part of a refused URL is ever quoted: it may be the password.
"""

import os
import re
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from tollway.contract.addresses import is_loopback
from tollway.store.database import StoreError

_HOST = re.compile(r"(\[[\w:.%]+\]|[\w.%-]+)(?::(\d{1,5}))?")
_PORT_MAX = 65_535
UNREADABLE = (
    "A PostgreSQL URL cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/NAME, and "
    "in the password whatever is neither letter nor digit as % and its code, such as %2F for /."
)


def urls_by_host(url: str) -> list[str]:
    """One URL for each host of a URL that names several."""
    parts = parts_of(url)
    who, at, hosts = parts.netloc.rpartition("@")
    return [urlunsplit(parts._replace(netloc=f"{who}{at}{host}")) for host in hosts.split(",")]


def parts_of(url: str) -> SplitResult:
    """The parts of a URL that can be read in one way only.

    A / or @ in the password splits a URL at the wrong positions.
    """
    try:
        parts = _split(url)
        parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise StoreError(UNREADABLE) from None
    hosts = parts.netloc.rpartition("@")[2]
    is_one_way_to_read = url.count("@") == parts.netloc.count("@") <= 1
    if not is_one_way_to_read or (hosts and not all(map(_is_host, hosts.split(",")))):
        raise StoreError(UNREADABLE)
    return parts


def _split(url: str) -> SplitResult:
    """Like `urlsplit`, which may refuse several hosts if one of them has brackets: this checks each
    host separately."""
    scheme, slashes, rest = url.partition("://")
    netloc = re.split(r"[/?#]", rest, maxsplit=1)[0]
    who, at, hosts = netloc.rpartition("@")
    for host in hosts.split(","):
        urlsplit(f"//{who}{at}{host}")
    return urlsplit(scheme + slashes + rest[len(netloc) :])._replace(netloc=netloc)


def unverified_hosts(url: str) -> list[str]:
    """The remote hosts whose certificate is not verified, so that any machine can pose as them."""
    parts = parts_of(url)
    query = parse_qs(parts.query)
    # The driver takes what the URL does not set from these variables.
    mode = query.get("sslmode", [os.environ.get("PGSSLMODE", "")])[-1]
    if mode.replace("_", "-") == "verify-full":
        return []
    hosts = parts.netloc.rpartition("@")[2]
    hosts = hosts or query.get("host", [os.environ.get("PGHOST", "")])[-1]
    return [name for name in map(_name_of, hosts.split(",")) if not _is_here(name)]


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return unquote(host.partition(":")[0])


def _is_here(name: str) -> bool:
    # A folder means a Unix socket, and so does an empty host.
    return name == "" or name.startswith("/") or is_loopback(name)


def _is_host(text: str) -> bool:
    found = _HOST.fullmatch(text)
    return found is not None and int(found[2] or 0) <= _PORT_MAX


def host_of(url: str) -> str:
    return _split(url).netloc.rpartition("@")[2] or "the server"
