"""The example configurations of proxies: what they let through, run and called through."""

import re
import time
from pathlib import Path

import httpx
import pytest

from tests.deploy.proxies import PROXIES, TIMEOUT_S, FakeNode, proxy
from tests.docs.pages import ROOT, blocks_of
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller
from tests.support.pushes import push
from tollway.consent.links import AUTHORIZE_PATH
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.gateway.oauth import ORIGINAL_TOKEN_PATH, TOKEN_PATH
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.catalogue import OPERATIONS
from tollway.settings import Settings
from tollway.web.owner import OWNER_PATH
from tollway.web.pages import VIEW_PATH
from tollway.web.reference_parts import DOCS_PATH
from tollway.web.routes import ASSETS, TEMPLATES_PATH
from tollway.web.sign_in_pages import ACCOUNT_PATH
from tollway.webhooks.signature import new_secret

pytestmark = pytest.mark.sqlite
PUBLIC = [
    # The front page, to which the name on each page leads.
    "/",
    *(operation.path for operation in OPERATIONS),
    f"{RECEIPTS_PATH}req_1",
    *(operation.path for operation in ACCOUNT_OPERATIONS),
    TOKEN_PATH,
    ORIGINAL_TOKEN_PATH,
    "/mcp",
    DOCS_PATH,
    f"{DOCS_PATH}/codes",
    "/openapi.json",
    "/push/orders",
    AUTHORIZE_PATH,
    OWNER_PATH,
    f"{OWNER_PATH}/grants",
    ACCOUNT_PATH,
    f"{ACCOUNT_PATH}/tokens",
    VIEW_PATH,
    *(f"/{name}" for name in ASSETS),
    f"{TEMPLATES_PATH}/1",
]
PROBES = ["/metrics", "/nothing", "/readyz", "/healthz", "/operator", "/operator/system"]


def test_what_is_for_others_is_let_through_and_probes_are_not() -> None:
    pages = ("scale.md", "operate/serving.md")
    text = "".join((ROOT / "docs" / page).read_text("utf-8") for page in pages)
    let_through = re.findall(r"(\^/\(\$\S+)", text)
    assert len(let_through) == 3
    for pattern in let_through:
        assert [path for path in PUBLIC if not re.search(pattern, path)] == []
        assert [path for path in PROBES if re.search(pattern, path)] == []


def test_haproxy_reads_http_and_no_wait_of_it_is_without_an_end() -> None:
    """Where it is not installed: without its mode it ignores the rules, and /metrics is open."""
    (block,) = [each for each in blocks_of(ROOT / "docs/scale.md") if each.language == "haproxy"]
    defaults = block.text.partition("\nfrontend ")[0].splitlines()
    said = [line.split() for line in defaults if line.startswith("    ")]
    assert ["mode", "http"] in said
    limited = {words[1] for words in said if words[0] == "timeout"}
    assert limited >= {"connect", "client", "server", "http-request", "http-keep-alive", "check"}


@pytest.mark.parametrize("name", PROXIES)
def test_calls_come_through_and_probes_do_not(
    name: str, gateway: Gateway, caller: Caller, question: dict[str, str], tmp_path: Path
) -> None:
    with proxy(name, [gateway.port, gateway.port], tmp_path) as address:
        sent = {"Authorization": f"Bearer {caller.token}"}
        url = f"{address}{ANALYSIS}"
        answer = httpx.get(url, params=question, headers=sent, timeout=TIMEOUT_S)
        assert answer.json()["code"] == 0
        for path in PROBES:
            assert httpx.get(f"{address}{path}", timeout=TIMEOUT_S).status_code in (403, 404)


@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("name", PROXIES)
def test_a_push_as_large_as_the_gateway_takes_comes_through(
    name: str, is_signed: bool, gateway: Gateway, tmp_path: Path
) -> None:
    """nginx takes 1 MiB unless its configuration says more."""
    body = b" " * Settings().push_max_bytes
    with (
        proxy(name, [gateway.port, gateway.port], tmp_path) as address,
        httpx.Client(base_url=address, timeout=TIMEOUT_S) as client,
    ):
        # The gateway reads a push of an unknown source as any other, and then refuses it; it
        # refuses one without a signature before it reads it.
        signature = None if is_signed else ""
        answer = push(gateway, new_secret(), body, signature=signature, client=client)
        assert answer.status_code == 401 and "error" in answer.json()


@pytest.mark.parametrize("name", [each for each in PROXIES if each.values == ("nginx_alone",)])
def test_operators_reach_their_pages_from_their_own_network(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    with proxy(name, [gateway.port, gateway.port], tmp_path, office="127.0.0.1") as address:
        page = httpx.get(f"{address}/operator", timeout=TIMEOUT_S)
        assert page.status_code == 200 and "text/html" in page.headers["content-type"]
        assert httpx.get(f"{address}/metrics", timeout=TIMEOUT_S).status_code == 404


@pytest.mark.parametrize("name", PROXIES)
def test_a_call_that_was_sent_is_not_sent_again(
    name: str, question: dict[str, str], tmp_path: Path
) -> None:
    with (
        FakeNode(ready_status=200) as one,
        FakeNode(ready_status=200) as other,
        proxy(name, [one.port, other.port], tmp_path) as address,
    ):
        assert _code(address, question, "tw_live_1") == 502
        assert len(one.calls) + len(other.calls) == 1


@pytest.mark.parametrize("name", PROXIES)
def test_the_last_address_that_a_call_comes_from_is_what_the_proxy_saw(
    name: str, tmp_path: Path
) -> None:
    """Else, with `trusted_proxies` set, every client could pass for another."""
    with FakeNode(ready_status=200) as node, proxy(name, [node.port] * 2, tmp_path) as address:
        sent = {"X-Forwarded-For": "203.0.113.9"}
        httpx.get(f"{address}{ANALYSIS}", headers=sent, timeout=TIMEOUT_S)
        hops = [hop.strip() for line in node.forwarded_for for hop in line.split(",")]
        assert hops == ["203.0.113.9", "127.0.0.1"]


@pytest.mark.parametrize("name", [each for each in PROXIES if each.values == ("haproxy",)])
def test_a_node_that_is_not_ready_is_left_out(
    name: str, gateway: Gateway, question: dict[str, str], tmp_path: Path
) -> None:
    with (
        FakeNode(ready_status=503) as other,
        proxy(name, [gateway.port, other.port], tmp_path) as address,
    ):
        deadline_s = time.monotonic() + TIMEOUT_S
        # So many tokens that some would reach the other node; 401 is the gateway's own answer.
        while any(_code(address, question, f"tw_live_{number}") != 401 for number in range(40)):
            assert time.monotonic() < deadline_s, "calls go to a node that is not ready"


def _code(address: str, question: dict[str, str], token: str) -> int:
    sent = {"Authorization": f"Bearer {token}"}
    url = f"{address}{ANALYSIS}"
    answer = httpx.get(url, params=question, headers=sent, timeout=TIMEOUT_S)
    return int(answer.json()["code"]) if answer.status_code == 200 else answer.status_code
