"""The address of a gateway, as people paste it: taken, or refused before anything is sent."""

import asyncio

import pytest

from tests.sdk.conftest import Run
from tests.support.all_operations import all_operations_caller
from tests.support.gateway import Gateway
from tollway.demo.owners import SHOP
from tollway_client import AsyncClient, Client

_NONE = (
    "https://",
    "https:///path",
    "http://gateway.example:port",
    "http://gateway.example:99999",
    "http://[::1",
    "https://gateway.example?a=1",
    "https://gateway.example/#a",
    "https://me:secret@gateway.example",
    "https://gateway example",
    "https://gateway.example\\papi",
)
_REFUSAL = "Give the address as https://gateway.example, with a port or a path at most."

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize("address", _NONE)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_python_refuses_what_is_no_address(kind: type, address: str) -> None:
    with pytest.raises(ValueError, match="Give the address as") as refused:
        kind("tw_live_x", address)
    assert str(refused.value) == _REFUSAL


def test_python_takes_an_address_with_spaces_and_slashes_around_it(world: Gateway) -> None:
    caller = all_operations_caller(world.store)
    address = f" {world.base_url}//\n"
    with Client(caller.token, address) as client:
        assert client.orders(owner_id=SHOP.id).totalElements > 0

    async def ask() -> int:
        async with AsyncClient(caller.token, address) as client:
            return (await client.orders(owner_id=SHOP.id)).totalElements

    assert asyncio.run(ask()) > 0


def test_javascript_takes_and_refuses_the_same(world: Gateway, run: Run) -> None:
    caller = all_operations_caller(world.store)
    script = """
    const client = new tollway.Client({ token, baseUrl: ` ${baseUrl}//\\n` });
    print((await client.orders({ owner_id })).totalElements > 0);
    for (const address of addresses) {
      try { print(new tollway.Client({ token, baseUrl: address })); }
      catch (error) { print([error.name, error.message]); }
    }"""
    names = {"token": caller.token, "baseUrl": world.base_url, "owner_id": SHOP.id}
    found = run(script, addresses=_NONE, **names)
    assert found == [True, *[["TypeError", _REFUSAL]] * len(_NONE)]
