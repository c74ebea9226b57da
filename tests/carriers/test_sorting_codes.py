"""Routing tables: the narrowest row counts, in every spelling of a place; a file that an operator
loads is checked line by line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import run
from tests.support.gateway import Gateway
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.carriers.divisions import ListedPlace, listed_place
from tollway.carriers.labels.print_data import Address, RoutingInfo
from tollway.carriers.sorting_codes import RouteError, find_routing, put_routes, read_route

SENDER = Address("浙江省", "杭州市", "余杭区", "文一西路 969 号")


def _found(store: Store, wp_code: str, *place: str) -> RoutingInfo:
    return store.do(
        lambda database: find_routing(database, wp_code, SENDER, Address(*place, "某路 1 号"))
    )


def test_the_narrowest_row_counts_in_every_spelling(store: Store) -> None:
    wp_code = new_carrier(store, 1)
    rows = [
        {"省": "广东", "三段码": "700-A00-01"},
        {"province": "广东省", "city": "深圳", "route_code": "755-A00-01", "consolidation": "深圳"},
        {
            "province": "广东省",
            "city": "深圳市",
            "district": "南山",
            "route_code": "755-A12-03",
            "consolidation": "深圳集包",
            "consolidation_code": "755A",
        },
        {"省": "北京市", "市": "市辖区", "区县": "朝阳区", "三段码": "010-A03-01"},
    ]
    routes = [read_route(row) for row in rows]
    store.do(lambda database: put_routes(database, wp_code, routes))
    narrow = _found(store, wp_code, "广东", "深圳", "南山区")
    assert narrow.route_code == "755-A12-03"
    assert (narrow.consolidation.name, narrow.consolidation.code) == ("深圳集包", "755A")
    assert _found(store, wp_code, "广东省", "深圳市", "福田区").route_code == "755-A00-01"
    assert _found(store, wp_code, "广东省", "广州市", "天河区").route_code == "700-A00-01"
    assert _found(store, wp_code, "北京", "北京市", "朝阳").route_code == "010-A03-01"
    unknown = _found(store, wp_code, "浙江省", "杭州市", "西湖区")
    assert (unknown.route_code, unknown.consolidation.code) == ("杭州市 西湖区", "")
    other = new_carrier(store, 1)
    assert _found(store, other, "广东", "深圳", "南山区").route_code == "深圳 南山区"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"province": "广东"}, "route_code is missing"),
        ({"route_code": "1"}, "province is missing"),
        ({"province": "火星", "route_code": "1"}, "no such province"),
        ({"province": "广东", "city": "杭州", "route_code": "1"}, "no such city"),
        ({"province": "广东", "city": "深圳", "district": "火星", "route_code": "1"}, "district"),
        ({"province": "广东", "district": "南山", "route_code": "1"}, "no city"),
        ({"province": "广东", "route_code": "1" * 25}, "longer than 24"),
    ],
)
def test_a_row_that_cannot_be_used_says_why(row: dict[str, object], problem: str) -> None:
    with pytest.raises(RouteError, match=problem):
        read_route(row)


def test_a_county_that_is_sent_as_the_city_is_a_district() -> None:
    assert listed_place("江苏", "昆山市", "玉山镇") == ListedPlace("江苏省", "苏州市", "昆山市")


def test_an_operator_loads_a_file_and_the_next_waybill_has_its_codes(
    store: Store, gateway: Gateway, tmp_path: Path
) -> None:
    def routes(*arguments: str) -> Any:
        return run(
            *("tollway", "carrier", "routes", wp_code, *arguments), cwd=tmp_path, env=store.settings
        )

    wp_code, customer = new_carrier(store, 5), new_customer(store)
    assert "no routing table" in routes().stdout
    # As Excel writes it in China.
    lines = "省,市,区县,三段码,集包地,集包码\n广东,深圳,南山,755-A12-03,深圳集包,755A\n火星,,,1,,\n"
    (tmp_path / "routes.csv").write_bytes(lines.encode("gbk"))
    loaded = routes("routes.csv")
    assert loaded.returncode == 1, loaded.stderr
    assert "Rows stored: 1, rejected: 1." in loaded.stdout
    assert "Line 3: there is no such province" in loaded.stdout
    assert "火星" in (tmp_path / "routes.csv.rejected.jsonl").read_text("utf-8")
    body = request(wp_code, goods_name="纯棉四件套", weight_g="1250")
    data = json.loads(issue(gateway, customer.token, body).data["printData"])["data"]
    assert data["routingInfo"]["routeCode"] == "755-A12-03"
    assert data["routingInfo"]["consolidation"] == {"name": "深圳集包", "code": "755A"}
    assert data["parcel"] == {"goodsName": "纯棉四件套", "weightG": 1250}
    assert data["issuedAtS"] > 0

    (tmp_path / "others.jsonl").write_text('{"省": "浙江", "三段码": "571-A01-01"}\n', "utf-8")
    assert routes("others.jsonl").returncode == 0
    assert [each["province"] for each in json.loads(routes("--json").stdout)] == [
        "广东省",
        "浙江省",
    ]
    assert routes("others.jsonl", "--replace").returncode == 0
    (left,) = json.loads(routes("--json").stdout)
    assert (left["province"], left["city"], left["route_code"]) == ("浙江省", "", "571-A01-01")
    (tmp_path / "wrong.csv").write_text("省,三段码\n火星,1\n", "utf-8")
    refused = routes("wrong.csv", "--replace")
    assert refused.returncode == 1 and "stays as it was" in refused.stderr
    assert len(json.loads(routes("--json").stdout)) == 1
    assert routes("missing.csv").returncode == 1
    small = run(
        *("tollway", "carrier", "routes", wp_code.lower(), "--json"),
        cwd=tmp_path,
        env=store.settings,
    )
    assert len(json.loads(small.stdout)) == 1, small.stderr
    assert "neither .csv" in routes("routes.txt").stderr
    trail = run("tollway", "trail", "show", cwd=tmp_path, env=store.settings).stdout
    assert "carrier routes" in trail
