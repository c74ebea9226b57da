"""A person's browser, on the pages of a gateway."""

import html
import re

import httpx

from tests.support.consent import PASSWORD
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.identity.sign_in_links import Invitation, ensure_operator, new_link
from tollway.store.database import Database

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_addresses = (f"127.{one}.{two}.1" for one in range(1, 255) for two in range(1, 255))
_SCRIPT = '<script src="/pages.js" defer></script>'


class Browser:
    """A person's browser: keeps cookies, sends the hidden fields of the form it saw last."""

    def __init__(self, gateway: Gateway, address: str | None = None) -> None:
        # Sign-ins are counted by address: each browser has its own, so that tests are independent.
        self.client = httpx.Client(
            base_url=gateway.base_url,
            timeout=30,
            follow_redirects=True,
            transport=httpx.HTTPTransport(local_address=address or next(_addresses)),
        )
        self._page = ""
        # Where the first page is that has not been seen yet.
        self._home = ""

    @property
    def page(self) -> str:
        """The one that was seen last."""
        if self._home:
            self.open(self._home)
        return self._page

    @page.setter
    def page(self, text: str) -> None:
        self._page, self._home = text, ""

    def _see(self, response: httpx.Response) -> httpx.Response:
        assert HEADERS.items() <= dict(response.headers).items()
        assert response.text.count("<script") == response.text.count(_SCRIPT)
        self.page = response.text
        return response

    def open(self, url: str) -> httpx.Response:
        return self._see(self.client.get(url))

    def hidden(self) -> dict[str, str]:
        fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.page)
        return {name: html.unescape(value) for name, value in fields}

    def send(self, path: str, **fields: str) -> httpx.Response:
        return self._see(self.client.post(path, data={**self.hidden(), **fields}))

    def enter(self, area: str) -> None:
        """Signs in by the link that was opened. The first page takes longer than this, and is
        opened when it is needed: many tests begin with another one."""
        answer = self.client.post(f"{area}/enter", data=self.hidden(), follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, area)
        self._home = area

    def sign_in(self, login: str, password: str = PASSWORD) -> httpx.Response:
        return self.send("/owner/sign-in", login=login, password=password)


def operator_link(store: Store) -> str:
    """What signs the first operator in once."""

    async def work(database: Database) -> Invitation:
        first = await ensure_operator(database, RUNTIME)
        return await new_link(database, RUNTIME, first.id)

    return store.do(work).link


def open_until(browser: Browser, path: str, text: str) -> str:
    """The page, once it has this text."""
    return eventually(lambda: browser.open(path).text, lambda page: text in page)


def recorded_acts(operator: Browser) -> str:
    """The page of what operators did."""
    return operator.open("/operator/trail").text


def shown_secret(page: str) -> str:
    """What a page shows once, such as a new token."""
    found = re.search(r'<div class="secret"><code id="[^"]*">([^<]+)</code>', page)
    assert found is not None
    return html.unescape(found[1])
