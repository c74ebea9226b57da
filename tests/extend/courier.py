"""`python courier.py SECRET`: the courier that the protocol of docs/extend.md is for.

It tells its port in its first line. `POST /faults` says how it fails from now on: for each message
`cut_before` or `cut_after` it has done what it was asked, or `refuse`. `GET /journal` tells what it
has done.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

SECRET = sys.argv[1]
NUMBERS = count(1)
FAULTS: dict[str, str] = {}
JOURNAL: list[dict[str, Any]] = []
ISSUED: dict[str, str] = {}


class Courier(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(JOURNAL)

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/faults":
            FAULTS.clear()
            FAULTS.update(sent)
            self._answer(FAULTS)
            return
        assert self.headers["Authorization"] == f"Bearer {SECRET}"
        what = self.path.removeprefix("/")
        fault = FAULTS.get(what, "")
        if fault != "cut_before":
            answer = self._do(what, sent, fault)
            if fault != "cut_after":
                self._answer({"reference": sent["reference"], **answer})
                return
        self.close_connection = True

    def _do(self, what: str, sent: dict[str, Any], fault: str) -> dict[str, str]:
        if fault == "refuse":
            return {"state": "refused", "reason": "月结账号已冻结"}
        reference = sent["reference"]
        JOURNAL.append({"what": what, **sent})
        if what == "issue":
            ISSUED[reference] = number = f"SW{next(NUMBERS):010d}"
            return {"state": "issued", "number": number}
        if what == "cancel":
            return {"state": "cancelled", "number": ISSUED.pop(reference, "")}
        number = ISSUED.get(reference, "")
        return {"state": "issued" if number else "unknown", "number": number}

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Courier)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
