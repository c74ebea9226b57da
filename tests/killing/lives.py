"""A gateway with many lives, seen from outside."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.killing.boundaries import Boundary
from tests.killing.dying_gateway import ENDED
from tests.support.gateway import START_TIMEOUT_S
from tests.support.postgresql import free_port
from tests.support.stores import Store

ROOT = Path(__file__).parents[2]


class Lives:
    """Starts one life after the other on the same database."""

    def __init__(self, store: Store, sabotage: str | None = None) -> None:
        self._sabotage = sabotage
        self._deaths = store.path.with_suffix(".deaths")
        self._deaths.touch()
        self._log = store.path.with_suffix(".log")
        self._pid = 0
        variables = {
            **store.settings,
            "TOLLWAY_RECONCILE_INTERVAL_S": "1",
            "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ["PYTHONPATH"])),
            # Where whoever is killed leaves a sandbox behind.
            "TMPDIR": str(store.path.parent),
        }
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TOLLWAY_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.killing.dying_gateway"],
                env={**environment, **variables},
                cwd=store.path.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def begin(self, boundary: Boundary | None = None) -> str:
        """Starts a life, and gives its address, also if it should be over already."""
        port = free_port()
        life = {
            "port": port,
            "boundary": boundary,
            "sabotage": self._sabotage,
            "told_in": str(self._deaths),
        }
        self._tell(json.dumps(life))
        self._pid = int(self._read())
        address = f"http://127.0.0.1:{port}"
        while address not in (line := self._read()):
            assert line, f"the gateway did not start:\n{self.log()}"
            if ENDED in line:
                assert boundary is not None and self.deaths(), self.log()
                self._pid = 0
                break
        return address

    def kill(self) -> None:
        """Ends all of its processes in the same instant, without a warning."""
        os.killpg(self._pid, signal.SIGKILL)

    def stop(self) -> None:
        """Asks it to end."""
        os.kill(self._pid, signal.SIGTERM)

    def wait_for_end(self) -> None:
        """Waits until its last process is gone."""
        if self._pid:
            while ENDED not in (line := self._read()):
                assert line, f"the gateway is lost:\n{self.log()}"
            self._pid = 0

    def deaths(self) -> list[str]:
        """The boundaries at which lives have ended."""
        return self._deaths.read_text().splitlines()

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")[-4000:]

    def close(self) -> None:
        if self._pid:
            self.kill()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(START_TIMEOUT_S)
        self._process.stdout.close()

    def _kill_all(self) -> None:
        if self._pid:
            self.kill()
        self._process.kill()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        """The next line. One that never comes would be waited for without an end."""
        assert self._process.stdout is not None
        alarm = threading.Timer(START_TIMEOUT_S, self._kill_all)
        alarm.start()
        try:
            return self._process.stdout.readline()
        finally:
            alarm.cancel()
