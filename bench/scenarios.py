"""What is asked: each operation, and each kind of refusal, as the requests of a load."""

import json
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import NamedTuple
from urllib.parse import urlencode

from bench.load import NUMBER
from bench.world import World
from tests.support.waybills import request as waybill_request
from tollway.demo.owners import ADZONE_ID, SHOP, SITE_ID, USER
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL
from tollway.operations.waybills.demo import WP_CODE
from tollway.operations.waybills.operation import WAYBILLS

CLAIM_SID, CLAIM_TYPE = SIDS[0], 4
PROMOTIONS = (37104, 37116, 62191, 61809)
PAGE = 20
# Answers are kept for these; the others are asked for so seldom that each is made from its rows.
_READY_PRODUCTS = 8
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


class Amounts(NamedTuple):
    """How many pages the lists of a world have."""

    orders: int
    claims: int


class Scenario(NamedTuple):
    """A kind of call, and its requests in the order in which they are sent."""

    name: str
    title: str
    status: int
    requests: Callable[[World, Amounts], list[bytes]]


def request(
    method: str, path: str, token: str, body: bytes | None = None, content_type: str = ""
) -> bytes:
    """The bytes of a request, as a client with a connection of its own sends them."""
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {token}"]
    if body is not None:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def analysis(token: str, product_id: str, day: str) -> bytes:
    query = urlencode({"product_id": product_id, "query_date": day})
    return request("GET", f"{PRODUCT_ANALYSIS.path}?{query}", token)


def orders(token: str, page: int, size: int = PAGE, **filters: object) -> bytes:
    fields = {"owner_id": SHOP.id, "page": page, "pageSize": size, **filters}
    return request("POST", ORDERS.path, token, urlencode(fields).encode(), _FORM)


def claims(world: World, page: int, limit: int = PAGE) -> bytes:
    fields = {
        "startTime": world.claims_from_s,
        "endTime": world.claims_until_s,
        "page": page,
        "limit": limit,
        "sid": CLAIM_SID,
        "type": CLAIM_TYPE,
    }
    body = urlencode(fields).encode()
    return request("POST", COUPON_CLAIMS.path, world.tokens.paying, body, _FORM)


def materials(token: str, promotion_id: int, page: int) -> bytes:
    fields = {
        "adzone_id": ADZONE_ID,
        "site_id": SITE_ID,
        "promotion_id": promotion_id,
        "platform_user_id": int(USER.id),
        "page_num": page,
    }
    return request("POST", PROMOTION_MATERIAL.path, token, json.dumps(fields).encode(), _JSON)


def waybill(token: str, order_sn: str) -> bytes:
    fields = waybill_request(WP_CODE, order_sn=order_sn)
    body = json.dumps(fields, ensure_ascii=False).encode()
    return request("POST", WAYBILLS.path, token, body, _JSON)


def product_days(world: World) -> list[tuple[str, str]]:
    """Every product on every day whose 30 days are all known, another product with each."""
    days = range(1, max(2, world.size.figure_days - 30))
    return [
        (product_id, (world.today - timedelta(days=back)).isoformat())
        for back in days
        for product_id in world.product_ids
    ]


def _ready(world: World, _: Amounts) -> list[bytes]:
    token, chosen = world.tokens.paying, product_days(world)[:_READY_PRODUCTS]
    return [analysis(token, *each) for each in chosen]


def _from_rows(world: World, _: Amounts) -> list[bytes]:
    return [analysis(world.tokens.paying, *each) for each in product_days(world)]


def _shuffled(pages: int) -> list[int]:
    numbers = list(range(pages))
    Random(7).shuffle(numbers)
    return numbers


def _order_pages(world: World, amounts: Amounts) -> list[bytes]:
    return [orders(world.tokens.paying, page) for page in _shuffled(amounts.orders)]


def _claim_pages(world: World, amounts: Amounts) -> list[bytes]:
    return [claims(world, page + 1) for page in _shuffled(amounts.claims)]


def _materials(world: World, _: Amounts) -> list[bytes]:
    token = world.tokens.paying
    return [materials(token, promotion, page) for promotion in PROMOTIONS for page in (1, 2)]


def _waybills(world: World, _: Amounts) -> list[bytes]:
    return [waybill(world.tokens.paying, f"SN{NUMBER.decode()}")]


def _refused(kind: str) -> Callable[[World, Amounts], list[bytes]]:
    def requests(world: World, _: Amounts) -> list[bytes]:
        token = getattr(world.tokens, kind)
        return [analysis(token, *each) for each in product_days(world)[:_READY_PRODUCTS]]

    return requests


SCENARIOS = (
    Scenario("analysis_ready", "product analysis, kept ready", 200, _ready),
    Scenario("analysis_rows", "product analysis, from rows", 200, _from_rows),
    Scenario("orders", "page of 20 orders, random pages", 200, _order_pages),
    Scenario("claims", "20 coupon claims, random pages", 200, _claim_pages),
    Scenario("materials", "10 promotion materials", 200, _materials),
    Scenario("waybills", "waybill from a pool", 200, _waybills),
    Scenario("refused_401", "refused with 401, token revoked", 401, _refused("revoked")),
    Scenario("refused_202", "refused with 202, over the limit", 429, _refused("limited")),
    Scenario("refused_204", "refused with 204, used up", 402, _refused("spent")),
)
