"""Chinese pages have Chinese punctuation, also where code puts texts together."""

import html
import re

import pytest

from tests.support.browsers import Browser
from tests.support.consent import allow, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.carriers.carriers import AreaKind, ServiceArea

_WESTERN = re.compile(r"[一-鿿][,:;] |[,:;] [一-鿿]|[。，：；、]\s+[一-鿿\d]")


@pytest.fixture
def reader(operator: Browser) -> Browser:
    operator.client.headers["Accept-Language"] = "zh-CN"
    return operator


def _text(browser: Browser, path: str) -> str:
    """What a page says, without its markup and what is code."""
    page = re.sub("(?s)<(script|style|pre|code)\\b.*?</\\1>", "", browser.open(path).text)
    return html.unescape(re.sub("<[^>]+>", "|", page))


def _western(text: str) -> list[str]:
    return [text[max(0, each.start() - 20) : each.end() + 20] for each in _WESTERN.finditer(text)]


def test_what_operators_did_is_listed_with_chinese_punctuation(
    reader: Browser, caller: Caller
) -> None:
    account = f"/operator/account/tokens?id={caller.account_id}"
    reader.open(account)
    reader.send(
        "/operator/account/token",
        account=caller.account_id,
        kind="live",
        label="一号",
        addresses="10.0.0.1",
        calls_per_day="5",
    )
    assert _western(_text(reader, "/operator/trail")) == []
    assert _western(_text(reader, account)) == []


def test_a_receipt_says_what_to_do_with_chinese_punctuation(
    reader: Browser, gateway: Gateway, caller: Caller
) -> None:
    refused = gateway.get(token=caller.token, query={"product_id": "1"})
    path = f"/operator/request?id={refused.headers['x-request-id']}"
    # The log of refused calls is written a moment later.
    text = eventually(lambda: _text(reader, path), lambda text: "PARAMETER_MISSING" in text)
    assert _western(text) == []


def test_a_shop_owner_reads_of_a_grant_with_chinese_punctuation(
    browser: Browser, store: Store
) -> None:
    asker, person = new_asker(store), new_person(store)
    allow(store, asker, person)
    browser.client.headers["Accept-Language"] = "zh-CN"
    browser.open("/owner")
    browser.sign_in(person.login)
    text = _text(browser, "/owner")
    assert "授权。" in text
    assert _western(text) == []


def test_provinces_are_listed_with_chinese_punctuation(reader: Browser, store: Store) -> None:
    new_carrier(store, 1, ServiceArea(AreaKind.EXCEPT, ("西藏", "新疆")))
    text = _text(reader, "/operator/carriers")
    assert "除西藏、新疆外" in text
    assert _western(text) == []


def test_codes_say_of_what_they_are(reader: Browser) -> None:
    for path, name in (
        ("/operator/requests", "返回码"),
        ("/operator/carriers", "快递公司编码"),
        ("/docs/codes", "返回码"),
    ):
        text = _text(reader, path)
        assert f"|{name}|" in text and "代码" not in text, path


@pytest.mark.parametrize("path", ["/operator/account/members?id={}", "/operator/operators"])
def test_the_name_of_a_person_is_called_that(reader: Browser, caller: Caller, path: str) -> None:
    """名称 is the name of a thing, 姓名 that of a person."""
    page = reader.open(path.format(caller.account_id)).text
    labels = re.findall(r"<label[^>]*>([^<]+)</label>", page)
    assert "姓名" in labels and "名称" not in labels


def test_what_an_event_is_sent_for_is_no_time(reader: Browser) -> None:
    headings = re.findall("<th[^>]*>([^<]+)</th>", reader.open("/docs/events").text)
    assert "何时发送" in headings and "时间" not in headings
