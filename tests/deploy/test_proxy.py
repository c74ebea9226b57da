"""The example configurations of proxies: what they let through; nginx is run and called through."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller
from tests.support.ports import free_port
from tollway.consent.links import AUTHORIZE_PATH
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.gateway.token_request import TOKEN_PATH
from tollway.operations.catalogue import OPERATIONS
from tollway.web.owner import OWNER_PATH
from tollway.web.routes import TEMPLATES_PATH

pytestmark = pytest.mark.sqlite
with_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
PUBLIC = [
    *(operation.path for operation in OPERATIONS),
    f"{RECEIPTS_PATH}req_1",
    TOKEN_PATH,
    "/openapi.json",
    "/push/orders",
    AUTHORIZE_PATH,
    OWNER_PATH,
    f"{OWNER_PATH}/grants",
    "/pages.css",
    f"{TEMPLATES_PATH}/1",
]
PROBES = ["/metrics", "/readyz", "/healthz"]
_TIMEOUT_S = 30
_AROUND = """
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    {text}
}}
"""


@pytest.fixture
def proxy(gateway: Gateway, tmp_path: Path) -> Iterator[str]:
    """The address of an nginx that is set up as the page says, but without TLS."""
    (block,) = [each for each in blocks_of(ROOT / "docs/scale.md") if each.language == "nginx"]
    port = free_port()
    text = re.sub(r"10\.0\.0\.\d+:8080", f"127.0.0.1:{gateway.port}", block.text)
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    text = re.sub(r"ssl_certificate\S*\s[^;]*;", "", text)
    path = tmp_path / "nginx.conf"
    path.write_text(_AROUND.format(folder=tmp_path, text=text), encoding="utf-8")
    subprocess.run(["nginx", "-t", "-q", "-e", "stderr", "-c", str(path)], check=True)
    server = subprocess.Popen(["nginx", "-e", "stderr", "-c", str(path)])
    address = f"http://127.0.0.1:{port}"
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not _answers(address):
        assert time.monotonic() < deadline_s, "nginx did not start"
        time.sleep(0.05)
    yield address
    server.terminate()
    assert server.wait(_TIMEOUT_S) == 0


def _answers(address: str) -> bool:
    try:
        httpx.get(address, timeout=_TIMEOUT_S)
    except httpx.ConnectError:
        return False
    return True


def test_what_is_for_others_is_let_through_and_probes_are_not() -> None:
    pages = ("scale.md", "operate/serving.md")
    text = "".join((ROOT / "docs" / page).read_text("utf-8") for page in pages)
    let_through = re.findall(r"(\^/\(papi\S+)", text)
    assert len(let_through) == 3
    for pattern in let_through:
        assert [path for path in PUBLIC if not re.search(pattern, path)] == []
        assert [path for path in PROBES if re.search(pattern, path)] == []


@with_nginx
def test_calls_come_through_and_probes_do_not(
    proxy: str, caller: Caller, question: dict[str, str]
) -> None:
    sent = {"Authorization": f"Bearer {caller.token}"}
    answer = httpx.get(f"{proxy}{ANALYSIS}", params=question, headers=sent, timeout=_TIMEOUT_S)
    assert answer.json()["code"] == 0
    for path in PROBES:
        assert httpx.get(f"{proxy}{path}", timeout=_TIMEOUT_S).status_code == 404
