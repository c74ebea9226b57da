"""The front page: prices and doors for everyone, in the reader's language and colours."""

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tollway.operations.catalogue import OPERATIONS


def test_the_front_page_shows_operations_prices_and_doors(browser: Browser) -> None:
    page = browser.open("/").text
    for operation in OPERATIONS:
        assert operation.title in page and operation.path in page
    for door in ("/operator", "/account", "/owner", "/docs"):
        assert f'href="{door}"' in page
    assert "Serving" in page


def test_the_language_is_the_browsers_unless_the_reader_chose_another(browser: Browser) -> None:
    browser.client.headers["Accept-Language"] = "zh-CN,zh;q=0.9,en;q=0.8"
    assert "接口与价格" in browser.open("/").text
    assert 'lang="zh-CN"' in browser.page
    page = browser.send("/view", language="en", back="/owner?a=1")
    assert str(page.url).endswith("/owner?a=1")
    assert 'lang="en"' in browser.page


def test_colours_are_chosen_by_the_reader_and_lead_back_to_these_pages_alone(
    browser: Browser,
) -> None:
    browser.open("/")
    page = browser.send("/view", theme="dark", back="//evil.example/")
    assert page.url.host == "127.0.0.1"
    assert 'data-theme="dark"' in page.text
    assert browser.client.post("/view", data={"theme": "light"}).status_code == 403


def test_the_demo_worlds_passwords_are_not_on_a_gateway_without_one(browser: Browser) -> None:
    assert "demo world" not in browser.open("/").text


def test_what_the_first_visit_loads_is_small(gateway: Gateway) -> None:
    sizes = [
        len(gateway.client.get(path).content)
        for path in ("/", "/pages.css", "/pages.js", "/pages.svg")
    ]
    assert sum(sizes) < 100_000


def test_the_front_page_leads_home_and_not_into_an_area(operator: Browser) -> None:
    for path in ("/", "/docs"):
        page = operator.open(path).text
        assert '<a class="brand" href="/">' in page and "Sign out" not in page
