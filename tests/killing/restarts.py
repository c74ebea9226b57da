"""A gateway that is killed and restarted many times, seen from outside."""

import json
import os
import signal
import threading
from pathlib import Path

from tests.killing.boundaries import Boundary
from tests.support.forks import Fork
from tests.support.gateway import START_TIMEOUT_S, assert_no_hidden_error
from tests.support.ports import free_port
from tests.support.stores import Store


class Lives:
    """Starts one life after the other on the same database."""

    def __init__(self, store: Store, sabotage: str | None = None, workers: int = 1) -> None:
        self._sabotage = sabotage
        self._folder = store.path.parent
        self._deaths = store.path.with_suffix(".deaths")
        self._deaths.touch()
        self._log = store.path.with_suffix(".log")
        self._process: Fork | None = None
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TOLLWAY_")},
            **store.settings,
            "TOLLWAY_RECONCILE_INTERVAL_S": "1",
            "TOLLWAY_WORKERS": str(workers),
            # Where a killed gateway leaves its sandbox behind.
            "TMPDIR": str(self._folder),
        }

    def begin(self, boundary: Boundary | None = None) -> str:
        """Starts a life, and gives its address, also if it should be over already."""
        port = free_port()
        life = {
            "port": port,
            "boundary": boundary,
            "sabotage": self._sabotage,
            "report_file": str(self._deaths),
        }
        with self._log.open("ab") as log:
            self._process = Fork(
                *("tests.killing.dying_gateway", json.dumps(life)),
                env=self._environment,
                cwd=self._folder,
                stderr=log,
            )
        address = f"http://127.0.0.1:{port}"
        while address not in (line := self._read()):
            if not line:
                assert boundary is not None and self.deaths(), self.log()
                break
        return address

    def kill(self) -> None:
        """Ends all of its processes in the same instant, without a warning."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)

    def kill_a_worker(self) -> None:
        """Ends one alone; another takes its place."""
        assert self._process is not None
        main = self._process.pid
        workers = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        os.kill(int(workers[0]), signal.SIGKILL)

    def stop(self) -> None:
        """Asks it to end."""
        assert self._process is not None
        self._process.terminate()

    def wait_for_end(self) -> None:
        """Waits until its last process is gone: only then does its output end."""
        if self._process is not None:
            while self._read():
                pass
            self._process.wait(START_TIMEOUT_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
            assert_no_hidden_error(self._log)

    def deaths(self) -> list[str]:
        """The boundaries at which the gateway was killed."""
        return self._deaths.read_text().splitlines()

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")[-4000:]

    def close(self) -> None:
        if self._process is not None:
            self.kill()
            self.wait_for_end()

    def _read(self) -> str:
        """The next line. One that never comes would be waited for without an end."""
        assert self._process is not None and self._process.stdout is not None
        alarm = threading.Timer(START_TIMEOUT_S, self.kill)
        alarm.start()
        try:
            return self._process.stdout.readline()
        finally:
            alarm.cancel()
