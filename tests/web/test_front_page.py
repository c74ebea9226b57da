"""The front page: prices and doors for everyone, in the reader's language and colours."""

import re

import pytest

from tests.support.browsers import HEADERS, Browser
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


@pytest.mark.sqlite
@pytest.mark.parametrize("who", ["browser", "operator"])
def test_language_and_colours_are_chosen_on_the_pages_of_every_area(
    request: pytest.FixtureRequest, who: str
) -> None:
    reader: Browser = request.getfixturevalue(who)

    def choose(button: str, **chosen: str) -> str:
        """Sends the form with this button; gives the page that it leads to."""
        forms = re.findall(r'<form method="post" action="([^"]*/view)">(.*?)</form>', shown, re.S)
        ((action, reader.page),) = forms
        assert button in reader.page
        answer = reader.send(action, **chosen)
        assert answer.url.path == path
        return answer.text

    for path in ("/", "/docs", "/operator", "/account", "/owner"):
        for language, lang, name in (("zh", "zh-CN", "中文"), ("en", "en", "English")):
            shown = reader.open(path).text
            shown = choose(
                f'<button name="language" value="{language}" lang="{lang}">{name}<',
                language=language,
            )
            assert f'<html lang="{lang}"' in shown
            shown = choose('<button name="theme" value="light"', theme="light")
            assert 'data-theme="light"' in shown
            reader.client.cookies.delete("tollway_theme")


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


_BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("path", ["/nothing", "/operatorx", "/%6fperator", "/a/b?c=d"])
def test_an_unknown_path_is_a_page_to_a_browser(gateway: Gateway, path: str) -> None:
    headers = {"Accept": _BROWSER, "Accept-Language": "zh-CN"}
    page = gateway.client.get(path, headers=headers)
    assert page.status_code == 404 and HEADERS.items() <= dict(page.headers).items()
    assert page.headers["content-type"].startswith("text/html") and "没有此页面" in page.text
    assert 'href="/"' in page.text and page.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/operator", "/account", "/owner"])
def test_a_head_of_a_sign_in_page_has_the_status_of_its_get(gateway: Gateway, path: str) -> None:
    assert gateway.client.head(path).status_code == gateway.client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/nothing", {"Accept": "*/*"}),
        ("/nothing", {"Accept": ""}),
        ("/nothing", {"Accept": "application/json, text/html;q=0.9"}),
        ("/nothing", {"Accept": "application/json, text/html"}),
        ("/nothing", {"Accept": "text/html;q=0"}),
        # As the HTTP client of a language's library may ask for, by itself.
        ("/nothing", {"Accept": _BROWSER, "Authorization": "Bearer tw_live_x"}),
        ("/account/balance", {"Authorization": "Bearer tw_live_x"}),
        ("/account/v1", {"Accept": _BROWSER, "Authorization": "Bearer tw_live_x"}),
        ("/papi/tool/accounts/goods-analyses", {"Accept": _BROWSER}),
        ("/papi/tool/accounts/goods-analysis/", {"Accept": _BROWSER}),
        ("/oauth/tokens", {"Accept": _BROWSER}),
    ],
)
def test_an_unknown_path_is_an_envelope_to_a_program(
    gateway: Gateway, path: str, headers: dict[str, str]
) -> None:
    answer = gateway.client.get(path, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (200, 404)
    sent = gateway.client.post("/nothing", headers={"Accept": _BROWSER})
    assert sent.json()["code"] == 404


def test_the_page_of_an_unknown_path_is_no_operators_page(operator: Browser) -> None:
    """By another spelling of its path, a page is not found."""
    operator.client.headers["Accept"] = _BROWSER
    page = operator.open("/%6fperator")
    assert page.status_code == 404 and "Sign out" not in page.text


@pytest.mark.parametrize(
    "path", ["/operator/%62ackup", "/operator%2fbackup", "/operator/backup%2f"]
)
def test_a_page_of_an_area_has_one_spelling(operator: Browser, path: str) -> None:
    """A proxy that keeps a page inside compares the path as it was sent."""
    operator.client.headers["Accept"] = _BROWSER
    assert operator.open("/operator/backup").status_code == 200
    page = operator.open(path)
    assert (page.status_code, page.request.url.raw_path) == (404, path.encode())


def test_a_page_of_an_area_is_signed_in_to_in_one_spelling(gateway: Gateway) -> None:
    page = gateway.client.get("/operator/%73ign-in", headers={"Accept": _BROWSER})
    assert page.status_code == 404
