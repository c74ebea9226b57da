"""Which test process runs what: each stays with one engine, as long as there is work for it.

What a session shares is then made once in each process. One that has run out of its own work helps
with the other engine's, a file at a time.
"""

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.support.files_in_turn import TOGETHER

# These have many tests, and take long all the same: half a minute and more.
_LONG = (
    "tests/docs/test_examples.py",
    "tests/extend/test_packages.py",
    "tests/web/test_browser.py",
)


class EngineScheduling(LoadScopeScheduling):
    """Hands out the tests of a file on an engine together."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._engines: dict[Any, str] = {}
        self._ended = 0

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        is_shared = "[postgresql" in test and file not in TOGETHER
        engine = "postgresql" if is_shared else "sqlite"
        return f"{engine}:{file}"

    def _assign_work_unit(self, node: Any) -> None:
        engine = self._engines.get(node) or self._free_engine()
        # Those with few tests take longest: they come first, so that what is left at the end is
        # quick.
        scopes = sorted(self.workqueue, key=self._rank)
        own = next((scope for scope in scopes if scope.startswith(engine)), scopes[0])
        self._engines[node] = own.partition(":")[0]
        self.workqueue.move_to_end(own, last=False)
        super()._assign_work_unit(node)

    def _rank(self, scope: str) -> tuple[bool, int]:
        _, _, file = scope.partition(":")
        return file not in _LONG, _functions_in(self.config.rootpath / file)

    def _free_engine(self) -> str:
        """The one that fewer processes have; tests on PostgreSQL take longer."""
        return min(("postgresql", "sqlite"), key=list(self._engines.values()).count)


class FileScheduling(EngineScheduling):
    """Hands out files whose tests are collected in turn, each when the one before it has ended."""

    def _reschedule(self, node: Any) -> None:
        # One that replaces another has not collected the files at first.
        if node not in self.registered_collections:
            return
        # A file and its end are two.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        self._ended += 1
        # Progress is shown as a share of all tests: as many for each file to come as so far.
        plugins = self.config.pluginmanager
        reported = plugins.get_plugin("terminalreporter").reported_progress
        all_files = len(self.collection or ())
        plugins.get_plugin("session").testscollected = reported * all_files // self._ended + 1


@cache
def _functions_in(file: Path) -> int:
    return file.read_text(encoding="utf-8").count("\ndef test_")
