"""Which test process runs what, and what it reports. Each stays with one engine, as long as there
is work for it.

What a session shares is then made once in each process. One that has run out of its own work helps
with the other engine's, a file at a time.
"""

from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadScopeScheduling

# What these share takes longer to make than they take, and is the same for both engines.
_TOGETHER = {"tests/extend/test_packages.py"}
# These have many tests, and take long all the same: half a minute and more.
_LONG = ("tests/docs/test_examples.py", "tests/web/test_browser.py")


class EngineScheduling(LoadScopeScheduling):
    """Hands out the tests of a file on an engine together."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._engines: dict[Any, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        is_shared = "[postgresql" in test and file not in _TOGETHER
        engine = "postgresql" if is_shared else "sqlite"
        return f"{engine}:{file}"

    def _assign_work_unit(self, node: Any) -> None:
        engine = self._engines.get(node) or self._free_engine()
        # They are in the order of size, and those with few tests take longest: they come first, so
        # that what is left at the end is quick.
        scopes = list(reversed(self.workqueue))
        scopes.sort(key=lambda scope: not scope.endswith(_LONG))
        own = next((scope for scope in scopes if scope.startswith(engine)), scopes[0])
        self._engines[node] = own.partition(":")[0]
        self.workqueue.move_to_end(own, last=False)
        super()._assign_work_unit(node)

    def _free_engine(self) -> str:
        """The one that fewer processes have; tests on PostgreSQL take longer."""
        return min(("postgresql", "sqlite"), key=list(self._engines.values()).count)


class ShortReports:
    """Leaves out that a test began and ended, and that nothing was wrong before and after it: to
    send all that takes longer than many a test."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True
