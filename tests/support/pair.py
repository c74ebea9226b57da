"""A primary and its standby: two real servers, set up so that no commit is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from tests.support.postgresql import STANDBY, Server, run_on

_DURABLE = {"fsync": "on", "full_page_writes": "on"}
_DEADLINE_S = 30


class Pair:
    """Two servers, the second following the first."""

    def __init__(self, *, is_synchronous: bool, **options: str) -> None:
        self.primary = Server(**_DURABLE, **options)
        self.standby = Server(follows=self.primary, **_DURABLE, **options)
        self.url = f"{self.primary.url.rpartition('/')[0]},127.0.0.1:{self.standby.port}/postgres"
        if is_synchronous:
            run_on(self.primary.url, f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
            run_on(self.primary.url, "SELECT pg_reload_conf()")
            self._wait_for("SELECT sync_state = 'sync' FROM pg_stat_replication")
        else:
            self._wait_for("SELECT state = 'streaming' FROM pg_stat_replication")

    def fail_over(self) -> None:
        """Kills the primary, and promotes the standby."""
        self.primary.kill()
        self._promote()

    @contextmanager
    def losing_commits(self) -> Iterator[None]:
        """Fails over in the end, and what was committed meanwhile is lost."""
        self._wait_for("SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication")
        self.standby.stop()
        yield
        self.primary.kill()
        self.standby.start()
        self._promote()

    def remove(self) -> None:
        self.standby.remove()
        self.primary.remove()

    def _promote(self) -> None:
        run_on(self.standby.url, "SELECT pg_promote(wait => true)")

    def _wait_for(self, question: str) -> None:
        deadline_s = monotonic() + _DEADLINE_S
        while run_on(self.primary.url, question) != [(True,)]:
            assert monotonic() < deadline_s, question
            sleep(0.05)
