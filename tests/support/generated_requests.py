"""Requests of our own that are made up: for every path, by all kinds of people and programs, and
those that succeed but for a field or two."""

import json
from datetime import date
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from tests.support.all_operations import good_request
from tests.support.generated import Campaign, Sent
from tollway.contract.operation import Encoding, Operation
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.operations.catalogue import OPERATIONS, RECORD_KINDS
from tollway.web.caller.pages import PAGES as CALLER_PAGES
from tollway.web.operator.pages import PAGES as OPERATOR_PAGES

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
    *(operation.path for operation in OPERATIONS),
]
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
    who = st.sampled_from(["live", "test", "unknown", "operator", "none"])
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
