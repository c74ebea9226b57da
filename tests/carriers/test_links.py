"""Links to carriers: what can be connected, and that their secrets stay secret."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.carriers.conftest import link_to
from tests.operations.test_waybill_statements import handler_on
from tests.support.fake_carrier import SECRET
from tests.support.handlers import result_of
from tests.support.stores import Store
from tests.support.waybills import PRICE, new_carrier, new_customer, request
from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import CarrierLink, connect, disconnect, find_link, list_links
from tollway.carriers.carriers import Carrier, add_carrier
from tollway.contract.decoding import Decoder
from tollway.contract.operation import CallInfo
from tollway.ledger.charges import Charge
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts
from tollway.operations.waybills.operation import WaybillRequest
from tollway.store.database import Transaction
from tollway.store.key_file import SealError
from tollway.store.open import OpenDatabase, open_sealer
from tollway.store.sealing import Sealer


@pytest.fixture
def links(tmp_path: Path) -> Store:
    return Store(tmp_path / "links.db")


@pytest.fixture
def sealer(links: Store) -> Sealer:
    return open_sealer(links.url, links.key_file)


def _link(wp_code: str, **changes: object) -> CarrierLink:
    made = link_to("https://link.example/gateway").link
    return msgspec.structs.replace(made, wp_code=wp_code, **changes)


def test_a_link_is_kept_changed_and_removed(links: Store, sealer: Sealer) -> None:
    wp_code = new_carrier(links, 0)
    link = _link(wp_code)
    assert links.do(lambda database: find_link(database, sealer, wp_code)) is None
    links.do(lambda database: connect(database, sealer, link, "first"))
    changed = _link(wp_code, url="https://other.example/", deadline_ms=900, changed_at_s=7)
    links.do(lambda database: connect(database, sealer, changed, "second"))
    opened = links.do(lambda database: find_link(database, sealer, wp_code))
    assert opened is not None and (opened.link, opened.secret) == (changed, "second")
    assert links.do(list_links) == [changed]
    links.do(lambda database: disconnect(database, wp_code))
    assert links.do(list_links) == []
    with pytest.raises(CarrierError, match="not connected"):
        links.do(lambda database: disconnect(database, wp_code))


@pytest.mark.postgresql
def test_a_carrier_stays_connected_while_a_waybill_of_it_begins(
    links: Store, sealer: Sealer
) -> None:
    wp_code, customer = new_carrier(links, 0), new_customer(links)
    links.do(lambda database: connect(database, sealer, _link(wp_code), SECRET))
    sent = Decoder(WaybillRequest).decode(request(wp_code))

    async def work(database: OpenDatabase) -> None:
        handler = handler_on(links, database)
        act = await result_of(handler(sent, CallInfo(customer.account_id, PRICE)))
        charge = Charge(customer.account_id, "credits", PRICE, "waybills", "r", "tok_1", 0)

        async def begin(transaction: Transaction) -> "asyncio.Task[None]":
            await act(transaction, charge)
            leaving = asyncio.create_task(disconnect(database, wp_code))
            await asyncio.wait([leaving], timeout=0.2)
            return leaving

        leaving = await database.write(begin)
        with pytest.raises(CarrierError, match=r"still has to say what became of waybills \(1\)"):
            await leaving

    links.do(work)


WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@pytest.mark.postgresql
def test_the_trail_has_what_a_carrier_was_before_each_change(links: Store) -> None:
    async def work(database: OpenDatabase) -> None:
        runtime = Runtime(by="operator")
        await add_carrier(database, "YTO", "first", runtime=runtime)

        async def change(transaction: Transaction) -> "asyncio.Future[list[Carrier]]":
            await transaction.lock_names(["trail"])
            names = ("second", "third")
            changes = asyncio.gather(
                *(add_carrier(database, "YTO", each, runtime=runtime) for each in names)
            )
            while await asyncio.to_thread(links.run, WAITING) != [(2,)]:
                assert not changes.done()
            return changes

        await (await database.write(change))
        third, second, first = await newest_acts(database, 3)
        assert (third.before, second.before) == (second.after, first.after)

    links.do(work)


def test_the_secret_is_nowhere_in_the_database(links: Store, sealer: Sealer) -> None:
    wp_code = new_carrier(links, 0)
    links.do(lambda database: connect(database, sealer, _link(wp_code), SECRET))
    written = links.content()
    # The search can find what is there.
    assert b"https://link.example/gateway" in written
    assert SECRET.encode() not in written


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("url", "https://evil.example/"),
        ("provider_id", "EVIL"),
        ("to_code", "EVIL"),
        ("protocol", "evil"),
        ("wp_code", "E"),
    ],
)
def test_a_link_that_was_altered_in_the_database_cannot_be_used(
    links: Store, sealer: Sealer, column: str, value: str
) -> None:
    wp_code = new_carrier(links, 0)
    links.do(lambda database: connect(database, sealer, _link(wp_code), SECRET))
    links.run(f"UPDATE carrier_link SET {column} = '{value}'")
    moved = value if column == "wp_code" else wp_code
    with pytest.raises(SealError):
        links.do(lambda database: find_link(database, sealer, moved))


@pytest.mark.parametrize(
    "url",
    [
        "https://link.example/gateway/link.do?x=1",
        "https://10.0.0.7:8443",
        "http://127.0.0.1:8090",
        "http://127.9.9.9/",
        "http://[::1]:8090/",
        "http://localhost/path",
    ],
)
def test_addresses_that_can_be_connected(links: Store, sealer: Sealer, url: str) -> None:
    wp_code = new_carrier(links, 0)
    links.do(lambda database: connect(database, sealer, _link(wp_code, url=url), SECRET))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"url": "http://carrier.example/"}, "unencrypted"),
        ({"url": "http://127.0.0.1.example/"}, "unencrypted"),
        ({"url": "http://localhost.example/"}, "unencrypted"),
        ({"url": "http://10.0.0.7/"}, "unencrypted"),
        ({"url": "ftp://carrier.example/"}, "no address"),
        ({"url": "carrier.example"}, "no address"),
        ({"url": "https://"}, "no address"),
        ({"url": "https://host:99999/"}, "no address"),
        ({"url": "https://[::1/"}, "no address"),
        ({"url": "https://me:word@carrier.example/"}, "no user name"),
        ({"url": "https://carrier.example/#x"}, "no user name"),
        ({"url": "https://carrier.example/a b"}, "plain characters"),
        ({"url": "https://carrier.example/\r\nX: y"}, "plain characters"),
        ({"provider_id": ""}, "provider"),
        ({"provider_id": "a b"}, "provider"),
        ({"to_code": "x" * 65}, "1 to 64"),
        ({"deadline_ms": 60_000, "settle_after_s": 60}, "still arrive"),
        ({"wp_code": "NONE"}, "no carrier NONE"),
    ],
)
def test_what_cannot_be_connected_is_refused_in_a_sentence(
    links: Store, sealer: Sealer, changes: dict[str, object], sentence: str
) -> None:
    link = _link(new_carrier(links, 0), **{k: v for k, v in changes.items() if k != "wp_code"})
    link = msgspec.structs.replace(link, **changes)
    with pytest.raises(CarrierError, match=sentence):
        links.do(lambda database: connect(database, sealer, link, SECRET))
    assert links.do(list_links) == []


@pytest.mark.parametrize("secret", ["", "two\nlines", "x" * 257])
def test_a_secret_is_one_line_and_is_not_quoted(links: Store, sealer: Sealer, secret: str) -> None:
    link = _link(new_carrier(links, 0))
    with pytest.raises(CarrierError, match="one line") as refused:
        links.do(lambda database: connect(database, sealer, link, secret))
    assert not secret or secret not in str(refused.value)
