"""A loop that has begun waits longer for a gateway that restarts: ending would lose what was read,
or have it paid again."""

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.sdk.conftest import Run
from tollway_client import Client, TollwayError

pytestmark = pytest.mark.sqlite
_SLOT: dict[str, Any] = {"promotion_id": 1, "platform_user_id": 2, "site_id": 3, "adzone_id": 4}
_MATERIAL = {
    **dict.fromkeys(("promotion_type", "condition_type", "discount_type", "seller_id"), "1"),
    **dict.fromkeys(("display_start_time", "display_end_time", "shop_title"), "1"),
    "shop_picture_url": "",
    "total_count": 1,
    "remain_count": 1,
    "promotion_list": {"promotion_list": []},
    "promotion_extend": {
        "recommend_item_list": {"recommend_item_list": []},
        "promotion_url": "",
        "youjia_coupon_info": {"item_id": "", "url": ""},
    },
}


def _page(first: int, count: int) -> str:
    records = [{**_MATERIAL, "nick": str(first + n)} for n in range(count)]
    found = {"result_list": {"map_data": records}}
    data = {"withholding_money": 1, "affiliate_sc_optimus_promotion_response": found}
    return json.dumps({"code": 0, "msg": "Success", "msec": 1, "time": 1, "data": data})


_PAGES = [_page(0, 10), _page(10, 3)]
# What a restart takes at most, in attempts that fail.
_DOWN = [""] * 8


class _Gateway:
    """Gives its answers one after the other; an empty one is no answer."""

    def __init__(self, *answers: str) -> None:
        self._answers: Iterator[str] = iter(answers)
        self.asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        answer = next(self._answers)
        if not answer:
            raise httpx.ConnectError("down", request=request)
        return httpx.Response(200, content=answer)

    def client(self, **options: Any) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client("t", "http://x", http=http, **options)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("tollway_client._drivers.time.sleep", found.append)
    return found


def test_a_loop_outlasts_a_restart_of_the_gateway(waits: list[float]) -> None:
    gateway = _Gateway(_PAGES[0], *_DOWN, _PAGES[1])
    with gateway.client() as client:
        found = [each.nick for each in client.iter_promotion_material(**_SLOT)]
    assert found == [str(n) for n in range(13)]
    assert 30 < sum(waits) < 90


@pytest.mark.parametrize(
    ("retries", "begun", "asked"), [(4, False, 5), (4, True, 10), (0, True, 2)]
)
def test_a_loop_that_has_not_begun_ends_as_soon_as_a_call(
    waits: list[float], retries: int, begun: bool, asked: int
) -> None:
    gateway = _Gateway(*_PAGES[:begun], *_DOWN, "")
    with gateway.client(retries=retries) as client, pytest.raises(TollwayError):
        list(client.iter_promotion_material(**_SLOT))
    assert gateway.asked == asked


def _file(*codes: str) -> bytes:
    names = ("couponTime", "money", "minUseMoney", "couponName", "couponType")
    record = dict.fromkeys((*names, "beginTime", "endTime", "appKey", "sid"), "1")
    lines = [json.dumps({**record, "couponCode": each}) + "\n" for each in codes]
    return gzip.compress("".join(lines).encode())


def test_a_file_that_has_begun_outlasts_a_restart_too(waits: list[float]) -> None:
    # The first breaks off before its end.
    bodies = iter([_file("a")[:-4], *[b""] * 7, _file("b")])
    after: list[str | None] = []

    def answered(request: httpx.Request) -> httpx.Response:
        after.append(request.url.params.get("after"))
        body = next(bodies)
        if not body:
            raise httpx.ConnectError("down", request=request)
        headers = {"content-type": "application/gzip"}
        return httpx.Response(200, stream=httpx.ByteStream(body), headers=headers)

    http = httpx.Client(transport=httpx.MockTransport(answered))
    with Client("t", "http://x", http=http) as client:
        found = [each.couponCode for each in client.iter_coupon_claims_export(export_id="1")]
    assert found == ["a", "b"]
    assert after == [None, *["a"] * 8]
    assert sum(waits) > 30


def test_javascript_is_as_patient(run: Run) -> None:
    script = """
    let waited = 0;
    const soon = setTimeout;
    globalThis.setTimeout = (work, ms) => { waited += ms; return soon(work, 0); };
    const loop = async (answers, retries) => {
      let asked = 0;
      const fetch = async () => {
        asked += 1;
        const answer = answers[asked - 1];
        if (!answer) throw new TypeError("fetch failed");
        return new Response(answer);
      };
      const client = new tollway.Client({ token: "t", baseUrl: "http://x", fetch, retries });
      const found = [];
      try { for await (const each of client.iterPromotionMaterial(slot)) found.push(each.nick); }
      catch (error) { return [error.name, asked]; }
      return [found.length, asked];
    };
    print(await loop([pages[0], ...down, pages[1]], 4));
    print(waited > 30000 && waited < 90000);
    print(await loop([...down, ""], 4));
    print(await loop([pages[0], ...down, ""], 4));
    print(await loop([pages[0], ...down, ""], 0));
    """
    whole, in_time, *ended = run(script, pages=_PAGES, down=_DOWN, slot=_SLOT)
    assert whole == [13, 10] and in_time
    assert ended == [["TransportError", 5], ["TransportError", 10], ["TransportError", 2]]


def test_a_file_in_javascript_outlasts_a_restart_too(run: Run) -> None:
    script = """
    const soon = setTimeout;
    globalThis.setTimeout = (work, ms) => soon(work, ms === 30000 ? ms : 0);
    const after = [];
    const fetch = async (url) => {
      after.push(new URL(url).searchParams.get("after"));
      if (after.length > 1 && after.length < 9) throw new TypeError("fetch failed");
      const body = Buffer.from(bodies[after.length === 1 ? 0 : 1], "base64");
      return new Response(body, { headers: { "content-type": "application/gzip" } });
    };
    const client = new tollway.Client({ token: "t", baseUrl: "http://x", fetch });
    const found = [];
    for await (const each of client.iterCouponClaimsExport({ export_id: "1" }))
      found.push(each.couponCode);
    print(found);
    print(after);
    """
    bodies = [base64.b64encode(each).decode() for each in (_file("a")[:-4], _file("b"))]
    found, after = run(script, bodies=bodies)
    assert found == ["a", "b"]
    assert after == [None, *["a"] * 8]
