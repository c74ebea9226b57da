"""Exports of orders and claims: counted, paid by started hundreds, streamed, resumed."""

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import httpx
import pytest

from tests.support.gateway import Gateway, Reply
from tests.support.handlers import result_of
from tests.support.in_process import in_gateway
from tests.support.ledger import RUNTIME, Caller, credits_left, new_caller
from tests.support.orders import (
    CREDITS,
    OWNER,
    START_MS,
    new_shopper,
    order,
    put_orders,
    sealer_of,
    store_orders,
)
from tests.support.owners import authorize, shop
from tests.support.stores import Store
from tollway.consent.grants import grants_of_account, revoke_grant
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Refusal
from tollway.gateway.gateway import Gateway as InProcess
from tollway.gateway.internal_calls import own_call
from tollway.intake.loading import store_records
from tollway.ledger.tokens import revoke_token
from tollway.operations import exports
from tollway.operations.catalogue import RECORD_KINDS
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.coupon_claims.export import CLAIMS_EXPORT, CLAIMS_FILE
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.export import (
    EXPORTS,
    ORDERS_EXPORT,
    ORDERS_FILE,
    OrdersExportRequest,
)
from tollway.operations.orders.more_calls import ORDERS_CHANGED
from tollway.operations.orders.operation import ORDERS
from tollway.operations.subject import Priced, Services
from tollway.store.database import Database
from tollway.store.sealing import Sealer

_COUNT = 2345


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    store = Store(tmp_path_factory.mktemp("exports") / "tollway.db")
    # Many of one minute, so that a page ends among orders of the same time.
    put_orders(
        store,
        [order(f"sn-{n:05}", confirm_time=START_MS + n // 300 * 60_000) for n in range(_COUNT)],
    )
    with Gateway(store) as gateway:
        yield gateway


def export(served: Gateway, token: str, **changes: Any) -> Reply:
    window = {"start_time": START_MS, "end_time": START_MS + 86_400_000}
    sent = {"owner_id": OWNER, **window, **changes}
    headers = sent.pop("headers", None)
    return served.post_json(ORDERS_EXPORT.path, sent, token=token, headers=headers)


def file_of(served: Gateway, token: str, export_id: str, **more: str) -> bytes:
    query = {"owner_id": OWNER, "export_id": export_id, **more}
    response = served.client.get(
        ORDERS_FILE.path, params=query, headers={"Authorization": f"Bearer {token}"}
    )
    assert response.headers["content-type"] == "application/gzip", response.text
    return response.content


def numbers_in(content: bytes) -> list[str]:
    return [json.loads(line)["order_sn"] for line in gzip.decompress(content).splitlines()]


def test_0_all_orders_of_a_window_come_once_masked_and_paid_by_started_hundreds(
    served: Gateway,
) -> None:
    shopper = new_shopper(served.store)
    reply = export(served, shopper.token)
    cost = -(-_COUNT // 100)
    assert (reply.data["records"], reply.data["withholding_money"]) == (_COUNT, cost)
    assert credits_left(served.store, shopper) == CREDITS - cost
    content = file_of(served, shopper.token, reply.data["export_id"])
    found = numbers_in(content)
    assert len(found) == _COUNT and set(found) == {f"sn-{n:05}" for n in range(_COUNT)}
    first = json.loads(gzip.decompress(content).splitlines()[0])
    assert (first["receiver_name"], first["receiver_phone"]) == ("张**", "138****1234")
    # As often as needed, and with the address that the answer gives.
    again = served.client.get(
        reply.data["download_url"], headers={"Authorization": f"Bearer {shopper.token}"}
    )
    assert numbers_in(again.content) == found
    assert credits_left(served.store, shopper) == CREDITS - cost


def test_0_an_answer_that_broke_off_goes_on_after_its_last_whole_line(served: Gateway) -> None:
    shopper = new_shopper(served.store)
    export_id = export(served, shopper.token).data["export_id"]
    whole = file_of(served, shopper.token, export_id)
    # What has arrived is unpacked as far as it goes.
    part = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(whole[: len(whole) // 2])
    lines = part.split(b"\n")[:-1]
    got = [json.loads(line)["order_sn"] for line in lines]
    assert 0 < len(got) < _COUNT
    rest = numbers_in(file_of(served, shopper.token, export_id, after=got[-1]))
    assert got + rest == numbers_in(whole)


def test_0_the_price_is_known_before_and_a_repetition_is_free(served: Gateway) -> None:
    shopper = new_shopper(served.store)
    asked = export(served, shopper.token, headers={"X-Tollway-Dry-Run": "1"})
    assert (asked.data["dry_run"], asked.data["cost"]) == (True, 24)
    assert credits_left(served.store, shopper) == CREDITS
    key = {"Idempotency-Key": "export-1"}
    first, again = (export(served, shopper.token, headers=key) for _ in range(2))
    assert first.data["export_id"] == again.data["export_id"]
    assert (first.data["withholding_money"], again.data["withholding_money"]) == (24, 0)
    assert credits_left(served.store, shopper) == CREDITS - 24
    nothing = export(served, shopper.token, start_time="2020-01-01", end_time="2020-01-02")
    assert (nothing.data["records"], nothing.data["withholding_money"]) == (0, 1)


def test_204_what_the_balance_does_not_cover_is_not_begun(served: Gateway) -> None:
    shopper = new_shopper(served.store, credits_=23)
    assert export(served, shopper.token, headers={"X-Tollway-Dry-Run": "1"}).code == 204
    assert export(served, shopper.token).code == 204
    assert credits_left(served.store, shopper) == 23


def test_100_an_export_of_another_account_or_a_line_of_none_is_refused(served: Gateway) -> None:
    shopper, other = new_shopper(served.store), new_shopper(served.store)
    export_id = export(served, shopper.token).data["export_id"]

    def ask(token: str, **query: str) -> Reply:
        return served.get(ORDERS_FILE.path, token=token, query={"owner_id": OWNER, **query})

    assert ask(other.token, export_id=export_id).code == 100
    assert ask(shopper.token, export_id=f"x{export_id}").code == 100
    assert ask(shopper.token, export_id="é").code == 100
    assert ask(shopper.token, export_id=export_id, after="nowhere").code == 100
    other_shop = shop("880012009")
    served.store.do(lambda db: authorize(db, shopper.account_id, ORDERS, other_shop))
    another = {"owner_id": other_shop.id, "export_id": export_id}
    refused = served.get(ORDERS_FILE.path, token=shopper.token, query=another)
    assert (refused.code, "export_id" in refused.msg) == (100, True), refused.msg


def test_100_a_line_that_moved_since_is_refused_and_the_line_before_it_goes_on(
    served: Gateway,
) -> None:
    shopper = new_shopper(served.store)
    day_ms = START_MS + 200_000_000
    window = {"start_time": day_ms, "end_time": day_ms + 86_400_000}
    put_orders(
        served.store, [order(f"move-{n}", confirm_time=day_ms + n * 60_000) for n in range(9)]
    )
    export_id = export(served, shopper.token, **window).data["export_id"]
    whole = numbers_in(file_of(served, shopper.token, export_id))
    assert whole == [f"move-{n}" for n in range(8, -1, -1)]
    # Among the oldest by now: what is between would be left out.
    moved = order("move-5", confirm_time=day_ms + 1, updated_at=day_ms + 86_400_000)
    put_orders(served.store, [moved])
    query = {"owner_id": OWNER, "export_id": export_id, "after": "move-5"}
    refused = served.get(ORDERS_FILE.path, token=shopper.token, query=query)
    assert refused.code == 100 and "changed since the export" in refused.msg
    rest = numbers_in(file_of(served, shopper.token, export_id, after="move-6"))
    assert rest == ["move-4", "move-3", "move-2", "move-1", "move-0"]


def test_0_changes_after_an_export_come_after_its_cursor(served: Gateway) -> None:
    shopper = new_shopper(served.store)
    cursor = export(served, shopper.token).data["cursor"]
    outside = START_MS + 90_000_000
    put_orders(served.store, [order("after-1", confirm_time=outside)])
    sent = {"owner_id": OWNER, "cursor": cursor}
    page = served.post_json(ORDERS_CHANGED.path, sent, token=shopper.token)
    assert [each["order_sn"] for each in page.data["content"]] == ["after-1"]


def test_0_orders_stored_after_an_export_are_not_in_its_file_but_after_its_cursor(
    served: Gateway,
) -> None:
    shopper = new_shopper(served.store)
    first_ms = START_MS - 86_400_000
    put_orders(served.store, [order("paid-1", confirm_time=first_ms)])
    made = export(served, shopper.token, start_time=first_ms - 1000, end_time=START_MS).data
    later = [order("late-1", confirm_time=first_ms), order("late-2", confirm_time=first_ms - 1)]
    put_orders(served.store, later)
    assert numbers_in(file_of(served, shopper.token, made["export_id"])) == ["paid-1"]
    rest = file_of(served, shopper.token, made["export_id"], after="paid-1")
    assert numbers_in(rest) == []
    sent = {"owner_id": OWNER, "cursor": made["cursor"]}
    page = served.post_json(ORDERS_CHANGED.path, sent, token=shopper.token)
    assert {each["order_sn"] for each in page.data["content"]} == {"late-1", "late-2"}


class _Importing:
    """A database into which one more order is imported after every read."""

    row_at_once = None

    def __init__(self, database: Database, sealer: Sealer, at_ms: int) -> None:
        self._database, self._sealer, self._at_ms = database, sealer, at_ms
        self._imported = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def fetch_one(self, *query: Any, **values: Any) -> Any:
        row = await self._database.fetch_one(*query, **values)
        await self._store_another()
        return row

    async def fetch_all(self, *query: Any, **values: Any) -> Any:
        rows = await self._database.fetch_all(*query, **values)
        await self._store_another()
        return rows

    async def _store_another(self) -> None:
        self._imported += 1
        another = order(f"import-{self._imported}", confirm_time=self._at_ms)
        await store_orders(self._database, self._sealer, [another])


def test_0_what_is_paid_is_in_the_file_also_while_orders_are_imported(served: Gateway) -> None:
    store, shopper = served.store, new_shopper(served.store)
    sealer, at_ms = sealer_of(store), START_MS + 300_000_000
    make_handler = EXPORTS[0].make_handler
    assert make_handler is not None

    async def ask(database: Database) -> dict[str, Any]:
        hundred = [order(f"before-{n}", confirm_time=at_ms) for n in range(100)]
        await store_orders(database, sealer, hundred)
        services = SimpleNamespace(
            database=_Importing(database, sealer, at_ms),
            zone=ZoneInfo("Asia/Shanghai"),
            vault=SimpleNamespace(sealer=sealer),
            runtime=RUNTIME,
            public_address=served.base_url,
        )
        handle = make_handler(cast(Services, services))
        asked = OrdersExportRequest(OWNER, at_ms, at_ms + 1)
        priced = await result_of(handle(asked, CallInfo(shopper.account_id, 1)))
        assert isinstance(priced, Priced)
        return {"times": priced.times, **json.loads(priced.data)}

    made = store.do(ask)
    lines = numbers_in(file_of(served, shopper.token, made["export_id"]))
    assert (len(lines), made["records"], made["times"]) == (100, 100, 1)


@pytest.fixture
def claimer(served: Gateway) -> Caller:
    return new_caller(served.store, operations=(COUPON_CLAIMS,), credits_=10)


def test_0_claims_are_exported_over_more_than_seven_days(served: Gateway, claimer: Caller) -> None:
    start_s = START_MS // 1000
    kind = RECORD_KINDS["coupon-claims"]
    loader = kind.make_loader(sealer_of(served.store))
    rows = [loader.check(_claim(n, start_s + n * 7200), 0) for n in range(250)]
    served.store.do(lambda database: store_records(database, loader, rows))
    window = {"startTime": start_s, "endTime": start_s + 30 * 86_400, "sid": "chan-1", "type": 4}
    made = served.post_json(CLAIMS_EXPORT.path, window, token=claimer.token)
    assert (made.data["records"], made.data["withholding_money"]) == (250, 3)
    headers = {"Authorization": f"Bearer {claimer.token}"}
    query = {"export_id": made.data["export_id"]}
    whole = served.client.get(CLAIMS_FILE.path, params=query, headers=headers)
    claims = [json.loads(line) for line in gzip.decompress(whole.content).splitlines()]
    assert [each["couponCode"] for each in claims] == [f"code-{n:03}" for n in range(249, -1, -1)]
    query["after"] = "code-100"
    rest = served.client.get(CLAIMS_FILE.path, params=query, headers=headers)
    assert len(gzip.decompress(rest.content).splitlines()) == 100
    assert credits_left(served.store, claimer) == 7
    # The same window, written out.
    window |= {"startTime": "2026-01-15", "endTime": "2026-02-13T16:00Z"}
    again = served.post_json(CLAIMS_EXPORT.path, window, token=claimer.token)
    assert again.data["records"] == 250


def test_100_claims_of_a_sid_with_a_character_that_cannot_be_seen(
    served: Gateway, claimer: Caller
) -> None:
    sent = {"startTime": 1, "endTime": 2, "sid": f"\ufeff{SIDS[0]}", "type": 4}
    reply = served.post_json(CLAIMS_EXPORT.path, sent, token=claimer.token)
    assert (reply.code, reply.data) == (100, {})
    assert "sid" in reply.msg and "cannot be seen, U+FEFF" in reply.msg


def test_0_claims_stored_after_an_export_are_not_free(served: Gateway, claimer: Caller) -> None:
    now_s = int(time.time())

    def put(numbers: range, at_s: int) -> None:
        kind = RECORD_KINDS["coupon-claims"]
        loader = kind.make_loader(sealer_of(served.store))
        rows = [loader.check(_claim(n, at_s, "chan-2"), 0) for n in numbers]
        served.store.do(lambda database: store_records(database, loader, rows))

    def codes(**more: str) -> list[str]:
        query = {"export_id": made["export_id"], **more}
        headers = {"Authorization": f"Bearer {claimer.token}"}
        file = served.client.get(CLAIMS_FILE.path, params=query, headers=headers)
        lines = gzip.decompress(file.content).splitlines()
        return [json.loads(line)["couponCode"] for line in lines]

    window = {"startTime": now_s - 60, "endTime": 4_000_000_000, "sid": "chan-2", "type": 4}
    made = served.post_json(CLAIMS_EXPORT.path, window, token=claimer.token).data
    assert (made["records"], made["withholding_money"]) == (0, 1)
    put(range(1000, 1010), now_s + 3600)
    assert codes() == []
    put(range(2000, 2150), now_s - 30)
    put(range(3000, 3150), now_s - 40)
    # As many as were paid for, in whichever pieces they are asked for.
    paid = codes()
    assert paid == [f"code-{n}" for n in range(2000, 2100)]
    assert codes(after="code-2039") == paid[40:]
    assert codes(after="code-2099") == codes(after="code-3000") == []


def _claim(number: int, at_s: int, sid: str = "chan-1") -> dict[str, Any]:
    return {
        "sid": sid,
        "type": 4,
        "coupon_code": f"code-{number:03}",
        "claim_time": at_s,
        "app_key": "key-1",
        "coupon_name": "外卖满 30 减 5",
        "money": "5",
        "min_use_money": "30",
        "begin_time": at_s,
        "end_time": at_s + 86_400,
    }


@pytest.mark.sqlite
def test_0_a_test_export_is_known_to_all_workers(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    tester = new_caller(store, operations=(COUPON_CLAIMS,), kind="test")
    headers = {"Authorization": f"Bearer {tester.token}"}
    now_s = int(time.time())
    window = {"startTime": now_s - 20 * 86_400, "endTime": now_s, "sid": SIDS[0], "type": 4}
    served = Gateway(store, workers=2)
    made = served.post_json(CLAIMS_EXPORT.path, window, token=tester.token)
    assert made.code == 0 and made.data["records"] > 0
    query = {"export_id": made.data["export_id"]}
    statuses = set()
    for _ in range(10):
        # A connection of its own, so that either worker may have it.
        with httpx.Client(base_url=served.base_url, timeout=60) as client:
            file = client.get(CLAIMS_FILE.path, params=query, headers=headers)
            statuses.add(file.headers["content-type"])
    assert statuses == {"application/gzip"}
    assert served.stop() == 0


def test_0_a_file_under_an_idempotency_key_comes_whole_each_time(served: Gateway) -> None:
    shopper = new_shopper(served.store)
    export_id = export(served, shopper.token).data["export_id"]
    headers = {"Authorization": f"Bearer {shopper.token}", "Idempotency-Key": "file-1"}
    query = {"owner_id": OWNER, "export_id": export_id}
    for _ in range(2):
        response = served.client.get(ORDERS_FILE.path, params=query, headers=headers)
        assert response.headers["content-type"] == "application/gzip", response.text
        assert len(numbers_in(response.content)) == _COUNT


def test_100_a_record_outside_of_the_window_is_no_line_of_the_export(
    served: Gateway, claimer: Caller
) -> None:
    shopper, start_s = new_shopper(served.store), START_MS // 1000
    put_orders(served.store, [order("outside-1", confirm_time=START_MS - 1)])
    export_id = export(served, shopper.token).data["export_id"]
    query = {"owner_id": OWNER, "export_id": export_id, "after": "outside-1"}
    refused = served.get(ORDERS_FILE.path, token=shopper.token, query=query)
    assert (refused.code, "no record of the export" in refused.msg) == (100, True)
    loader = RECORD_KINDS["coupon-claims"].make_loader(sealer_of(served.store))
    # At the end, which is excluded.
    rows = [loader.check(_claim(n, start_s + n - 5000, "chan-3"), 0) for n in range(5000, 5003)]
    served.store.do(lambda database: store_records(database, loader, rows))
    window = {"startTime": start_s, "endTime": start_s + 2, "sid": "chan-3", "type": 4}
    export_id = served.post_json(CLAIMS_EXPORT.path, window, token=claimer.token).data["export_id"]
    query = {"export_id": export_id, "after": "code-5002"}
    refused = served.get(CLAIMS_FILE.path, token=claimer.token, query=query)
    assert (refused.code, "no record of the export" in refused.msg) == (100, True)


_CLIENT = ("127.0.0.1", 9)


@pytest.mark.parametrize("ended", ["nothing", "the consent", "the token"])
def test_a_file_breaks_off_when_its_reader_may_not_have_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    """It is read from the database for as long as its reader likes."""
    store = Store(tmp_path / "own.db")
    put_orders(store, [order(f"sn-{n:05}") for n in range(3)])
    shopper = new_shopper(store)
    monkeypatch.setattr(exports, "_LINES_AT_ONCE", 1)
    own = [(b"authorization", f"Bearer {shopper.token}".encode())]
    window = {"owner_id": OWNER, "start_time": START_MS, "end_time": START_MS + 86_400_000}

    async def end(database: Database) -> None:
        if ended == "the consent":
            (held,) = await grants_of_account(database, shopper.account_id)
            await revoke_grant(database, RUNTIME, held.grant.id)
        elif ended == "the token":
            await revoke_token(database, RUNTIME, shopper.token)

    async def work(gateway: InProcess) -> None:
        made, _ = await own_call(gateway.edge, ORDERS_EXPORT, window, own, _CLIENT)
        query = urlencode({"owner_id": OWNER, "export_id": made["data"]["export_id"]}).encode()
        scope = {
            "http_version": "1",
            "method": "GET",
            "raw_path": ORDERS_FILE.path.encode(),
            "query_string": query,
            "headers": own,
            "client": _CLIENT,
        }
        unpacker, lines = zlib.decompressobj(16 + zlib.MAX_WBITS), b""

        async def is_refused() -> bool:
            answer, _ = await own_call(gateway.edge, ORDERS_EXPORT, window, own, _CLIENT)
            return answer["code"] != 0

        async def send(message: Any) -> None:
            nonlocal lines
            is_first = lines == b""
            lines += unpacker.decompress(message.get("body", b""))
            if is_first and lines and ended != "nothing":
                await asyncio.to_thread(lambda: store.do(end))
                # A gateway on a server learns of it a moment later.
                async with asyncio.timeout(30):
                    while not await is_refused():
                        pass

        with pytest.raises(Refusal) if ended != "nothing" else nullcontext():
            await gateway.edge(scope, asyncio.Event().wait, send)
        assert lines.count(b"\n") == (3 if ended == "nothing" else 1)

    in_gateway(store, monkeypatch, work)
