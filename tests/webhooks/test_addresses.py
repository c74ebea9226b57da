"""Which addresses webhooks may go to, decided by the address that is connected to."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tollway.webhooks import addresses
from tollway.webhooks.addresses import AddressError, Addresses

PUBLIC = "93.184.216.34"


def _resolve(url: str, *listed: str) -> str:
    async def work() -> str:
        known = Addresses(listed)
        return (await known.resolve(known.check(url), "acc_1"))[0]

    return asyncio.run(work())


@pytest.mark.parametrize(
    "host",
    [
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.1",
        "0177.0.0.1",
        "0x7f000001",
        "2130706433",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::a00:1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:0:a00:1]",
        "[64:ff9b::a00:1]",
        "[64:ff9b:1::a00:1]",
        "[100::1]",
        "[2001::1]",
        "[2001:db8::1]",
        "[2002:a00:1::]",
        "[3fff::1]",
        "[4000::1]",
        "[5f00::1]",
        "[fc00::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "93.184.216.34:65536",
    ],
)
def test_what_is_no_global_unicast_address_is_refused_in_any_spelling(host: str) -> None:
    with pytest.raises(AddressError, match=r"internal|not an address"):
        _resolve(f"https://{host}/hook")


@pytest.mark.parametrize(
    ("host", "found"),
    [
        (PUBLIC, PUBLIC),
        ("1572395042", PUBLIC),
        ("[::ffff:5db8:d822]", f"::ffff:{PUBLIC}"),
        ("[2606:2800:220:1::1]", "2606:2800:220:1::1"),
    ],
)
def test_a_global_unicast_address_is_allowed(host: str, found: str) -> None:
    assert _resolve(f"https://{host}/hook") == found


class Names:
    """Stands in for the servers of names: what a host leads to, and which never answer."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}
        self.answered = threading.Event()

    def __call__(self, host: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        if host.startswith("slow"):
            self.answered.wait()
        return [(socket.AF_INET, 1, 6, "", (each, 0)) for each in self.known.get(host, [PUBLIC])]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names()
    monkeypatch.setattr(addresses.socket, "getaddrinfo", made)
    yield made
    made.answered.set()


def test_of_several_addresses_none_may_be_internal_unless_the_host_is_listed(names: Names) -> None:
    names.known["mixed.example"] = [PUBLIC, "10.0.0.1"]
    with pytest.raises(AddressError, match="internal"):
        _resolve("https://mixed.example/hook")
    assert _resolve("https://mixed.example/hook", "Mixed.example") == PUBLIC


async def test_a_name_without_an_answer_delays_only_the_account_that_uses_it(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Addresses(())

    async def resolve(host: str, account_id: str) -> str:
        return (await known.resolve(httpx2.URL(f"https://{host}/"), account_id))[0]

    monkeypatch.setattr(addresses, "_LOOKUP_MAX_S", 0.1)
    slow = [resolve(f"slow{n}.example", "acc_slow") for n in range(50)]
    for each in await asyncio.gather(*slow, return_exceptions=True):
        assert isinstance(each, AddressError) and "in time" in str(each)
    # The first one still waits for its answer.
    monkeypatch.setattr(addresses, "_LOOKUP_MAX_S", 60.0)
    assert await resolve("receiver.example", "acc_other") == PUBLIC
    names.answered.set()
    assert await resolve("receiver.example", "acc_slow") == PUBLIC


@pytest.mark.parametrize("host", ["hooks.straße.example", "hooks.xn--strae-oqa.example"])
def test_an_international_name_is_looked_up_as_it_is_connected_to(names: Names, host: str) -> None:
    connected = "hooks.xn--strae-oqa.example"
    names.known = {"hooks.strasse.example": [PUBLIC], connected: ["10.0.0.1"]}
    with pytest.raises(AddressError, match="internal"):
        _resolve(f"https://{host}/hook")
    assert asyncio.run(Addresses(()).leads_inside(f"https://{host}/"))
    assert _resolve(f"http://{host}/hook", connected) == "10.0.0.1"


def test_a_label_that_is_no_name_beside_an_international_one_is_looked_up_too(names: Names) -> None:
    names.known["x_y.xn--fiqs8s.example"] = ["10.0.0.1"]
    with pytest.raises(AddressError, match="internal"):
        _resolve("https://x_y.xn--fiqs8s.example/")
    assert asyncio.run(Addresses(()).leads_inside("https://x_y.xn--fiqs8s.example/"))
