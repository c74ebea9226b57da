"""Reports to systemd, if it started the gateway: ready, alive, stopping.

systemd names a socket in NOTIFY_SOCKET, and takes reports only from the main process. The gateway
is alive as long as the event loop of each worker runs; if one hangs, systemd is no longer notified
and restarts the gateway (`WatchdogSec=` of the unit).
"""

import logging
import os
import socket
import threading
from contextlib import suppress

from tollway.gateway.worker_group import WorkerGroup

_SEND_TIMEOUT_S = 1.0

logger = logging.getLogger("tollway.serving")


def notify(report: str) -> None:
    """Sends a report; does nothing if systemd did not ask for any."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    # An address with @ is in the abstract namespace.
    path = f"\0{address[1:]}" if address.startswith("@") else address
    if path:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_TIMEOUT_S)
            sender.sendto(report.encode(), path)


def watchdog_s() -> float | None:
    """The watchdog interval that systemd set; None if it set none."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or int(usec) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(usec) / 1_000_000


class Reporter:
    """Reports from a thread of the main process until the stop."""

    def __init__(self, worker_group: WorkerGroup) -> None:
        self._worker_group = worker_group
        self._is_stopping = threading.Event()

    def start(self) -> None:
        if os.environ.get("NOTIFY_SOCKET"):
            threading.Thread(target=self._run, name="reporter", daemon=True).start()

    def stop(self) -> None:
        self._is_stopping.set()
        notify("STOPPING=1")

    def _run(self) -> None:
        self._worker_group.wait_until_serving()
        notify("READY=1")
        limit_s = watchdog_s()
        while limit_s is not None and not self._is_stopping.wait(limit_s / 2):
            hung = self._worker_group.hung(limit_s)
            if hung:
                logger.error("worker %s hangs: its event loop stands still", hung)
            else:
                notify("WATCHDOG=1")
