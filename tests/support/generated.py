"""Requests that are made up by the thousand, and what every answer to them must be.

Those of the description come from schemathesis: some as `/openapi.json` allows them, some not. All
other paths get requests of our own: pages of people who are signed in or not, pushes, tokens,
agents, probes.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.all_operations import all_operations_caller, good_request
from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tollway.account.operation import PATH as ACCOUNT_PATH
from tollway.contract.operation import Encoding, Operation
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.demo.owners import SHOP, USER
from tollway.identity.people import ensure_operator, new_link
from tollway.ledger.tokens import issue_token
from tollway.operations.catalogue import OPERATIONS, RECORD_KINDS
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.product_analysis.demo import product_ids
from tollway.pipeline.trials import OUTCOME_HEADER
from tollway.store.database import Database
from tollway.web.caller.pages import PAGES as CALLER_PAGES
from tollway.web.operator.pages import PAGES as OPERATOR_PAGES

_AS_DESCRIBED = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
HEAD_TOO_LARGE = 431
ENVELOPE = ["code", "msg", "msec", "time", "data"]
_OPERATION_PATHS = {operation.path for operation in OPERATIONS}
_OTHER_PATHS = [
    *("/", "/docs", "/docs/sandbox", "/docs/codes", "/view", "/authorize", "/openapi.json"),
    *("/owner", "/owner/reads", "/owner/sign-in", "/owner/sign-out", "/owner/revoke", "/owner/x"),
    *(
        "/owner/password",
        "/operator/enter",
        "/operator/sign-in",
        "/account/enter",
        "/account/sign-in",
    ),
    *("/healthz", "/readyz", "/metrics", "/templates/waybill/1", "/demo/coupon", "/demo/item"),
    *("/oauth/token", "/api/proxy/oauth/token", "/mcp", "/demo/pictures/620145000100.png"),
    *(f"/push/{kind}" for kind in RECORD_KINDS),
    *(page.path for page in (*OPERATOR_PAGES, *CALLER_PAGES)),
    *("/account/v1/balance", "/account/v1/tokens/make", f"{RECEIPTS_PATH}x", "/pages.js"),
    *_OPERATION_PATHS,
]


class Sent(NamedTuple):
    """One request as it goes out."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Answered(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Campaign:
    """Callers of one gateway whose answers are all checked, and their charges at the end."""

    def __init__(self, gateway: Gateway, store: Store, *, mapped: bool) -> None:
        self.gateway, self._store, self._mapped = gateway, store, mapped
        self.caller = all_operations_caller(
            store, credits_=10**9, calls=10**9, rate_limit=1_000_000
        )
        self.test_token = _test_token(store, self.caller)
        self._known = {
            "owner_id": SHOP.id,
            "platform_user_id": int(USER.id),
            "product_id": product_ids(1)[0],
            "token_id": self._spare_token_id(),
            "unit": "credits",
            "sid": SIDS[0],
        }
        self.counts: Counter[str] = Counter()
        self._succeeded: set[str] = set()
        self._session = requests.Session()
        self._session.trust_env = False
        self._wire = HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        self._operator = _operator_cookie(gateway, store)

    def _spare_token_id(self) -> str:
        """A token that may be rotated and revoked."""
        account_id = self.caller.account_id
        issued = self._store.do(lambda database: issue_token(database, RUNTIME, account_id))
        return issued.token.id

    def close(self) -> None:
        self._session.close()
        self._wire.close()

    def send_described(self, case: Any) -> None:
        """Sends a case of schemathesis, and checks its answer against the description too."""
        sent = case.as_transport_kwargs(base_url=self.gateway.base_url)
        headers = {name.lower(): value for name, value in (sent.get("headers") or {}).items()}
        if str(headers.get(OUTCOME_HEADER.decode(), "")).startswith("slow"):
            del headers[OUTCOME_HEADER.decode()]
        # The account API takes live tokens only.
        is_account = case.operation.path.startswith(ACCOUNT_PATH)
        is_test = self.counts["requests"] % (8 if is_account else 2) == 1
        token = self.test_token if is_test else self.caller.token
        if self.counts["requests"] % 3 == 0:
            self._put_in_known(sent)
        sent["headers"] = {**headers, "authorization": f"Bearer {token}"}
        response = self._session.request(**sent, timeout=60, allow_redirects=False)
        answered = Answered(response.status_code, response.headers, response.content)
        self.check(case.operation.path, answered, case.as_curl_command()[:2000])
        # A head of more than 16 KiB is refused by the server itself.
        if response.status_code != HEAD_TOO_LARGE:
            case.validate_response(response, checks=_AS_DESCRIBED)

    def _put_in_known(self, sent: dict[str, Any]) -> None:
        """Ids that exist in place of made-up ones, or no call would find anything."""
        for part in ("params", "json", "data"):
            values = sent.get(part)
            if isinstance(values, dict):
                values |= {name: known for name, known in self._known.items() if name in values}

    def send(self, sent: Sent) -> None:
        answered = self._answer(sent)
        self.check(sent.target.partition("?")[0], answered, repr(sent))

    def _answer(self, sent: Sent) -> Answered:
        for attempt in range(2):
            try:
                self._wire.request(sent.method, sent.target, sent.body or None, sent.headers)
                got = self._wire.getresponse()
                return Answered(got.status, dict(got.getheaders()), got.read())
            except (HTTPException, OSError):
                # An answer may close the connection behind it.
                self._wire.close()
                if attempt:
                    raise
        raise AssertionError

    def check(self, path: str, answered: Answered, what: str) -> None:
        headers = {name.lower(): value for name, value in answered.headers.items()}
        kind = headers.get("content-type", "")
        shown = f"{what}\n{answered.status} {answered.body[:500]!r}"
        assert answered.status < 500, shown
        self.counts["requests"] += 1
        self.counts[f"status {answered.status}"] += 1
        envelope = _json_object(answered.body) if kind.startswith("application/json") else {}
        if list(envelope) == ENVELOPE:
            assert envelope["code"] != 200 and envelope["msg"], shown
            self.counts["envelopes"] += 1
            self.counts[f"code {envelope['code']}"] += 1
            if envelope["code"] == 0:
                self._succeeded.add(headers["x-request-id"])
                # Each waybill of a batch is charged under an id of its own.
                self._succeeded |= {
                    each["request_id"]
                    for each in envelope["data"].get("results", ())
                    if each["code"] == 0
                }
            if not self._mapped and path in _OPERATION_PATHS:
                assert answered.status in (200, 400), shown
            return
        assert path not in _OPERATION_PATHS or not answered.body, shown
        self.counts["pages"] += 1
        # Nothing internal, whatever it is.
        assert b"Traceback" not in answered.body, shown

    def assert_only_successes_were_charged(self) -> None:
        account_id = self.caller.account_id
        rows = self._store.run(
            f"SELECT request_id FROM entry WHERE account_id = '{account_id}' AND kind = 'charge'"
        )
        charged = [request_id for (request_id,) in rows]
        assert len(charged) == len(set(charged))
        others = set(charged) - self._succeeded
        assert not others, sorted(others)
        self.counts["charged"] = len(charged)

    def memory_mib(self) -> float:
        """What the serving processes have in memory."""
        total = 0
        for pid in self.gateway.workers():
            status = Path(f"/proc/{pid}/status").read_text()
            total += next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
        return total / 1024

    def headers_of(self, who: str) -> dict[str, str]:
        return {
            "live": {"Authorization": f"Bearer {self.caller.token}"},
            "test": {"Authorization": f"Bearer {self.test_token}"},
            "stranger": {"Authorization": f"Bearer {self.caller.token[:-1]}_"},
            "operator": {"Cookie": self._operator},
            "none": {},
        }[who]


def _json_object(body: bytes) -> dict[str, Any]:
    found = json.loads(body) if body else {}
    return found if isinstance(found, dict) else {}


def _test_token(store: Store, caller: Caller) -> str:
    account_id = caller.account_id
    return store.do(lambda database: issue_token(database, RUNTIME, account_id, kind="test")).text


def _operator_cookie(gateway: Gateway, store: Store) -> str:
    async def link(database: Database) -> str:
        first = await ensure_operator(database, RUNTIME)
        return (await new_link(database, RUNTIME, first.id)).link

    browser = Browser(gateway)
    browser.open(f"/operator/enter?link={store.do(link)}")
    browser.send("/operator/enter")
    cookies = "; ".join(f"{each.name}={each.value}" for each in browser.client.cookies.jar)
    browser.client.close()
    return cookies


def described_cases(gateway: Gateway) -> st.SearchStrategy[Any]:
    """Cases of all operations of the description, those that it allows and others."""
    schema = openapi.from_dict(gateway.client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]

    @cache
    def cases(number: int, mode: GenerationMode) -> st.SearchStrategy[Any]:
        return operations[number].as_strategy(mode)

    numbers = st.integers(0, len(operations) - 1)
    return st.tuples(numbers, st.sampled_from(GenerationMode)).flatmap(lambda each: cases(*each))


_LEGAL = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '<>#"')
_HEADER_TEXT = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40
).map(str.strip)
_NAMES = st.sampled_from(
    [
        *("id", "account", "before", "since", "until", "code", "reason", "operation", "q", "link"),
        *("name", "login", "password", "form_token", "amount", "unit", "token", "sure", "language"),
        *("product_id", "query_date", "owner_id", "page", "pageSize", "grant_type", "client_id"),
    ]
)
_VALUES = (
    st.sampled_from(
        ["", "0", "-1", "1e5000", "yes", "2026-01-31", "9999-12-31T23:59", "\0", "\ud7ff"]
    )
    | st.text(max_size=30)
    | st.integers().map(str)
)
_PAIRS = st.lists(st.tuples(_NAMES | st.text(max_size=8), _VALUES), max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_NAMES | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
_MORE_HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("Accept", "Accept-Language", "Accept-Encoding", "Range", "If-None-Match", "Origin"),
            *("X-Request-Id", "Idempotency-Key", "X-Tollway-Dry-Run", "X-Tollway-Outcome"),
            *("Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Webhook-Source", "Referer"),
            *("Mcp-Session-Id", "Mcp-Protocol-Version", "Traceparent", "X-Forwarded-For"),
            "Sec-Fetch-Site",
        ]
    ),
    _HEADER_TEXT,
    max_size=3,
)
_CONTENT_TYPES = st.sampled_from(
    [
        "application/json",
        "application/json; charset=gbk",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=b",
        "multipart/form-data",
        "text/plain",
        "x",
        "",
    ]
)


def _multipart(pairs: list[tuple[str, str]]) -> bytes:
    head = 'Content-Disposition: form-data; name="{}"'
    parts = [f"--b\r\n{head.format(name)}\r\n\r\n{value}\r\n" for name, value in pairs]
    return f"{''.join(parts)}--b--\r\n".encode("utf-8", "replace")


def _bodies(today: date) -> st.SearchStrategy[tuple[bytes, str]]:
    good = [json.dumps(good_request(each, today)).encode() for each in OPERATIONS]
    contents = (
        st.binary(max_size=60)
        | _JSON.map(lambda value: json.dumps(value).encode())
        | _PAIRS.map(lambda pairs: urlencode(pairs, errors="replace").encode())
        | _PAIRS.map(_multipart)
        | st.sampled_from(good)
    )
    return st.tuples(contents, _CONTENT_TYPES)


def other_requests(campaign: Campaign, today: date) -> st.SearchStrategy[Sent]:
    """Requests for every path, by all kinds of people and programs."""
    paths = st.sampled_from(_OTHER_PATHS) | st.text(_LEGAL, max_size=20).map(lambda t: f"/{t}")
    queries = st.just("") | _PAIRS.map(
        lambda pairs: (
            "?"
            + "&".join(
                f"{quote(n, errors='replace')}={quote(v, errors='replace')}" for n, v in pairs
            )
        )
    )

    def made(
        method: str, path: str, query: str, who: str, more: dict[str, str], body: tuple[bytes, str]
    ) -> Sent:
        headers = {**campaign.headers_of(who), **more}
        content = b"" if method in ("GET", "HEAD") else body[0]
        if headers.get("X-Tollway-Outcome", "").startswith("slow"):
            headers = campaign.headers_of(who)
        if content:
            headers["Content-Type"] = body[1]
        return Sent(method, path + query, headers, content)

    methods = st.sampled_from(
        ["GET", "GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"]
    )
    who = st.sampled_from(["live", "test", "stranger", "operator", "none"])
    return st.builds(made, methods, paths, queries, who, _MORE_HEADERS, _bodies(today))


def nearly_right_requests(campaign: Campaign, today: date) -> st.SearchStrategy[Sent]:
    """Requests that succeed, but for a field or two."""
    rights = [(each, good_request(each, today)) for each in OPERATIONS]

    def made(
        right: tuple[Operation, dict[str, Any]], changes: list[tuple[int, str | None]], who: str
    ) -> Sent:
        operation, fields = right[0], {name: str(value) for name, value in right[1].items()}
        for position, value in changes:
            name = list(fields)[position % len(fields)]
            if value is None and len(fields) > 1:
                del fields[name]
            else:
                fields[name] = value or ""
        headers, text = campaign.headers_of(who), urlencode(fields, errors="replace")
        if operation.method == "GET":
            return Sent("GET", f"{operation.path}?{text}", headers, b"")
        if operation.encoding is Encoding.JSON:
            headers["Content-Type"] = "application/json"
            return Sent("POST", operation.path, headers, json.dumps(fields).encode())
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        return Sent("POST", operation.path, headers, text.encode())

    changes = st.lists(st.tuples(st.integers(0, 40), st.none() | _VALUES), max_size=2)
    who = st.sampled_from(["live", "live", "test"])
    return st.builds(made, st.sampled_from(rights), changes, who)


def run(examples: int, strategy: st.SearchStrategy[Any], send: Callable[[Any], None]) -> None:
    """So many examples; each failing one is reported, the first is made small."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(example: Any) -> None:
        send(example)

    each()
