"""A header that cannot be sent is refused at once, with its name: no repetition would help."""

import json
from typing import Any

import httpx
import pytest

from tests.sdk.conftest import Run
from tollway_client import Client

pytestmark = pytest.mark.sqlite
_ANSWER = json.dumps({"code": 100, "msg": "", "msec": 1, "time": 1, "data": {}})
_WRONG: dict[str, dict[str, Any]] = {
    "a line break": {"X-Shop": "a\nb"},
    "not ASCII": {"X-Shop": "北山"},
    "a control character": {"X-Shop": "a\x7f"},
    "no name": {"": "a"},
    "a space in its name": {"X Shop": "a"},
}


@pytest.mark.parametrize("headers", [*_WRONG.values(), {"X-Shop": 5}, {"X-Shop": None}], ids=str)
def test_a_header_that_cannot_be_sent_is_refused_at_once(headers: dict[str, Any]) -> None:
    sent: list[httpx.Request] = []

    def answered(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, content=_ANSWER)

    http = httpx.Client(transport=httpx.MockTransport(answered))
    refused = pytest.raises(ValueError, match=r"^The header '.*' cannot be sent: ")
    with Client("t", "http://x", http=http) as client, refused as found:
        client.orders(owner_id="1", headers=headers)
    assert str(next(iter(headers))) in str(found.value)
    assert sent == []


@pytest.mark.parametrize("language", ["中文", "z\nh"])
def test_a_language_that_cannot_be_sent_is_refused_when_the_client_is_made(language: str) -> None:
    with pytest.raises(ValueError, match="'Accept-Language' cannot be sent"):
        Client("t", "http://x", language=language)


def test_headers_that_can_be_sent_are_sent() -> None:
    sent: list[httpx.Headers] = []

    def answered(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        return httpx.Response(200, content=_ANSWER)

    http = httpx.Client(transport=httpx.MockTransport(answered))
    with Client("t", "http://x", http=http, retries=0) as client:
        for value in ("", "a b", "a\tb", " a "):
            with pytest.raises(Exception, match="100"):
                client.orders(owner_id="1", headers={"X-Shop": value})
    # Spaces around a value are no part of it.
    assert [each["x-shop"] for each in sent] == ["", "a b", "a\tb", "a"]


def test_javascript_refuses_such_headers_too(run: Run) -> None:
    script = """
    let sent = 0;
    const fetch = async () => { sent += 1; return new Response(answer); };
    const options = { token: "t", baseUrl: "http://x", fetch };
    const client = new tollway.Client(options);
    const failure = async (work) => {
      try { await work(); return null; } catch (error) { return `${error.name}: ${error.message}`; }
    };
    for (const headers of wrong) {
      print(await failure(() => client.orders({ owner_id: "1" }, { headers })));
      print(await failure(() => client.account.balance({ headers })));
      print(await failure(() => client.iterOrders({ owner_id: "1" }, { headers }).next()));
      print(await failure(() =>
        client.iterCouponClaimsExport({ export_id: "1" }, { headers }).next()));
    }
    for (const language of ["中文", "z\\nh"])
      print(await failure(() => new tollway.Client({ ...options, language })));
    print(sent);
    const headers = { "X-Shop": " a b " };
    print(await failure(() => client.orders({ owner_id: "1" }, { headers })));
    print(sent);
    """
    *refused, before, fine, after = run(script, wrong=list(_WRONG.values()), answer=_ANSWER)
    assert len(refused) == 4 * len(_WRONG) + 2
    for each in refused:
        assert each.startswith("TypeError: The header '") and "cannot be sent: " in each
    assert before == 0
    assert fine.startswith("ParameterError") and after == 1
