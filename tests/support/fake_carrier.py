"""The fake carrier in a process of its own; its journal is what really happened."""

import json
import signal
import ssl
from pathlib import Path
from typing import Any

import httpx

from tests.support.forks import Fork

SECRET = "canary-secret-of-the-link"
ISSUE, LOOK_UP, CANCEL = "TMS_WAYBILL_GET", "TMS_WAYBILL_QUERY", "TMS_WAYBILL_DISCARD"
_TIMEOUT_S = 30


class FakeCarrier:
    """`python -m tollway.demo.fakes.carrier`, started, killed and started again for real."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.journal_file = folder / "carrier.jsonl"
        self.secret_file = folder / "carrier.secret"
        self.secret_file.write_text(f"{SECRET}\n", "utf-8")
        self._arguments = arguments
        self._port = 0
        self._start()

    def _start(self) -> None:
        self.process = Fork(
            *("tollway.demo.fakes.carrier", "--port", str(self._port)),
            *("--journal", str(self.journal_file), "--secret-file", str(self.secret_file)),
            *self._arguments,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert "listens on http://" in first, first
        self.url = first.split()[-1]
        self._port = int(self.url.rpartition(":")[2])
        # Without proxies of the environment, like the gateway itself; and without the authorities
        # of the machine, which take long to load.
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx.Client(
            base_url=self.url, timeout=_TIMEOUT_S, trust_env=False, verify=no_tls
        )

    def misbehave(self, fault: str, **details: object) -> None:
        """Sets a fault, after those that are set already; "none" ends all of them."""
        answer = self._client.post("/control", json={"fault": fault, **details})
        assert answer.status_code == 200, answer.text

    def received(self, message: str) -> int:
        """How many messages of a kind have come, whatever became of them."""
        count: int = self._client.get("/control").json()["received"].get(message, 0)
        return count

    def journal(self, task_id: str | None = None) -> list[dict[str, Any]]:
        """What was done, all of it or for one task."""
        lines = [json.loads(line) for line in self._client.get("/journal").text.splitlines()]
        return [line for line in lines if task_id in (None, line["object_id"])]

    def issued(self, task_id: str | None = None) -> list[str]:
        return [line["number"] for line in self.journal(task_id) if line["event"] == "issued"]

    def restart_after_kill(self) -> None:
        """Ends it without a warning, and starts it on the same port and journal."""
        self.process.kill()
        self._end()
        self._start()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        self._client.close()
        status = self.process.wait(_TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status
