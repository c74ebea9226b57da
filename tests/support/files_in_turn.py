"""The tests of a file are collected when a test process gets to them.

Otherwise each of the processes of a run would collect all tests, to run a few of them. It collects
the files instead; what stands for a file runs all tests of it.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.support.engines import ENGINES, Engine

# What these share takes longer to make than they take, and is the same for both engines.
TOGETHER = {"tests/extend/test_packages.py"}


class TestsOfFile(pytest.Item):
    """Those on some engines."""

    __test__ = False

    def __init__(self, *, engines: tuple[Engine, ...], **known: Any) -> None:
        super().__init__(**known)
        self._engines = engines

    def run_tests(self, nextitem: pytest.Item | None) -> None:
        tests, items = self.collected(), self.session.items
        # xdist insists that a report is of the test which it has begun.
        place = items.index(self)
        for test, following in zip(tests, [*tests[1:], nextitem], strict=False):
            items[place] = test
            test.ihook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.session.shouldfail or self.session.shouldstop:
                break
        items[place] = self

    def collected(self) -> list[pytest.Item]:
        assert isinstance(self.parent, FileInTurn)
        tests = [
            each for each in self.parent.tests if each.callspec.params["engine"] in self._engines
        ]
        self.ihook.pytest_collection_modifyitems(
            session=self.session, config=self.config, items=tests
        )
        return tests

    def runtest(self) -> None:
        """Is not called: the tests run instead."""


class EndOfFile(pytest.Item):
    """Follows the tests of a file: xdist has a process begin what it knows the next one of, and the
    next file may be one that another process has time for."""

    def runtest(self) -> None:
        """Nothing: what the file shared with others is torn down after it."""


class FileInTurn(pytest.File):
    """Stands for a file of tests, which is not loaded yet."""

    def collect(self) -> Iterator[pytest.Item]:
        parts = [ENGINES] if self.nodeid in TOGETHER else [(engine,) for engine in ENGINES]
        for engines in parts:
            name = f"[{engines[0]}]"
            yield TestsOfFile.from_parent(self, name=name, engines=engines)
            yield EndOfFile.from_parent(self, name=f"{name} end")

    @cached_property
    def tests(self) -> list[Any]:
        """For both engines: a process may run both in the end."""
        module = pytest.Module.from_parent(self.parent, path=self.path)
        return list(self.session.genitems(module))


class FilesInTurn:
    """The plugin of a test process."""

    @pytest.hookimpl
    def pytest_pycollect_makemodule(self, module_path: Any, parent: pytest.Collector) -> FileInTurn:
        return FileInTurn.from_parent(parent, path=module_path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        if isinstance(item, TestsOfFile):
            item.run_tests(nextitem)
            return True
        if isinstance(item, EndOfFile):
            for report in runtestprotocol(item, log=False, nextitem=nextitem):
                if not report.passed:
                    item.ihook.pytest_runtest_logreport(report=report)
            return True
        return None
