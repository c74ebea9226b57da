"""What the packages make of answers that no gateway sends, and of what cannot be sent."""

import asyncio
import json
import pickle
from datetime import date, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

import tollway_client
from tests.sdk.conftest import Run
from tollway_client import AsyncClient, Client, RefusedError, TollwayError, __version__, errors

pytestmark = pytest.mark.sqlite
_PAGE: dict[str, Any] = {"code": 0, "msg": "Success", "msec": 1, "time": 1, "data": {}}
_BUSY = {**_PAGE, "code": 202}
_WAYBILL = (
    *("owner_id", "order_sn", "wp_code", "waybill_type", "sender_name", "sender_mobile"),
    *("sender_province", "sender_city", "sender_town", "sender_detail", "receiver_province"),
    *("receiver_city", "receiver_town", "receiver_address", "receiver_phone", "receiver_name"),
)
_NONE = dict.fromkeys(("orderSn", "waybillCode", "parentWaybillCode", "printData"))
_REFUSED = {
    **_PAGE,
    "data": {**_NONE, "objectId": "1", "code": 0, "errorMsg": "frozen", "withholding_money": 0},
}


class _Answers:
    """Gives the same answer each time, and notes the keys that were sent."""

    def __init__(self, content: Any, status: int = 200, **headers: str) -> None:
        self._content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._status, self._headers = status, headers
        self.keys: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers["idempotency-key"])
        return httpx.Response(self._status, headers=self._headers, content=self._content)

    def client(self, **options: Any) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client("t", "http://gateway.example", http=http, **options)

    def failure(self, **options: Any) -> TollwayError:
        with self.client(**options) as client, pytest.raises(TollwayError) as found:
            client.orders(owner_id="1")
        return found.value


@pytest.mark.parametrize(
    "content",
    [
        {**_PAGE, "data": None},
        {**_PAGE, "data": []},
        {**_PAGE, "data": {"content": 5}},
        {"code": 0, "msg": "Success", "data": {}},
        {**_PAGE, "code": "0"},
        b"[" * 100_000,
    ],
)
def test_json_that_is_not_the_answer_is_an_error_of_the_package(content: Any) -> None:
    assert isinstance(_Answers(content).failure(retries=0), errors.UnexpectedAnswerError)


def test_a_redirect_is_not_followed_and_says_where_it_leads() -> None:
    moved = _Answers(b"", 301, location="https://gateway.example/papi")
    assert "redirects to https://gateway.example/papi" in str(moved.failure())


@pytest.mark.parametrize(("content", "status"), [(_BUSY, 200), (b"<html>", 503)])
def test_a_call_waits_a_minute_at_most(content: Any, status: int) -> None:
    answers = _Answers(content, status, **{"retry-after": "61"})
    error: Any = answers.failure()
    assert error.retry_after_s == 61 and len(answers.keys) == 1


def test_a_call_waits_as_long_as_a_proxy_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("tollway_client._drivers.time.sleep", waits.append)
    answers = _Answers(b"<html>", 503, **{"retry-after": "7"})
    answers.failure(retries=2)
    assert waits == [7.0, 7.0] and len(set(answers.keys)) == 1


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        ("Tue, 17 Nov 2026 20:00:09 GMT", [9.0, 9.0]),
        ("Tuesday, 17-Nov-26 20:00:09 GMT", [9.0, 9.0]),
        # What is over, or says nothing, leaves the usual wait.
        ("Tue, 17 Nov 2026 19:00:00 GMT", []),
        ("soon", []),
    ],
)
def test_a_proxy_may_ask_for_a_moment_by_its_own_clock(
    monkeypatch: pytest.MonkeyPatch, asked: str, waits: list[float]
) -> None:
    found: list[float] = []
    monkeypatch.setattr("tollway_client._drivers.time.sleep", found.append)
    headers = {"date": "Tue, 17 Nov 2026 20:00:00 GMT", "retry-after": asked}
    _Answers(b"<html>", 503, **headers).failure(retries=2)
    assert [wait for wait in found if wait > 2] == waits


def test_a_moment_that_is_far_away_is_not_waited_for() -> None:
    answers = _Answers(b"<html>", 503, **{"retry-after": "Thu, 31 Dec 2099 23:59:59 GMT"})
    error: Any = answers.failure()
    assert error.retry_after_s > 60 and len(answers.keys) == 1


@pytest.mark.parametrize("address", ["http://x/papi/tool", "http://x/papi/tool/", "http://x/papi"])
def test_an_address_with_the_path_of_operations_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="the gateway's alone"):
        Client("t", address)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 13),  # noqa: DTZ001 - what is tested
        date(2026, 11, 13),
        "2026-11-13",
    ],
)
def test_a_loop_over_claims_takes_no_time_whose_zone_it_would_have_to_guess(moment: Any) -> None:
    answers = _Answers(_PAGE)
    with answers.client() as client, pytest.raises(ValueError, match=r"startTime: .* its zone"):
        list(client.iter_coupon_claims(startTime=moment, endTime=1794700000, sid="1", type=4))
    assert answers.keys == []


def test_the_help_of_a_loop_over_claims_is_that_of_the_loop() -> None:
    text = " ".join((Client.iter_coupon_claims.__doc__ or "").split())
    assert "a time with its zone" in text and "At most 7 days" not in text


@pytest.mark.parametrize("token", ["", "tw_test_…", "a\nb", "Bearer tw_test_1", None])
def test_what_is_no_token_is_refused_before_it_is_sent(token: Any) -> None:
    with pytest.raises(ValueError, match="copy all of it, without Bearer"):
        Client(token, "http://gateway.example")


@pytest.mark.parametrize("address", ["", "gateway.example", None])
def test_what_is_no_address_is_refused_with_one_that_is(address: Any) -> None:
    with pytest.raises(ValueError, match=r"such as https://gateway\.example"):
        Client("t", address)


def test_every_error_can_be_imported_from_the_package() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, TollwayError)
    }
    assert {name: getattr(tollway_client, name) for name in kinds} == kinds
    assert kinds.keys() <= set(tollway_client.__all__)


def test_an_error_has_the_key_with_which_the_call_can_be_repeated() -> None:
    answers = _Answers(b"<html>", 502)
    assert [answers.failure(retries=0).idempotency_key] == answers.keys


def test_the_error_of_a_carrier_that_refuses_has_the_key_too() -> None:
    values: dict[str, Any] = dict.fromkeys(_WAYBILL, "1")
    answers = _Answers(_REFUSED)
    for key in (None, "mine"):
        with answers.client() as client, pytest.raises(errors.CarrierRefusedError) as found:
            client.issue_waybill(**values, idempotency_key=key)
        assert found.value.idempotency_key == answers.keys[-1]
        again = pickle.loads(pickle.dumps(found.value))
        assert again.idempotency_key == answers.keys[-1]
    assert answers.keys[-1] == "mine"


@pytest.mark.parametrize("content", [{**_PAGE, "code": 302}, b"<html>"])
def test_an_error_can_be_handed_to_another_process(content: Any) -> None:
    error = _Answers(content).failure(retries=0)
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("key", ["订单-1", ""], ids=["not ASCII", "empty"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    """An empty one too, such as a variable that is not set: a repetition would be paid again."""
    answers = _Answers(_PAGE)
    with answers.client() as client, pytest.raises(ValueError, match="printable ASCII"):
        client.orders(owner_id="1", idempotency_key=key)
    assert answers.keys == []


def test_a_loop_over_a_backward_window_is_refused_and_not_empty() -> None:
    client = _Answers({**_PAGE, "code": 100}).client()
    with client, pytest.raises(errors.ParameterError):
        list(client.iter_coupon_claims(startTime=20, endTime=10, sid="1", type=4))


def _materials() -> list[str]:
    """Two pages, as answers. When the second is asked for, a material has arrived, which moved the
    last one of the first page down, and of that one some were claimed."""
    extend = {"recommend_item_list": {"recommend_item_list": []}, "promotion_url": ""}
    record = {
        **dict.fromkeys(("promotion_type", "condition_type", "discount_type", "seller_id"), "1"),
        **dict.fromkeys(("display_start_time", "display_end_time", "nick", "shop_title"), "1"),
        "shop_picture_url": "",
        "total_count": 100,
        "promotion_list": {"promotion_list": []},
        "promotion_extend": {**extend, "youjia_coupon_info": {"item_id": "", "url": ""}},
    }
    first = [{**record, "nick": str(n), "remain_count": 50} for n in range(10)]
    # The last differs from the one before it in its stock at first alone.
    fresh = {**record, "nick": "10", "remain_count": 50}
    second = [{**first[9], "remain_count": 49}, fresh, {**fresh, "total_count": 200}]
    return [
        json.dumps(
            {
                **_PAGE,
                "data": {
                    "withholding_money": 1,
                    "affiliate_sc_optimus_promotion_response": {"result_list": {"map_data": page}},
                },
            }
        )
        for page in (first, second)
    ]


_SLOT: dict[str, Any] = {"promotion_id": 1, "platform_user_id": 2, "site_id": 3, "adzone_id": 4}


def test_a_material_of_which_some_were_claimed_meanwhile_is_given_once(run: Run) -> None:
    pages = iter(_materials())
    answering = httpx.MockTransport(lambda _: httpx.Response(200, content=next(pages)))
    with Client("t", "http://x", http=httpx.Client(transport=answering)) as client:
        found = [each.nick for each in client.iter_promotion_material(**_SLOT)]
    script = """
    const fetch = async () => new Response(pages.shift());
    const client = new tollway.Client({ token: "t", baseUrl: "http://x", fetch });
    const found = [];
    for await (const each of client.iterPromotionMaterial(slot)) found.push(each.nick);
    print(found);
    """
    assert [found] == run(script, pages=_materials(), slot=_SLOT)
    assert found == [*(str(n) for n in range(11)), "10"]


def test_javascript_does_the_same(run: Run) -> None:
    script = """
    const ask = async (content, status = 200, headers = {}, retries = 4) => {
      const keys = [];
      const fetch = async (_, init) => {
        keys.push(init.headers["Idempotency-Key"]);
        return new Response(content, { status, headers });
      };
      const options = { token: "t", baseUrl: "http://x", fetch, retries };
      try { return await new tollway.Client(options).orders({ owner_id: "1" }); }
      catch (error) {
        const { name, message, retryAfterS, idempotencyKey } = error;
        return [name, message, retryAfterS, keys.length, keys[0] === idempotencyKey];
      }
    };
    const page = { code: 0, msg: "Success", msec: 1, time: 1, data: {} };
    const with_ = (changed) => JSON.stringify({ ...page, ...changed });
    print(await ask(with_({ data: null })));
    print(await ask(with_({ data: [] })));
    print(await ask(with_({ code: "0" })));
    print(await ask("", 301, { location: "https://gateway.example/papi" }));
    print(await ask(with_({ code: 202 }), 200, { "retry-after": "61" }));
    print(await ask("<html>", 503, { "retry-after": "3600" }));
    print(await ask("<html>", 503, { date: "Tue, 17 Nov 2026 20:00:00 GMT",
      "retry-after": "Tue, 17 Nov 2026 20:02:00 GMT" }));
    const fetch = async () => new Response(with_({ code: 100 }));
    const client = new tollway.Client({ token: "t", baseUrl: "http://x", fetch });
    const backward = { startTime: 20, endTime: 10, sid: "1", type: 4 };
    try { print(await client.iterCouponClaims(backward).next()); }
    catch (error) { print(error.name); }
    const refusing = new tollway.Client(
      { token: "t", baseUrl: "http://x",
        fetch: async () => new Response(refusal, { headers: { "x-request-id": "r1" } }) });
    try { await refusing.issueWaybill({ owner_id: "1" }, { idempotencyKey: "mine" }); }
    catch (error) { print([error.name, error.idempotencyKey, error.message.slice(-13)]); }
    """
    *found, backward, refused = run(script, refusal=json.dumps(_REFUSED))
    assert refused == ["CarrierRefusedError", "mine", " (request r1)"]
    assert backward == "ParameterError"
    names = [name for name, *_ in found]
    assert names == [
        *["UnexpectedAnswerError"] * 4,
        *["RetryLaterError", "UnavailableError", "UnavailableError"],
    ]
    assert "redirects to https://gateway.example/papi" in found[3][1]
    # Without the header that names the reason.
    assert found[4][1] == "202: Success (request )"
    assert [each[2] for each in found[4:]] == [61, 3600, 120]
    assert all(each[3:] == [1, True] for each in found)


def test_javascript_refuses_at_once_what_cannot_be_sent(run: Run) -> None:
    script = """
    const failure = async (work) => {
      try { await work(); return null; } catch (error) { return `${error.name}: ${error.message}`; }
    };
    for (const token of ["", "tw_test_…", "a\\nb", "Bearer t"]) {
      print(await failure(() => new tollway.Client({ token, baseUrl: "http://x" })));
    }
    print(await failure(() => new tollway.Client({ token: "t", baseUrl: "gateway.example" })));
    print(await failure(() => new tollway.Client({ token: "t", baseUrl: "http://x/papi/tool/" })));
    const sent = [];
    const fetch = async (_, init) => { sent.push(init.body); return new Response("{}"); };
    const client = new tollway.Client({ token: "t", baseUrl: "http://x", fetch });
    const slot = { site_id: 1, adzone_id: 2, promotion_id: 3 };
    print(await failure(() =>
      client.promotionMaterial({ ...slot, platform_user_id: 734567890123456789 })));
    for (const idempotencyKey of ["订单-1", ""])
      print(await failure(() => client.orders({ owner_id: "1" }, { idempotencyKey })));
    await failure(() =>
      client.promotionMaterial({ ...slot, platform_user_id: 734567890123456789n }));
    await failure(() => client.issueWaybills({ waybills: [{ waybill_type: 1n }] }));
    print(sent);
    const { getEventListeners } = await import("node:events");
    const { signal } = new AbortController();
    for (const _ of [1, 2]) await failure(() => client.orders({ owner_id: "1" }, { signal }));
    print(getEventListeners(signal, "abort").length);
    """
    *tokens, address, path, rounded, foreign, empty, sent, listeners = run(script)
    assert all("1 to 255 printable ASCII characters" in each for each in (foreign, empty))
    assert all("The token is empty or not whole" in each for each in tokens)
    assert all("copy all of it, without Bearer" in each for each in tokens)
    assert "The address must begin with https://" in address
    assert "the gateway's alone" in path
    assert rounded.startswith("RangeError: platform_user_id")
    assert [json.loads(each) for each in sent] == [
        {"site_id": 1, "adzone_id": 2, "promotion_id": 3, "platform_user_id": "734567890123456789"},
        {"waybills": [{"waybill_type": "1"}]},
    ]
    assert listeners == 0


class _Echo(BaseHTTPRequestHandler):
    """Refuses every call with the User-Agent that it was sent with."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        envelope = {
            "code": 401,
            "msg": self.headers["User-Agent"],
            "msec": 1,
            "time": 1,
            "data": {},
        }
        body = json.dumps(envelope).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_the_package_names_itself_and_its_version() -> None:
    mine = {"user-agent": "mine"}
    with HTTPServer(("127.0.0.1", 0), _Echo) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        said = []
        for http, headers in ((None, None), (None, mine), (httpx.Client(headers=mine), None)):
            with Client("t", url, http=http) as client, pytest.raises(RefusedError) as refused:
                client.orders(owner_id="1", headers=headers)
            said.append(refused.value.message)

        async def one() -> None:
            async with AsyncClient("t", url) as client:
                await client.orders(owner_id="1")

        with pytest.raises(RefusedError) as refused:
            asyncio.run(one())
        server.shutdown()
    assert said == [f"tollway-client-python/{__version__}", "mine", "mine"]
    assert refused.value.message == said[0]
