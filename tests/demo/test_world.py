"""The demo world as a newcomer meets it: it can be started twice at once, it adds up, and what it
points to exists."""

import asyncio
import gc
import io
import json
import re
import signal
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import httpx
import msgspec
import pytest
from PIL import Image

from tests.support.agents import connected_agent
from tests.support.forks import Fork, run
from tests.support.ports import free_port
from tests.support.postgresql import new_database
from tests.support.stores import Store
from tests.support.waybills import request
from tollway.demo.world import fill_all
from tollway.ledger.usage import day_start_s
from tollway.operations.catalogue import BY_NAME
from tollway.operations.coupon_claims.demo import make_claims
from tollway.operations.demo_data import (
    BUY_PATH,
    COUPON_PATH,
    DEMO_SEED,
    ITEM_PATH,
    PRODUCTS,
    DemoTarget,
)
from tollway.operations.orders.demo import RowMaker
from tollway.operations.orders.made_orders import MadeDay, MadeOrder, make_days
from tollway.operations.orders.records import record_of, row_of
from tollway.operations.product_analysis.series import day_number
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.database import Database, StoreError
from tollway.store.sealing import Sealer

ZONE = ZoneInfo("Asia/Shanghai")
COMMAND = "tests.docs.small_demo"
ANALYSIS = "/papi/tool/accounts/goods-analysis"
PROMOTION = "/papi/tool/affiliate/promotion"


class Served(NamedTuple):
    """A world that is served, what the second command printed, and how to make more of them."""

    world: dict[str, Any]
    second: Any
    address: str
    folder: Path
    environment: dict[str, str]

    def ask(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.world['token']}"}
        answer = httpx.request(method, self.address + path, headers=headers, **options, timeout=60)
        assert answer.json()["code"] == 0, answer.text
        return answer.json()["data"]

    def analysis(self, product_id: str, day: str) -> Any:
        return self.ask("GET", ANALYSIS, params={"product_id": product_id, "query_date": day})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("world")
    port, is_shared = free_port(), engine == "postgresql"
    url = new_database(is_migrated=False) if is_shared else "sqlite:///demo.db"
    environment = {"TOLLWAY_DATABASE": url, "HOME": str(folder), "LANG": "C.UTF-8"}
    environment["TOLLWAY_RATE_LIMIT"] = "1000"
    if is_shared:
        environment |= {"TOLLWAY_KEY_FILE": "demo.db", "TOLLWAY_SECRET_FILE": "demo.db.secret"}
    with (folder / "log").open("wb") as log:
        server = Fork(
            COMMAND, "serve", "--demo", "--port", str(port), cwd=folder, env=environment, stderr=log
        )
    # In another terminal, while the first one still loads.
    second = run(COMMAND, "demo", "--json", cwd=folder, env=environment)
    assert server.stdout is not None
    lines = iter(server.stdout.readline, "")
    assert any("Ctrl+C" in line for line in lines), (folder / "log").read_text("utf-8")
    world = json.loads((folder / "demo.db.demo.json").read_text("utf-8"))
    yield Served(world, second, f"http://127.0.0.1:{port}", folder, environment)
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    server.stdout.close()


def test_of_two_commands_at_once_the_second_waits_for_the_first(served: Served) -> None:
    assert served.second.returncode == 0, served.second.stderr
    # Whichever was the first, its address is not that of the server.
    address = {"base_url": "", "site": ""}
    assert {**json.loads(served.second.stdout), **address} == {**served.world, **address}


def test_the_world_is_shown_with_the_port_that_is_served(served: Served) -> None:
    shown = run(COMMAND, "demo", "--json", cwd=served.folder, env=served.environment)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["base_url"] == served.address


def test_links_lead_to_the_port_that_is_served(served: Served) -> None:
    for command in (
        ("operator", "link"),
        ("shop", "password", served.world["owner_login"], "--link"),
    ):
        shown = run(COMMAND, *command, "--json", cwd=served.folder, env=served.environment)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["url"].startswith(f"{served.address}/")


def test_its_owners_are_known_since_it_was_made(served: Served) -> None:
    made_s = (served.folder / "demo.db.demo.json").stat().st_mtime
    shown = run(COMMAND, "shop", "list", "--json", cwd=served.folder, env=served.environment)
    added = [each["added_at_s"] for each in json.loads(shown.stdout)]
    assert len(added) == 4
    assert all(made_s - 600 < each < made_s + 1 for each in added)


def test_agents_find_the_operations_as_tools(served: Served) -> None:
    async def tools() -> set[str]:
        async with connected_agent(served.address, served.world["token"]) as client:
            return {each.name for each in (await client.list_tools()).tools}

    assert asyncio.run(tools()) > set(BY_NAME)


def test_the_front_page_shows_a_command_that_finds_the_database(served: Served) -> None:
    shown = httpx.get(f"{served.address}/", timeout=60).text
    url = served.environment["TOLLWAY_DATABASE"]
    is_file = url.startswith("sqlite:")
    assert (f"<code>tollway operator link --database {url}</code>" in shown) is is_file
    assert is_file or "<code>tollway operator link</code>" in shown


@pytest.mark.sqlite
def test_a_world_that_was_not_finished_is_made_again(served: Served, tmp_path: Path) -> None:
    """As kills leave it: the file without its name, what was written down beside it, and the log of
    a file that was deleted since."""
    with closing(sqlite3.connect(tmp_path / "deleted.db")) as deleted:
        deleted.executescript("PRAGMA journal_mode = wal; CREATE TABLE left_over (id);")
        (tmp_path / "demo.db-wal").write_bytes((tmp_path / "deleted.db-wal").read_bytes())
    (tmp_path / "demo.db.unfinished").write_bytes(b"half a database")
    (tmp_path / "demo.db.demo.json").write_bytes((served.folder / "demo.db.demo.json").read_bytes())
    environment = {"TOLLWAY_DATABASE": "sqlite:///demo.db", "HOME": str(tmp_path)}
    made = run("tests.docs.lone_demo", "demo", "--json", cwd=tmp_path, env=environment)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["token"] != served.world["token"]
    assert not (tmp_path / "demo.db.unfinished").exists()
    audit = run(COMMAND, "audit", cwd=tmp_path, env=environment)
    assert audit.returncode == 0, audit.stdout


def test_what_was_loaded_is_shown_where_there_is_no_terminal(served: Served) -> None:
    shown = (served.folder / "log").read_text("utf-8") + served.second.stderr
    assert "Making the demo world: 25 %" in shown
    assert "Making the demo world: 100 %" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("days_ago", [0, 1])
def test_the_figures_of_a_day_add_up(served: Served, days_ago: int) -> None:
    whole = date.fromisoformat(served.world["query_date"])
    day = whole + timedelta(days=1 - days_ago)
    for product in PRODUCTS[:8]:
        found = served.analysis(product.id, day.isoformat())
        sources, series = found["trafficSource"], found["dateData"]["data"]
        assert sum(each["uvIndex"] for each in sources) == series["visitorNum"][-1]
        assert sum(each["payByrCntIndex"] for each in sources) == series["paidNum"][-1]
        ordered = sum(each["crtByrCntIndex"] for each in sources)
        if days_ago == 0:
            assert series["paidNum"][-1] <= found["payItmCnt"] <= ordered
            assert series["visitorNum"][-1] < 2 * max(series["visitorNum"])
        else:
            assert "payItmCnt" not in found


def test_yesterday_is_the_newest_day_that_is_promised(served: Served) -> None:
    today = datetime.now(ZONE).date()
    assert date.fromisoformat(served.world["query_date"]) in {
        today - timedelta(days=1),
        today - timedelta(days=2),  # It was made before midnight.
    }
    assert served.analysis(served.world["product_id"], served.world["query_date"])


def _materials(served: Served) -> list[dict[str, Any]]:
    found = []
    for promotion_id in (37104, 37116, 62191, 61809):
        body = {
            "promotion_id": promotion_id,
            "adzone_id": served.world["adzone_id"],
            "site_id": served.world["site_id"],
            "platform_user_id": served.world["platform_user_id"],
        }
        data = served.ask("POST", PROMOTION, json=body)
        found += data["affiliate_sc_optimus_promotion_response"]["result_list"]["map_data"]
    return found


def test_promotion_material_is_of_several_kinds_and_its_products_are_known(served: Served) -> None:
    materials = _materials(served)
    kinds = {(each["condition_type"], each["discount_type"]) for each in materials}
    assert kinds == {("1", "1"), ("2", "2")}
    benefits = [each["promotion_list"]["promotion_list"] for each in materials]
    assert {len(each) for each in benefits} == {1, 2, 3}
    products = {
        str(item["item_id"])
        for each in materials
        for item in each["promotion_extend"]["recommend_item_list"]["recommend_item_list"]
    } | {each["promotion_extend"]["youjia_coupon_info"]["item_id"] for each in materials} - {""}
    assert len(products) > 5
    for product_id in products:
        assert served.analysis(product_id, served.world["query_date"])["itemId"] == product_id


def test_every_picture_and_link_opens(served: Served) -> None:
    materials = _materials(served)
    shown = served.analysis(PRODUCTS[1].id, served.world["query_date"])
    pictures = {each["shop_picture_url"] for each in materials} | {shown["pic"]}
    links = set()
    for each in materials:
        extension = each["promotion_extend"]
        links |= {extension["promotion_url"], extension["youjia_coupon_info"]["url"]} - {""}
        links |= {item["url"] for item in extension["recommend_item_list"]["recommend_item_list"]}
    assert len(links) > 20
    # Of each kind some, and always the same.
    kinds: dict[str, list[str]] = {path: [] for path in (COUPON_PATH, BUY_PATH, ITEM_PATH)}
    for url in sorted(links):
        kinds[urlsplit(url).path].append(url)
    assert all(kinds.values())
    for url in [*pictures, *(url for urls in kinds.values() for url in urls[:15])]:
        assert url.startswith(f"{served.address}/demo/"), url
        answer = httpx.get(url, timeout=60)
        assert answer.status_code == 200, url
        if url in pictures:
            assert Image.open(io.BytesIO(answer.content)).size == (400, 400)
        else:
            assert urlsplit(url).query.rpartition("pid=")[2] in answer.text


def test_an_order_shows_a_product_that_is_known_with_its_picture(served: Served) -> None:
    form = {"owner_id": (None, served.world["owner_id"]), "pageSize": (None, "50")}
    orders = served.ask("POST", "/papi/tool/erps/paging-orders", files=form)["content"]
    titles = {each.title: each for each in PRODUCTS}
    for order in orders:
        product = titles[f"{order['goods_name']} {order['goods_spec']}"]
        assert urlsplit(order["goods_img"]).path == product.picture_path
    assert httpx.get(orders[0]["goods_img"], timeout=60).status_code == 200


@pytest.mark.sqlite
def test_a_world_that_cannot_be_stored_is_one_error_and_no_warning(tmp_path: Path) -> None:
    target: DemoTarget | None = None

    async def work(database: Database) -> None:
        nonlocal target
        sealer = Sealer({1: bytes(32)}, 1)
        target = DemoTarget(
            database, sealer, day_start_s(date(2026, 3, 10), ZONE), ZONE, "http://a"
        )

    Store(tmp_path / "tollway.db").do(work)
    assert target is not None, "and its database is closed"
    for changes in ({}, {"is_sandbox": True, "made_days_ago": 1, "made_site": "http://b"}):
        with pytest.raises(StoreError):
            asyncio.run(fill_all(msgspec.structs.replace(target, **changes)))
        # What was begun and not awaited would be noted here.
        gc.collect()


@pytest.mark.parametrize("wp_code", ["YTO", "POSTB", "SF"])
def test_a_waybill_has_the_codes_of_its_place(served: Served, wp_code: str) -> None:
    def routing(**changes: str) -> dict[str, Any]:
        body = request(wp_code, owner_id=served.world["owner_id"], **changes)
        issued = served.ask("POST", WAYBILLS.path, json=body)
        assert issued["code"] == 1, issued["errorMsg"]
        found: dict[str, Any] = json.loads(issued["printData"])["data"]["routingInfo"]
        return found

    nanshan, futian = routing(receiver_town="南山区"), routing(receiver_town="福田区")
    for each in (nanshan, futian):
        # As people know Shenzhen's codes: they begin with its area code.
        assert re.fullmatch("755-[A-Z][0-9]{2}-[0-9]{2}", each["routeCode"])
        assert each["consolidation"]["name"] == "深圳集包"
        assert each["consolidation"]["code"].startswith("755")
    assert nanshan["routeCode"] != futian["routeCode"]
    chengdu = {"receiver_province": "四川省", "receiver_city": "成都市", "receiver_town": "武侯区"}
    assert routing(**chengdu)["routeCode"].startswith("028-")


@pytest.mark.sqlite
def test_today_has_orders_and_claims_up_to_this_minute() -> None:
    day = date(2026, 3, 10)
    noon_s = day_start_s(day, ZONE) + 12 * 3600

    def orders_at(now_s: float) -> dict[str, int]:
        made = orders_of(make_days(DEMO_SEED, 200_000, day - timedelta(days=1), now_s, ZONE))
        return {each.order_sn: each.confirm_ms for each in made}

    def claims_at(now_s: float) -> dict[str, int]:
        made = make_claims(DEMO_SEED, 1000, day - timedelta(days=1), now_s, ZONE)
        return {each.coupon_code: -each.newest_first * 1000 for each in made}

    for made_at in (orders_at, claims_at):
        by_noon, by_evening = made_at(noon_s), made_at(noon_s + 6 * 3600)
        assert noon_s * 1000 - 3_600_000 < max(by_noon.values()) <= noon_s * 1000
        assert by_noon.items() < by_evening.items()


def test_a_world_has_today_up_to_the_minute_it_is_made_or_continued(tmp_path: Path) -> None:
    store, day = Store(tmp_path / "tollway.db"), date(2026, 3, 10)
    noon_s = day_start_s(day, ZONE) + 12 * 3600

    def today_at(now_s: int, made_days_ago: int | None = None) -> list[int]:
        """How many orders, claims and visitors today has."""

        async def work(database: Database) -> None:
            target = DemoTarget(database, Sealer({1: bytes(32)}, 1), now_s, ZONE, "http://demo")
            target = msgspec.structs.replace(target, is_sandbox=True, made_days_ago=made_days_ago)
            await fill_all(target)

        store.do(work)
        begins_s = day_start_s(day, ZONE)
        counts = []
        for table, unit in (("shop_order", 1000), ("coupon_claim", 1)):
            of_today = f"FROM {table} WHERE newest_first <= {-begins_s * unit}"
            ((count, newest),) = store.run(f"SELECT count(*), min(newest_first) {of_today}")
            assert newest >= -now_s * unit, table
            counts.append(count)
        visitors = f"SELECT sum(visitors) FROM product_day WHERE day = {day_number(day)}"
        return [*counts, *store.run(visitors)[0]]

    by_noon = today_at(noon_s)
    by_night = today_at(noon_s + 12 * 3600 - 1, made_days_ago=0)
    assert all(0 < early < late for early, late in zip(by_noon, by_night, strict=True))


@pytest.mark.sqlite
def test_orders_have_fen_and_later_deadlines_where_they_are_pre_sold() -> None:
    day = date(2026, 3, 10)
    now_s = day_start_s(day, ZONE)
    days_made = make_days(DEMO_SEED, 200_000, day - timedelta(days=3), now_s, ZONE)
    made = [each.record for each in orders_of(days_made)]
    assert sum(each.pay_amount % 1 != 0 for each in made) > len(made) // 2
    days = {
        is_pre_sale: {
            (each.last_ship_time or 0) - each.confirm_time
            for each in made
            if each.is_pre_sale == is_pre_sale
        }
        for is_pre_sale in (False, True)
    }
    day_ms = 86_400_000
    assert days == {False: {2 * day_ms}, True: {7 * day_ms, 10 * day_ms, 15 * day_ms}}


@pytest.mark.sqlite
def test_rows_made_part_by_part_are_as_any_other() -> None:
    day, sealer = date(2026, 3, 10), Sealer({1: bytes(32)}, 1)
    now_s = day_start_s(day, ZONE) + 7 * 3600
    days = list(make_days(DEMO_SEED, 50_000, day - timedelta(days=9), now_s, ZONE))
    orders = orders_of(days)
    sealed = set()
    for order, row in zip(orders, RowMaker(sealer).rows(days), strict=True):
        plain = row_of(order.record, sealer)
        assert record_of(row, sealer) == order.record
        assert row._replace(sealed=b"", change_no=0) == plain._replace(sealed=b"")
        sealed.add(row.sealed)
    assert len(sealed) == len(orders)
    assert {order.day.status for order in orders} == {1, 2, 3}
    assert any(order.draw.note is not None for order in orders)


@pytest.mark.sqlite
def test_a_year_of_orders_is_exact_and_no_order_is_of_another_day_or_twice() -> None:
    last = date(2026, 3, 10)
    first = last - timedelta(days=364)
    end_s = day_start_s(last + timedelta(days=1), ZONE) - 1
    days = list(make_days(DEMO_SEED, 20_000, first, end_s, ZONE))
    orders = orders_of(days)
    assert len(orders) == 20_000
    assert len({(each.day.owner_id, each.order_sn) for each in orders}) == 20_000
    of_day = {
        f"{datetime.fromtimestamp(o.confirm_ms / 1000, ZONE):%y%m%d}" == o.order_sn[:6]
        for o in orders
    }
    assert of_day == {True}
    # Draws repeat after four weeks, and their times do not.
    assert len({(each.day.owner_id, each.confirm_ms % 86_400_000) for each in orders}) > 19_000


def orders_of(days: Iterable[MadeDay]) -> list[MadeOrder]:
    return [order for day in days for order in day.orders()]
