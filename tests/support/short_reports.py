"""What a test process reports: how each test went."""

import pytest
from _pytest.runner import runtestprotocol


class ShortReports:
    """Leaves out that a test began and ended, and that nothing was wrong before and after it: to
    send all that takes longer than many a test."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True
