"""The list of dependencies with their licences, and the check of it for known vulnerabilities."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from requirements.sbom import check, locked, sbom

pytestmark = pytest.mark.sqlite


def test_every_locked_package_is_listed_with_its_licence() -> None:
    made = sbom()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert {each["name"]: each["version"] for each in made["components"]} == locked()
    references = {each["bom-ref"] for each in made["components"]}
    for each in made["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= references
    for each in made["components"]:
        if each.get("scope") != "optional":
            (first, *_) = each["licenses"]
            assert first.get("expression") or first["license"]["name"] != "unknown", each["name"]
    assert made == sbom()


class Osv(BaseHTTPRequestHandler):
    """Knows one vulnerability, of httpx2."""

    def do_POST(self) -> None:
        asked: Any = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results = [
            {"vulns": [{"id": "OSV-1"}]} if each["package"]["name"] == "httpx2" else {}
            for each in asked["queries"]
        ]
        body = json.dumps({"results": results}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def osv() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Osv)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_known_vulnerability_is_named(osv: str) -> None:
    assert check(osv) == (1, f"httpx2 {locked()['httpx2']}: OSV-1")


def test_a_list_that_cannot_be_reached_is_no_clean_bill() -> None:
    status, text = check("http://127.0.0.1:9/")
    assert status == 2 and text.startswith("Not checked: the list of vulnerabilities at 127.0.0.1")
